"""Where hooks keep their state: a private folder of the user for each memory, and in it the turns that wait.

A hook appends a turn and returns, the worker takes it. Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure.frontends.hooks.events import Event

LONGEST_SOCKET = 100
"""Bytes of a socket's path that every system takes."""
ROLES = {"UserPromptSubmit": "user", "Stop": "assistant"}
COMMANDS = ("/", "!", "#")
"""How lines begin that are for the client, not for the model."""


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


def append_turn(place: HookPlace, event: Event, scope: dict[str, str]) -> None:
    """Store a turn durably."""
    text = event.text.strip()
    if not text or (event.name == "UserPromptSubmit" and text.startswith(COMMANDS)):
        return
    turn = {
        "id": uuid.uuid4().hex,
        "session": event.session,
        "role": ROLES[event.name],
        "content": text,
        "timestamp": datetime.now(UTC).isoformat(),
        "project": event.project,
        "client": event.client,
        "scope": scope,
    }
    with _locked(place.turns) as file:
        os.write(file, json.dumps(turn).encode() + b"\n")
        os.fsync(file)


def take_turns(place: HookPlace) -> list[Path]:
    """Move waiting turns into a file of their own; return it with those that a killed worker left."""
    with _locked(place.turns) as file:
        if os.fstat(file).st_size:
            place.turns.rename(place.folder / f"taken-{uuid.uuid4().hex}.jsonl")
    return sorted(place.folder.glob("taken-*.jsonl"), key=lambda path: path.stat().st_mtime)


def read_turns(path: Path) -> list[dict[str, Any]]:
    """Return the turns of a file, those of a session together and in order; a torn last line is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return sorted(found, key=lambda turn: json.dumps([turn["scope"], turn["session"]]))


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the file of waiting turns, alone; it may be renamed while one waits for it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file):
                yield file
                return
        finally:
            os.close(file)


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
