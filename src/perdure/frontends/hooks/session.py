"""What a session has been told already: no memory enters its prompts twice."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from perdure.frontends.hooks.place import HookPlace

KEPT_SECONDS = 7 * 86_400
"""How long the file of a session is kept that never ended."""


@dataclass(slots=True)
class Session:
    """One session of a client."""

    path: Path
    shown: set[str] = field(default_factory=set)
    """Ids of the memories in its prompts."""
    has_started: bool = False
    """Whether standing instructions and profile were shown."""

    @classmethod
    def load(cls, place: HookPlace, name: str, *, fresh: bool = False) -> Session:
        """Read a session; a fresh one has been shown nothing."""
        session = cls(place.session(name))
        if not fresh:
            try:
                found = json.loads(session.path.read_text(encoding="utf-8"))
                session.shown, session.has_started = set(found["shown"]), bool(found["has_started"])
            except (OSError, ValueError, KeyError, TypeError):
                pass  # a new one, or one whose file is damaged
        return session

    def save(self) -> None:
        """Write it."""
        told = {"shown": sorted(self.shown), "has_started": self.has_started}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(told), encoding="utf-8")
        new.replace(self.path)

    def end(self) -> None:
        """Remove its file."""
        self.path.unlink(missing_ok=True)


def sweep(place: HookPlace) -> None:
    """Remove the files of sessions that never ended."""
    for path in place.folder.glob("session-*"):
        if time.time() - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink(missing_ok=True)
