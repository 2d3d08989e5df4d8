"""Server access: API keys, callers and their roles, the audit log, and promotions of memories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer
from perdure.domain.scope import Scope

# --- Callers

Role = Literal["reader", "member", "admin", "service"]
"""`reader` only reads; `member` writes; `admin` decides promotions, resets and reads the audit; `service` is a program
that may also write what a team holds for validated."""
ROLES: tuple[Role, ...] = ("reader", "member", "admin", "service")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Answer):
    """One key as the ledger keeps it: its secret is not here, and cannot be had again."""

    HIDDEN = ("digest",)

    id: str
    name: str
    """What people call it; of keys that stand, each has its own."""
    digest: str
    """SHA-256 of the secret in hexadecimal; an HMAC where the server has a pepper."""
    hint: str
    """The first characters of the secret, by which its owner knows it."""
    role: Role = "member"
    walls: Scope = field(default_factory=Scope)
    """What it may be used for: every request with it stays inside, a project for example."""
    created_at: str = ""
    revoked_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking, as far as credentials say."""

    name: str
    """For logs and the audit: a key's name, a token's subject, or `anonymous`."""
    role: Role = "member"
    walls: Scope = field(default_factory=Scope)
    subject: str | None = None
    """The member of a team that a token speaks for (`sub`)."""
    teams: frozenset[str] = frozenset()
    """Teams that a token's claims name."""
    projects: frozenset[str] = frozenset()
    """Projects that a token's claims name."""
    is_known: bool = True
    """Whether credentials said so: false for the caller of an open server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Answer):
    """One line of a team's audit: who did what to which thing, and when."""

    id: str
    at: str
    team: str
    actor: str
    action: str
    """upsert, patch, delete, promotion.requested, promotion.approved, promotion.rejected, promotion.automatic, ..."""
    subject_id: str
    """The memory or promotion that it was done to."""
    details: dict[str, Any] = field(default_factory=dict)
    """JSON; no text of a memory stands in it."""


# --- Promotions: the only way in which a memory's truth level changes

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
        """The promotion as plain values, under both names of its id."""
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
