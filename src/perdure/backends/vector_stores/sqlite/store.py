"""The vector store in one SQLite file: payload, vector and full-text index change together; search is exact."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.sqlite_file import read_meta
from perdure.backends.validation import UserPath
from perdure.backends.vector_stores.base import (
    CollectionInfo,
    Hit,
    Hits,
    Kept,
    KeptRows,
    Names,
    Page,
    Point,
    Points,
    Shapes,
    Vector,
)
from perdure.backends.vector_stores.common.rows import (
    Listing,
    ListingStore,
    check_dimension,
    check_id,
    check_limit,
    check_vector,
)
from perdure.backends.vector_stores.common.scoring import MARGIN, exact_scores, sum_rarities, unit, word_scores
from perdure.backends.vector_stores.sqlite import database as schema
from perdure.backends.vector_stores.sqlite import maintenance, recall
from perdure.backends.vector_stores.sqlite import read as _sqlite_read
from perdure.backends.vector_stores.sqlite import write as _sqlite_write
from perdure.backends.vector_stores.sqlite.database import Collection, Database, key_text
from perdure.backends.vector_stores.sqlite.read import (
    CHUNK,
    Block,
    BlockCache,
    Part,
    Sql,
    StaleSnapshot,
    parts_of,
    payloads,
    read_units,
    translate,
)
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import Filter
from perdure.domain.text.terms import index_text, query_words

# Exact nearest neighbours inside a filter.
#
# Inside one home: rank every vector by one matrix product, then ask SQL which of the leading rows match, in growing
# chunks, until enough do; where few match, ask for all that match at once. Elsewhere: stream the vectors of the rows
# that match from the file. Both keep every row that may tie with the last, score those in float64 and break ties by
# id.

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)


_TESTED_COST = 4.0
"""What it costs to test one candidate by its n, against one row of a home read in order (measured)."""


class Match(NamedTuple):
    """A row found, ordered best first and by id."""

    loss: float
    """The score, negated."""
    id: str
    n: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a part that match: what the ways of searching ask SQL about."""

    connection: sqlite3.Connection
    collection: Collection
    part: Part
    condition: Sql

    def among(self, ns: list[int]) -> dict[int, str]:
        """The ids of those of these rows that match, by n."""
        rows = self.connection.execute(
            f"SELECT r.n, r.id FROM rows_{self.collection.number} r "
            f"WHERE r.n IN (SELECT value FROM json_each(?)) AND {self.condition.text}",
            (json.dumps(ns), *self.condition.values),
        )
        return {n: key_text(id) for n, id in rows}

    def all(self) -> dict[int, str]:
        """The ids of all rows of the part that match, by n."""
        where = self.part.span
        rows = self.connection.execute(
            f"SELECT r.n, r.id FROM rows_{self.collection.number} r WHERE {where.text} AND {self.condition.text}",
            (*where.values, *self.condition.values),
        )
        return {n: key_text(id) for n, id in rows}

    def vectors(self) -> Iterator[list[tuple[int, bytes, str]]]:
        """The n, vector and id of all rows of the part that match and have a vector, some at a time."""
        c, where = self.collection.number, self.part.span
        cursor = self.connection.execute(
            f"SELECT r.n, v.vector, r.id FROM rows_{c} r CROSS JOIN vectors_{c} v ON v.n = r.n "
            f"WHERE {where.text} AND {self.condition.text}",
            (*where.values, *self.condition.values),
        )
        while rows := cursor.fetchmany(CHUNK):
            yield rows


def search_rows(
    connection: sqlite3.Connection,
    blocks: BlockCache,
    collection: Collection,
    *,
    query: Vector,
    limit: int,
    filter: Filter | None,
) -> list[Hit]:
    """The rows of highest cosine to the unit query; StaleSnapshot where another thread has read a later moment."""
    condition = translate(filter)
    found: list[Match] = []
    for part in parts_of(connection, collection, filter):
        rows = Rows(connection, collection, part, condition)
        block = None if part.home is None else blocks.get(connection, collection, part.home)
        found += search_file(rows, query, limit) if block is None else search_block(rows, block, query, limit)
    return hits(connection, collection, sorted(found)[:limit])


def hits(connection: sqlite3.Connection, collection: Collection, found: list[Match]) -> list[Hit]:
    """The rows found with their payloads."""
    stored = payloads(connection, collection, [row.n for row in found])
    return [Hit(row.id, -row.loss, stored[row.n]) for row in found]


