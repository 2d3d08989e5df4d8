"""Qdrant without a server: its own engine (Qdrant Edge) in this process, on a folder that is this process's alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import qdrant_edge as edge

from perdure.backends.vector_stores._document_engine import Failure, MissingCollection, Shape
from perdure.backends.vector_stores._names import digest
from perdure.backends.vector_stores._qdrant_edge import (
    EdgeError,
    edge_filter,
    edge_point,
    new_shard,
    query_of,
    stored,
    told,
    wanted,
)
from perdure.backends.vector_stores._qdrant_engine import QdrantEngine, Scored, Stored, read_label, write_label
from perdure.backends.vector_stores._qdrant_filter import Clause
from perdure.backends.vector_stores._qdrant_points import RECORD, StoredPoint, Words
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import VectorStoreError

T = TypeVar("T")

LABEL = "collection.json"
"""The file that says whose folder it is and which of its shards is the collection's; without it there is none."""
IDENTITY = "identity"
COPIED = 500
"""Points copied at a time."""


def failure_in(path: Path, error: Exception) -> Failure | None:
    """What an exception of the engine or of the file system means."""
    return Failure(f"the folder {path}: {error}") if isinstance(error, (EdgeError, OSError)) else None


@dataclass
class Collection:
    """An open collection."""

    name: str
    shape: Shape
    folder: Path
    shard: edge.EdgeShard
    writing: threading.Lock = field(default_factory=threading.Lock)
    stale: bool = True
    """Whether the files may hold text that was overwritten or deleted."""


