"""The files of one collection, written and removed in steps that each leave a readable folder."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from perdure.backends.markdown import layout
from perdure.backends.markdown.memory_file import ACCESS, Found, as_item, render, same
from perdure.backends.markdown.scan import NAME, Closed, Entry, Look, Snapshot, Unread, differs, digest, look
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import VectorStoreError
from perdure.domain.memory import VERSION

logger = logging.getLogger("perdure")
_ATTEMPTS = 5  # a folder may be removed, for being empty, between making it and writing into it
_STALE = 60.0  # seconds after which a file that was being written is a dead process's
_HALF = re.compile(r"\.([0-9a-f]{8}|[0-9a-f]{12}|[0-9]+)\.tmp$")
"""How names end of files that are being written, here, by versions, and by the snapshot."""


class Files:
    """The files below one folder of entries; methods block, and are called by one thread at a time."""

    def __init__(self, root: Path, home: str, snapshot: Snapshot) -> None:
        self._root = root
        self.home = home
        self._snapshot = snapshot
        self._accepted: dict[str, str] = {}
        self.unsynced: set[str] = set()  # files and folders to be forced to the disk by the next sync

    def write(self, puts: Sequence[Point], deletes: Sequence[str], before: Mapping[str, dict[str, Any]]) -> list[Point]:
        """Write the rows' files; `before` are the index's rows of the same ids.

        Everything is written before anything is removed, so that a kill leaves an extra file, which the journal or the
        next scan removes, and never a missing one. Returns further rows for the index: tombstones of files edited since
        the last scan.
        """
        try:
            further, replayed = self._edits(puts, before)
            wanted = [*further, *(point for point in puts if point.id not in replayed)]
            leaving = [path for point in wanted for path in self._put(point, before.get(point.id))]
            kept = {point.id for point in puts}
            buried = {point.payload["version_of"] for point in puts if layout.is_tombstone(point.payload)}
            for id in deletes:
                if id in kept or self._accepted.pop(id, None) is not None:
                    continue
                path = self._standing(id, before.get(id))
                if path is not None:
                    leaving.append(path)
                if id not in buried:  # it is erased, and stands nowhere, also where nobody can read it
                    leaving += self._broken(id, before.get(id))
                elif path is None:
                    self._set_aside(id, before.get(id))
            for path in leaving:
                self._remove(path)
        except OSError as error:
            raise VectorStoreError(f"a memory's file cannot be written: {error.strerror or error}") from error
        return further

    def _edits(self, puts: Sequence[Point], before: Mapping[str, dict[str, Any]]) -> tuple[list[Point], set[str]]:
        """Return manual edits of rows that are to change, as tombstones, and the rows to leave alone.

        If the index already has the new row, this is a journal's replay, and the edit came later. Erasing a row,
        without a version of it, erases the edit too.
        """
        now = {point.id: point.payload for point in puts}
        earlier: dict[str, list[Any]] = {}
        for point in puts:
            if layout.is_tombstone(point.payload):
                earlier.setdefault(point.payload["version_of"], []).append(point.payload.get("memory"))
        further, replayed = list[Point](), set[str]()
        for id, was in before.items():
            if id in self._accepted or layout.is_tombstone(was) or not (id in now or id in earlier):
                continue
            found = self._changed(id, was)
            if found is None or found.payload.get("memory") in earlier.get(id, ()) or not differs(was, found):
                continue
            if id in now and not differs(now[id], found):
                continue  # written before a crash
            if id in now and same(was, now[id], ACCESS):
                replayed.add(id)
            elif as_item(found.payload) is not None:
                further.append(_tombstone(found))
        if further:
            logger.warning("files were edited while their memories changed: the edits are kept as tombstones")
        return further, replayed

    def _changed(self, id: str, was: dict[str, Any]) -> Found | None:
        """Return the content of a row's file if it looks different than noted."""
        path = self._standing(id, was)
        if path is None:
            return None
        entry = self._snapshot.get(path)
        with suppress(FileNotFoundError):
            if entry is not None and entry.stands(os.lstat(self._root / path)):
                return None
        seen = self._look(path)
        return seen.found if seen is not None and seen.found.id == id else None

    def accept(self, path: str, entry: Entry) -> None:
        """Leave this file unchanged in its row's next put, or absent: the next scan sees later changes."""
        self._accepted[entry.id] = path
        self._snapshot.note(path, entry)

    def accept_gone(self, id: str) -> None:
        """Leave this row's file unchanged when the row is removed next: a new file there is somebody else's."""
        self._accepted[id] = ""
        if (path := self._snapshot.path_of(self.home, id)) is not None:
            self._snapshot.drop(path)

    def refuse(self, path: str, id: str) -> None:
        """Forget `accept`, because the row was not written: the file is scanned again."""
        if self._accepted.pop(id, None) is not None:
            self._snapshot.drop(path)

    def _put(self, point: Point, before: dict[str, Any] | None) -> list[str]:
        """Write one row's file; return another file of it that must be removed."""
        if self._accepted.pop(point.id, None) is not None:
            return []
        old = self.find(point.id, point.payload) if before is None else self._standing(point.id, before)
        if before is not None and before != point.payload and same(before, point.payload, ACCESS):
            return []  # who recalls a memory must not bring back a file that was removed, or edited, a moment ago
        if old is None and before is not None:
            self._set_aside(point.id, before)
        place = layout.place_of(point.id, point.payload)
        if old is not None and (before is None or place == layout.place_of(point.id, before)):
            path = old
        else:
            path = self._free(f"{self.home}/{place}", point.id)
        if not self._says(path, point):
            self._replace(path, point.id, render(point.id, point.payload).encode())
        return [old] if old is not None and old != path else []

    def _says(self, path: str, point: Point) -> bool:
        """Whether a file and a row agree, except for recall counts."""
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
        """Remove a file, and then empty folders."""
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
        """Remove every file that holds a row, and then empty folders."""
        for path in self._snapshot.below(self.home):
            self._remove(path)

    def find(self, id: str, payload: Mapping[str, Any] | None) -> str | None:
        """Return a row's file: where it was seen last, else where its payload belongs."""
        noted = self._snapshot.path_of(self.home, id)
        if noted is not None and self._holds(noted, id):
            return noted
        if payload is None:
            return None
        path = f"{self.home}/{layout.place_of(id, payload)}"
        return next((each for each in self._namesakes(path) if self._holds(each, id)), None)

    def _broken(self, id: str, payload: Mapping[str, Any] | None) -> list[str]:
        """Return existing unreadable files of a row, including those that were set aside."""
        noted = self._snapshot.path_of(self.home, id)
        paths = [] if noted is None else [noted]
        if payload is not None:
            place = layout.place_of(id, payload)
            for each in (place, _aside(place)):
                number = 1
                while os.path.lexists(self._root / (path := layout.numbered(f"{self.home}/{each}", number))):
                    paths.append(path)
                    number += 1
        return [path for path in dict.fromkeys(paths) if self._is_slip(path, id)]

    def _is_slip(self, path: str, id: str) -> bool:
        try:
            look(self._root, self.home, path)
        except FileNotFoundError:
            return False
        except Closed as error:
            return id in error.ids
        except Unread:
            return False
        return False

    def _set_aside(self, id: str, payload: Mapping[str, Any] | None) -> None:
        """Move a row's unreadable file among the deleted ones; the row stays."""
        for path in self._broken(id, payload):
            place = path.removeprefix(f"{self.home}/")
            if layout.in_deleted(place):
                continue
            number = 1
            while os.path.lexists(self._root / (target := layout.numbered(f"{self.home}/{_aside(place)}", number))):
                number += 1
            (self._root / target).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._root / path).rename(self._root / target)
            self._snapshot.drop(path)
            self.unsynced.add(target)
            logger.warning("%s cannot be read, and its memory has changed: it lies in %s now", path, target)

    def _standing(self, id: str, payload: Mapping[str, Any] | None) -> str | None:
        """Return the file of an indexed row, even if another process read it under a person's file name."""
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
        """Return the files with a name, with or without a number."""
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
        """Return the first numbered name that no other row has."""
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

    def sync(self) -> None:
        folders = set()
        for path in self.unsynced:
            folders.add(path.rpartition("/")[0])
            _force(self._root / path)
        for folder in folders:
            _force(self._root / folder)
        self.unsynced.clear()


def _force(path: Path) -> None:
    """Force a file or a folder to the disk, unless it is gone."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _aside(place: str) -> str:
    """Return the place among the deleted files for a place."""
    folder, _, rest = place.partition("/")
    return f"{folder}/{layout.DELETED}/{rest}"


def _tombstone(found: Found) -> Point:
    """Return a row with a file's text; `as_of` ignores it, because it was never memory."""
    id, moment = str(uuid4()), iso(datetime.now(UTC))
    version = {"id": id, "state": VERSION, "version_of": found.id, "told_at": moment, "untold_at": moment}
    return Point(id, None, {**found.payload, **version})


def sweep(root: Path) -> None:
    """Remove unfinished files of dead processes; other files in the folder are their owner's."""
    old = time.time() - _STALE
    left = [path for path in root.glob(f"{NAME}.*") if _HALF.search(path.name)]
    folders = [root / layout.ENTRIES, root / layout.COLLECTIONS]
    while folders:
        with suppress(OSError):
            for entry in os.scandir(folders.pop()):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif _HALF.search(entry.name):
                    left.append(Path(entry.path))
    for path in left:
        with suppress(OSError):
            if path.lstat().st_mtime < old:
                path.unlink()
