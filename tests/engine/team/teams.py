"""What tests of teams stand on: items, members, and a clock that a test can move."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Memory, TeamMemory
from perdure.domain.access import Role
from perdure.domain.clock import MonotonicClock

STORES = pytest.mark.parametrize("store", ["sqlite", "memory"])

Join = Callable[..., TeamMemory]


def item(content: str = "The Q2 fundraising target is 2M€", **changes: Any) -> dict[str, Any]:
    """Spec 004's own example, with some of it changed."""
    return {
        "content": content,
        "team_scope": "excalibur",
        "project_scope": "fundraising",
        "visibility": "team",
        "confidence": 0.9,
        "truth_level": "WORKING",
        "source": "librechat:conv_abc123",
        "validation_status": "pending",
        **changes,
    }


def joining(memory: Memory) -> Join:
    """Makes members of teams over one memory: `join("alice", role="admin", team="avalon")`."""

    def join(member: str, *, team: str = "excalibur", role: Role = "member", projects: Any = ()) -> TeamMemory:
        return TeamMemory(memory, team=team, member=member, role=role, projects=projects)

    return join


def promoted(join: Join, id: str, *levels: str) -> None:
    """Bring a memory to the last of the levels, by requests that one admin approves."""
    for level in levels:
        promotion = join("alice").request_promotion(id, level, "checked")
        if promotion.status == "pending":
            join("merlin", role="admin").decide(promotion.id, "approved")


class MovedClock:
    """The machine's clock, ahead by what a test says."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def of(self, memory: Memory) -> None:
        """Let a memory go by this clock."""
        memory._memory._engine.kernel.clock = MonotonicClock(self)
