"""Owners: the users, agents, runs and worlds that memories are kept for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from perdure.domain.memory import Answer

OWNER_AXES = ("user_id", "agent_id", "run_id", "world_id")
"""The axes of scope on which an owner may stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner(Answer):
    """One value of one axis of scope, and what is kept for it; times are ISO 8601 UTC text."""

    axis: str
    """One of `OWNER_AXES`."""
    name: str
    memories: int
    """How many there are of it now, those that are no longer valid among them."""
    created_at: str
    """When the oldest was made."""
    updated_at: str
    """When one was last changed."""

    def model_dump(self) -> dict[str, Any]:
        """The owner as plain values."""
        return asdict(self)
