"""Sessions, their turns, and chains of responses. Independent of today's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from perdure.backends.ledgers._migrations import SCOPE, index, keys, maybe, texts

_NEW = sa.MetaData()


def _number() -> sa.Column[Any]:
    return sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False)


def _scope_indexes(table: str, then: str) -> None:
    for name in SCOPE:
        index(_NEW, table, f"idx_{table}_{name}", name, then, where=f"{name} IS NOT NULL")


sa.Table(
    "sessions",
    _NEW,
    *keys("id"),
    *texts("name"),
    *maybe(*SCOPE),
    sa.Column("turns", sa.Integer(), nullable=False),
    sa.Column("read_turns", sa.Integer(), nullable=False),
    *texts("started_at", "last_at"),
    *maybe("ended_at", "state", "state_until"),
)
index(_NEW, "sessions", "idx_sessions_last_at", "last_at")
index(_NEW, "sessions", "idx_sessions_open", "last_at", where="ended_at IS NULL OR read_turns < turns")
index(_NEW, "sessions", "idx_sessions_state_until", "state_until", where="state IS NOT NULL")
_scope_indexes("sessions", "last_at")
sa.Table("session_turns", _NEW, *keys("session_id"), _number(), *texts("episodes", "at"))

sa.Table(
    "response_links",
    _NEW,
    *keys("id"),
    *maybe("previous_id", *SCOPE),
    *texts("session", "model", "items", "episodes", "created_at"),
)
_scope_indexes("response_links", "created_at")

sa.Table("namings", _NEW, *keys("named_id", "place", "owner_id"), _number())
index(_NEW, "namings", "idx_namings_owner", "owner_id", "place")


def upgrade(connection: sa.Connection) -> None:
    _NEW.create_all(connection, checkfirst=False)
