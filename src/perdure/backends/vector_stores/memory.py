"""The vector store in this process's memory: exact, for development and tests."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from perdure.backends.vector_stores.base import CollectionInfo, Hit, Hits, Names, Page, Point, Points, Vector
from perdure.backends.vector_stores.common import rows as row_checks
from perdure.backends.vector_stores.common import scoring
from perdure.domain.errors import NoCollectionError, NotFoundError, VectorStoreError
from perdure.domain.filter import And, Condition, Filter, matches
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.terms import query_words, words


@dataclass(slots=True)
class Row:
    """A stored row, which is replaced and never changed."""

    id: str
    vector: Vector | None
    payload: dict[str, Any]
    words: frozenset[str]
    length: int

    def point(self) -> Point:
        """Return a copy for the port."""
        vector = None if self.vector is None else self.vector.copy()
        return Point(self.id, vector, row_checks.copy_payload(self.payload))

    def hit(self, score: float) -> Hit:
        """Return the row as a search result."""
        return Hit(self.id, float(score), row_checks.copy_payload(self.payload))


def checked_row(point: Point, dimension: int) -> Row:
    """Return the row of a valid point; InvalidInputError otherwise."""
    payload = row_checks.check_payload(point.payload)
    text = payload.get("memory")
    found = words(text) if isinstance(text, str) else []
    vector = None if point.vector is None else row_checks.check_vector(point.vector, dimension)
    return Row(row_checks.check_id(point.id), vector, payload, frozenset(found), len(found))


@dataclass(slots=True)
class Shelf:
    """Some rows, and their unit vectors as one matrix until one of them changes."""

    dimension: int
    rows: dict[str, Row] = field(default_factory=dict)
    matrix: tuple[dict[str, int], scoring.Matrix] | None = None

    def units(self) -> tuple[dict[str, int], scoring.Matrix]:
        """Return each embedded row's index in the matrix of unit vectors, and the matrix."""
        if self.matrix is None:
            embedded = [row for row in self.rows.values() if row.vector is not None]
            vectors = [row.vector for row in embedded if row.vector is not None]
            raw = np.stack(vectors) if vectors else np.empty((0, self.dimension), np.float32)
            self.matrix = {row.id: place for place, row in enumerate(embedded)}, scoring.unit_rows(raw)
        return self.matrix

    def matching(self, filters: Filter | None) -> list[Row]:
        return [row for row in self.rows.values() if matches(filters, row.payload)]


class Collection:
    """The rows of a collection, on one shelf for all and one for each value of each scope field."""

    def __init__(self, name: str, dimension: int, model: str) -> None:
        self.name, self.dimension, self.model = name, dimension, model
        self.all = Shelf(dimension)
        self._scopes: dict[tuple[str, str], Shelf] = {}

    def put(self, rows: Iterable[Row]) -> None:
        """Store rows, replacing those with their ids."""
        for row in rows:
            self.remove([row.id])
            self.all.rows[row.id] = row
            self.all.matrix = None
            for key in _keys(row):
                shelf = self._scopes.setdefault(key, Shelf(self.dimension))
                shelf.rows[row.id] = row
                shelf.matrix = None

    def remove(self, ids: Iterable[str]) -> None:
        """Remove rows; an absent id is no error."""
        for id in ids:
            row = self.all.rows.pop(id, None)
            if row is None:
                continue
            self.all.matrix = None
            for key in _keys(row):
                shelf = self._scopes[key]
                del shelf.rows[id]
                shelf.matrix = None
                if not shelf.rows:
                    del self._scopes[key]

    def clear(self) -> None:
        self.all = Shelf(self.dimension)
        self._scopes.clear()

    def shelf(self, filters: Filter | None) -> Shelf:
        """Return the smallest shelf that contains every matching row."""
        parts = filters.parts if isinstance(filters, And) else (filters,)
        found = [
            self._scopes.get((part.field, part.value)) or Shelf(self.dimension)
            for part in parts
            if isinstance(part, Condition)
            and part.operator == "eq"
            and part.field in SCOPE_FIELDS
            and isinstance(part.value, str)
        ]
        return min(found, key=lambda shelf: len(shelf.rows), default=self.all)


def _keys(row: Row) -> list[tuple[str, str]]:
    return [(name, row.payload[name]) for name in SCOPE_FIELDS if isinstance(row.payload.get(name), str)]


