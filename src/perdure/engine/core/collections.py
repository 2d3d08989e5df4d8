"""Collection versions: re-embedding makes the next one, and dropping the last one switches to it.

Versions are `memories`, `memories--2`, `memories--3`...: the lowest that exists is in use, a higher one is being made.
So the store alone says which is which, and at no time there are two in use or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perdure.backends.vector_stores.base import Shape
from perdure.domain.errors import ConfigError, VectorStoreError

if TYPE_CHECKING:
    from perdure.backends.embedders.base import Embedder
    from perdure.backends.vector_stores.base import VectorStore

_MARK = "--"
_ATTEMPTS = 3  # a collection may be replaced by its next version between two checks


def generation_name(base: str, number: int) -> str:
    """Return the name of a version; the first has the configured name."""
    return base if number == 1 else f"{base}{_MARK}{number}"


async def generations(store: VectorStore, base: str) -> list[int]:
    """Return the numbers of the existing versions, lowest first."""
    return _numbers(await store.list_collections(), base)


def _numbers(names: Iterable[str], base: str) -> list[int]:
    found = []
    for name in names:
        rest = name.removeprefix(f"{base}{_MARK}")
        if name == base:
            found.append(1)
        elif rest != name and rest.isascii() and rest.isdigit() and not rest.startswith("0"):
            found.append(int(rest))
    return sorted(found)


async def open_collection(store: VectorStore, base: str, embedder: Embedder) -> str:
    """Return the collection in use, created if there is none; ConfigError if it has another embedder's vectors."""
    for attempt in range(_ATTEMPTS):
        existing = await generations(store, base)
        if not existing:
            await store.create_collection(base, embedder.dimension, model=embedder.label)
            return base
        name = generation_name(base, existing[0])
        try:
            found = await store.get_collection_info(name)
        except VectorStoreError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        _check_embedder(name, Shape(found.dimension, found.model), embedder)
        return name
    raise AssertionError("every attempt returns or raises")


def check_stored(store: VectorStore, base: str, embedder: Embedder) -> None:
    """Raise ConfigError if local data was embedded by another model; opens nothing."""
    found = _in_use(store, base)
    if found is not None:
        _check_embedder(*found, embedder)


def stored_shape(store: VectorStore, base: str) -> Shape | None:
    """Return the shape of the embeddings stored on this machine; None if there are none, or that is unknown."""
    found = _in_use(store, base)
    return None if found is None else found[1]


def _in_use(store: VectorStore, base: str) -> tuple[str, Shape] | None:
    stored = store.stored_collections()
    numbers = _numbers(stored, base)
    name = generation_name(base, numbers[0]) if numbers else ""
    return (name, stored[name]) if numbers else None


def _check_embedder(collection: str, made_for: Shape, embedder: Embedder) -> None:
    if made_for.dimension != embedder.dimension:
        raise _another_embedder(collection, f"{made_for.dimension} dimensions", embedder)
    if made_for.model not in ("", embedder.label):
        raise _another_embedder(collection, f"the model {made_for.model!r}", embedder)


def _another_embedder(collection: str, made: str, embedder: Embedder) -> ConfigError:
    """Return the error for memories that were embedded by another model than the configured one."""
    return ConfigError(
        f"the collection {collection!r} holds vectors of {made}, but the embedder {embedder.name!r} makes those of"
        f" {embedder.label!r} with {embedder.dimension} dimensions: configure the embedder it was made with, run"
        " `perdure reindex` to embed the memories anew, or name another collection_name",
        field="embedder",
        value=embedder.name,
    )


def embedded_elsewhere(collection: str, embedder: Embedder) -> ConfigError:
    """Return the error for memories that another process has re-embedded while they were in use here."""
    return ConfigError(
        f"another process has embedded the memories of {collection!r} anew, and not with {embedder.label!r}: open this"
        " memory again, configured with the new embedder",
        field="embedder",
        value=embedder.name,
    )
