"""The port of vector stores: where memories live, vector and whole payload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from perdure.domain.text.terms import key_of

if TYPE_CHECKING:
    from perdure.domain.filter import Filter

Vector = NDArray[np.float32]
"""One float32 vector of the collection's dimension; it need not be of length 1."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What recall reads out of a row when it is written, so that no search has to read it out of the text again."""

    data: bytes
    """Opaque to the store."""
    words: tuple[str, ...]
    """The words whose vectors recall compares; a store keeps each word once, for all of a collection's rows."""

    @property
    def keys(self) -> bytes:
        """The words by `key_of`, as little-endian 64-bit integers."""
        return np.array([key_of(word) for word in self.words], "<i8").tobytes()


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows of a store as recall takes them in, in any order."""

    ids: list[str]
    updated: list[str]
    """`updated_at` of each row."""
    data: list[bytes | None]
    """`Kept.data` of each row; None where it was written without."""
    words: list[bytes]
    """`Kept.keys` of each row."""
    vectors: NDArray[np.float32]
    """Shape (rows, dimension), as they were given; zeros for a row without one; the caller may change it."""


@dataclass(frozen=True, slots=True)
class KeptWords:
    """Words of a collection's rows, with their vectors."""

    keys: list[int]
    """Of each word, by `key_of`."""
    texts: list[str]
    vectors: NDArray[np.float32]
    """Shape (words, dimension); zeros for a word whose vector nobody has given yet."""
    given: NDArray[np.bool_]
    """Which have one."""

    def with_vector(self) -> dict[str, Vector]:
        """The vectors that there are, by the words."""
        return {self.texts[place]: self.vectors[place] for place in np.flatnonzero(self.given).tolist()}


@dataclass(frozen=True, slots=True)
class Point:
    """One row of a store: id, vector (None while no embedder could make one) and JSON payload."""

    id: str
    vector: Vector | None
    payload: dict[str, Any]
    kept: Kept | None = None
    """Written beside the row by stores that keep it; never read back here."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A row found by a search; `score` is the raw cosine, or the raw keyword score (higher is better)."""

    id: str
    score: float
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the order of (created_at, id); `next_cursor` continues after the last, None at the end."""

    points: list[Point]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """What a store knows of a collection; `model` labels the embedder whose vectors it holds ("" if unknown)."""

    name: str
    count: int
    dimension: int
    model: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What a collection was made for: the length of its vectors, and the label of the model that makes them, or ""."""

    dimension: int
    model: str = ""


Shapes: TypeAlias = dict[str, Shape]
"""Collections by their names."""
Points: TypeAlias = list[Point]
"""Rows in an order that the method tells; an alias because the port has a method named `list`."""
Hits: TypeAlias = list[Hit]
"""Hits, best first."""
Names: TypeAlias = list[str]
"""Names or sentences, in order."""

STREAMED = 500
"""Rows in a batch of `stream`."""


