"""Exact nearest neighbours inside a filter.

Inside one home: rank every vector by one matrix product, then ask SQL which of the leading rows match, in growing
chunks, until enough do; where few match, ask for all that match at once. Elsewhere: stream the vectors of the rows that
match from the file. Both keep every row that may tie with the last, score those in float64 and break ties by id.
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores._cosine import MARGIN, exact_scores
from perdure.backends.vector_stores._sqlite_blocks import CHUNK, Block, BlockCache, read_units
from perdure.backends.vector_stores._sqlite_filter import Sql, translate
from perdure.backends.vector_stores._sqlite_read import Part, parts_of, payloads
from perdure.backends.vector_stores._sqlite_schema import Collection, key_text
from perdure.backends.vector_stores.base import Hit, Vector
from perdure.domain.filter import Filter

_TESTED_COST = 4.0
"""What it costs to test one candidate by its n, against one row of a home read in order (measured)."""


class Found(NamedTuple):
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


def search(
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
    found: list[Found] = []
    for part in parts_of(connection, collection, filter):
        rows = Rows(connection, collection, part, condition)
        block = None if part.home is None else blocks.get(connection, collection, part.home)
        found += search_file(rows, query, limit) if block is None else search_block(rows, block, query, limit)
    return hits(connection, collection, sorted(found)[:limit])


def hits(connection: sqlite3.Connection, collection: Collection, found: list[Found]) -> list[Hit]:
    """The rows found with their payloads."""
    stored = payloads(connection, collection, [row.n for row in found])
    return [Hit(row.id, -row.loss, stored[row.n]) for row in found]


# ------------------------------------------------------------------ a home in memory


def search_block(rows: Rows, block: Block, query: Vector, limit: int) -> list[Found]:
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


def _rank_all(rows: Rows, block: Block, scores: NDArray[np.float32], query: Vector, limit: int) -> list[Found]:
    """The best of all rows that match, asked for at once."""
    ids = rows.all()
    places = block.positions(np.fromiter(sorted(ids), np.int64, len(ids)))
    if len(places) > limit:
        cut = np.partition(scores[places], -limit)[-limit] - MARGIN
        places = places[scores[places] >= cut]
    return _score(block, places, ids, query)


def _score(block: Block, places: NDArray[np.intp], ids: dict[int, str], query: Vector) -> list[Found]:
    ns = block.ns[places].tolist()
    scores = exact_scores(block.units[places], query).tolist()
    return [Found(-score, ids[n], n) for n, score in zip(ns, scores, strict=True)]


# ------------------------------------------------------------------ straight from the file


def search_file(rows: Rows, query: Vector, limit: int) -> list[Found]:
    """The best rows of a part whose vectors are not in memory; holds some thousand vectors at one time."""
    best: list[Found] = []
    floor = -np.inf
    for chunk in rows.vectors():
        ns, units = read_units([(row[0], row[1]) for row in chunk], rows.collection.dimension)
        near = np.flatnonzero(units @ query >= floor - MARGIN)
        scores = exact_scores(units[near], query).tolist()
        best += [
            Found(-score, key_text(chunk[place][2]), int(ns[place]))
            for place, score in zip(near.tolist(), scores, strict=True)
        ]
        if len(best) > limit:
            best = sorted(best)[:limit]
            floor = -best[-1].loss
    return best
