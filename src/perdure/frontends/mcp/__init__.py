"""Memory for clients of the Model Context Protocol. The profiles' names are here: settings and options use them, and do
not import the tools. So is the file by which `perdure mcp` finds a server that runs on its folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

try:
    import fcntl
except ImportError:  # Windows: nobody announces itself, and every client has an engine of its own
    fcntl = None  # type: ignore[assignment]

Profile = Literal["core", "graph", "review", "team", "chatgpt", "mem0", "knowledge-graph"]
"""A set of tools that a server offers together."""
DEFAULT: tuple[Profile, ...] = ("core",)
SCOPE_HEADER = "x-perdure-scope"
"""The scope of a client that attaches, as JSON; believed with the file's token alone."""
_FILE = ".serving"
_TRIES = 20
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs on a folder, as its file says: readable by its owner alone, and locked while it runs.

    The lock is what proves that it runs: the process that holds it holds the address too, so nobody else can have taken
    that over, and no client sends a token or a question to a stranger.
    """

    url: str
    token: str
    profiles: Sequence[str]

    @classmethod
    def at(cls, folder: Path) -> Serving | None:
        """Return the server that runs on a folder, if one does and it is this user's own."""
        if fcntl is None:
            return None
        try:
            with (folder.expanduser() / _FILE).open(encoding="utf-8") as file:
                told = os.fstat(file.fileno())
                if told.st_uid != os.getuid() or told.st_mode & 0o077:
                    return None
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return cls(**json.load(file))
        except (OSError, ValueError, TypeError):
            return None
        return None

    @contextmanager
    def announced(self, folder: Path) -> Iterator[bool]:
        """Hold the file until the block ends; False if another server of the folder has it, or it cannot be written."""
        number = self._locked(folder.expanduser())
        if number is None:
            yield False
            return
        try:
            os.ftruncate(number, 0)
            os.fchmod(number, 0o600)
            os.pwrite(number, json.dumps(asdict(self)).encode(), 0)
            yield True
        finally:
            os.ftruncate(number, 0)
            os.close(number)

    @staticmethod
    def _locked(folder: Path) -> int | None:
        if fcntl is None:
            return None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None
        for _ in range(_TRIES):  # a client that looks holds the lock for a moment
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_PAUSE_SECONDS)
            else:
                return number
        os.close(number)
        return None
