"""The vector store in this process's memory: exact, for development and tests (spec 000 §6.2)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from perdure.backends.vector_stores._cosine import exact_scores, unit
from perdure.backends.vector_stores._memory_rows import Collection, Row, checked_row
from perdure.backends.vector_stores._rows import (
    check_dimension,
    check_id,
    check_limit,
    check_vector,
    copy_payload,
    place_of,
    read_cursor,
    write_cursor,
)
from perdure.backends.vector_stores._words import sum_rarities, word_scores
from perdure.backends.vector_stores.base import (
    CollectionInfo,
    Hits,
    Names,
    Page,
    Point,
    Points,
    Vector,
    VectorStore,
)
from perdure.domain.errors import ConfigError, NoCollectionError, NotFoundError, VectorStoreError
from perdure.domain.filter import Filter
from perdure.domain.terms import query_words


class MemoryVectorStore(VectorStore):
    """Keeps rows in this process; each instance has its own, and closing it lets them go."""

    name: ClassVar[str] = "memory"
    durable: ClassVar[bool] = False

    class Settings(BaseModel):
        """Nothing to set."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._identity = str(uuid4())
        self._collections: dict[str, Collection] | None = None
        self._lock = threading.RLock()

    async def open(self) -> None:
        """Make the store usable."""
        with self._lock:
            if self._collections is None:
                self._collections = {}

    async def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._collections = None

    async def identity(self) -> str:
        """An id of this instance."""
        return self._identity

    # ------------------------------------------------------------------ collections
    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        """Make a collection; one that exists with the same dimension is left alone, with another is a ConfigError."""
        check_dimension(dimension)
        with self._lock:
            collection = self._all().setdefault(name, Collection(name, dimension, model))
            if collection.dimension != dimension:
                raise ConfigError(
                    f"collection {name!r} holds vectors of dimension {collection.dimension}, not {dimension}: "
                    "use the embedder that filled it, or another collection",
                    field="dimension",
                    value=dimension,
                )

    async def delete_collection(self, name: str) -> None:
        """Remove a collection and its rows."""
        with self._lock:
            self._all().pop(name, None)

    async def list_collections(self) -> Names:
        """The names of all collections, sorted."""
        with self._lock:
            return sorted(self._all())

    async def get_collection_info(self, name: str) -> CollectionInfo:
        """Row count, dimension and model of a collection."""
        with self._lock:
            collection = self._get(name)
            return CollectionInfo(name, len(collection.all.rows), collection.dimension, collection.model)

    async def reset(self) -> None:
        """Remove every row of every collection, and keep the collections."""
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

    # ------------------------------------------------------------------ rows
    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        """Write rows whole and delete others, all or nothing; an id that is in both is written."""
        with self._lock:
            target = self._get(collection)
            rows = [checked_row(point, target.dimension) for point in puts]
            target.remove([check_id(id) for id in deletes])
            target.put(rows)

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Replace the vector, the whole payload, or both; None leaves it. An absent id is a NotFoundError."""
        with self._lock:
            target = self._get(collection)
            old = target.all.rows.get(check_id(id))
            if old is None:
                raise NotFoundError(f"there is no row {id!r} in collection {collection!r}")
            point = Point(
                id, old.vector if vector is None else vector, old.payload if payload is None else dict(payload)
            )
            target.put([checked_row(point, target.dimension)])

    async def get_many(self, collection: str, ids: Sequence[str]) -> Points:
        """The rows of the ids that exist, in the order asked."""
        with self._lock:
            rows = self._get(collection).all.rows
            return [rows[id].point() for id in map(check_id, ids) if id in rows]

    # ------------------------------------------------------------------ reading
    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        """The rows of highest cosine to the query, best first, equal ones by id."""
        limit = check_limit(limit)
        with self._lock:
            target = self._get(collection)
            query = unit(check_vector(query_vector, target.dimension, "query_vector"))
            shelf = target.shelf(filters)
            places, matrix = shelf.units()
            rows = [row for row in shelf.matching(filters) if row.vector is not None]
            scores = exact_scores(matrix[[places[row.id] for row in rows]], query)
            return _best(rows, scores, limit)

    async def keyword_search(self, collection: str, text: str, limit: int, filters: Filter | None = None) -> Hits:
        """The rows that share words with the text, by BM25, best first, equal ones by id."""
        limit = check_limit(limit)
        asked = query_words(text)
        with self._lock:
            rows = self._get(collection).shelf(filters).matching(filters)
            postings = [np.array([n for n, row in enumerate(rows) if word in row.words], np.int64) for word in asked]
            found, weights = sum_rarities(postings, len(rows))
            hits = [rows[n] for n in found]
            lengths = np.array([row.length for row in hits], np.float64)
            return _best(hits, word_scores(weights, lengths), limit)

    async def list(
        self,
        collection: str,
        filters: Filter | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        *,
        with_vectors: bool = False,
    ) -> Page:
        """Rows in the order of payload (created_at, id), stable while others write."""
        limit = check_limit(limit)
        after = None if cursor is None else read_cursor(cursor)
        with self._lock:
            rows = self._get(collection).shelf(filters).matching(filters)
            placed = sorted(((place_of(row.id, row.payload), row) for row in rows), key=lambda pair: pair[0])
            left = [pair for pair in placed if after is None or pair[0] > after]
            page = left if limit is None else left[:limit]
            points = [
                row.point() if with_vectors else Point(row.id, None, copy_payload(row.payload)) for _, row in page
            ]
            return Page(points, write_cursor(page[-1][0]) if len(page) < len(left) else None)

    async def count(self, collection: str, filters: Filter | None = None) -> int:
        """How many rows match."""
        with self._lock:
            return len(self._get(collection).shelf(filters).matching(filters))

    async def unembedded(self, collection: str, limit: int) -> Points:
        """Rows that still have no vector, at most `limit`, by id."""
        limit = check_limit(limit)
        with self._lock:
            bare = [row for row in self._get(collection).all.rows.values() if row.vector is None]
            return [row.point() for row in sorted(bare, key=lambda row: row.id)[:limit]]


def _best(rows: Sequence[Row], scores: NDArray[np.float64], limit: int) -> Hits:
    order = sorted(range(len(rows)), key=lambda place: (-scores[place], rows[place].id))
    return [rows[place].hit(scores[place]) for place in order[:limit]]
