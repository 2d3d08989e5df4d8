"""The vector store on Pinecone: an index for each dimension, a namespace for each collection.

A project may have few indexes and many namespaces, an index takes long to make, and a query costs by the size of its
namespace: hence a namespace is a collection. It is not a user: a search of an agent sees several of them, so the walls
inside a collection are filters on indexed metadata.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

from pydantic import Field, SecretStr, field_validator

from perdure.backends.http.service import key_or_fail, secret_from, text_from
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row, digest
from perdure.backends.vector_stores.pinecone.client import (
    GRAMMAR,
    INDEXED,
    MOST_HITS,
    Clause,
    Project,
    Space,
    failure_of,
    record_id,
    record_of,
    row_of,
    rows_of,
    somewhere,
)
from perdure.domain.errors import ConfigError, VectorStoreError

T = TypeVar("T")

_IDENTITY = "perdure-identity"
"""The tag of the index that lists collections."""
_SIMPLE = re.compile(r"[A-Za-z0-9_-]{1,60}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")


def plain_name(name: str) -> str:
    """A collection's name as part of a namespace's: itself where it is plain, else what is readable and a digest."""
    return name if _SIMPLE.fullmatch(name) else f"{_ODD.sub('_', name)[:40]}~{digest(name, 10)}"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A collection as the list of collections has it."""

    name: str
    shape: Shape
    generation: int
    """How often a collection of this name has been made: each has a namespace of its own."""
    live: bool = True

    def metadata(self) -> dict[str, Any]:
        return {
            "kind": "live" if self.live else "deleted",
            "name": json.dumps(self.name),
            "dimension": self.shape.dimension,
            "model": json.dumps(self.shape.model),
            "generation": self.generation,
        }

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> _Entry:
        shape = Shape(int(metadata["dimension"]), json.loads(metadata["model"]))
        return cls(json.loads(metadata["name"]), shape, int(metadata["generation"]), metadata["kind"] == "live")


