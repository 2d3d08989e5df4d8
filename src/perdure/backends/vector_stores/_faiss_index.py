"""A FAISS index of one collection, in memory: brought to the rows' version before each search, kept in a file."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from perdure.backends.sqlite_file import force_to_disk
from perdure.backends.vector_stores import _faiss_rows
from perdure.backends.vector_stores._faiss_rows import Collection
from perdure.backends.vector_stores.base import Vector

_CHUNK = 10_000
"""Vectors that are read from the rows at one time."""
_MOST_DEAD = 1_000
"""Vectors that are gone and still in the index, at least; beyond a tenth of all it is made smaller."""


class VectorIndex:
    """Exact inner products by `IndexIDMap2(IndexFlatIP)`; callers hold `lock` around `follow` and `search`."""

    def __init__(self, dimension: int) -> None:
        self.lock = threading.Lock()
        self.version = -1
        self.saved = -1
        """The version that its file has, as far as this process knows."""
        self._dimension = dimension
        self._reset()

    def _reset(self) -> None:
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(self._dimension))
        self._dead: set[int] = set()  # taking one out moves all behind it: they are passed over until they are many
        self._last = 0

    # ------------------------------------------------------------------ following the rows
    def follow(self, connection: sqlite3.Connection, collection: Collection, file: Path) -> bool:
        """Bring the index to the version of the rows that this read transaction sees; False if it is beyond that."""
        if self.version < 0:
            self._load(collection, file)
        if self.version >= collection.version:
            return self.version == collection.version
        if self.version < collection.trimmed:
            self._reset()
        else:
            gone = _faiss_rows.gone_after(connection, collection, self.version)
            self._dead.update(n for n in gone if n <= self._last)  # greater ones came and went unseen
        self._take_in(connection, collection)
        if len(self._dead) > max(_MOST_DEAD, self._index.ntotal // 10):
            self._compact()
        self.version = collection.version
        return True

    def _take_in(self, connection: sqlite3.Connection, collection: Collection) -> None:
        while True:
            ids, vectors = _faiss_rows.vectors_after(connection, collection, self._last, _CHUNK)
            if ids:
                self._index.add_with_ids(np.stack(vectors), np.array(ids, np.int64))
                self._last = ids[-1]
            if len(ids) < _CHUNK:
                return

    def _compact(self) -> None:
        if self._dead:
            self._index.remove_ids(np.array(sorted(self._dead), np.int64))
            self._dead = set()

    # ------------------------------------------------------------------ searching
    def search(self, query: Vector, limit: int, numbers: Sequence[int] | None) -> list[tuple[int, float]]:
        """The best vectors among those numbers, or among all, with their inner products."""
        if numbers is None:
            most = self._index.ntotal - len(self._dead)
            selector = faiss.IDSelectorNot(_batch(list(self._dead))) if self._dead else None
        else:
            most, selector = len(numbers), _batch(numbers)
        if not most:
            return []
        parameters = None if selector is None else faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]  # its stubs lack it
        scores, found = self._index.search(query[None, :], min(limit, most), params=parameters)
        return [(int(n), float(score)) for n, score in zip(found[0], scores[0], strict=True) if n >= 0]

    def vectors(self) -> dict[int, Vector]:
        """Every vector that the index finds, by its number."""
        ids = faiss.vector_to_array(self._index.id_map)
        return {int(n): self._index.reconstruct(int(n)) for n in ids if int(n) not in self._dead}

    # ------------------------------------------------------------------ the file
    def save(self, collection: Collection, file: Path) -> None:
        """Write the index, which is at the collection's version, to its file, whole or not at all."""
        self._compact()
        body = faiss.serialize_index(self._index).tobytes()
        head = json.dumps([collection.stamp, collection.version, self._last, _digest(body)]).encode()
        half = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            half.touch(mode=0o600)
            half.write_bytes(head + b"\n" + body)
            force_to_disk(half)
            half.replace(file)
        finally:
            half.unlink(missing_ok=True)
        self.saved = collection.version

    def _load(self, collection: Collection, file: Path) -> None:
        """Take the file's index where it was made of exactly these rows; else the index stays empty."""
        try:
            head, _, body = file.read_bytes().partition(b"\n")
            stamp, version, last, digest = json.loads(head)
        except (OSError, ValueError, TypeError):
            return
        if stamp != collection.stamp or version != collection.version or digest != _digest(body):
            return
        try:
            index = faiss.deserialize_index(np.frombuffer(body, np.uint8))
        except RuntimeError:  # another version of FAISS wrote it
            return
        self._index, self._last = index, last
        self.version = self.saved = collection.version


def _batch(numbers: Sequence[int]) -> Any:
    return faiss.IDSelectorBatch(np.array(numbers, np.int64))


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()
