"""A promotion: the one way in which a memory's truth level moves (spec 004, X39 to X50)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Decision = Literal["approved", "rejected"]
PromotionState = Literal["pending", "approved", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What one approver said of a promotion."""

    by: str
    decision: Decision
    at: str
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """One request to move a memory's truth level, and what became of it."""

    id: str
    item_id: str
    team: str
    from_level: str
    target_level: str
    justification: str
    requested_by: str
    created_at: str
    status: PromotionState = "pending"
    votes: tuple[Vote, ...] = field(default_factory=tuple)
    decided_at: str | None = None

    def model_dump(self) -> dict[str, Any]:
        """The promotion as plain values, under both names of its id (X41)."""
        return {
            "id": self.id,
            "promotion_id": self.id,
            "item_id": self.item_id,
            "team_scope": self.team,
            "from_level": self.from_level,
            "target_level": self.target_level,
            "justification": self.justification,
            "requested_by": self.requested_by,
            "status": self.status,
            "created_at": self.created_at,
            "decided_at": self.decided_at,
            "votes": [
                {"by": vote.by, "decision": vote.decision, "at": vote.at, "note": vote.note} for vote in self.votes
            ],
        }