class QdrantFolder(QdrantEngine):
    """Collections in a folder, each an EdgeShard."""

    substrings = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._collections: dict[str, Collection] = {}
        self._guard = threading.Lock()
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(path / "lock")
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        for folder in sorted(one for one in self._path.iterdir() if one.is_dir()):
            label = _label_in(folder)
            if label is None:  # its making or its removal was not finished
                shutil.rmtree(folder, ignore_errors=True)
                continue
            name, shape, shard = label
            for other in folder.iterdir():
                if other.is_dir() and other.name != shard:
                    shutil.rmtree(other, ignore_errors=True)
            loaded = told(edge.EdgeShard.load, str(folder / shard))
            self._collections[name] = Collection(name, shape, folder, loaded)

    def close(self) -> None:
        """Close every collection and give the folder free."""
        with self._guard:
            found, self._collections = list(self._collections.values()), {}
            for collection in found:
                with collection.writing:
                    collection.shard.close()
            os.close(self._lock)

    def identity(self) -> str:
        """An id in a file."""
        file = self._path / IDENTITY
        with self._guard:
            if not file.exists():
                _write_file(file, str(uuid4()))
            return file.read_text()

    # ------------------------------------------------------------------ collections
    def find(self, name: str) -> Shape | None:
        """The shape of an open collection."""
        found = self._collections.get(name)
        return None if found is None else found.shape

    def names(self) -> Names:
        """The names of the open collections."""
        return list(self._collections)

    def make(self, name: str, shape: Shape) -> None:
        """Make a collection; its label, written last, makes it one."""
        with self._guard:
            if name in self._collections:
                return
            folder = self._path / folder_name(name)
            shutil.rmtree(folder, ignore_errors=True)  # of a removal that failed
            shard_name, shard = new_shard(folder, shape)
            _write_label(folder, name, shape, shard_name)
            self._collections[name] = Collection(name, shape, folder, shard, stale=False)

    def drop(self, name: str) -> None:
        """Remove a collection, its label first."""
        with self._guard:
            found = self._collections.pop(name, None)
            if found is not None:
                with found.writing:
                    found.shard.close()
                    (found.folder / LABEL).unlink()
                    shutil.rmtree(found.folder, ignore_errors=True)

    def clear(self, name: str) -> None:
        """Remove every point."""
        self._update(name, [edge.UpdateOperation.delete_points_by_filter(edge.Filter())])

    def _collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            raise MissingCollection
        return found

    def _read(self, name: str, read: Callable[[edge.EdgeShard], T]) -> T:
        """Read from the collection's shard; if it was replaced meanwhile, from the new one."""
        while True:
            shard = self._collection(name).shard
            try:
                return told(read, shard)
            except EdgeError:
                if self._collection(name).shard is shard:
                    raise

    def _update(self, name: str, operations: Sequence[edge.UpdateOperation]) -> None:
        collection = self._collection(name)
        with collection.writing:
            if self._collections.get(name) is not collection:
                raise MissingCollection
            collection.stale = True
            for operation in operations:
                told(collection.shard.update, operation)

    # ------------------------------------------------------------------ points
    def write(self, name: str, points: Sequence[StoredPoint], deletes: Sequence[str]) -> None:
        """Write points whole, then delete others; both are in the engine's log once this returns."""
        operations = []
        if points:
            operations.append(edge.UpdateOperation.upsert_points([edge_point(point) for point in points]))
        if deletes:
            operations.append(edge.UpdateOperation.delete_points(list(deletes)))
        self._update(name, operations)

    def fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Stored]:
        """The points of these ids that exist."""
        found = self._read(name, lambda shard: shard.retrieve(list(ids), [RECORD], wanted(with_vectors)))
        return [stored(point) for point in found]

    def nearest(self, name: str, query: Vector | Words, limit: int, clause: Clause | None) -> list[Scored]:
        """The points of highest inner product, by a full scan of those in the clause."""
        request = edge.QueryRequest(
            limit=limit,
            query=query_of(query),
            filter=edge_filter(clause),
            with_payload=[RECORD],
            params=edge.SearchParams(exact=True),
        )
        found = self._read(name, lambda shard: shard.query(request))
        return [((point.payload or {})[RECORD], point.score) for point in found]

    def page(
        self, name: str, clause: Clause | None, after: Any, limit: int, *, with_vectors: bool
    ) -> tuple[list[Stored], Any]:
        """Points by id."""
        request = edge.ScrollRequest(
            offset=after,
            limit=limit,
            filter=edge_filter(clause),
            with_payload=[RECORD],
            with_vector=wanted(with_vectors),
        )
        found, following = self._read(name, lambda shard: shard.scroll(request))
        return [stored(point) for point in found], following

    def count(self, name: str, clause: Clause | None) -> int:
        """How many points satisfy the clause."""
        request = edge.CountRequest(filter=edge_filter(clause), exact=True)
        return self._read(name, lambda shard: shard.count(request))

    # ------------------------------------------------------------------ care
    def sync(self) -> None:
        """Flush every collection to the disk."""
        for collection in list(self._collections.values()):
            with collection.writing:
                if self._collections.get(collection.name) is collection:
                    told(collection.shard.flush)

    def scrub(self) -> None:
        """Copy collections that may hold deleted text to new files: of its own the engine only reuses that space."""
        for collection in list(self._collections.values()):
            with self._guard, collection.writing:
                if collection.stale and self._collections.get(collection.name) is collection:
                    self._rewrite(collection)

    def _rewrite(self, collection: Collection) -> None:
        shard_name, copy = new_shard(collection.folder, collection.shape)
        after: Any = None
        while True:
            request = edge.ScrollRequest(offset=after, limit=COPIED, with_payload=True, with_vector=True)
            found, after = told(collection.shard.scroll, request)
            points = [edge.Point(id=point.id, vector=point.vector or {}, payload=point.payload) for point in found]
            told(copy.update, edge.UpdateOperation.upsert_points(points))
            if after is None:
                break
        told(copy.flush)
        _write_label(collection.folder, collection.name, collection.shape, shard_name)
        old, collection.shard, collection.stale = collection.shard, copy, False
        old.close()
        for other in collection.folder.iterdir():
            if other.is_dir() and other.name != shard_name:
                shutil.rmtree(other, ignore_errors=True)


def dimension_in(path: Path, name: str) -> int | None:
    """The dimension in the label of a collection."""
    label = _label_in(path / folder_name(name))
    return None if label is None else label[1].dimension


# ------------------------------------------------------------------ files


def folder_name(name: str) -> str:
    """A folder for each name, also where letters of both cases are the same to the file system."""
    return f"{re.sub('[^a-z0-9_-]+', '-', name.lower())[:40]}.{digest(name, 10)}"


def _label_in(folder: Path) -> tuple[str, Shape, str] | None:
    try:
        content = json.loads((folder / LABEL).read_text())
        label = read_label(content["collection"])
        return None if label is None else (*label, str(content["shard"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_label(folder: Path, name: str, shape: Shape, shard_name: str) -> None:
    _write_file(folder / LABEL, json.dumps({"collection": write_label(name, shape), "shard": shard_name}))


def _write_file(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = file.with_name(f"{file.name}.part")
    with part.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def _locked(file: Path) -> int:
    """Hold a file locked; the system gives it free when this process ends, however it ends."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise VectorStoreError(
            f"qdrant: the folder {file.parent} is open elsewhere: one store at a time can have it, and a server is for "
            "several"
        ) from None
    return descriptor