class PineconeVectorStore(DocumentStore[Clause]):
    """Keeps rows in a Pinecone project, where processes and machines share them.

    A query returns as many records as there are where they are fewer than 10,000: inside a scope up to that size every
    row is scored, so what the index may miss shows in larger ones only.
    """

    name: ClassVar[str] = "pinecone"
    most_hits: ClassVar[int] = MOST_HITS
    keeps_bare: ClassVar[bool] = False
    grammar = GRAMMAR

    class Settings(EngineSettings):
        """Who we are, where new indexes are made, and which names are ours."""

        api_key: SecretStr | None = Field(default_factory=partial(secret_from, "PINECONE_API_KEY"))
        """Falls back to PINECONE_API_KEY."""
        base_url: str | None = Field(default_factory=partial(text_from, "PINECONE_CONTROLLER_HOST"))
        """Address of the control plane, which tells those of the indexes; falls back to PINECONE_CONTROLLER_HOST, else
        https://api.pinecone.io."""
        cloud: str = Field(default="aws", pattern=r"^(aws|gcp|azure)$")
        """Where new indexes are made: aws, gcp or azure."""
        region: str = Field(default="us-east-1", min_length=1)
        """Region of the cloud in which new indexes are made."""
        index: str = Field(default="perdure", pattern=r"^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$")
        """With what the names of all indexes begin: `perdure-384` holds vectors of 384 dimensions."""
        namespace: str = Field(default="main", pattern=r"^[A-Za-z0-9_-]{1,60}$")
        """With what the names of all namespaces begin: stores of different ones share indexes and see nothing of each
        other."""

        @field_validator("base_url")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is not None and not re.fullmatch(r"https?://[^/\s]+/?", value):
                raise ValueError("must be an address such as https://api.pinecone.io")
            return value

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.settings = settings
        self._key = key_or_fail(settings.api_key, needed=True, section="vector_store", variable="PINECONE_API_KEY")
        self._client: Project | None = None
        self._known: dict[str, _Entry] = {}

    # ------------------------------------------------------------------ life
    def _connect(self) -> None:
        given = self.settings
        deployment = {"deployment_type": "managed", "cloud": given.cloud, "region": given.region}
        self._client = Project(self._key, given.base_url, given.timeout, deployment)
        try:
            found = self._client.make(self._registry, 1, {_IDENTITY: uuid.uuid4().hex})
            if _IDENTITY not in (found.tags or {}):
                raise ConfigError(
                    f"the index {self._registry!r} is not perdure's: choose another vector_store.config.index",
                    field="vector_store.config.index",
                    value=given.index,
                )
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        self._known.clear()
        if client is not None:
            client.close()

    @property
    def _project(self) -> Project:
        assert self._client is not None, "between _connect and _disconnect"
        return self._client

    @property
    def _registry(self) -> str:
        return f"{self.settings.index}-collections"

    def _identity(self) -> str:
        found = self._project.described(self._registry)
        if found is None or not found.tags:
            raise VectorStoreError(f"pinecone: the index {self._registry!r}, which lists all collections, is gone")
        return f"{found.tags[_IDENTITY]}/{self.settings.namespace}"

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, self.settings.base_url or "https://api.pinecone.io", self.settings.timeout)

    # ------------------------------------------------------------------ collections
    def _list(self) -> Space:
        return self._project.space(self._registry, self.settings.namespace, 1)

    def _entry(self, name: str) -> _Entry | None:
        """What the list has of a name now, deleted collections included."""
        for found in self._list().fetch([record_id(name)]):
            for vector in found.values():
                return _Entry.read(vector.metadata or {})
        return None

    def _enter(self, entry: _Entry) -> None:
        record = {"id": record_id(entry.name), "values": somewhere(1), "metadata": entry.metadata()}
        self._list().write([record], [])

    def _find(self, name: str) -> Shape | None:
        try:
            return self._looked_up(name).shape
        except MissingCollection:
            return None

    def _names(self) -> Names:
        pages = self._list().pages({"kind": {"$eq": "live"}})
        return [_Entry.read(vector.metadata or {}).name for page in pages for vector in page]

    def _make(self, name: str, shape: Shape) -> None:
        entry = self._entry(name)
        if entry is not None and entry.live:
            return
        # Processes that make it at one time count alike, and so make the same namespace.
        entry = _Entry(name, shape, entry.generation + 1 if entry else 1)
        self._project.make(f"{self.settings.index}-{shape.dimension}", shape.dimension)
        self._space(entry).make(INDEXED)
        self._enter(entry)

    def _drop(self, name: str) -> None:
        entry = self._entry(name)
        self._known.pop(name, None)
        if entry is not None and entry.live:
            self._enter(_Entry(name, entry.shape, entry.generation, live=False))
            self._space(entry).remove()

    def _clear(self, name: str) -> None:
        self._space(self._looked_up(name)).clear()

    def _space(self, entry: _Entry) -> Space:
        namespace = f"{self.settings.namespace}.{plain_name(entry.name)}.{entry.generation}"
        dimension = entry.shape.dimension
        return self._project.space(f"{self.settings.index}-{dimension}", namespace, dimension)

    def _looked_up(self, name: str) -> _Entry:
        """A collection as it is now, whatever was known of it."""
        entry = self._entry(name)
        if entry is None or not entry.live:
            self._known.pop(name, None)
            raise MissingCollection
        self._known[name] = entry
        return entry

    def _read_rows(self, name: str, read: Callable[[Space], T]) -> T:
        """What is read of a collection; where nothing is, the collection may be gone or another one."""
        known = self._known.get(name) or self._looked_up(name)
        found = read(self._space(known))
        if not found and (now := self._looked_up(name)) != known:
            found = read(self._space(now))
        return found

    # ------------------------------------------------------------------ documents
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        entry = self._looked_up(name)
        records = [record_of(document, entry.shape.dimension) for document in documents]
        self._space(entry).write(records, [record_id(id) for id in deletes])

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        wanted = [record_id(id) for id in ids]
        found = self._read_rows(name, lambda space: [each for part in space.fetch(wanted) for each in part.values()])
        return [row_of(each.metadata, each.values if with_vectors else None) for each in found]

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        def read(space: Space) -> list[tuple[Row, float]]:
            scored = space.scores(query.tolist(), rows_of(clause))
            scores = dict(scored)
            best: list[tuple[Row, float]] = []
            for found in space.fetch([id for id, _ in scored], limit):
                rows = sorted(found.items(), key=lambda pair: -scores[pair[0]])
                best += [(row_of(each.metadata, None), scores[id]) for id, each in rows]
                if len(best) >= limit:  # rows that were deleted meanwhile are made up for by the next ones
                    break
            return best[:limit]

        return self._read_rows(name, read)

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        def rows(page: Sequence[Any]) -> list[Row]:
            return [row_of(each.metadata, each.values if with_vectors else None) for each in page]

        def begin(space: Space) -> tuple[list[Any], Iterator[list[Any]]] | None:
            pages = space.pages(rows_of(clause))
            first = next(pages)
            return (first, pages) if first else None

        begun = self._read_rows(name, begin)
        if begun is not None:
            yield rows(begun[0])
            yield from map(rows, begun[1])

    def _count(self, name: str, clause: Clause | None) -> int:
        def read(space: Space) -> int:
            some = len(space.scores(somewhere(space.dimension), rows_of(clause)))
            if some < MOST_HITS:
                return some
            return space.records() - 1 if clause is None else sum(map(len, space.pages(rows_of(clause))))

        return self._read_rows(name, read)
