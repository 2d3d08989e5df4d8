"""The vector store on Pinecone: an index for each dimension, a namespace for each collection.

A project may have few indexes and many namespaces, an index takes long to create, and a query costs by the size of its
namespace: hence a namespace for each collection. Not for each user, because an agent's search covers several of them:
scopes are filters on indexed metadata.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import pinecone
from pinecone import Vector as PineconeVector
from pydantic import Field, SecretStr, field_validator

from perdure.backends.http.service import key_or_fail, secret_from, text_from
from perdure.backends.shared.batches import bounded_batches
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
    NotYetReadable,
    wait_until,
)
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, scope_writer
from perdure.domain.errors import ConfigError, InvalidInputError, VectorStoreError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.readable import is_unicode

Clause = dict[str, Any]
TOKENS = "tokens"
ROW = "row"  # the token of every row, and of nothing else that lies in a namespace

# Pinecone does not say what a condition on a missing field means, and it has changed its mind: every field that can be
# asked for is in every row, and these stand for none.
NO_TEXT = ""
NO_MOMENT = -1e18
_FIRST_MOMENT = -1e17  # microseconds: before the year 1, and after NO_MOMENT
INDEXED = (*SCOPE_FIELDS, *sorted(TIME_FIELDS), TOKENS)
"""The fields of metadata that can be filtered by; user_id is first among them."""


def is_plain(text: str) -> bool:
    """Whether the text can be sent unchanged; others are found by their tokens."""
    return bool(text) and "\x00" not in text and is_unicode(text)


def rows_of(clause: Clause | None) -> Clause:
    """Return the filter for a clause's rows, without other records."""
    every_row: Clause = {TOKENS: {"$in": [ROW]}}
    return every_row if clause is None else {"$and": [every_row, clause]}


def _between(span: Span) -> Clause | None:
    if span.kind != "moment" or span.path not in TIME_FIELDS:
        return None
    bounds = {"$gte": _FIRST_MOMENT if span.low is None else span.low}
    if span.high is not None:
        bounds["$lte"] = span.high
    return {span.path: bounds}


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: {TOKENS: {"$in": list(tokens)}},
    none_of=lambda tokens: {TOKENS: {"$nin": list(tokens)}},
    every=lambda clauses: {"$and": list(clauses)},
    some=lambda clauses: {"$or": list(clauses)},
    scope_is=scope_writer(is_plain, "$eq", "$in"),
    scope_is_not=scope_writer(is_plain, "$ne", "$nin"),
    between=_between,
)


Record = dict[str, Any]
BEACON = "beacon"  # the id of a record that is no row; writing it tells when what was written before can be read
MOST_METADATA = 40_960  # bytes of metadata in a record (40 KB)
_MOST_RECORDS = 1_000
_MOST_BYTES = 2_000_000  # what one request may hold
_EPSILON = 1e-20  # stands for zero: Pinecone refuses vectors of zeros


def record_id(id: str) -> str:
    """Return a row's record id: Pinecone accepts only ASCII."""
    return digest(id, 16)


def record_of(document: Document, dimension: int) -> Record:
    """Return a document's record; InvalidInputError if it is too large for Pinecone."""
    metadata: dict[str, Any] = {"record": document.record, TOKENS: [ROW, *document.tokens]}
    for name in SCOPE_FIELDS:
        text = document.scope.get(name, "")
        metadata[name] = text if is_plain(text) else NO_TEXT
    for name in TIME_FIELDS:
        metadata[name] = float(document.moments[name]) if name in document.moments else NO_MOMENT
    size = len(json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode())
    if size > MOST_METADATA:
        raise InvalidInputError(
            f"the row {document.id[:80]!r} takes {size} bytes with its text, metadata and words, and Pinecone keeps "
            f"{MOST_METADATA} bytes (40 KB) of each row",
            field="payload",
            value=None,
        )
    if document.vector is not None and document.vector.any():
        values = document.vector.tolist()
    else:
        values = somewhere(dimension)
        values[0] = _EPSILON
    return {"id": record_id(document.id), "values": values, "metadata": metadata}


def somewhere(dimension: int) -> list[float]:
    return [1.0, *[0.0] * (dimension - 1)]


