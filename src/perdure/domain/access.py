"""Who may ask a server for what: keys, and the callers that credentials stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer
from perdure.domain.scope import Scope

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
    """Projects that a token's claims name (X35)."""
    is_known: bool = True
    """Whether credentials said so: false for the caller of an open server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Answer):
    """One line of a team's audit: who did what to which thing, and when (004, X20, X42)."""

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
