"""The port of vector stores, which hold memories: the vector and the whole payload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from perdure.domain.text.terms import key_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perdure.domain.filter import Filter

    Vector: TypeAlias = NDArray[np.float32]  # of the collection's dimension; it need not be of length 1


@dataclass(frozen=True, slots=True)
class Kept:
    """Data that recall derives from a row when it is written, so that searches need not parse the text again."""

    data: bytes
    """Opaque to the store."""
    words: tuple[str, ...]
    """The words whose vectors recall compares; a store keeps each word once, for all of a collection's rows."""

    @property
    def keys(self) -> bytes:
        """Return the words by `key_of`, as little-endian 64-bit integers."""
        import numpy as np

        return np.array([key_of(word) for word in self.words], "<i8").tobytes()


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows of a store for recall, in any order."""

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
        """Return the existing vectors by word."""
        import numpy as np

        return {self.texts[place]: self.vectors[place] for place in np.flatnonzero(self.given).tolist()}


@dataclass(frozen=True, slots=True)
class Point:
    """One row: id, vector (None while no embedder could make one) and JSON payload."""

    id: str
    vector: Vector | None
    payload: dict[str, Any]
    kept: Kept | None = None
    """Written beside the row by stores that keep it; never read back here."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result; `score` is the raw cosine, or the raw keyword score (higher is better)."""

    id: str
    score: float
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """Rows by (created_at, id); `next_cursor` continues after the last, None at the end."""

    points: list[Point]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection's data; `model` labels the embedder of its vectors ("" if unknown)."""

    name: str
    count: int
    dimension: int
    model: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The length of a collection's vectors, and the label of their model, or ""."""

    dimension: int
    model: str = ""


Shapes: TypeAlias = dict[str, Shape]  # collections by their names
Points: TypeAlias = list[Point]
"""Rows in an order that the method tells; an alias because the port has a method named `list`."""
Hits: TypeAlias = list[Hit]  # hits, best first
Names: TypeAlias = list[str]  # names or sentences, in order
STREAMED = 500  # rows in a batch of `stream`


def __getattr__(name: str) -> Any:
    """Make `Vector` for those who import it at run time: opening a memory must not wait for NumPy."""
    if name != "Vector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import numpy as np
    from numpy.typing import NDArray

    return NDArray[np.float32]