def row_of(metadata: Mapping[str, Any] | None, values: Sequence[float] | None) -> Row:
    """Return the row of a record, with its vector if its values are given."""
    assert metadata is not None, "rows are always asked for with their metadata"
    return decode(str(metadata["record"]), values)


def size_of(record: Record) -> int:
    return len(json.dumps(record).encode())


MOST_HITS = 10_000  # matches in the answer to one query
_READY = 300.0  # seconds in which a new index must be ready
_IDS_IN_LINE = 100  # ids in one fetch: they stand in the address, which must not become too long for what lies between
_IDS = 1_000  # ids in one delete
_PAGE = 100  # records in one page: with vectors of 1536 dimensions about 3 MB
_CONNECTIONS = 32  # as many as threads work for perdure
_LONGEST_MESSAGE = 300


class Project:
    """The indexes of a project by name."""

    def __init__(self, key: str, base_url: str | None, timeout: float, deployment: Mapping[str, str]) -> None:
        self._deployment = dict(deployment)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._open: dict[str, pinecone.Index] = {}
        self._client = pinecone.Pinecone(
            api_key=key,
            host=base_url or "",
            timeout=timeout,
            connection_pool_maxsize=_CONNECTIONS,
            retry_config=pinecone.RetryConfig(max_retries=0),
        )

    def close(self) -> None:
        with self._lock:
            for index in self._open.values():
                index.close()
            self._open.clear()
            self._client.close()

    def described(self, name: str) -> pinecone.IndexModel | None:
        try:
            return self._client.indexes.describe(name)
        except pinecone.NotFoundError:
            return None

    def make(self, name: str, dimension: int, tags: Mapping[str, str] | None = None) -> pinecone.IndexModel:
        """Return an index that is ready; an existing one is used."""
        if self.described(name) is None:
            with self._lock:
                self._open.pop(name, None)  # one that is made again has another host
            values = {"type": "dense_vector", "dimension": dimension, "metric": "dotproduct"}
            with contextlib.suppress(pinecone.ConflictError):
                self._client.indexes.create(
                    name=name,
                    schema={"fields": {"_values": values}},
                    deployment=self._deployment,
                    tags=dict(tags) if tags else None,
                    timeout=-1,
                )
        deadline = time.monotonic() + _READY
        while True:
            found = self.described(name)
            if found is not None and found.status.ready and found.host:
                return found
            if time.monotonic() > deadline:
                raise VectorStoreError(f"pinecone: the index {name!r} was not ready within {_READY:.0f} s")
            time.sleep(1)

    def space(self, index: str, namespace: str, dimension: int) -> Space:
        with self._lock:
            if index not in self._open:
                self._open[index] = _without_retries(self._client.index(name=index))
            return Space(self._open[index], namespace, dimension, self._timeout)


