"""Jobs, keys, promotions and the audit. Independent of today's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from perdure.backends.ledgers._migrations import COUNTERS, SCOPE, index, maybe, texts

_NEW = sa.MetaData()


def _numbered(name: str, *columns: sa.Column[Any]) -> None:
    sa.Table(
        name,
        _NEW,
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        *columns,
    )


_numbered(
    "jobs",
    *texts("kind", "memory_id"),
    *maybe(*SCOPE),
    *texts("payload", "state"),
    sa.Column("attempts", sa.Integer(), nullable=False),
    *texts("not_before", "created_at"),
    *maybe("error", "owner", "batch_id"),
)
index(_NEW, "jobs", "idx_jobs_memory", "memory_id", "kind", "seq")
index(_NEW, "jobs", "idx_jobs_processing", "memory_id", "kind", where="state = 'processing'", unique=True)
index(_NEW, "jobs", "idx_jobs_pending", "seq", where="state = 'pending'")
index(_NEW, "jobs", "idx_jobs_due", "not_before", where="state = 'pending'")
index(_NEW, "jobs", "idx_jobs_batch_id", "batch_id", where="batch_id IS NOT NULL")
for name in SCOPE:
    index(_NEW, "jobs", f"idx_jobs_{name}", name, "seq", where=f"{name} IS NOT NULL")

_numbered("api_keys", *texts("name", "digest", "hint", "role", "walls", "created_at"), *maybe("revoked_at"))
index(_NEW, "api_keys", "idx_api_keys_digest", "digest", unique=True)
index(_NEW, "api_keys", "idx_api_keys_name", "name", where="revoked_at IS NULL", unique=True)

names = ("team", "item_id", "status", "from_level", "target_level", "justification", "requested_by", "created_at")
_numbered("promotions", *texts(*names, "votes"), *maybe("decided_at"))
index(_NEW, "promotions", "idx_promotions_team", "team", "seq")
index(_NEW, "promotions", "idx_promotions_item", "item_id")

_numbered("audit", *texts("at", "team", "actor", "action", "subject_id", "details"))
index(_NEW, "audit", "idx_audit_team", "team", "seq")
index(_NEW, "audit", "idx_audit_subject", "subject_id", "seq")


def upgrade(connection: sa.Connection) -> None:
    _NEW.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(COUNTERS), {"name": "desk", "value": 0})
