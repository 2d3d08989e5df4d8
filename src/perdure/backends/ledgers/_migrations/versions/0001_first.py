"""The first tables: history (000 §5), journal, episodes, small caches, locks. Independent of today's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SCOPE = ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id")
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_KEPT = (("idempotency", "key"), ("responses", "key"), ("fingerprints", "fingerprint"))


def upgrade() -> None:
    _history()
    _journal()
    _episodes()
    for name, key in _KEPT:
        _kept_by_scope(name, key)
    op.create_table(
        "scope_locks",
        sa.Column("ticket", _NUMBER, primary_key=True, autoincrement=False),
        _text("owner"),
        _text("scope"),
        _text("created_at"),
    )
    counters = op.create_table(
        "counters", sa.Column("name", sa.Text(), primary_key=True), sa.Column("value", sa.BigInteger(), nullable=False)
    )
    op.bulk_insert(counters, [{"name": name, "value": 0} for name in ("change", "episode", "ticket")])
    op.create_table("marks", sa.Column("name", sa.Text(), primary_key=True), _text("value"))


def downgrade() -> None:
    kept = [name for name, _ in _KEPT]
    for name in ("memory_history", "journal", "episodes", *kept, "scope_locks", "counters", "marks"):
        op.drop_table(name)


def _text(name: str, *, needed: bool = True) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=not needed)


def _scope() -> list[sa.Column[Any]]:
    return [_text(name, needed=False) for name in _SCOPE]


def _index(name: str, table: str, columns: list[str], *, where: str | None = None, unique: bool = False) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _history() -> None:
    op.create_table(
        "memory_history",
        sa.Column("id", sa.Text(), primary_key=True),
        _text("memory_id"),
        _text("event"),
        _text("old_value", needed=False),
        _text("new_value", needed=False),
        _text("timestamp"),
        sa.Column("is_deleted", sa.Integer(), server_default=sa.text("0")),
        *_scope(),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        _text("actor"),
        _text("reason"),
        sa.Column("confidence", sa.Float(), nullable=False),
        _text("told_at", needed=False),
        _text("undoes", needed=False),
        _text("batch", needed=False),
        _text("lineage_id", needed=False),
        sa.Column("erased", sa.Integer(), nullable=False, server_default=sa.text("0")),
        _text("change", needed=False),
    )
    _index("idx_history_memory_id", "memory_history", ["memory_id"])
    _index("idx_history_timestamp", "memory_history", ["timestamp"])
    _index("idx_history_seq", "memory_history", ["seq"], unique=True)
    _index("idx_history_lineage_id", "memory_history", ["lineage_id"], where="lineage_id IS NOT NULL")
    for name in _SCOPE:
        _index(f"idx_history_{name}", "memory_history", [name, "seq"], where=f"{name} IS NOT NULL")


def _journal() -> None:
    op.create_table(
        "journal",
        sa.Column("sequence", _NUMBER, primary_key=True, autoincrement=False),
        _text("id"),
        _text("batch_id"),
        _text("memory_id"),
        _text("store_identity"),
        _text("collection"),
        _text("owner"),
        _text("boot_id"),
        _text("state"),
        _text("change"),
        sa.Column("vector", sa.LargeBinary()),
        sa.Column("keep_vector", sa.LargeBinary()),
        _text("created_at"),
        *_scope(),
    )
    _index("idx_journal_batch_id", "journal", ["batch_id"])
    _index("idx_journal_memory_id", "journal", ["memory_id"])
    _index("idx_journal_written", "journal", ["store_identity"], where="state = 'written'")


def _episodes() -> None:
    op.create_table(
        "episodes",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        _text("add_id"),
        sa.Column("position", sa.Integer(), nullable=False),
        _text("role"),
        _text("name", needed=False),
        _text("content"),
        _text("message_id", needed=False),
        _text("told_at"),
        _text("created_at"),
        *_scope(),
        sa.Column("hidden", sa.Integer(), nullable=False),
        sa.Column("pending", sa.Integer(), nullable=False),
        _text("batch_id", needed=False),
    )
    _index("idx_episodes_told_at", "episodes", ["told_at", "seq"])
    _index("idx_episodes_pending", "episodes", ["seq"], where="pending = 1")
    _index("idx_episodes_batch_id", "episodes", ["batch_id"], where="batch_id IS NOT NULL")
    for name in _SCOPE:
        _index(f"idx_episodes_{name}", "episodes", [name, "told_at", "seq"], where=f"{name} IS NOT NULL")


def _kept_by_scope(name: str, key: str) -> None:
    values = {"idempotency": [_text("value"), _text("batch_id", needed=False)], "responses": [_text("value")]}
    op.create_table(
        name,
        sa.Column(key, sa.Text(), primary_key=True),
        sa.Column("scope", sa.Text(), primary_key=True),
        *values.get(name, []),
        _text("created_at"),
    )
    _index(f"idx_{name}_created_at", name, ["created_at"])
    if name == "idempotency":
        _index("idx_idempotency_batch_id", name, ["batch_id"], where="batch_id IS NOT NULL")
