"""Search in the SQLite file: exact nearest neighbours, and keywords by BM25, both inside a filter."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import (
    Hit,
    Vector,
)
from perdure.backends.vector_stores.common.scoring import MARGIN, exact_scores, sum_rarities, word_scores
from perdure.backends.vector_stores.sqlite.database import Collection, key_text
from perdure.backends.vector_stores.sqlite.read import (
    CHUNK,
    Block,
    BlockCache,
    Part,
    Sql,
    parts_of,
    payloads,
    read_units,
    translate,
)
from perdure.domain.filter import Filter
from perdure.domain.text.terms import index_text, query_words

# Exact nearest neighbours inside a filter.
#
# Inside one home: rank every vector by one matrix product, then ask SQL which of the leading rows match, in growing
# chunks, until enough do; where few match, ask for all that match at once. Elsewhere: stream the vectors of the rows
# that match from the file. Both keep every row that may tie with the last, score those in float64 and break ties by
# id.

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)


_TESTED_COST = 4.0  # what it costs to test one candidate by its n, against one row of a home read in order (measured)


class Match(NamedTuple):
    """A row found, ordered best first and by id."""

    loss: float  # the score, negated
    id: str
    n: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The matching rows of a part, and the SQL queries for them."""

    connection: sqlite3.Connection
    collection: Collection
    part: Part
    condition: Sql

    def among(self, ns: list[int]) -> dict[int, str]:
        """Return the ids of the matching rows among these, by n."""
        rows = self.connection.execute(
            f"SELECT r.n, r.id FROM rows_{self.collection.number} r "
            f"WHERE r.n IN (SELECT value FROM json_each(?)) AND {self.condition.text}",
            (json.dumps(ns), *self.condition.values),
        )
        return {n: key_text(id) for n, id in rows}

    def all(self) -> dict[int, str]:
        """Return the ids of all matching rows of the part, by n."""
        where = self.part.span
        rows = self.connection.execute(
            f"SELECT r.n, r.id FROM rows_{self.collection.number} r WHERE {where.text} AND {self.condition.text}",
            (*where.values, *self.condition.values),
        )
        return {n: key_text(id) for n, id in rows}

    def vectors(self) -> Iterator[list[tuple[int, bytes, str]]]:
        """Yield n, vector and id of all matching rows of the part with a vector, some at a time."""
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
    """Return the rows with the highest cosine to the unit query; StaleSnapshot if the block is newer."""
    condition = translate(filter)
    found: list[Match] = []
    for part in parts_of(connection, collection, filter):
        rows = Rows(connection, collection, part, condition)
        block = None if part.home is None else blocks.get(connection, collection, part.home)
        found += search_file(rows, query, limit) if block is None else search_block(rows, block, query, limit)
    return hits(connection, collection, sorted(found)[:limit])


def hits(connection: sqlite3.Connection, collection: Collection, found: list[Match]) -> list[Hit]:
    """Return the found rows with their payloads."""
    stored = payloads(connection, collection, [row.n for row in found])
    return [Hit(row.id, -row.loss, stored[row.n]) for row in found]


# ------------------------------------------------------------------ a home in memory


def search_block(rows: Rows, block: Block, query: Vector, limit: int) -> list[Match]:
    """Return the best rows of a home, at least `limit` if so many match."""
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
    """Return the score of the `wanted`-th best row, or the lowest possible if there are fewer."""
    if wanted >= alive:
        return -2.0
    return float(np.partition(scores, len(scores) - wanted)[len(scores) - wanted])


def _rank_all(rows: Rows, block: Block, scores: NDArray[np.float32], query: Vector, limit: int) -> list[Match]:
    """Return the best of all matching rows, queried at once."""
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
    """Return the best rows of a part whose vectors are not in memory, a few thousand vectors at a time."""
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
    """Return the best matching rows, tested in the order of their scores until there are enough."""
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
    """Return the word quoted for FTS5's query language."""
    return '"' + index_text(word).replace('"', '""') + '"'


def _universe(
    connection: sqlite3.Connection, collection: Collection, parts: list[Part]
) -> tuple[NDArray[np.int64] | None, int]:
    """Return the n of the rows of parts that are not homes (None if a range gives them), and the number of all rows."""
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
    """Return the n of the parts' rows that contain the phrase."""
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
    """Return the number of words of each row's text, from the index's own table (FTS5 documentation, section 9.5)."""
    rows = connection.execute(
        f"SELECT id, sz FROM text_{collection.number}_docsize WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(ns.tolist()),),
    ).fetchall()
    lengths = np.ones(len(ns), np.float64)
    places = np.searchsorted(ns, np.fromiter((n for n, _ in rows), np.int64, len(rows)))
    lengths[places] = np.fromiter((_varint(size) for _, size in rows), np.float64, len(rows))
    return lengths


def _varint(data: bytes) -> int:
    """Decode SQLite's variable-length integer: seven bits a byte, the highest bit says that more follow."""
    value = 0
    for byte in data:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value