class MemoryVectorStore(row_checks.ListingStore):
    """Stores rows in this process; each instance has its own, and closing it deletes them."""

    name: ClassVar[str] = "memory"
    durable: ClassVar[bool] = False

    class Settings(BaseModel):
        """No settings."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._identity = str(uuid4())
        self._collections: dict[str, Collection] | None = None
        self._lock = threading.RLock()

    async def open(self) -> None:
        with self._lock:
            if self._collections is None:
                self._collections = {}

    async def close(self) -> None:
        with self._lock:
            self._collections = None

    async def identity(self) -> str:
        return self._identity

    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        row_checks.check_dimension(dimension)
        with self._lock:
            collection = self._all().setdefault(name, Collection(name, dimension, model))
            row_checks.check_same_dimension(name, collection.dimension, dimension)

    async def delete_collection(self, name: str) -> None:
        with self._lock:
            self._all().pop(name, None)

    async def list_collections(self) -> Names:
        with self._lock:
            return sorted(self._all())

    async def get_collection_info(self, name: str) -> CollectionInfo:
        with self._lock:
            collection = self._get(name)
            return CollectionInfo(name, len(collection.all.rows), collection.dimension, collection.model)

    async def reset(self) -> None:
        with self._lock:
            for collection in self._all().values():
                collection.clear()

    def _all(self) -> dict[str, Collection]:
        if self._collections is None:
            raise VectorStoreError("the vector store is not open: call open() first")
        return self._collections

    def _get(self, name: str) -> Collection:
        try:
            return self._all()[name]
        except KeyError:
            raise NoCollectionError(name) from None

    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        with self._lock:
            target = self._get(collection)
            rows = [checked_row(point, target.dimension) for point in puts]
            target.remove([row_checks.check_id(id) for id in deletes])
            target.put(rows)

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        with self._lock:
            target = self._get(collection)
            old = target.all.rows.get(row_checks.check_id(id))
            if old is None:
                raise NotFoundError(f"there is no row {id!r} in collection {collection!r}")
            point = Point(
                id, old.vector if vector is None else vector, old.payload if payload is None else dict(payload)
            )
            target.put([checked_row(point, target.dimension)])

    async def get_many(self, collection: str, ids: Sequence[str]) -> Points:
        with self._lock:
            rows = self._get(collection).all.rows
            return [rows[id].point() for id in map(row_checks.check_id, ids) if id in rows]

    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        limit = row_checks.check_limit(limit)
        with self._lock:
            target = self._get(collection)
            query = scoring.unit(row_checks.check_vector(query_vector, target.dimension, "query_vector"))
            shelf = target.shelf(filters)
            places, matrix = shelf.units()
            rows = [row for row in shelf.matching(filters) if row.vector is not None]
            scores = scoring.exact_scores(matrix[[places[row.id] for row in rows]], query)
            return _best(rows, scores, limit)

    async def keyword_search(self, collection: str, text: str, limit: int, filters: Filter | None = None) -> Hits:
        limit = row_checks.check_limit(limit)
        asked = query_words(text)
        with self._lock:
            rows = self._get(collection).shelf(filters).matching(filters)
            postings = [np.array([n for n, row in enumerate(rows) if word in row.words], np.int64) for word in asked]
            found, weights = scoring.sum_rarities(postings, len(rows))
            hits = [rows[n] for n in found]
            lengths = np.array([row.length for row in hits], np.float64)
            return _best(hits, scoring.word_scores(weights, lengths), limit)

    async def _list(self, collection: str, wanted: row_checks.Listing) -> Page:
        limit, after = wanted.limit, wanted.after
        with self._lock:
            rows = self._get(collection).shelf(wanted.filters).matching(wanted.filters)
            placed = sorted(((row_checks.place_of(row.id, row.payload), row) for row in rows), key=lambda pair: pair[0])
            left = [pair for pair in placed if after is None or pair[0] > after]
            page = left if limit is None else left[:limit]
            points = [
                row.point() if wanted.with_vectors else Point(row.id, None, row_checks.copy_payload(row.payload))
                for _, row in page
            ]
            return Page(points, row_checks.write_cursor(page[-1][0]) if len(page) < len(left) else None)

    async def count(self, collection: str, filters: Filter | None = None) -> int:
        with self._lock:
            return len(self._get(collection).shelf(filters).matching(filters))

    async def unembedded(self, collection: str, limit: int) -> Points:
        limit = row_checks.check_limit(limit)
        with self._lock:
            bare = [row for row in self._get(collection).all.rows.values() if row.vector is None]
            return [row.point() for row in sorted(bare, key=lambda row: row.id)[:limit]]


def _best(rows: Sequence[Row], scores: NDArray[np.float64], limit: int) -> Hits:
    order = sorted(range(len(rows)), key=lambda place: (-scores[place], rows[place].id))
    return [rows[place].hit(scores[place]) for place in order[:limit]]
