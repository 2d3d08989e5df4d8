"""Sessions, their turns, and chains of responses. Independent of today's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SCOPE = ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id")


def upgrade() -> None:
    _sessions()
    _links()
    _namings()


def downgrade() -> None:
    for name in ("sessions", "session_turns", "response_links", "namings"):
        op.drop_table(name)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _maybe(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text()) for name in names]


def _keys(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), primary_key=True) for name in names]


def _number() -> sa.Column[Any]:
    return sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False)


def _index(name: str, table: str, columns: list[str], *, where: str | None = None) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)


def _scope_indexes(table: str, then: str) -> None:
    for name in _SCOPE:
        _index(f"idx_{table}_{name}", table, [name, then], where=f"{name} IS NOT NULL")


def _sessions() -> None:
    op.create_table(
        "sessions",
        *_keys("id"),
        *_texts("name"),
        *_maybe(*_SCOPE),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("read_turns", sa.Integer(), nullable=False),
        *_texts("started_at", "last_at"),
        *_maybe("ended_at", "state", "state_until"),
    )
    _index("idx_sessions_last_at", "sessions", ["last_at"])
    _index("idx_sessions_open", "sessions", ["last_at"], where="ended_at IS NULL OR read_turns < turns")
    _index("idx_sessions_state_until", "sessions", ["state_until"], where="state IS NOT NULL")
    _scope_indexes("sessions", "last_at")
    op.create_table("session_turns", *_keys("session_id"), _number(), *_texts("episodes", "at"))


def _links() -> None:
    op.create_table(
        "response_links",
        *_keys("id"),
        *_maybe("previous_id", *_SCOPE),
        *_texts("session", "model", "items", "episodes", "created_at"),
    )
    _scope_indexes("response_links", "created_at")


def _namings() -> None:
    op.create_table("namings", *_keys("named_id", "place", "owner_id"), _number())
    _index("idx_namings_owner", "namings", ["owner_id", "place"])