# ------------------------------------------------------------------ a home in memory


def search_block(rows: Rows, block: Block, query: Vector, limit: int) -> list[Match]:
    """The best rows of a home, and at least `limit` of them if so many match."""
    scores = block.rank(query)
    alive = block.alive
    ids: dict[int, str] = {}
    places: list[int] = []
    tested, above, wanted = 0, np.inf, limit + limit // 2 + 16
    floor = _nth(scores, wanted, alive)
    while tested < alive:
        fresh = np.flatnonzero((scores >= floor) & (scores < above))
        if len(fresh) * _TESTED_COST > alive:
            return _rank_all(rows, block, scores, query, limit)
        fresh = fresh[np.argsort(-scores[fresh], kind="stable")]
        ns = block.ns[fresh].tolist()
        matched = rows.among(ns)
        ids |= matched
        places += [place for place, n in zip(fresh.tolist(), ns, strict=True) if n in matched]
        tested, above = tested + len(fresh), floor
        if len(places) >= limit:
            floor = float(scores[places[limit - 1]]) - MARGIN  # below it no row can tie with the last
            if above <= floor:
                break
        else:
            share = (len(places) + 0.5) / tested
            wanted = tested + int((limit - len(places)) / share * 1.5) + 16
            floor = _nth(scores, wanted, alive)
    return _score(block, np.array(places, np.intp), ids, query)


def _nth(scores: NDArray[np.float32], wanted: int, alive: int) -> float:
    """The score of the `wanted`-th best row, or the least that a living row can have if there are not so many."""
    if wanted >= alive:
        return -2.0
    return float(np.partition(scores, len(scores) - wanted)[len(scores) - wanted])


def _rank_all(rows: Rows, block: Block, scores: NDArray[np.float32], query: Vector, limit: int) -> list[Match]:
    """The best of all rows that match, asked for at once."""
    ids = rows.all()
    places = block.positions(np.fromiter(sorted(ids), np.int64, len(ids)))
    if len(places) > limit:
        cut = np.partition(scores[places], -limit)[-limit] - MARGIN
        places = places[scores[places] >= cut]
    return _score(block, places, ids, query)


def _score(block: Block, places: NDArray[np.intp], ids: dict[int, str], query: Vector) -> list[Match]:
    ns = block.ns[places].tolist()
    scores = exact_scores(block.units[places], query).tolist()
    return [Match(-score, ids[n], n) for n, score in zip(ns, scores, strict=True)]


# ------------------------------------------------------------------ straight from the file


def search_file(rows: Rows, query: Vector, limit: int) -> list[Match]:
    """The best rows of a part whose vectors are not in memory; holds some thousand vectors at one time."""
    best: list[Match] = []
    floor = -np.inf
    for chunk in rows.vectors():
        ns, units = read_units([(row[0], row[1]) for row in chunk], rows.collection.dimension)
        near = np.flatnonzero(units @ query >= floor - MARGIN)
        scores = exact_scores(units[near], query).tolist()
        best += [
            Match(-score, key_text(chunk[place][2]), int(ns[place]))
            for place, score in zip(near.tolist(), scores, strict=True)
        ]
        if len(best) > limit:
            best = sorted(best)[:limit]
            floor = -best[-1].loss
    return best


# Keyword search: the full-text index tells which rows have a word, BM25 how much that is worth.
#
# SQLite's own bm25() counts a word over all tenants of the file for every query (80 ms at a million rows, and one
# tenant's texts would move another's scores). Here a word's rarity is that among the rows asked about, read from the
# part of the index where they lie.

_EVERYWHERE = (0, 2**63 - 1)


def keyword_search(
    connection: sqlite3.Connection, collection: Collection, text: str, limit: int, filter: Filter | None
) -> list[Hit]:
    """The rows that share words with the text, best first, equal ones by id."""
    asked = [_phrase(word) for word in query_words(text).values()]
    parts = parts_of(connection, collection, filter)
    if not asked or not parts:
        return []
    strangers, total = _universe(connection, collection, parts)
    postings = [_posting(connection, collection, parts, strangers, phrase) for phrase in asked]
    ns, weights = sum_rarities(postings, total)
    scores = word_scores(weights, _lengths(connection, collection, ns))
    condition = translate(filter)
    rows = Rows(connection, collection, Part(condition), condition)
    return hits(connection, collection, _best(rows, ns, scores, limit))