class VectorStore(ABC):
    """Holds each memory whole and is the truth for it.

    All methods may raise VectorStoreError, and raise it for a collection that does not exist. A vector whose length is
    not the collection's dimension is an InvalidInputError. `insert` of an id that exists replaces the row whole.
    Searches are exact inside the given filter: they return `limit` rows whenever so many match.
    """

    name: ClassVar[str]
    """The provider's name."""
    durable: ClassVar[bool] = True
    """Whether rows outlive the process; a store that says no is used without a journal."""
    scrub_note: ClassVar[str] = ""
    """Where erased text may be that `scrub` cannot reach, for the report of an erasure."""

    @property
    def read_only(self) -> bool:
        """Whether rows can only be read where the open store lies: then all that writes is a ReadOnlyError."""
        return False

    @abstractmethod
    async def open(self) -> None:
        """Connect, and make what is missing; further calls do nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is pending and let go of every resource; a closed store may be opened again."""

    @abstractmethod
    async def identity(self) -> str:
        """An id of the physical store, kept inside it, by which journal entries name it."""

    def stored_collections(self) -> Shapes:
        """What lies on this machine, by name, read without connecting; empty where that cannot be told."""
        return {}

    def stored_dimension(self, collection: str) -> int | None:
        """The dimension of a collection that lies on this machine, without connecting; None if that cannot be told."""
        found = self.stored_collections().get(collection)
        return None if found is None else found.dimension

    @abstractmethod
    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        """Make a collection; one that exists with the same dimension is left alone, with another is a ConfigError."""

    @abstractmethod
    async def delete_collection(self, name: str) -> None:
        """Remove a collection and its rows; one that does not exist is no error."""

    @abstractmethod
    async def list_collections(self) -> Names:
        """The names of all collections, sorted."""

    @abstractmethod
    async def get_collection_info(self, name: str) -> CollectionInfo:
        """Row count, dimension and model of a collection."""

    @abstractmethod
    async def reset(self) -> None:
        """Remove every row of every collection, and keep the collections."""

    @abstractmethod
    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        """Write rows whole and delete others, all or nothing, idempotent; deleting an absent id is no error."""

    async def insert(self, collection: str, id: str, vector: Vector | None, payload: Mapping[str, Any]) -> None:
        """Write one row whole."""
        await self.apply(collection, [Point(id, vector, dict(payload))])

    async def insert_many(self, collection: str, points: Sequence[Point]) -> None:
        """Write many rows, all or nothing."""
        await self.apply(collection, points)

    @abstractmethod
    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Replace the vector, the whole payload, or both; None leaves it. An absent id is a NotFoundError."""

    async def delete(self, collection: str, id: str) -> None:
        """Delete one row; an absent id is no error."""
        await self.apply(collection, (), [id])

    async def recount(self, collection: str, puts: Sequence[Point]) -> None:
        """Write rows that differ from what stands in how often they were recalled alone: what was found stays found."""
        await self.apply(collection, puts)

    @abstractmethod
    async def get_many(self, collection: str, ids: Sequence[str]) -> Points:
        """The rows of the ids that exist, in the order asked."""

    async def payloads(self, collection: str, ids: Sequence[str]) -> Points:
        """The same, but for the vectors, which may be None where leaving them out is cheaper."""
        return await self.get_many(collection, ids)

    async def get(self, collection: str, id: str) -> Point | None:
        """One row, or None."""
        found = await self.get_many(collection, [id])
        return found[0] if found else None

    @abstractmethod
    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        """The rows of highest cosine to the query, best first, equal ones by id; rows without a vector are out."""

    async def keyword_search(
        self, collection: str, text: str, limit: int, filters: Filter | None = None
    ) -> Hits | None:
        """The rows that share words with the text, best first, or None where the engine has no keyword search."""
        return None

    @abstractmethod
    async def list(
        self,
        collection: str,
        filters: Filter | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        *,
        with_vectors: bool = False,
    ) -> Page:
        """Rows in the order of payload (created_at, id), stable while others write; no limit means all."""

    @abstractmethod
    async def count(self, collection: str, filters: Filter | None = None) -> int:
        """How many rows match."""

    async def stream(self, collection: str, *, with_vectors: bool = False) -> AsyncIterator[Points]:
        """Every row once, in batches and any order; of rows that others write meanwhile some may be missed."""
        cursor: str | None = None
        while True:
            page = await self.list(collection, None, STREAMED, cursor, with_vectors=with_vectors)
            if page.points:
                yield page.points
            cursor = page.next_cursor
            if cursor is None:
                return

    async def unembedded(self, collection: str, limit: int) -> Points:
        """Rows that still have no vector, at most `limit`; empty where a store cannot hold such rows."""
        return []

    async def kept_rows(self, collection: str, filters: Filter | None = None) -> KeptRows | None:
        """The matching rows with what was kept beside them; None from a store that keeps nothing: `list` its rows."""
        return None

    async def keep(self, collection: str, rows: Mapping[str, tuple[str, Kept]]) -> None:
        """Keep beside rows, by their ids, what was made of them; each goes with the `updated_at` that it was made of,
        and a row that has another one by now is left alone."""

    async def words(self, collection: str, keys: Sequence[int]) -> KeptWords:
        """The words of these keys that the store has, in any order."""
        return KeptWords([], [], np.zeros((0, 0), np.float32), np.zeros(0, np.bool_))

    async def give_words(self, collection: str, vectors: Mapping[str, Vector]) -> None:
        """Give words that the store has their vectors; others are left out."""

    async def sync(self) -> None:
        """Return once everything applied so far would survive power loss."""

    async def scrub(self) -> bool:
        """Make deleted text unreadable in the store's own bytes; False if that must wait: a later close does it."""
        return True

    async def check(self, collection: str) -> Names:
        """What disagrees inside the store (rows, text index, counts), a sentence each; only reads."""
        return []
