"""`memory_index.json`: which row each file holds, its digest, and when it was changed last (K60, A27).

It only saves reading: a file whose time and size are those noted is not read again. One that is missing, broken or old
costs reading, and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from perdure.backends.vault.layout import ENTRIES

NAME = "memory_index.json"


class Entry(NamedTuple):
    """What is noted of one file."""

    id: str
    """Of the row (of a tombstone its own, not the memory's)."""
    sha256: str
    mtime_ns: int
    size: int

    def stands(self, status: os.stat_result) -> bool:
        """Whether a file looks as it did."""
        return self.mtime_ns == status.st_mtime_ns and self.size == status.st_size


def digest(data: bytes) -> str:
    """SHA-256 of a file's bytes in hexadecimal."""
    return sha256(data).hexdigest()


class Snapshot:
    """The notes, by path relative to the folder; kept in memory, and written by `save`."""

    def __init__(self, root: Path) -> None:
        self._file = root / NAME
        self._entries: dict[str, Entry] = {}
        self._paths: dict[tuple[str, str], str] = {}
        self.identity = ""
        """The id of the folder's store."""
        self._changed = False

    def load(self) -> None:
        """Read the file; as if there were none where it cannot be read."""
        self._entries, self._paths, self.identity, self._changed = {}, {}, "", False
        try:
            told = json.loads(self._file.read_bytes())
            entries = {
                str(path): Entry(str(one["id"]), str(one["sha256"]), int(one["mtime_ns"]), int(one["size"]))
                for path, one in told["files"].items()
            }
            identity = told["identity"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._changed = True
            return
        self.identity = identity if isinstance(identity, str) else ""
        for path, entry in entries.items():
            self._put(path, entry)

    def save(self, *, anyway: bool = False) -> None:
        """Write the file in one step, if something changed; OSError where that cannot be done."""
        if not (self._changed or anyway):
            return
        told = {"identity": self.identity, "files": {path: one._asdict() for path, one in self._entries.items()}}
        waiting = self._file.with_name(f"{NAME}.{os.getpid()}.tmp")
        handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(told, file, indent=0, separators=(",", ":"))
        waiting.replace(self._file)
        self._changed = False

    # ------------------------------------------------------------------ notes
    def get(self, path: str) -> Entry | None:
        """What is noted of a file."""
        return self._entries.get(path)

    def path_of(self, home: str, id: str) -> str | None:
        """The file of a row, below a folder of entries."""
        return self._paths.get((home, id))

    def note(self, path: str, entry: Entry) -> None:
        """Note a file; the newest file of a row is its file."""
        if self._entries.get(path) != entry:
            self._changed = True
            self.drop(path)
            self._put(path, entry)

    def _put(self, path: str, entry: Entry) -> None:
        self._entries[path] = entry
        self._paths[home_of(path), entry.id] = path

    def drop(self, path: str) -> None:
        """Forget a file."""
        entry = self._entries.pop(path, None)
        if entry is not None:
            self._changed = True
            if self._paths.get((home_of(path), entry.id)) == path:
                del self._paths[home_of(path), entry.id]

    def drop_all(self, paths: Iterable[str]) -> None:
        """Forget files."""
        for path in list(paths):
            self.drop(path)

    def below(self, folder: str) -> list[str]:
        """The files noted below a folder."""
        return [path for path in self._entries if path.startswith(f"{folder}/")]

    def within(self, paths: Collection[str]) -> dict[str, str]:
        """The files noted at or below some paths, each with the id of its row."""
        if not paths:
            return {}
        wanted = set(paths)
        return {
            path: entry.id
            for path, entry in self._entries.items()
            if any(path[:end] in wanted for end in (*(at for at, each in enumerate(path) if each == "/"), len(path)))
        }


def home_of(path: str) -> str:
    """The folder of entries that a file lies in: `entries`, or `collections/<name>/entries`."""
    parts = path.split("/", 3)
    return parts[0] if parts[0] == ENTRIES else "/".join(parts[:3])
