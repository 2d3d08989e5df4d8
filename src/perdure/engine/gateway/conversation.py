"""Who is talking, and where what is said is kept (U6, U7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perdure.domain.scope import Scope

GLOBAL = "global"
"""The run that every conversation of one user, or of one walled caller, reads beside its own (K25)."""
DEFAULT = "default"
"""The run of a conversation that nobody named (002)."""

Dialect = Literal["chat", "responses"]
"""Which API is spoken: 002's or 001's, with their presets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation with a model."""

    scope: Scope
    """What is learned is kept here, and read from here."""
    shared: Scope | None = None
    """The `global` bucket beside it, of the same user or walls and never across them; None where `scope` has no run."""
    session: str
    """What turns are counted by (V32 to V34): one sitting, inside of `scope`."""
    dialect: Dialect
    team: str | None = None
    """The team whose CANONICAL facts come with each prompt (X56)."""
    project: str | None = None
    """The team's project."""
