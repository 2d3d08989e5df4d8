"""The vector store on Azure AI Search: an index for each collection, exhaustive search in filters, BM25 for words."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from pydantic import Field, SecretStr, field_validator

from perdure.backends.service import key_or_fail, secret_from, text_from
from perdure.backends.vector_stores._azure_ai_search_client import MOST_HITS, Documents, SearchService, failure_of
from perdure.backends.vector_stores._azure_ai_search_filter import AzureGrammar, Clause
from perdure.backends.vector_stores._azure_ai_search_index import (
    KEY,
    definition,
    described,
    document_of,
    identity_definition,
    index_name,
    key_of,
    row_of,
    shape_of,
)
from perdure.backends.vector_stores._document_engine import EngineSettings, Failure, Shape
from perdure.backends.vector_stores._document_store import DocumentStore
from perdure.backends.vector_stores._documents import Document, Row
from perdure.backends.vector_stores._facets import word_token
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import ConfigError, VectorStoreError


class AzureSearchVectorStore(DocumentStore[Clause]):
    """Keeps rows in a search service of Azure, where processes and machines share them."""

    name: ClassVar[str] = "azure_ai_search"
    ranks_words: ClassVar[bool] = True
    most_hits: ClassVar[int] = MOST_HITS
    grammar = AzureGrammar()

    class Settings(EngineSettings):
        """Where the service is, who we are there, and which indexes are ours."""

        endpoint: str | None = Field(default_factory=partial(text_from, "AZURE_SEARCH_ENDPOINT"))
        """Address of the service, https://NAME.search.windows.net; falls back to AZURE_SEARCH_ENDPOINT."""
        api_key: SecretStr | None = Field(default_factory=partial(secret_from, "AZURE_SEARCH_API_KEY"))
        """An admin key of the service; falls back to AZURE_SEARCH_API_KEY."""
        api_version: str = Field(default="2026-04-01", pattern=r"^\d{4}-\d{2}-\d{2}(-preview)?$")
        """Version of the REST interface; descriptions of indexes need 2025-09-01 or later."""
        prefix: str = Field(default="perdure", pattern=r"^[a-z](-?[a-z0-9]){0,39}$", max_length=40)
        """With what the names of all indexes begin: stores of different prefixes share a service."""

        @field_validator("endpoint")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is not None and not re.fullmatch(r"https?://[^/\s?#@]+/?", value):
                raise ValueError("must be an address such as https://name.search.windows.net")
            return value

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.settings = settings
        if settings.endpoint is None:
            field = "vector_store.config.endpoint"
            raise ConfigError(f"{field} is missing: give it there or in AZURE_SEARCH_ENDPOINT", field=field)
        self._endpoint = settings.endpoint
        self._key = key_or_fail(settings.api_key, needed=True, section="vector_store", variable="AZURE_SEARCH_API_KEY")
        self._client: SearchService | None = None

    # ------------------------------------------------------------------ life
    def _connect(self) -> None:
        given = self.settings
        self._client = SearchService(self._endpoint, self._key, given.api_version, given.timeout)
        try:
            if self._service.described(self._identity_index) is None:
                self._service.make(identity_definition(self._identity_index, given.prefix, uuid.uuid4().hex))
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def _service(self) -> SearchService:
        assert self._client is not None, "between _connect and _disconnect"
        return self._client

    @property
    def _identity_index(self) -> str:
        return f"{self.settings.prefix}-identity"

    def _identity(self) -> str:
        found = self._service.described(self._identity_index)
        held = {} if found is None else described(found, self.settings.prefix)
        if "identity" not in held:
            raise VectorStoreError(f"azure_ai_search: the index {self._identity_index!r} is not perdure's, or is gone")
        return held["identity"]

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, self._endpoint, self.settings.timeout)

    # ------------------------------------------------------------------ collections
    def _index(self, name: str) -> str:
        return index_name(self.settings.prefix, name)

    def _documents(self, name: str) -> Documents:
        return self._service.documents(self._index(name))

    def _find(self, name: str) -> Shape | None:
        found = self._service.described(self._index(name))
        held = {} if found is None else described(found, self.settings.prefix)
        return shape_of(found, held["model"]) if found is not None and held.get("collection") == name else None

    def _names(self) -> Names:
        held = (described(index, self.settings.prefix) for index in self._service.all())
        return [each["collection"] for each in held if "collection" in each]

    def _make(self, name: str, shape: Shape) -> None:
        index = self._index(name)
        self._service.make(definition(index, self.settings.prefix, name, shape))

    def _drop(self, name: str) -> None:
        if self._find(name) is not None:
            self._service.remove(self._index(name))

    def _clear(self, name: str) -> None:
        documents = self._documents(name)
        for page in documents.pages(None, keys_only=True):
            documents.write([], [each[KEY] for each in page], _now())

    # ------------------------------------------------------------------ documents
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        written = _now()
        sent = [document_of(document, written) for document in documents]
        self._documents(name).write(sent, [key_of(id) for id in deletes], written)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        found = self._documents(name).fetch([key_of(id) for id in ids], with_vectors=with_vectors)
        return [row_of(each) for each in found]

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        found = self._documents(name).nearest(query.tolist(), limit, clause)
        rows = [row for row in map(row_of, found) if row.vector is not None]
        # Azure does not say how it makes a score of an inner product: it is computed here again.
        scored = [(row, float(row.vector @ query)) for row in rows if row.vector is not None]
        return sorted(scored, key=lambda pair: -pair[1])

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        found = self._documents(name).ranked([word_token(word) for word in asked], limit, clause)
        return [(row_of(each), score) for each, score in found]

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        for page in self._documents(name).pages(clause, with_vectors=with_vectors):
            yield [row_of(each) for each in page]

    def _count(self, name: str, clause: Clause | None) -> int:
        return self._documents(name).count(clause)


def _now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
