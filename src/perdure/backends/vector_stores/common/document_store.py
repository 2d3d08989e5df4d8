"""Base of stores on a document engine; an engine's own file holds only its requests.

An engine stores a row as one `Document`. This class checks arguments, asks for candidates in the engine's terms
(`filter_clauses`), filters them by `matches`, asks for more until no better row can be missing, breaks ties by id,
retries transient failures and maps all to VectorStoreError. Hooks run in threads, so the client must be thread-safe.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from pydantic import Field

from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.http.service import RetryLater, ServiceSettings, with_retry
from perdure.backends.vector_stores.base import CollectionInfo, Hits, Names, Page, Point, Points, Shape, Vector
from perdure.backends.vector_stores.common.documents import Document, Row, encode
from perdure.backends.vector_stores.common.filter_clauses import BARE, C, Grammar, Narrowed, narrow, word_token
from perdure.backends.vector_stores.common.rows import (
    Listing,
    ListingStore,
    Place,
    check_dimension,
    check_id,
    check_limit,
    check_payload,
    check_same_dimension,
    check_vector,
    place_of,
    write_cursor,
)
from perdure.backends.vector_stores.common.scoring import exact_scores, sum_rarities, unit, word_scores
from perdure.domain.errors import NoCollectionError, NotFoundError, PerdureError, VectorStoreError
from perdure.domain.filter import Filter, matches
from perdure.domain.text.terms import query_words, words


class EngineSettings(ServiceSettings):
    """Settings of every store on an engine."""

    timeout: float = Field(default=30.0, gt=0, le=3600)
    """Seconds that one request may take."""
    retry_delay: float = Field(default=0.5, ge=0, le=60)
    """Seconds before the second attempt; doubled before each further one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The meaning of an engine's exception: a sentence without secrets, and whether a retry may help."""

    message: str
    passing: bool = False


class NotYetReadable(Exception):
    """A write was accepted, but searches do not show it in time."""


def wait_until(shown: Callable[[], bool], timeout: float) -> None:
    """Return once a write is visible, polling every 10 ms to 1 s; NotYetReadable after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.01
    while not shown():
        if time.monotonic() > deadline:
            raise NotYetReadable
        time.sleep(pause)
        pause = min(pause * 2, 1.0)


class MissingCollection(Exception):
    """Raised by a hook if the engine lacks the collection."""


class DocumentEngine(ABC, Generic[C]):
    """The hooks of a DocumentStore's engine: plain functions that threads may call concurrently."""

    grammar: Grammar[C]
    exact: ClassVar[bool] = True
    """Whether `_nearest` finds the best rows of a clause without fail; else small scopes are scored here."""
    most_hits: ClassVar[int] = 10_000
    """Rows that one `_nearest` or `_ranked` can give."""
    few_rows: ClassVar[int] = 10_000
    """Rows up to which a scope is scored here where the engine's own search may miss some."""
    keeps_bare: ClassVar[bool] = True
    """Whether the engine keeps documents without a vector; if not, `_write` stores zeros and the token tells."""
    ranks_words: ClassVar[bool] = False
    """Whether the engine has a keyword search, `_ranked`; if not, rows are found by word tokens and scored here."""

    @abstractmethod
    def _connect(self) -> None:
        """Connect, and create what the engine needs before the first collection."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Release all resources."""

    @abstractmethod
    def _identity(self) -> str:
        """Return an id stored in the engine since its first opening."""

    @abstractmethod
    def _failure(self, error: Exception) -> Failure | None:
        """Map an exception of the driver; None for any other."""

    @abstractmethod
    def _find(self, name: str) -> Shape | None:
        """Return the shape of a collection, or None."""

    @abstractmethod
    def _names(self) -> Names:
        """Return the names of all collections."""

    @abstractmethod
    def _make(self, name: str, shape: Shape) -> None:
        """Create a collection, unless another process has just done so."""

    @abstractmethod
    def _drop(self, name: str) -> None:
        """Delete a collection; a missing one is no error."""

    @abstractmethod
    def _clear(self, name: str) -> None:
        """Delete every document of a collection."""

    @abstractmethod
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        """Write whole documents and delete others by row id; visible to all on return."""

    @abstractmethod
    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        """Return the existing rows of the ids, in any order."""

    @abstractmethod
    def _nearest(self, name: str, query: Vector, limit: int, clause: C | None) -> list[tuple[Row, float]]:
        """Return the rows with the highest inner product, best first, without bare rows (see `keeps_bare`)."""

    @abstractmethod
    def _scan(self, name: str, clause: C | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        """Yield every row of the clause, in any order, in pages."""

    @abstractmethod
    def _count(self, name: str, clause: C | None) -> int:
        """Return how many documents satisfy the clause."""

    def _ordered(
        self, name: str, clause: C | None, after: Place | None, limit: int, *, with_vectors: bool
    ) -> list[Row] | None:
        """Return the first rows after the place by (created_at, id); None if the engine cannot sort so."""
        return None

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: C | None) -> list[tuple[Row, float]]:
        """Return the rows with some of the stems, best first, if `ranks_words`."""
        raise NotImplementedError("an engine that says ranks_words has this")


