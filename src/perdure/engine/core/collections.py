"""Collection versions: re-embedding makes the next one, and dropping the last one switches to it.

Generations are `memories`, `memories--2`, `memories--3`...: the lowest that exists is the one in use, a higher one is
being made. So the store alone says which is which, and there is no moment at which there are two or none.
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
_ATTEMPTS = 3
"""A collection may be replaced by the next generation between two looks at it."""


def generation_name(base: str, number: int) -> str:
    """The name of a generation; the first is called as the configuration calls it."""
    return base if number == 1 else f"{base}{_MARK}{number}"


async def generations(store: VectorStore, base: str) -> list[int]:
    """The numbers of the generations that exist, lowest first."""
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
    """The name of the collection in use, made if there is none; ConfigError if another embedder's vectors are in it."""
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
    """ConfigError if what lies on this machine was embedded by another model; nothing is opened to find out."""
    found = _in_use(store, base)
    if found is not None:
        _check_embedder(*found, embedder)


def stored_shape(store: VectorStore, base: str) -> Shape | None:
    """What lies on this machine was embedded for; None where nothing does, or that cannot be told."""
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
    """The error to raise where the memories were embedded by another model than is configured."""
    return ConfigError(
        f"the collection {collection!r} holds vectors of {made}, but the embedder {embedder.name!r} makes those of"
        f" {embedder.label!r} with {embedder.dimension} dimensions: configure the embedder it was made with, run"
        " `perdure reindex` to embed the memories anew, or name another collection_name",
        field="embedder",
        value=embedder.name,
    )


def embedded_elsewhere(collection: str, embedder: Embedder) -> ConfigError:
    """The error to raise where another process has embedded the memories anew while they were in use here."""
    return ConfigError(
        f"another process has embedded the memories of {collection!r} anew, and not with {embedder.label!r}: open this"
        " memory again, configured with the new embedder",
        field="embedder",
        value=embedder.name,
    )
