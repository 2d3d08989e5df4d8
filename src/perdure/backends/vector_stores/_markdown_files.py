"""The files of one collection: written and removed in whole steps, each of which leaves a folder that can be read."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from perdure.backends.vault import layout
from perdure.backends.vault.memory_file import ACCESS, render, same
from perdure.backends.vault.scanning import Look, Unread, look
from perdure.backends.vault.snapshot import Entry, Snapshot, digest
from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import VectorStoreError

_ATTEMPTS = 5
"""A folder may be removed, for being empty, between making it and writing into it."""
_STALE = 60.0
"""Seconds after which a file that was being written is a dead process's."""


class Files:
    """The files below one folder of entries; its methods block, and one thread at a time may call them."""

    def __init__(self, root: Path, home: str, snapshot: Snapshot) -> None:
        self._root = root
        self.home = home
        self._snapshot = snapshot
        self._accepted: dict[str, str] = {}
        self.unsynced: set[str] = set()
        """Files and folders to be forced to the disk by the next sync."""

    # ------------------------------------------------------------------ writing
    def write(self, puts: Sequence[Point], deletes: Sequence[str], before: Mapping[str, dict[str, Any]]) -> None:
        """Make the files hold the rows; `before` are the index's rows of the same ids.

        Everything is written before anything is removed: a kill in between leaves a file too many, which the journal
        or the next look at the folder removes, and never one too few.
        """
        try:
            leaving = [path for point in puts for path in self._put(point, before.get(point.id))]
            kept = {point.id for point in puts}
            for id in deletes:
                if id not in kept and (path := self._standing(id, before.get(id))) is not None:
                    leaving.append(path)
            for path in leaving:
                self._remove(path)
        except OSError as error:
            raise VectorStoreError(f"a memory's file cannot be written: {error.strerror or error}") from error

    def accept(self, path: str, entry: Entry) -> None:
        """Leave this file as it is when its row is put next."""
        self._accepted[entry.id] = path
        self._snapshot.note(path, entry)

    def _put(self, point: Point, before: dict[str, Any] | None) -> list[str]:
        """Write one row's file; which other file of it is to go."""
        old = self.find(point.id, point.payload) if before is None else self._standing(point.id, before)
        if self._accepted.pop(point.id, None) is not None and old is not None:
            return []
        if before is not None and before != point.payload and same(before, point.payload, ACCESS):
            return []  # who recalls a memory must not bring back a file that was removed, or edited, a moment ago
        place = layout.place_of(point.id, point.payload)
        if old is not None and (before is None or place == layout.place_of(point.id, before)):
            path = old
        else:
            path = self._free(f"{self.home}/{place}", point.id)
        if not self._says(path, point):
            self._replace(path, point.id, render(point.id, point.payload).encode())
        return [old] if old is not None and old != path else []

    def _says(self, path: str, point: Point) -> bool:
        """Whether a file says what a row does, but for how often it was read."""
        seen = self._look(path)
        return seen is not None and seen.found.id == point.id and same(seen.found.payload, point.payload, ACCESS)

    def _replace(self, path: str, id: str, data: bytes) -> None:
        target = self._root / path
        waiting = target.with_name(f"{target.name[:80]}.{uuid4().hex[:12]}.tmp")
        for attempt in range(_ATTEMPTS):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    status = os.fstat(file.fileno())
                waiting.replace(target)
                break
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
            except OSError:
                with suppress(OSError):
                    waiting.unlink()
                raise
        self._snapshot.note(path, Entry(id, digest(data), status.st_mtime_ns, len(data)))
        self.unsynced.add(path)

    def _remove(self, path: str) -> None:
        """Remove a file, and the folders that are empty then."""
        (self._root / path).unlink(missing_ok=True)
        self._snapshot.drop(path)
        self.unsynced.discard(path)
        parent = path.rpartition("/")[0]
        while parent.startswith(f"{self.home}/"):
            try:
                (self._root / parent).rmdir()
            except OSError:
                self.unsynced.add(parent)
                return
            self.unsynced.discard(parent)
            parent = parent.rpartition("/")[0]

    def remove_all(self) -> None:
        """Remove every file that holds a row, and the folders that are empty then."""
        for path in self._snapshot.below(self.home):
            self._remove(path)

    # ------------------------------------------------------------------ finding
    def find(self, id: str, payload: Mapping[str, Any] | None) -> str | None:
        """The file of a row: where it was seen last, else where a row of this payload lies."""
        noted = self._snapshot.path_of(self.home, id)
        if noted is not None and self._holds(noted, id):
            return noted
        if payload is None:
            return None
        path = f"{self.home}/{layout.place_of(id, payload)}"
        return next((each for each in self._namesakes(path) if self._holds(each, id)), None)

    def _standing(self, id: str, payload: Mapping[str, Any] | None) -> str | None:
        """The file of a row that the index has, also where another process took it in under a name of a person's."""
        found = self.find(id, payload)
        if found is not None or payload is None:
            return found
        folder = f"{self.home}/{layout.place_of(id, payload)}".rpartition("/")[0]
        try:
            names = sorted(each.name for each in (self._root / folder).iterdir() if each.name.endswith(layout.SUFFIX))
        except OSError:
            return None
        unknown = (path for name in names if self._snapshot.get(path := f"{folder}/{name}") is None)
        return next((path for path in unknown if self._holds(path, id)), None)

    def _namesakes(self, path: str) -> list[str]:
        """The files that bear a name, with a number or without one."""
        first = [path] if os.path.lexists(self._root / path) else []
        folder, _, name = path.rpartition("/")
        if not (layout.in_deleted(path.removeprefix(f"{self.home}/")) or name == "summary.md"):
            second = layout.numbered(path, 2)
            return first + ([second] if os.path.lexists(self._root / second) else [])
        try:
            names = [each.name for each in (self._root / folder).iterdir()]
        except OSError:
            return first
        stem = f"{folder}/{name}"
        return [f"{folder}/{each}" for each in sorted(names) if layout.unnumbered(f"{folder}/{each}") == stem]

    def _free(self, path: str, id: str) -> str:
        """The first of a name's numbers that no other row has."""
        number = 1
        while os.path.lexists(self._root / (found := layout.numbered(path, number))):
            if self._holds(found, id):
                return found
            number += 1
        return found

    def _holds(self, path: str, id: str) -> bool:
        entry = self._snapshot.get(path)
        if entry is not None:
            try:
                if entry.stands(os.lstat(self._root / path)):
                    return entry.id == id
            except OSError:
                return False
        seen = self._look(path)
        return seen is not None and seen.found.id == id

    def _look(self, path: str) -> Look | None:
        try:
            return look(self._root, self.home, path)
        except (FileNotFoundError, Unread):
            return None

    # ------------------------------------------------------------------ durability
    def sync(self) -> None:
        """Force what was written to the disk."""
        folders = set()
        for path in self.unsynced:
            folders.add(path.rpartition("/")[0])
            _force(self._root / path)
        for folder in folders:
            _force(self._root / folder)
        self.unsynced.clear()


def _force(path: Path) -> None:
    """Force a file or a folder to the disk; one that is gone needs none."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(root: Path) -> None:
    """Remove what dead processes were writing; a repository's own folder is none of ours, and may be large."""
    old = time.time() - _STALE
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            if name.endswith(".tmp"):
                path = Path(folder, name)
                with suppress(OSError):
                    if path.lstat().st_mtime < old:
                        path.unlink()