# Reads from an engine of documents lose no row: they ask for more until none can be missing, and finish here.

DIGITS = 6  # decimals of a cosine that float32 engines agree on; further ones would break ties by chance
ScoredRows = list[tuple[Row, float]]


@dataclass(frozen=True, slots=True)
class CollectionReader(Generic[C]):
    """One read of a collection, with the filter's clause."""

    engine: DocumentEngine[C]
    name: str
    filters: Filter | None
    narrowed: Narrowed[C]

    def nearest(self, query: Vector, limit: int) -> Hits:
        """Return the rows with the highest cosine to a unit query, best first, ties by id."""
        engine, clause = self.engine, self.narrowed.clause
        if not engine.keeps_bare:
            clause = self._both(engine.grammar.none_of([BARE]))
        found: Hits | None = None
        there = None if engine.exact else engine._count(self.name, clause)
        if query.any() and (there is None or there > engine.few_rows):
            found = self._best(lambda ask: engine._nearest(self.name, query, ask, clause), limit, there)
        return self._score_here(query, limit, clause) if found is None else found

    def ranked(self, asked: Sequence[str], limit: int) -> Hits:
        """Return the rows with some of the stems, best first, ties by id."""
        engine, clause = self.engine, self.narrowed.clause
        if engine.ranks_words:
            found = self._best(lambda ask: engine._ranked(self.name, asked, ask, clause), limit)
            if found is not None:
                return found
        elif len(asked) <= engine.grammar.most_values:
            clause = self._both(engine.grammar.one_of([word_token(word) for word in asked]))
        return self._rank_here(asked, limit, clause)

    def in_order(self, after: Place | None, limit: int | None, *, with_vectors: bool) -> list[Row]:
        """Return the rows after a place by (created_at, id); more than `limit` if there are more."""
        kept: list[Row] = []
        start = after
        while limit is not None:
            page = self.engine._ordered(self.name, self.narrowed.clause, start, limit + 1, with_vectors=with_vectors)
            if page is None:
                break
            kept += self._matching(page)
            if len(page) <= limit or len(kept) > limit:
                return kept
            start = place_of(page[-1].id, page[-1].payload)
        rows = [row for page in self._pages(self.narrowed.clause, with_vectors=with_vectors) for row in page]
        placed = sorted(((place_of(row.id, row.payload), row) for row in rows), key=lambda pair: pair[0])
        return [row for place, row in placed if after is None or place > after]

    def count(self) -> int:
        """Return how many rows match."""
        if self.narrowed.exact:
            return self.engine._count(self.name, self.narrowed.clause)
        return sum(len(page) for page in self._pages(self.narrowed.clause, with_vectors=False))

    def _both(self, clause: C) -> C:
        return clause if self.narrowed.clause is None else self.engine.grammar.every([self.narrowed.clause, clause])

    def _matching(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if matches(self.filters, row.payload)]

    def _pages(self, clause: C | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        for page in self.engine._scan(self.name, clause, with_vectors=with_vectors):
            yield self._matching(page)

    def _best(self, ask: Callable[[int], ScoredRows], limit: int, there: int | None = None) -> Hits | None:
        """Return the `limit` best matching rows, asking for more until no better or equal one can be missing.

        None if the engine cannot return so many, or returns fewer of the rows that are `there` than requested.
        """
        most = self.engine.most_hits
        asked = min(limit + 1, most)
        while True:
            found = [(row, round(float(score), DIGITS) + 0.0) for row, score in ask(asked)]
            kept = [(row, score) for row, score in found if matches(self.filters, row.payload)]
            if there is not None and len(found) < min(asked, there):
                return None
            if len(found) < asked or (len(kept) >= limit and kept[limit - 1][1] > found[-1][1]):
                kept.sort(key=lambda pair: (-pair[1], pair[0].id))
                return [row.hit(score) for row, score in kept[:limit]]
            if asked >= most:
                return None
            asked = min(asked * 4, most)

    def _score_here(self, query: Vector, limit: int, clause: C | None) -> Hits:
        """Score every row in this process, page by page."""
        best: list[tuple[float, str, Row]] = []
        for page in self._pages(clause, with_vectors=True):
            rows = [row for row in page if row.vector is not None]
            if rows:
                matrix = np.stack([row.vector for row in rows if row.vector is not None])
                scores = np.round(exact_scores(matrix, query), DIGITS) + 0.0
                best += [(-float(score), row.id, row) for row, score in zip(rows, scores, strict=True)]
                best = sorted(best, key=lambda entry: entry[:2])[:limit]
        return [row.hit(0.0 - score) for score, _, row in best]

    def _rank_here(self, asked: Sequence[str], limit: int, clause: C | None) -> Hits:
        """Rank the rows with some of the stems by BM25 in this process; rarity is measured inside the filter."""
        wanted = set(asked)
        rows: list[Row] = []
        held: list[list[str]] = []
        for page in self._pages(clause, with_vectors=False):
            for row in page:
                text = row.payload.get("memory")
                stems = words(text) if isinstance(text, str) else []
                if wanted.intersection(stems):
                    rows.append(row)
                    held.append(stems)
        total = max(self.engine._count(self.name, self.narrowed.clause), len(rows))
        postings = [np.array([n for n, stems in enumerate(held) if word in stems], np.int64) for word in asked]
        places, weights = sum_rarities(postings, total)
        scores = word_scores(weights, np.array([len(held[place]) for place in places], np.float64))
        order = sorted(range(len(places)), key=lambda n: (-scores[n], rows[places[n]].id))
        return [rows[places[n]].hit(float(scores[n])) for n in order[:limit]]


T = TypeVar("T")


class DocumentStore(DocumentEngine[C], ListingStore):
    """A vector store on a document engine; a provider derives from it and implements DocumentEngine's hooks."""

    scrub_note: ClassVar[str] = (
        "the engine frees deleted rows in its own time; its logs, snapshots, replicas and backups keep them for theirs"
    )

    _client: Any = None
    """The engine's client while the store is open, for engines that have one with a method `close`."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._shapes: dict[str, Shape] = {}
        self._opening = threading.Lock()
        self._is_open = False

    async def open(self) -> None:
        await self._do(self._open_once, writing=True)

    def _open_once(self) -> None:
        with self._opening:
            if not self._is_open:
                self._connect()
                self._is_open = True

    async def close(self) -> None:
        await self._do(self._close_once, writing=True)

    def _close_once(self) -> None:
        with self._opening:
            if self._is_open:
                self._is_open = False
                self._shapes.clear()
                self._disconnect()

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def identity(self) -> str:
        return await self._read(self._identity)

    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        check_dimension(dimension)

        def make() -> None:
            found = self._find(name)
            if found is None:
                self._make(name, Shape(dimension, model))
                found = self._find(name)
            if found is not None:
                check_same_dimension(name, found.dimension, dimension)
            self._shapes.pop(name, None)

        await self._change(make)

    async def delete_collection(self, name: str) -> None:
        def drop() -> None:
            self._shapes.pop(name, None)
            self._drop(name)

        await self._change(drop)

    async def list_collections(self) -> Names:
        return sorted(await self._read(self._names))

    async def get_collection_info(self, name: str) -> CollectionInfo:
        def read() -> CollectionInfo:
            self._shapes.pop(name, None)
            shape = self._shape(name)
            return CollectionInfo(name, self._count(name, None), shape.dimension, shape.model)

        return await self._read_in(name, read)

    async def reset(self) -> None:
        def clear() -> None:
            for name in self._names():
                self._clear(name)

        await self._change(clear)

    def _shape(self, name: str) -> Shape:
        shape = self._shapes.get(name)
        if shape is None:
            found = self._find(name)
            if found is None:
                raise MissingCollection
            shape = self._shapes[name] = found
        return shape

    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        points, gone = list(puts), [check_id(id) for id in deletes]

        def write() -> None:
            dimension = self._shape(collection).dimension
            documents = {point.id: self._document(point, dimension) for point in points}
            deleted = [id for id in dict.fromkeys(gone) if id not in documents]
            if documents or deleted:
                self._write(collection, list(documents.values()), deleted)

        await self._change_in(collection, write)

    def _document(self, point: Point, dimension: int) -> Document:
        vector = None if point.vector is None else unit(check_vector(point.vector, dimension))
        return encode(check_id(point.id), vector, check_payload(point.payload), word_tokens=not self.ranks_words)

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        def write() -> None:
            shape = self._shape(collection)
            old = next(iter(self._fetch(collection, [check_id(id)], with_vectors=True)), None)
            if old is None:
                raise NotFoundError(f"there is no row {id!r} in collection {collection!r}")
            kept = old.payload if payload is None else dict(payload)
            document = self._document(Point(id, old.vector if vector is None else vector, kept), shape.dimension)
            self._write(collection, [document], [])

        await self._change_in(collection, write)

    async def get_many(self, collection: str, ids: Sequence[str]) -> Points:
        asked = [check_id(id) for id in ids]

        def read() -> Points:
            self._shape(collection)
            wanted = list(dict.fromkeys(asked))
            rows = {row.id: row for row in self._fetch(collection, wanted, with_vectors=True)} if wanted else {}
            return [rows[id].point() for id in asked if id in rows]

        return await self._read_in(collection, read)

    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        limit = check_limit(limit)

        def read() -> Hits:
            query = unit(check_vector(query_vector, self._shape(collection).dimension, "query_vector"))
            reader = self._reader_of(collection, filters)
            return [] if reader is None else reader.nearest(query, limit)

        return await self._read_in(collection, read)

    async def keyword_search(self, collection: str, text: str, limit: int, filters: Filter | None = None) -> Hits:
        limit = check_limit(limit)
        asked = list(query_words(text))

        def read() -> Hits:
            reader = self._reader_of(collection, filters)
            return [] if reader is None or not asked else reader.ranked(asked, limit)

        return await self._read_in(collection, read)

    async def _list(self, collection: str, wanted: Listing) -> Page:

        def read() -> Page:
            reader = self._reader_of(collection, wanted.filters)
            limit, with_vectors = wanted.limit, wanted.with_vectors
            rows = [] if reader is None else reader.in_order(wanted.after, limit, with_vectors=with_vectors)
            page = rows if limit is None else rows[:limit]
            next_cursor = write_cursor(place_of(page[-1].id, page[-1].payload)) if len(page) < len(rows) else None
            return Page(
                [row.point() if with_vectors else Point(row.id, None, row.payload) for row in page], next_cursor
            )

        return await self._read_in(collection, read)

    async def count(self, collection: str, filters: Filter | None = None) -> int:
        def read() -> int:
            reader = self._reader_of(collection, filters)
            return 0 if reader is None else reader.count()

        return await self._read_in(collection, read)

    def _reader_of(self, collection: str, filters: Filter | None) -> CollectionReader[C] | None:
        """Return a reader of an existing collection; None if no row can match."""
        self._shape(collection)
        narrowed = narrow(filters, self.grammar)
        return None if narrowed.nothing else CollectionReader(self, collection, filters, narrowed)

    async def stream(self, collection: str, *, with_vectors: bool = False) -> AsyncIterator[Points]:
        def begin() -> Iterator[list[Row]]:
            self._shape(collection)
            return self._scan(collection, None, with_vectors=with_vectors)

        pages = await self._read_in(collection, begin)
        while (page := await self._read_in(collection, lambda: next(pages, None))) is not None:
            if page:
                yield [row.point() for row in page]

    async def unembedded(self, collection: str, limit: int) -> Points:
        limit = check_limit(limit)

        def read() -> Points:
            self._shape(collection)
            pages = self._scan(collection, self.grammar.one_of([BARE]), with_vectors=False)
            rows = sorted((row for page in pages for row in page), key=lambda row: row.id)
            return [row.point() for row in rows[:limit]]

        return await self._read_in(collection, read)

    async def _read(self, read: Callable[[], T]) -> T:
        return await self._do(lambda: self._when_open(read), writing=False)

    async def _change(self, write: Callable[[], None]) -> None:
        await self._do(lambda: self._when_open(write), writing=True)

    async def _read_in(self, collection: str, read: Callable[[], T]) -> T:
        return await self._read(lambda: self._in_collection(collection, read))

    async def _change_in(self, collection: str, write: Callable[[], None]) -> None:
        await self._change(lambda: self._in_collection(collection, write))

    def _when_open(self, work: Callable[[], T]) -> T:
        if not self._is_open:
            raise VectorStoreError(f"the vector store {self.name} is not open: call open() first")
        return work()

    def _in_collection(self, name: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except MissingCollection:
            self._shapes.pop(name, None)
            raise NoCollectionError(name) from None
        except Exception:
            self._shapes.pop(name, None)  # it may have been made anew meanwhile, with another dimension
            raise

    async def _do(self, work: Callable[[], T], *, writing: bool) -> T:
        """Run in a thread, with retries after transient failures; all failures are VectorStoreError."""

        def attempt() -> T:
            try:
                return work()
            except (PerdureError, MissingCollection):
                raise
            except Exception as error:
                failure = self._failure(error)
                if failure is None:
                    raise
                problem = VectorStoreError(f"{self.name}: {failure.message}")
                if failure.passing:
                    raise RetryLater(problem) from error
                raise problem from error

        async def call() -> T:
            return await (run_unit(attempt) if writing else run_blocking(attempt))

        return await with_retry(call, retries=self.settings.retries, base_delay=self.settings.retry_delay)
