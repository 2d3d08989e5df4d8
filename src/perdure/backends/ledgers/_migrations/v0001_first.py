"""The first tables: history (000 §5), journal, episodes, small caches, locks. Independent of today's tables."""

from __future__ import annotations

import sqlalchemy as sa

from perdure.backends.ledgers._migrations import COUNTERS, SCOPE, index, keys, maybe, texts

_NEW = sa.MetaData()
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

sa.Table(
    "memory_history",
    _NEW,
    sa.Column("id", sa.Text(), primary_key=True),
    *texts("memory_id", "event"),
    *maybe("old_value", "new_value"),
    *texts("timestamp"),
    sa.Column("is_deleted", sa.Integer(), server_default=sa.text("0")),
    *maybe(*SCOPE),
    sa.Column("seq", sa.BigInteger(), nullable=False),
    *texts("actor", "reason"),
    sa.Column("confidence", sa.Float(), nullable=False),
    *maybe("told_at", "undoes", "batch", "lineage_id"),
    sa.Column("erased", sa.Integer(), nullable=False, server_default=sa.text("0")),
    *maybe("change"),
)
index(_NEW, "memory_history", "idx_history_memory_id", "memory_id")
index(_NEW, "memory_history", "idx_history_timestamp", "timestamp")
index(_NEW, "memory_history", "idx_history_seq", "seq", unique=True)
index(_NEW, "memory_history", "idx_history_lineage_id", "lineage_id", where="lineage_id IS NOT NULL")
for name in SCOPE:
    index(_NEW, "memory_history", f"idx_history_{name}", name, "seq", where=f"{name} IS NOT NULL")

sa.Table(
    "journal",
    _NEW,
    sa.Column("sequence", _NUMBER, primary_key=True, autoincrement=False),
    *texts("id", "batch_id", "memory_id", "store_identity", "collection", "owner", "boot_id", "state", "change"),
    sa.Column("vector", sa.LargeBinary()),
    sa.Column("keep_vector", sa.LargeBinary()),
    *texts("created_at"),
    *maybe(*SCOPE),
)
index(_NEW, "journal", "idx_journal_batch_id", "batch_id")
index(_NEW, "journal", "idx_journal_memory_id", "memory_id")
index(_NEW, "journal", "idx_journal_written", "store_identity", where="state = 'written'")

sa.Table(
    "episodes",
    _NEW,
    sa.Column("id", sa.Text(), primary_key=True),
    sa.Column("seq", sa.BigInteger(), nullable=False),
    *texts("add_id"),
    sa.Column("position", sa.Integer(), nullable=False),
    *texts("role"),
    *maybe("name"),
    *texts("content"),
    *maybe("message_id"),
    *texts("told_at", "created_at"),
    *maybe(*SCOPE),
    sa.Column("hidden", sa.Integer(), nullable=False),
    sa.Column("pending", sa.Integer(), nullable=False),
    *maybe("batch_id"),
)
index(_NEW, "episodes", "idx_episodes_told_at", "told_at", "seq")
index(_NEW, "episodes", "idx_episodes_pending", "seq", where="pending = 1")
index(_NEW, "episodes", "idx_episodes_batch_id", "batch_id", where="batch_id IS NOT NULL")
for name in SCOPE:
    index(_NEW, "episodes", f"idx_episodes_{name}", name, "told_at", "seq", where=f"{name} IS NOT NULL")


def _kept_by_scope(name: str, key: str) -> None:
    values = {"idempotency": [*texts("value"), *maybe("batch_id")], "responses": texts("value")}
    sa.Table(
        name,
        _NEW,
        sa.Column(key, sa.Text(), primary_key=True),
        sa.Column("scope", sa.Text(), primary_key=True),
        *values.get(name, []),
        *texts("created_at"),
    )
    index(_NEW, name, f"idx_{name}_created_at", "created_at")
    if name == "idempotency":
        index(_NEW, name, "idx_idempotency_batch_id", "batch_id", where="batch_id IS NOT NULL")


for kept, key in (("idempotency", "key"), ("responses", "key"), ("fingerprints", "fingerprint")):
    _kept_by_scope(kept, key)
sa.Table(
    "scope_locks",
    _NEW,
    sa.Column("ticket", _NUMBER, primary_key=True, autoincrement=False),
    *texts("owner", "scope", "created_at"),
)
sa.Table("counters", _NEW, *keys("name"), sa.Column("value", sa.BigInteger(), nullable=False))
sa.Table("marks", _NEW, *keys("name"), *texts("value"))


def upgrade(connection: sa.Connection) -> None:
    _NEW.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(COUNTERS), [{"name": name, "value": 0} for name in ("change", "episode", "ticket")])
