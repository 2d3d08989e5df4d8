"""Where hooks keep their state: a private folder of the user for each memory. Standard library only."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

LONGEST_SOCKET = 100
"""Bytes of a socket's path that every system takes."""


@dataclass(frozen=True, slots=True)
class HookPlace:
    """The state of one memory's hooks."""

    folder: Path

    @classmethod
    def of(cls, memory: Path) -> HookPlace:
        """Return the place for a memory's folder, made with access for its owner alone."""
        name = hashlib.sha256(os.fsencode(memory.expanduser().resolve())).hexdigest()[:16]
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        folder = Path(state).expanduser() / "perdure" / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{folder} can be read by others")
        return cls(folder)

    @property
    def socket(self) -> Path:
        """The worker's socket; OSError if its path is too long."""
        path = self.folder / "s"
        if len(os.fsencode(path)) > LONGEST_SOCKET:
            raise OSError(f"the path of the socket is too long: {path}")
        return path

    @property
    def lock(self) -> Path:
        """The file that the one worker holds locked."""
        return self.folder / "lock"

    @property
    def log(self) -> Path:
        """What the worker has to say."""
        return self.folder / "log"

    @property
    def turns(self) -> Path:
        """Turns that are not learned yet."""
        return self.folder / "turns.jsonl"

    def session(self, name: str) -> Path:
        """The file of one session."""
        return self.folder / f"session-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:24]}.json"