def _without_retries(index: pinecone.Index) -> pinecone.Index:
    """Disable the client's retries for an index, which has no setting for that; we have our own."""
    transport: Any = getattr(getattr(getattr(index, "_http", None), "_client", None), "_transport", None)
    if hasattr(transport, "_config"):
        transport._config = pinecone.RetryConfig(max_retries=0)
    return index


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace; everybody can read its writes on return."""

    index: pinecone.Index
    namespace: str
    dimension: int
    timeout: float

    def make(self, fields: Sequence[str]) -> None:
        """Create the namespace with its filterable fields, unless it exists."""
        schema = {"fields": {name: {"filterable": True} for name in fields}}
        with contextlib.suppress(pinecone.ConflictError):
            self.index.create_namespace(name=self.namespace, schema=schema)
        self.write([], [])

    def remove(self) -> None:
        """Delete the namespace with all its records; a missing one is no error."""
        with contextlib.suppress(pinecone.NotFoundError):
            self.index.delete_namespace(name=self.namespace)

    def clear(self) -> None:
        with contextlib.suppress(pinecone.NotFoundError):
            self.index.delete(delete_all=True, namespace=self.namespace)
        self.write([], [])

    def write(self, records: Sequence[Record], deletes: Sequence[str]) -> None:
        for start in range(0, len(deletes), _IDS):
            self.index.delete(ids=list(deletes[start : start + _IDS]), namespace=self.namespace)
        committed = None
        # A delete's place in the log is not told: the place of a later write stands for it.
        beacon = {"id": BEACON, "values": somewhere(self.dimension)}
        for batch in bounded_batches(records or [beacon], size_of, most_size=_MOST_BYTES, most_items=_MOST_RECORDS):
            answer = self.index.upsert(vectors=batch, namespace=self.namespace)
            committed = answer.response_info.lsn_committed if answer.response_info else None
        if committed is not None:  # a service that tells none shows what it has at once
            self._wait_for(committed)

    def _wait_for(self, committed: int) -> None:
        """Return when queries show the namespace at this place in its log, or later."""

        def shown() -> bool:
            info = self.index.query(vector=somewhere(self.dimension), top_k=1, namespace=self.namespace).response_info
            return info is None or info.lsn_reconciled is None or info.is_reconciled(committed)

        wait_until(shown, self.timeout)

    def scores(self, query: Sequence[float], where: Mapping[str, Any]) -> list[tuple[str, float]]:
        """Return ids and inner products of the best records; of all if fewer than MOST_HITS satisfy the filter."""
        answer = self.index.query(vector=list(query), top_k=MOST_HITS, namespace=self.namespace, filter=dict(where))
        return [(match.id, match.score) for match in answer.matches]

    def fetch(self, ids: Sequence[str], some: int = _IDS_IN_LINE) -> Iterator[dict[str, PineconeVector]]:
        """Yield the existing records of those ids, at most `some` at a time, in order."""
        step = min(some, _IDS_IN_LINE)
        for start in range(0, len(ids), step):
            yield self.index.fetch(ids=list(ids[start : start + step]), namespace=self.namespace).vectors

    def pages(self, where: Mapping[str, Any]) -> Iterator[list[PineconeVector]]:
        after: str | None = None
        while True:
            answer = self.index.fetch_by_metadata(
                filter=where, namespace=self.namespace, limit=_PAGE, pagination_token=after
            )
            yield list(answer.vectors.values())
            after = answer.pagination.next if answer.pagination else None
            if after is None:
                return

    def records(self) -> int:
        """Return how many records the service counts, including the beacon."""
        summary = self.index.describe_index_stats().namespaces.get(self.namespace)
        return summary.vector_count if summary else 0


def failure_of(error: Exception, address: str, timeout: float) -> Failure | None:
    if isinstance(error, NotYetReadable):
        return Failure(f"{address} took a write, and did not show it within {timeout:g} s: it may still come")
    if isinstance(error, pinecone.PineconeTimeoutError):
        return Failure(f"no answer from {address} within {timeout:g} s: raise timeout, or look at its state", True)
    if isinstance(error, pinecone.PineconeConnectionError):
        return Failure(f"no connection to {address}: check base_url and the network", True)
    if isinstance(error, pinecone.UnauthorizedError):
        return Failure(f"{address} refused the API key: give a valid one as api_key or in PINECONE_API_KEY")
    if isinstance(error, pinecone.ApiError):
        said = f"{address} answered {error.status_code}: {error.message[:_LONGEST_MESSAGE]}"
        if isinstance(error, pinecone.ForbiddenError):
            return Failure(f"{said} (the key lacks a right, or the project is at a limit of its plan)")
        return Failure(
            said, isinstance(error, (pinecone.RateLimitError, pinecone.ServiceError)) or error.status_code == 408
        )
    return Failure(f"{address}: {str(error)[:_LONGEST_MESSAGE]}") if isinstance(error, pinecone.PineconeError) else None


T = TypeVar("T")
_IDENTITY = "perdure-identity"  # the tag of the index that lists collections
_SIMPLE = re.compile(r"[A-Za-z0-9_-]{1,60}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")


def plain_name(name: str) -> str:
    """Return a collection's name for a namespace: itself if plain, else the readable part and a digest."""
    return name if _SIMPLE.fullmatch(name) else f"{_ODD.sub('_', name)[:40]}~{digest(name, 10)}"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A collection in the list of collections; each time one is created it has a new `generation` and namespace."""

    name: str
    shape: Shape
    generation: int
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
    """Stores rows in a Pinecone project, which processes and machines may share.

    A query returns all records if they are fewer than 10,000: in a scope up to that size every row is scored, and only
    larger ones depend on the index.
    """

    name: ClassVar[str] = "pinecone"
    most_hits: ClassVar[int] = MOST_HITS
    keeps_bare: ClassVar[bool] = False
    grammar = GRAMMAR
    settings: Settings
    _client: Project

    class Settings(EngineSettings):
        """The API key, the place of new indexes, and the prefix of our names."""

        api_key: SecretStr | None = Field(default_factory=partial(secret_from, "PINECONE_API_KEY"))
        """API key; falls back to PINECONE_API_KEY."""
        base_url: str | None = Field(default_factory=partial(text_from, "PINECONE_CONTROLLER_HOST"))
        """Address of the control plane; falls back to PINECONE_CONTROLLER_HOST, else https://api.pinecone.io."""
        cloud: str = Field(default="aws", pattern=r"^(aws|gcp|azure)$")
        """Cloud of new indexes: aws, gcp or azure."""
        region: str = Field(default="us-east-1", min_length=1)
        """Region of new indexes."""
        index: str = Field(default="perdure", pattern=r"^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$")
        """Prefix of all index names: `perdure-384` contains vectors of 384 dimensions."""
        namespace: str = Field(default="main", pattern=r"^[A-Za-z0-9_-]{1,60}$")
        """Prefix of all namespaces: stores with different ones share indexes and see nothing of each other."""

        @field_validator("base_url")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is not None and not re.fullmatch(r"https?://[^/\s]+/?", value):
                raise ValueError("must be an address such as https://api.pinecone.io")
            return value

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._key = key_or_fail(settings.api_key, needed=True, section="vector_store", variable="PINECONE_API_KEY")
        self._known: dict[str, _Entry] = {}

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
        super()._disconnect()
        self._known.clear()

    @property
    def _registry(self) -> str:
        return f"{self.settings.index}-collections"

    def _identity(self) -> str:
        found = self._client.described(self._registry)
        if found is None or not found.tags:
            raise VectorStoreError(f"pinecone: the index {self._registry!r}, which lists all collections, is gone")
        return f"{found.tags[_IDENTITY]}/{self.settings.namespace}"

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, self.settings.base_url or "https://api.pinecone.io", self.settings.timeout)

    def _catalogue(self) -> Space:
        return self._client.space(self._registry, self.settings.namespace, 1)

    def _entry(self, name: str) -> _Entry | None:
        """Return the list's current entry of a name, also of a deleted collection."""
        for found in self._catalogue().fetch([record_id(name)]):
            for vector in found.values():
                return _Entry.read(vector.metadata or {})
        return None

    def _enter(self, entry: _Entry) -> None:
        record = {"id": record_id(entry.name), "values": somewhere(1), "metadata": entry.metadata()}
        self._catalogue().write([record], [])

    def _find(self, name: str) -> Shape | None:
        try:
            return self._looked_up(name).shape
        except MissingCollection:
            return None

    def _names(self) -> Names:
        pages = self._catalogue().pages({"kind": {"$eq": "live"}})
        return [_Entry.read(vector.metadata or {}).name for page in pages for vector in page]

    def _make(self, name: str, shape: Shape) -> None:
        entry = self._entry(name)
        if entry is not None and entry.live:
            return
        # Processes that make it at one time count alike, and so make the same namespace.
        entry = _Entry(name, shape, entry.generation + 1 if entry else 1)
        self._client.make(f"{self.settings.index}-{shape.dimension}", shape.dimension)
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
        return self._client.space(f"{self.settings.index}-{dimension}", namespace, dimension)

    def _looked_up(self, name: str) -> _Entry:
        """Look up a collection again, whatever was known of it."""
        entry = self._entry(name)
        if entry is None or not entry.live:
            self._known.pop(name, None)
            raise MissingCollection
        self._known[name] = entry
        return entry

    def _read_rows(self, name: str, read: Callable[[Space], T]) -> T:
        """Read rows of a collection; if there are none, it may be gone or replaced."""
        known = self._known.get(name) or self._looked_up(name)
        found = read(self._space(known))
        if not found and (now := self._looked_up(name)) != known:
            found = read(self._space(now))
        return found

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