def _best(rows: Rows, ns: NDArray[np.int64], scores: NDArray[np.float64], limit: int) -> list[Match]:
    """The best rows that match, tested in the order of their scores until there are enough."""
    order = np.argsort(-scores, kind="stable")
    losses = -scores[order]
    found: list[Match] = []
    tested, size = 0, limit + limit // 2 + 16
    while tested < len(order) and len(found) < limit:
        last = losses[min(tested + size, len(order)) - 1]
        stop = int(np.searchsorted(losses, last, side="right"))  # rows of one score together: ties go by id
        chunk = ns[order[tested:stop]].tolist()
        matched = rows.among(chunk)
        found += [
            Match(loss, matched[n], n)
            for n, loss in zip(chunk, losses[tested:stop].tolist(), strict=True)
            if n in matched
        ]
        tested, size = stop, size * 4
    return sorted(found)[:limit]


def _phrase(word: str) -> str:
    """The word in FTS5's query language, where it can be nothing but a word."""
    return '"' + index_text(word).replace('"', '""') + '"'


def _universe(
    connection: sqlite3.Connection, collection: Collection, parts: list[Part]
) -> tuple[NDArray[np.int64] | None, int]:
    """Of the parts that are no home the rows' n (None where a range tells them), and how many rows all parts have."""
    c = collection.number
    total = 0
    strangers: list[NDArray[np.int64]] = []
    for part in parts:
        if part.home is not None:
            total += part.home.count
        elif not part.where.values:
            return None, connection.execute(f"SELECT ifnull(sum(count), 0) FROM homes_{c}").fetchone()[0]
        else:
            rows = connection.execute(f"SELECT r.n FROM rows_{c} r WHERE {part.where.text}", part.where.values)
            strangers.append(np.sort(np.fromiter((n for (n,) in rows), np.int64)))
            total += len(strangers[-1])
    return (strangers[0] if strangers else None), total


def _posting(
    connection: sqlite3.Connection,
    collection: Collection,
    parts: list[Part],
    strangers: NDArray[np.int64] | None,
    phrase: str,
) -> NDArray[np.int64]:
    """The n of the rows of the parts that have the phrase."""
    found = []
    for part in parts:
        if part.home is not None:
            found.append(_with_phrase(connection, collection, phrase, part.home.span))
        elif not part.where.values:
            found.append(_with_phrase(connection, collection, phrase, _EVERYWHERE))
        elif strangers is not None and len(strangers):
            everywhere = _with_phrase(connection, collection, phrase, (int(strangers[0]), int(strangers[-1])))
            found.append(np.intersect1d(everywhere, strangers, assume_unique=True))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _with_phrase(
    connection: sqlite3.Connection, collection: Collection, phrase: str, span: tuple[int, int]
) -> NDArray[np.int64]:
    table = f"text_{collection.number}"
    rows = connection.execute(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ?", (phrase, *span)
    )
    return np.fromiter((n for (n,) in rows), np.int64)


