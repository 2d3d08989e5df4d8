"""Client of Pinecone: filters, a project's indexes, one namespace of an index, its records, and error mapping."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pinecone import (
    ApiError,
    ConflictError,
    ForbiddenError,
    Index,
    IndexModel,
    NotFoundError,
    Pinecone,
    PineconeConnectionError,
    PineconeError,
    PineconeTimeoutError,
    RateLimitError,
    RetryConfig,
    ServiceError,
    UnauthorizedError,
    Vector,
)

from perdure.backends.shared.batches import bounded_batches
from perdure.backends.vector_stores.common.document_store import Failure
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, scope_writer
from perdure.domain.errors import InvalidInputError, VectorStoreError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.readable import is_unicode

Clause = dict[str, Any]

TOKENS = "tokens"
ROW = "row"
"""The token of every row, and of nothing else that lies in a namespace."""

# Pinecone does not say what a condition on a missing field means, and it has changed its mind: every field that can be
# asked for is in every row, and these stand for none.
NO_TEXT = ""
NO_MOMENT = -1e18
_FIRST_MOMENT = -1e17
"""Microseconds: before the year 1, and after NO_MOMENT."""

INDEXED = (*SCOPE_FIELDS, *sorted(TIME_FIELDS), TOKENS)
"""The fields of metadata that can be filtered by; user_id is first among them."""


def is_plain(text: str) -> bool:
    """Whether the text can be sent and stands for itself; others are found by their tokens."""
    return bool(text) and "\x00" not in text and is_unicode(text)


def rows_of(clause: Clause | None) -> Clause:
    """The rows that satisfy a clause, and no other record."""
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


# Rows as Pinecone keeps them: a record of values and flat metadata, of a bounded size.

Record = dict[str, Any]

BEACON = "beacon"
"""The id of a record that is no row; writing it tells when what was written before can be read."""

MOST_METADATA = 40_960
"""Bytes of metadata in a record (40 KB)."""
_MOST_RECORDS = 1_000
_MOST_BYTES = 2_000_000
"""What one request may hold."""
_EPSILON = 1e-20
"""Stands for zero: Pinecone refuses vectors of zeros."""


def record_id(id: str) -> str:
    """The id of a row's record: Pinecone takes ASCII only."""
    return digest(id, 16)


def record_of(document: Document, dimension: int) -> Record:
    """The record of a document; InvalidInputError if it is larger than Pinecone takes."""
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
    """Any vector."""
    return [1.0, *[0.0] * (dimension - 1)]


def row_of(metadata: Mapping[str, Any] | None, values: Sequence[float] | None) -> Row:
    """The row of a record; with its vector where its values are given."""
    assert metadata is not None, "rows are always asked for with their metadata"
    return decode(str(metadata["record"]), values)


def batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in as few requests as Pinecone allows."""
    return bounded_batches(
        records, lambda record: len(json.dumps(record).encode()), most_size=_MOST_BYTES, most_items=_MOST_RECORDS
    )


MOST_HITS = 10_000
"""Matches in the answer to one query."""
_READY = 300.0
"""Seconds in which a new index must be ready."""
_IDS_IN_LINE = 100
"""Ids in one fetch: they stand in the address, which must not become too long for what lies between."""
_IDS = 1_000
"""Ids in one delete."""
_PAGE = 100
"""Records in one page: with vectors of 1536 dimensions about 3 MB."""
_CONNECTIONS = 32
"""As many as threads work for perdure."""
_LONGEST_MESSAGE = 300


class NotYetReadable(Exception):
    """A write was taken, and queries do not show it in time."""


class Project:
    """The indexes of a project, by name."""

    def __init__(self, key: str, base_url: str | None, timeout: float, deployment: Mapping[str, str]) -> None:
        self._deployment = dict(deployment)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._open: dict[str, Index] = {}
        self._client = Pinecone(
            api_key=key,
            host=base_url or "",
            timeout=timeout,
            connection_pool_maxsize=_CONNECTIONS,
            retry_config=RetryConfig(max_retries=0),
        )

    def close(self) -> None:
        """Close every open index."""
        with self._lock:
            for index in self._open.values():
                index.close()
            self._open.clear()
            self._client.close()

    def described(self, name: str) -> IndexModel | None:
        """What Pinecone says of an index, or None."""
        try:
            return self._client.indexes.describe(name)
        except NotFoundError:
            return None

    def make(self, name: str, dimension: int, tags: Mapping[str, str] | None = None) -> IndexModel:
        """An index that is ready; one that another process has just made is taken."""
        if self.described(name) is None:
            with self._lock:
                self._open.pop(name, None)  # one that is made again has another host
            values = {"type": "dense_vector", "dimension": dimension, "metric": "dotproduct"}
            with contextlib.suppress(ConflictError):
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
        """A namespace of an index that exists."""
        with self._lock:
            if index not in self._open:
                self._open[index] = _without_retries(self._client.index(name=index))
            return Space(self._open[index], namespace, dimension, self._timeout)


def _without_retries(index: Index) -> Index:
    """Tell the client of an index, which has no setting for it, to try everything once: we have our own retries."""
    transport: Any = getattr(getattr(getattr(index, "_http", None), "_client", None), "_transport", None)
    if hasattr(transport, "_config"):
        transport._config = RetryConfig(max_retries=0)
    return index


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace; what its methods have written can be read by everybody."""

    index: Index
    namespace: str
    dimension: int
    timeout: float

    def make(self, fields: Sequence[str]) -> None:
        """Make it, with the fields that can be filtered by; one that exists is left alone."""
        schema = {"fields": {name: {"filterable": True} for name in fields}}
        with contextlib.suppress(ConflictError):
            self.index.create_namespace(name=self.namespace, schema=schema)
        self.write([], [])

    def remove(self) -> None:
        """Remove it with all its records; one that is gone is no error."""
        with contextlib.suppress(NotFoundError):
            self.index.delete_namespace(name=self.namespace)

    def clear(self) -> None:
        """Remove all its rows."""
        with contextlib.suppress(NotFoundError):
            self.index.delete(delete_all=True, namespace=self.namespace)
        self.write([], [])

    def write(self, records: Sequence[Record], deletes: Sequence[str]) -> None:
        """Remove records, then write others."""
        for start in range(0, len(deletes), _IDS):
            self.index.delete(ids=list(deletes[start : start + _IDS]), namespace=self.namespace)
        committed = None
        # A delete's place in the log is not told: the place of a later write stands for it.
        beacon = {"id": BEACON, "values": somewhere(self.dimension)}
        for batch in batches(records or [beacon]):
            answer = self.index.upsert(vectors=batch, namespace=self.namespace)
            committed = answer.response_info.lsn_committed if answer.response_info else None
        if committed is not None:  # a service that tells none shows what it has at once
            self._wait_for(committed)

    def _wait_for(self, committed: int) -> None:
        """Return when queries show the namespace as it was at this place in its log, or later."""
        deadline = time.monotonic() + self.timeout
        pause = 0.01
        while True:
            answer = self.index.query(vector=somewhere(self.dimension), top_k=1, namespace=self.namespace)
            if answer.response_info is None or answer.response_info.lsn_reconciled is None:
                return
            if answer.response_info.is_reconciled(committed):
                return
            if time.monotonic() > deadline:
                raise NotYetReadable
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def scores(self, query: Sequence[float], where: Mapping[str, Any]) -> list[tuple[str, float]]:
        """Ids and inner products of the best records, all of them where fewer than MOST_HITS satisfy the filter."""
        answer = self.index.query(vector=list(query), top_k=MOST_HITS, namespace=self.namespace, filter=dict(where))
        return [(match.id, match.score) for match in answer.matches]

    def fetch(self, ids: Sequence[str], some: int = _IDS_IN_LINE) -> Iterator[dict[str, Vector]]:
        """The records of those ids that exist, `some` at a time at most, in the order of the ids."""
        step = min(some, _IDS_IN_LINE)
        for start in range(0, len(ids), step):
            yield self.index.fetch(ids=list(ids[start : start + step]), namespace=self.namespace).vectors

    def pages(self, where: Mapping[str, Any]) -> Iterator[list[Vector]]:
        """Every record that satisfies the filter."""
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
        """How many records the service counts, the beacon among them."""
        summary = self.index.describe_index_stats().namespaces.get(self.namespace)
        return summary.vector_count if summary else 0


def failure_of(error: Exception, address: str, timeout: float) -> Failure | None:
    """What an exception of the client means; None for one that is not the client's."""
    if isinstance(error, NotYetReadable):
        return Failure(f"{address} took a write, and did not show it within {timeout:g} s: it may still come")
    if isinstance(error, PineconeTimeoutError):
        return Failure(f"no answer from {address} within {timeout:g} s: raise timeout, or look at its state", True)
    if isinstance(error, PineconeConnectionError):
        return Failure(f"no connection to {address}: check base_url and the network", True)
    if isinstance(error, UnauthorizedError):
        return Failure(f"{address} refused the API key: give a valid one as api_key or in PINECONE_API_KEY")
    if isinstance(error, ApiError):
        said = f"{address} answered {error.status_code}: {error.message[:_LONGEST_MESSAGE]}"
        if isinstance(error, ForbiddenError):
            return Failure(f"{said} (the key lacks a right, or the project is at a limit of its plan)")
        return Failure(said, isinstance(error, (RateLimitError, ServiceError)) or error.status_code == 408)
    return Failure(f"{address}: {str(error)[:_LONGEST_MESSAGE]}") if isinstance(error, PineconeError) else None
