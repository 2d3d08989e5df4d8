"""Unit vectors of whole homes in memory, each as one matrix, kept current by the home's sequence number.

A block is never changed, only followed by a newer one: rows that came are appended behind the part that older blocks
see, rows that went are marked in a copy. So a search may go on with the block it has while another thread moves on.
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores._cosine import Matrix, unit_rows
from perdure.backends.vector_stores._sqlite_read import Home
from perdure.backends.vector_stores._sqlite_schema import Collection

CHUNK = 1024
"""Vectors that are read at one time."""


@dataclass(frozen=True, slots=True)
class Block:
    """The vectors of a home at one sequence number: the first `count` rows of the arrays, but for the dead ones."""

    seq: int
    next: int
    """The k from which on rows are newer than this block."""
    count: int
    units: Matrix
    ns: NDArray[np.int64]
    """The n of each row, ascending."""
    dead: NDArray[np.bool_] | None = None
    """Shape (count,), None where all live."""

    @property
    def alive(self) -> int:
        """Rows that count."""
        return self.count if self.dead is None else self.count - int(self.dead.sum())

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return self.units.nbytes + self.ns.nbytes + (0 if self.dead is None else self.dead.nbytes)

    def rank(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of every row with the unit query, about; -inf for the dead. Shape (count,)."""
        scores: NDArray[np.float32] = self.units[: self.count] @ query
        if self.dead is not None:
            scores[self.dead] = -np.inf
        return scores

    def positions(self, ns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Where the living rows among these n stand."""
        known = self.ns[: self.count]
        places = np.minimum(np.searchsorted(known, ns), max(self.count - 1, 0))
        found: NDArray[np.intp] = places[known[places] == ns] if self.count else places[:0]
        return found if self.dead is None else found[~self.dead[found]]


class StaleSnapshot(Exception):
    """The reader's moment is older than the cached block: read again."""


class BlockCache:
    """Blocks by collection and home; those not used for longest go when all together exceed the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._blocks: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._loading: dict[tuple[int, int], threading.Lock] = {}

    def get(self, connection: sqlite3.Connection, collection: Collection, home: Home) -> Block | None:
        """The home's block as of the connection's read transaction, or None if it is too wide to keep.

        StaleSnapshot if the cache has seen a later moment.
        """
        if home.count * collection.dimension * 4 > self.limit_bytes:
            return None
        key = collection.number, home.number
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            with self._lock:
                block = self._blocks.get(key)
                if block is not None:
                    self._blocks.move_to_end(key)
            if block is not None and block.seq == home.seq:
                return block
            if block is not None and block.seq > home.seq:
                raise StaleSnapshot
            if block is None or block.seq < home.trimmed:
                block = load(connection, collection, home)
            else:
                block = follow(connection, collection, home, block)
            self._keep(key, block)
            return block

    def _keep(self, key: tuple[int, int], block: Block) -> None:
        with self._lock:
            old = self._blocks.pop(key, None)
            self._size += block.nbytes - (0 if old is None else old.nbytes)
            self._blocks[key] = block
            while self._size > self.limit_bytes and len(self._blocks) > 1:
                gone, oldest = self._blocks.popitem(last=False)
                self._size -= oldest.nbytes
                self._loading.pop(gone, None)


# ------------------------------------------------------------------ from the file


def load(connection: sqlite3.Connection, collection: Collection, home: Home) -> Block:
    """A block read whole."""
    capacity = home.count if home.count > CHUNK else 0  # few rows become the arrays themselves
    block = Block(-1, 0, 0, np.empty((capacity, collection.dimension), np.float32), np.empty(capacity, np.int64))
    return _append(connection, collection, home, block)


def follow(connection: sqlite3.Connection, collection: Collection, home: Home, block: Block) -> Block:
    """The block brought up to the home's moment by reading only what came and went."""
    gone = connection.execute(
        f"SELECT n FROM gone_{collection.number} WHERE home = ? AND seq > ?", (home.number, block.seq)
    ).fetchall()
    if gone:
        dead = np.zeros(block.count, bool) if block.dead is None else block.dead.copy()
        dead[block.positions(np.array([n for (n,) in gone], np.int64))] = True
        block = replace(block, dead=dead)
    block = _append(connection, collection, home, block)
    return _compact(block) if block.alive < block.count // 2 else block


def _append(connection: sqlite3.Connection, collection: Collection, home: Home, block: Block) -> Block:
    """The block with the rows from its `next` on."""
    first, last = home.span
    cursor = connection.execute(
        f"SELECT n, vector FROM vectors_{collection.number} WHERE n BETWEEN ? AND ? ORDER BY n",
        (first + block.next, last),
    )
    while rows := cursor.fetchmany(CHUNK):
        ns, units = read_units(rows, collection.dimension)
        block = _extend(block, ns, units)
    dead = block.dead
    if dead is not None:
        dead = np.concatenate([dead, np.zeros(block.count - len(dead), bool)])
    return replace(block, seq=home.seq, next=home.next, dead=dead)


def read_units(rows: list[tuple[int, bytes]], dimension: int) -> tuple[NDArray[np.int64], Matrix]:
    """The n and the unit vectors of rows (n, vector)."""
    ns, blobs = zip(*rows, strict=True)
    raw = np.frombuffer(b"".join(blobs), np.float32).reshape(len(rows), dimension)
    return np.array(ns, np.int64), unit_rows(raw)


def _extend(block: Block, ns: NDArray[np.int64], units: Matrix) -> Block:
    """The block with rows behind it, in the same arrays where they have room."""
    count = block.count + len(ns)
    all_units, all_ns = block.units, block.ns
    if len(all_ns) == 0:
        return replace(block, count=count, units=units, ns=ns)
    if count > len(all_ns):
        capacity = count + max(16, count // 8)
        all_units = np.empty((capacity, units.shape[1]), np.float32)
        all_units[: block.count] = block.units[: block.count]
        all_ns = np.empty(capacity, np.int64)
        all_ns[: block.count] = block.ns[: block.count]
    all_units[block.count : count] = units
    all_ns[block.count : count] = ns
    return replace(block, count=count, units=all_units, ns=all_ns)


def _compact(block: Block) -> Block:
    """The block without its dead."""
    assert block.dead is not None
    kept = np.flatnonzero(~block.dead)
    return replace(block, count=len(kept), units=block.units[kept], ns=block.ns[kept], dead=None)
