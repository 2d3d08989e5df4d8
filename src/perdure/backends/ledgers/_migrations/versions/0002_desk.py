"""Jobs, keys, promotions and the audit. Independent of today's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SCOPE = ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id")
_COUNTERS = sa.table("counters", sa.column("name", sa.Text()), sa.column("value", sa.BigInteger()))


def upgrade() -> None:
    _jobs()
    _keys()
    _promotions()
    _audit()
    op.bulk_insert(_COUNTERS, [{"name": "desk", "value": 0}])


def downgrade() -> None:
    op.execute(_COUNTERS.delete().where(_COUNTERS.c.name == "desk"))
    for name in ("jobs", "api_keys", "promotions", "audit"):
        op.drop_table(name)


def _numbered(name: str, *columns: sa.Column[Any]) -> None:
    op.create_table(
        name, sa.Column("id", sa.Text(), primary_key=True), sa.Column("seq", sa.BigInteger(), nullable=False), *columns
    )


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _maybe(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text()) for name in names]


def _index(name: str, table: str, columns: list[str], *, where: str | None = None, unique: bool = False) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _jobs() -> None:
    _numbered(
        "jobs",
        *_texts("kind", "memory_id"),
        *_maybe(*_SCOPE),
        *_texts("payload", "state"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        *_texts("not_before", "created_at"),
        *_maybe("error", "owner", "batch_id"),
    )
    _index("idx_jobs_memory", "jobs", ["memory_id", "kind", "seq"])
    _index("idx_jobs_processing", "jobs", ["memory_id", "kind"], where="state = 'processing'", unique=True)
    _index("idx_jobs_pending", "jobs", ["seq"], where="state = 'pending'")
    _index("idx_jobs_due", "jobs", ["not_before"], where="state = 'pending'")
    _index("idx_jobs_batch_id", "jobs", ["batch_id"], where="batch_id IS NOT NULL")
    for name in _SCOPE:
        _index(f"idx_jobs_{name}", "jobs", [name, "seq"], where=f"{name} IS NOT NULL")


def _keys() -> None:
    _numbered("api_keys", *_texts("name", "digest", "hint", "role", "walls", "created_at"), *_maybe("revoked_at"))
    _index("idx_api_keys_digest", "api_keys", ["digest"], unique=True)
    _index("idx_api_keys_name", "api_keys", ["name"], where="revoked_at IS NULL", unique=True)


def _promotions() -> None:
    names = ("team", "item_id", "status", "from_level", "target_level", "justification", "requested_by", "created_at")
    _numbered("promotions", *_texts(*names, "votes"), *_maybe("decided_at"))
    _index("idx_promotions_team", "promotions", ["team", "seq"])
    _index("idx_promotions_item", "promotions", ["item_id"])


def _audit() -> None:
    _numbered("audit", *_texts("at", "team", "actor", "action", "subject_id", "details"))
    _index("idx_audit_team", "audit", ["team", "seq"])
    _index("idx_audit_subject", "audit", ["subject_id", "seq"])
