"""Base of stores that wrap another: calls are passed on, unless a subclass overrides them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends import registry
from perdure.backends.markdown.base import FileStore
from perdure.backends.vector_stores.base import Points, Shapes, VectorStore
from perdure.domain.errors import ConfigError


class Part(BaseModel):
    """A provider and its settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    provider: str
    """Name of the provider, or package.module:Class."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The provider's own settings."""


def _passed_on(method: str) -> Any:
    """Return a method that awaits the store behind's method of that name."""

    async def call(self: WrappingStore, *arguments: Any, **named: Any) -> Any:
        return await getattr(self._store, method)(*arguments, **named)

    return call


class WrappingStore(VectorStore):
    """Passes calls on to another store; ConfigError for one with files, whose edits would go unnoticed."""

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

    @property
    def read_only(self) -> bool:
        return self._store.read_only

    def check_place(self) -> None:
        self._store.check_place()

    def stored_collections(self) -> Shapes:
        return self._store.stored_collections()

    async def stream(self, collection: str, *, with_vectors: bool = False) -> AsyncIterator[Points]:
        async for points in self._store.stream(collection, with_vectors=with_vectors):
            yield points

    open = _passed_on("open")
    close = _passed_on("close")
    identity = _passed_on("identity")
    create_collection = _passed_on("create_collection")
    delete_collection = _passed_on("delete_collection")
    list_collections = _passed_on("list_collections")
    get_collection_info = _passed_on("get_collection_info")
    reset = _passed_on("reset")
    apply = _passed_on("apply")
    update = _passed_on("update")
    get_many = _passed_on("get_many")
    payloads = _passed_on("payloads")
    search = _passed_on("search")
    keyword_search = _passed_on("keyword_search")
    list = _passed_on("list")
    count = _passed_on("count")
    unembedded = _passed_on("unembedded")
    kept_rows = _passed_on("kept_rows")
    keep = _passed_on("keep")
    words = _passed_on("words")
    give_words = _passed_on("give_words")
    sync = _passed_on("sync")
    scrub = _passed_on("scrub")
    check = _passed_on("check")