class VectorStore(ABC):
    """Holds each memory completely and is the truth for it.

    Methods may raise VectorStoreError, and do so for a missing collection. A vector of the wrong length is an
    InvalidInputError. `insert` of an existing id replaces the whole row. Searches are exact inside the filter: they
    return `limit` rows if so many match.
    """

    name: ClassVar[str]
    """The provider's name."""
    durable: ClassVar[bool] = True
    """Whether rows outlive the process; a store that says no is used without a journal."""
    scrub_note: ClassVar[str] = ""
    """Where erased text may be that `scrub` cannot reach, for the report of an erasure."""

    @property
    def read_only(self) -> bool:
        """Whether the open store can only be read; writing methods then raise ReadOnlyError."""
        return False

    @abstractmethod
    async def open(self) -> None:
        """Connect, and create what is missing; further calls do nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Finish pending work and release all resources; a closed store may be opened again."""

    @abstractmethod
    async def identity(self) -> str:
        """Return the physical store's id, which is kept inside it and named in journal entries."""

    def check_place(self) -> None:
        """Raise VectorStoreError if the open store was removed or replaced where it lies; blocks for a moment."""

    def stored_collections(self) -> Shapes:
        """Return the collections on this machine by name, without connecting; empty if unknown."""
        return {}

    def stored_dimension(self, collection: str) -> int | None:
        """Return the dimension of a collection on this machine, without connecting; None if unknown."""
        found = self.stored_collections().get(collection)
        return None if found is None else found.dimension

    @abstractmethod
    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        """Create a collection; ConfigError if it exists with another dimension."""

    @abstractmethod
    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its rows; a missing one is no error."""

    @abstractmethod
    async def list_collections(self) -> Names:
        """Return the names of all collections, sorted."""

    @abstractmethod
    async def get_collection_info(self, name: str) -> CollectionInfo:
        """Return row count, dimension and model of a collection."""

    @abstractmethod
    async def reset(self) -> None:
        """Delete every row of every collection, and keep the collections."""

    @abstractmethod
    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        """Write whole rows and delete others, all or nothing, idempotent; deleting an absent id is no error."""

    async def insert(self, collection: str, id: str, vector: Vector | None, payload: Mapping[str, Any]) -> None:
        """Write one whole row."""
        await self.apply(collection, [Point(id, vector, dict(payload))])

    async def insert_many(self, collection: str, points: Sequence[Point]) -> None:
        """Write many rows, all or nothing."""
        await self.apply(collection, points)

    @abstractmethod
    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Replace the vector, the whole payload, or both; None keeps it. NotFoundError for an absent id."""

    async def delete(self, collection: str, id: str) -> None:
        """Delete one row; an absent id is no error."""
        await self.apply(collection, (), [id])

    async def recount(self, collection: str, puts: Sequence[Point]) -> None:
        """Write rows that differ only in their recall counts, so that search results stay the same."""
        await self.apply(collection, puts)

    @abstractmethod
    async def get_many(self, collection: str, ids: Sequence[str]) -> Points:
        """Return the existing rows of the ids, in the given order."""

    async def payloads(self, collection: str, ids: Sequence[str]) -> Points:
        """Return the same; vectors may be None if that is cheaper."""
        return await self.get_many(collection, ids)

    async def get(self, collection: str, id: str) -> Point | None:
        """Return one row, or None."""
        found = await self.get_many(collection, [id])
        return found[0] if found else None

    @abstractmethod
    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        """Return the rows with the highest cosine to the query, best first, ties by id; only rows with a vector."""

    async def keyword_search(
        self, collection: str, text: str, limit: int, filters: Filter | None = None
    ) -> Hits | None:
        """Return the rows that share words with the text, best first; None if the engine has no keyword search."""
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
        """Return rows by payload (created_at, id), stable during writes; without a limit all."""

    @abstractmethod
    async def count(self, collection: str, filters: Filter | None = None) -> int:
        """Return how many rows match."""

    async def stream(self, collection: str, *, with_vectors: bool = False) -> AsyncIterator[Points]:
        """Yield every row once, in batches of any order; rows written meanwhile may be missing."""
        cursor: str | None = None
        while True:
            page = await self.list(collection, None, STREAMED, cursor, with_vectors=with_vectors)
            if page.points:
                yield page.points
            cursor = page.next_cursor
            if cursor is None:
                return

    async def unembedded(self, collection: str, limit: int) -> Points:
        """Return rows without a vector, at most `limit`; empty if the store cannot hold such rows."""
        return []

    async def kept_rows(self, collection: str, filters: Filter | None = None) -> KeptRows | None:
        """Return the matching rows with their kept data; None from a store that keeps none: `list` its rows."""
        return None

    async def keep(self, collection: str, rows: Mapping[str, tuple[str, Kept]]) -> None:
        """Keep derived data with rows, by id, with the `updated_at` it was made from; skip changed rows."""

    async def words(self, collection: str, keys: Sequence[int]) -> KeptWords:
        """Return the existing words of these keys, in any order."""
        import numpy as np

        return KeptWords([], [], np.zeros((0, 0), np.float32), np.zeros(0, np.bool_))

    async def give_words(self, collection: str, vectors: Mapping[str, Vector]) -> None:
        """Set the vectors of existing words; others are skipped."""

    async def sync(self) -> None:
        """Return once everything applied so far survives power loss."""

    async def scrub(self) -> bool:
        """Make deleted text unreadable in the store's bytes; False if a later close does it."""
        return True

    async def check(self, collection: str) -> Names:
        """Return one sentence for each inconsistency (rows, text index, counts); only reads."""
        return []
