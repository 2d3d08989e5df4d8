"""Server access: API keys, callers and their roles, the audit log, and promotions of memories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer
from perdure.domain.scope import Scope

Role = Literal["reader", "member", "admin", "service"]
"""`reader` only reads; `member` writes; `admin` decides promotions, resets and reads the audit; `service` is a program
that may also write a team's validated facts."""
ROLES: tuple[Role, ...] = ("reader", "member", "admin", "service")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Answer):
    """An API key as the ledger stores it, without its secret, which cannot be recovered."""

    HIDDEN = ("digest",)

    id: str
    name: str
    """The name that people use; unique among the keys that are not revoked."""
    digest: str
    """SHA-256 of the secret in hexadecimal; an HMAC if the server has a pepper."""
    hint: str
    """The first characters of the secret, so that its owner recognises it."""
    role: Role = "member"
    walls: Scope = field(default_factory=Scope)
    """The scope of the key, a project for example: every request with it stays inside."""
    created_at: str = ""
    revoked_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The authenticated caller of a request."""

    name: str
    """The name in logs and the audit: a key's name, a token's subject, or `anonymous`."""
    role: Role = "member"
    walls: Scope = field(default_factory=Scope)
    subject: str | None = None
    """The team member that a token names (`sub`)."""
    teams: frozenset[str] = frozenset()
    """The teams in a token's claims."""
    projects: frozenset[str] = frozenset()
    """The projects in a token's claims."""
    is_known: bool = True
    """Whether credentials identified the caller; false for the caller of an open server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Answer):
    """One line of a team's audit: who did what to which item, and when."""

    id: str
    at: str
    team: str
    actor: str
    action: str
    """upsert, patch, delete, promotion.requested, promotion.approved, promotion.rejected, promotion.automatic, ..."""
    subject_id: str
    """The memory or promotion that was changed."""
    details: dict[str, Any] = field(default_factory=dict)
    """JSON, without any text of a memory."""


Decision = Literal["approved", "rejected"]
PromotionState = Literal["pending", "approved", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One approver's decision on a promotion."""

    by: str
    decision: Decision
    at: str
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A request to raise a memory's truth level, and its outcome."""

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
