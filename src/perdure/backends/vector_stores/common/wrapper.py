"""Base of stores that wrap another: every call is passed on, unless a subclass overrides it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends import registry
from perdure.backends.markdown.base import FileStore
from perdure.backends.vector_stores.base import (
    CollectionInfo,
    Hits,
    Names,
    Page,
    Point,
    Points,
    Shapes,
    Vector,
    VectorStore,
)
from perdure.domain.errors import ConfigError
from perdure.domain.filter import Filter


class Part(BaseModel):
    """A provider and its settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    provider: str
    """Name of the provider, or package.module:Class."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The provider's own settings."""


class WrappingStore(VectorStore):
    """Pass every call on to another store; ConfigError for one with files, whose edits by users would go unnoticed."""

    def __init__(self, behind: Part) -> None:
        self._store: VectorStore = registry.build("vector_stores", behind.provider, behind.config)
        if isinstance(self._store, FileStore):
            raise ConfigError(
                f"memories in files cannot lie behind another store: make {behind.provider} the vector_store,"
                " and give it the other one as its config.store",
                field="vector_store.config.store.provider",
                value=behind.provider,
            )
        self.durable = self._store.durable  # type: ignore[misc]  # that of the store behind
        self.scrub_note = self._store.scrub_note  # type: ignore[misc]  # likewise

    # ------------------------------------------------------------------ life
    @property
    def read_only(self) -> bool:
        """Whether the store behind can only be read."""
        return self._store.read_only

    async def open(self) -> None:
        """Open the store behind."""
        await self._store.open()

    async def close(self) -> None:
        """Close the store behind."""
        await self._store.close()

    async def identity(self) -> str:
        """That of the store behind."""
        return await self._store.identity()

    def stored_collections(self) -> Shapes:
        """Those of the store behind."""
        return self._store.stored_collections()

    # ------------------------------------------------------------------ collections
    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        """Make a collection in the store behind."""
        await self._store.create_collection(name, dimension, model=model)

    async def delete_collection(self, name: str) -> None:
        """Remove a collection of the store behind."""
        await self._store.delete_collection(name)

    async def list_collections(self) -> Names:
        """Those of the store behind."""
        return await self._store.list_collections()

    async def get_collection_info(self, name: str) -> CollectionInfo:
        """That of the store behind."""
        return await self._store.get_collection_info(name)

    async def reset(self) -> None:
        """Remove every row of every collection of the store behind."""
        await self._store.reset()

    # ------------------------------------------------------------------ rows
    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        """Write and delete rows of the store behind."""
        await self._store.apply(collection, puts, deletes)

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Replace a row's vector or payload in the store behind."""
        await self._store.update(collection, id, vector, payload)

    async def get_many(self, collection: str, ids: Sequence[str]) -> Points:
        """Rows of the store behind."""
        return await self._store.get_many(collection, ids)

    # ------------------------------------------------------------------ reading
    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        """The nearest rows of the store behind."""
        return await self._store.search(collection, query_vector, limit, filters)

    async def keyword_search(
        self, collection: str, text: str, limit: int, filters: Filter | None = None
    ) -> Hits | None:
        """The rows of the store behind that share words."""
        return await self._store.keyword_search(collection, text, limit, filters)

    async def list(
        self,
        collection: str,
        filters: Filter | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        *,
        with_vectors: bool = False,
    ) -> Page:
        """A page of the store behind."""
        return await self._store.list(collection, filters, limit, cursor, with_vectors=with_vectors)

    async def stream(self, collection: str, *, with_vectors: bool = False) -> AsyncIterator[Points]:
        """The rows of the store behind."""
        async for points in self._store.stream(collection, with_vectors=with_vectors):
            yield points

    async def count(self, collection: str, filters: Filter | None = None) -> int:
        """The count of the store behind."""
        return await self._store.count(collection, filters)

    async def unembedded(self, collection: str, limit: int) -> Points:
        """Those of the store behind."""
        return await self._store.unembedded(collection, limit)

    # ------------------------------------------------------------------ durability
    async def sync(self) -> None:
        """Sync the store behind."""
        await self._store.sync()

    async def scrub(self) -> bool:
        """Scrub the store behind."""
        return await self._store.scrub()

    async def check(self, collection: str) -> Names:
        """What disagrees in the store behind."""
        return await self._store.check(collection)