def _lengths(connection: sqlite3.Connection, collection: Collection, ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many words each row's text has, from the index's own table of sizes (FTS5 documentation, section 9.5)."""
    rows = connection.execute(
        f"SELECT id, sz FROM text_{collection.number}_docsize WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(ns.tolist()),),
    ).fetchall()
    lengths = np.ones(len(ns), np.float64)
    places = np.searchsorted(ns, np.fromiter((n for n, _ in rows), np.int64, len(rows)))
    lengths[places] = np.fromiter((_varint(size) for _, size in rows), np.float64, len(rows))
    return lengths


def _varint(data: bytes) -> int:
    """SQLite's variable-length integer: seven bits a byte, the highest bit says that more follow."""
    value = 0
    for byte in data:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value


T = TypeVar("T")
_log = logging.getLogger("perdure")


class SqliteVectorStore(ListingStore):
    """Keeps rows in one file, which threads, event loops and processes may share; survives kill -9 at any instant."""

    name: ClassVar[str] = "sqlite"

    class Settings(BaseModel):
        """Where the file lies and what it may use."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        path: UserPath = Field(Path("~/.memory/memories.db"), validate_default=True)
        """The file; made with its folder when it does not exist, readable by this user alone."""
        busy_timeout: float = Field(10.0, ge=0)
        """Seconds to wait for another process that is writing."""
        cache_mb: int = Field(256, ge=0)
        """Megabytes of vectors that may be kept in memory."""
        scrub_mb: int = Field(256, ge=0)
        """Megabytes up to which the file is written anew at once when something is erased; a larger one is at close."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._opening = threading.Lock()
        self._open: tuple[Database, BlockCache] | None = None
        self._scrub_asked = False  # the file remembers too, but for a scrub that could not even write that down

    # ------------------------------------------------------------------ life
    async def open(self) -> None:
        """Open the file, and make it and its folder if they are missing."""
        await run_unit(self._open_file)

    def _open_file(self) -> None:
        with self._opening:
            if self._open is None:
                database = Database(self.settings.path, self.settings.busy_timeout)
                self._open = database, BlockCache(self.settings.cache_mb * 1024 * 1024)

    @property
    def read_only(self) -> bool:
        """Whether the file, or its folder, may not be written."""
        return self._open is not None and self._open[0].read_only

    async def close(self) -> None:
        """Finish a scrub that is pending, if nobody prevents it, and close the file."""
        await run_unit(self._close_file)

    def _close_file(self) -> None:
        with self._opening:
            if self._open is None:
                return
            database, _ = self._open
            self._open = None
            try:
                if database.read_only:
                    return
                done = maintenance.scrub(database) if self._scrub_asked else maintenance.finish_scrub(database)
                if not done:
                    _log.warning("deleted text may still be read in %s: another process holds it", database.path)
            except VectorStoreError as error:
                _log.warning("a scrub of %s may be left to do: %s", database.path, error)
            finally:
                database.close()

    async def identity(self) -> str:
        """The UUID that the file was made with."""
        return str(await self._read(lambda connection: read_meta(connection, "identity")))

    def stored_collections(self) -> Shapes:
        """The collections in the file, read without opening the store; empty where that cannot be told."""
        return maintenance.stored_collections(self.settings.path)

    # ------------------------------------------------------------------ collections
    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        """Make a collection; one that exists with the same dimension is left alone, with another is a ConfigError."""
        check_dimension(dimension)
        await self._write(lambda connection: schema.create_collection(connection, name, dimension, model))

    async def delete_collection(self, name: str) -> None:
        """Remove a collection and its rows."""
        await self._write(lambda connection: schema.delete_collection(connection, name))

    async def list_collections(self) -> Names:
        """The names of all collections, sorted."""
        found = await self._read(schema.all_collections)
        return [collection.name for collection in found]

    async def get_collection_info(self, name: str) -> CollectionInfo:
        """Row count, dimension and model of a collection."""

        def read(connection: sqlite3.Connection, found: Collection) -> CollectionInfo:
            count = _sqlite_read.count_rows(connection, found, None)
            return CollectionInfo(name, count, found.dimension, found.model)

        return await self._read_in(name, read)

    async def reset(self) -> None:
        """Remove every row of every collection, and keep the collections."""

        def write(connection: sqlite3.Connection) -> None:
            for collection in schema.all_collections(connection):
                schema.empty_collection(connection, collection)

        await self._write(write)

    # ------------------------------------------------------------------ rows
    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        """Write rows whole and delete others, all or nothing; an id that is in both is written."""
        points, gone = list(puts), [check_id(id) for id in deletes]

        def apply() -> None:
            database = self._database()
            with database.reading() as connection:
                known = schema.find_collection(connection, collection)
            records = _sqlite_write.to_records(points, known.dimension)  # others may write meanwhile
            with database.writing() as connection:
                found = schema.find_collection(connection, collection)
                if found.dimension != known.dimension:  # it was deleted and made anew in between
                    records = _sqlite_write.to_records(points, found.dimension)
                _sqlite_write.write(connection, found, records, gone)

        await run_unit(apply)

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Replace the vector, the whole payload, or both; None leaves it. An absent id is a NotFoundError."""
        await self._write(
            lambda connection: _sqlite_write.update(
                connection, schema.find_collection(connection, collection), id, vector, payload
            )
        )

    async def get_many(self, collection: str, ids: Sequence[str]) -> Points:
        """The rows of the ids that exist, in the order asked."""
        return await self._read_in(collection, _sqlite_read.get_many, list(ids))

    async def payloads(self, collection: str, ids: Sequence[str]) -> Points:
        """The same without vectors."""
        return await self._read_in(collection, _sqlite_read.get_many, list(ids), False)

    # ------------------------------------------------------------------ reading
    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        """The rows of highest cosine to the query, best first, equal ones by id."""
        limit = check_limit(limit)

        def search(connection: sqlite3.Connection, found: Collection) -> Hits:
            query = unit(check_vector(query_vector, found.dimension, "query_vector"))
            return search_rows(connection, self._blocks(), found, query=query, limit=limit, filter=filters)

        return await self._read_in(collection, search)

    async def keyword_search(self, collection: str, text: str, limit: int, filters: Filter | None = None) -> Hits:
        """The rows that share words with the text, by BM25, best first, equal ones by id."""
        limit = check_limit(limit)
        return await self._read_in(collection, keyword_search, text, limit, filters)

    async def _list(self, collection: str, wanted: Listing) -> Page:
        return await self._read_in(collection, _sqlite_read.list_rows, wanted)

    async def count(self, collection: str, filters: Filter | None = None) -> int:
        """How many rows match."""
        return await self._read_in(collection, _sqlite_read.count_rows, filters)

    async def unembedded(self, collection: str, limit: int) -> Points:
        """Rows that still have no vector, at most `limit`."""
        limit = check_limit(limit)
        return await self._read_in(collection, _sqlite_read.unembedded, limit)

    # ------------------------------------------------------------------ what recall keeps beside rows
    async def kept_rows(self, collection: str, filters: Filter | None = None) -> KeptRows | None:
        """The matching rows with what was kept beside them; None of an older file that may not be written."""
        return await self._read_in(collection, recall.kept_rows, filters) if self._keeps else None

    async def keep(self, collection: str, rows: Mapping[str, tuple[str, Kept]]) -> None:
        """Keep beside rows what was made of them; in a file that may not be written nothing is kept."""
        if not self.read_only:
            await self._write_in(collection, recall.keep, rows)

    async def words_without_vector(self, collection: str, limit: int) -> Names:
        """Words of kept rows whose vectors nobody has given yet."""
        return await self._read_in(collection, recall.without_vector, limit) if self._keeps else []

    async def words(self, collection: str, keys: Sequence[int]) -> Mapping[str, Vector | None]:
        """The words of these keys that are here, each with its vector if it has one."""
        return await self._read_in(collection, recall.words, keys) if self._keeps else {}

    async def give_words(self, collection: str, vectors: Mapping[str, Vector]) -> None:
        """Give words that are here their vectors; in a file that may not be written they stay without."""
        if not self.read_only:
            await self._write_in(collection, recall.give_words, vectors)

    @property
    def _keeps(self) -> bool:
        return self._database().version >= 2

    # ------------------------------------------------------------------ durability
    async def sync(self) -> None:
        """Return once everything applied so far would survive power loss."""
        await run_unit(lambda: maintenance.sync(self._database()))

    async def scrub(self) -> bool:
        """Make deleted text unreadable in the file; False if it is large or held by another: a later close does it."""
        return await run_unit(self._scrub_file)

    def _scrub_file(self) -> bool:
        database = self._database()
        self._scrub_asked = True
        if database.path.stat().st_size > self.settings.scrub_mb * 1024 * 1024:
            maintenance.scrub_later(database)
        else:
            self._scrub_asked = not maintenance.scrub(database)
        return not self._scrub_asked

    async def check(self, collection: str) -> Names:
        """What disagrees inside the file, a sentence each."""
        return await self._read_in(collection, maintenance.check)

    # ------------------------------------------------------------------ threads
    def _database(self) -> Database:
        if self._open is None:
            raise VectorStoreError(f"the vector store {self.settings.path} is not open: call open() first")
        return self._open[0]

    def _blocks(self) -> BlockCache:
        if self._open is None:
            raise VectorStoreError(f"the vector store {self.settings.path} was closed meanwhile: open it again")
        return self._open[1]

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Run in a thread, inside a read transaction."""

        def run() -> T:
            while True:
                try:
                    with self._database().reading() as connection:
                        return read(connection)
                except StaleSnapshot:
                    continue  # the next moment is at least the one that the other thread saw

        return await run_blocking(run)

    async def _read_in(self, name: str, read: Callable[..., T], *arguments: Any) -> T:
        """Run in a thread, inside a read transaction, on the collection of that name."""
        return await self._read(
            lambda connection: read(connection, schema.find_collection(connection, name), *arguments)
        )

    async def _write_in(self, name: str, write: Callable[..., None], *arguments: Any) -> None:
        """Run in a thread, inside a write transaction, on the collection of that name."""
        await self._write(lambda connection: write(connection, schema.find_collection(connection, name), *arguments))

    async def _write(self, write: Callable[[sqlite3.Connection], None]) -> None:
        """Run in a thread, inside a write transaction."""

        def run() -> None:
            with self._database().writing() as connection:
                write(connection)

        await run_unit(run)
