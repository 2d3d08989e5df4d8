"""Turns of sessions on their way into memory: a hook appends and returns, the worker takes. Standard library only."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure.frontends.hooks.events import Event
from perdure.frontends.hooks.place import HookPlace

ROLES = {"UserPromptSubmit": "user", "Stop": "assistant"}
COMMANDS = ("/", "!", "#")
"""How lines begin that are for the client, not for the model."""


def append(place: HookPlace, event: Event, scope: dict[str, str]) -> None:
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
        "scope": scope,
    }
    with _locked(place.turns) as file:
        os.write(file, json.dumps(turn).encode() + b"\n")
        os.fsync(file)


def take(place: HookPlace) -> list[Path]:
    """Move waiting turns into a file of their own; return it with those that a killed worker left."""
    with _locked(place.turns) as file:
        if os.fstat(file).st_size:
            place.turns.rename(place.folder / f"taken-{uuid.uuid4().hex}.jsonl")
    return sorted(place.folder.glob("taken-*.jsonl"), key=lambda path: path.stat().st_mtime)


def read(path: Path) -> list[dict[str, Any]]:
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
