"""The ledger's tables, for every database that SQLAlchemy Core speaks; `memory_history` begins as 000 §5.1 has it.

A change here needs a migration beside it; a test compares what the migrations make with what stands here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    select,
    text,
    update,
)

from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import SCOPE_FIELDS

HEAD = "0005"
"""The newest migration: what a ledger must be at to be used."""

metadata = MetaData()


def _scope_columns() -> list[Column[Any]]:
    return [Column(name, Text) for name in SCOPE_FIELDS]


def _scope_indexes(table: Table, prefix: str, *then: str) -> None:
    """One index for each axis of scope, over the rows that have it: a scope column is always indexed (DESIGN §7)."""
    for name in SCOPE_FIELDS:
        given = text(f"{name} IS NOT NULL")
        Index(f"idx_{prefix}_{name}", table.c[name], *(table.c[column] for column in then), **_only(given))


def _only(condition: Any) -> dict[str, Any]:
    return {"sqlite_where": condition, "postgresql_where": condition}


history = Table(
    "memory_history",
    metadata,
    Column("id", Text, primary_key=True),
    Column("memory_id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("old_value", Text),
    Column("new_value", Text),
    Column("timestamp", Text, nullable=False),
    Column("is_deleted", Integer, server_default=text("0")),
    Column("user_id", Text),
    Column("agent_id", Text),
    Column("run_id", Text),
    Column("project_id", Text),
    Column("team_id", Text),
    Column("room_id", Text),
    Column("world_id", Text),
    Column("seq", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("told_at", Text),
    Column("undoes", Text),
    Column("batch", Text),
    Column("lineage_id", Text),
    Column("erased", Integer, nullable=False, server_default=text("0")),
    Column("change", Text),
)
Index("idx_history_memory_id", history.c.memory_id)
Index("idx_history_timestamp", history.c.timestamp)
Index("idx_history_seq", history.c.seq, unique=True)
Index("idx_history_lineage_id", history.c.lineage_id, **_only(text("lineage_id IS NOT NULL")))
_scope_indexes(history, "history", "seq")

journal = Table(
    "journal",
    metadata,
    Column("sequence", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("batch_id", Text, nullable=False),
    Column("memory_id", Text, nullable=False),
    Column("store_identity", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("change", Text, nullable=False),
    Column("vector", LargeBinary),
    Column("keep_vector", LargeBinary),
    Column("created_at", Text, nullable=False),
    *_scope_columns(),
)
Index("idx_journal_batch_id", journal.c.batch_id)
Index("idx_journal_memory_id", journal.c.memory_id)
Index("idx_journal_written", journal.c.store_identity, **_only(text("state = 'written'")))

episodes = Table(
    "episodes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("add_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("role", Text, nullable=False),
    Column("name", Text),
    Column("content", Text, nullable=False),
    Column("message_id", Text),
    Column("told_at", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    *_scope_columns(),
    Column("hidden", Integer, nullable=False),
    Column("pending", Integer, nullable=False),
    Column("batch_id", Text),
)
Index("idx_episodes_told_at", episodes.c.told_at, episodes.c.seq)
Index("idx_episodes_pending", episodes.c.seq, **_only(text("pending = 1")))
Index("idx_episodes_batch_id", episodes.c.batch_id, **_only(text("batch_id IS NOT NULL")))
_scope_indexes(episodes, "episodes", "told_at", "seq")


def _kept_by_scope(name: str, key: str, *values: Column[Any]) -> Table:
    """A small table of values kept under a key and a scope; `scope` is the scope's canonical JSON."""
    table = Table(
        name,
        metadata,
        Column(key, Text, primary_key=True),
        Column("scope", Text, primary_key=True),
        *values,
        Column("created_at", Text, nullable=False),
    )
    Index(f"idx_{name}_created_at", table.c.created_at)
    return table


idempotency = _kept_by_scope("idempotency", "key", Column("value", Text, nullable=False), Column("batch_id", Text))
Index("idx_idempotency_batch_id", idempotency.c.batch_id, **_only(text("batch_id IS NOT NULL")))
responses = _kept_by_scope("responses", "key", Column("value", Text, nullable=False))
fingerprints = _kept_by_scope("fingerprints", "fingerprint")

locks = Table(
    "scope_locks",
    metadata,
    Column("ticket", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("owner", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("created_at", Text, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("memory_id", Text, nullable=False),
    *_scope_columns(),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("not_before", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("error", Text),
    Column("owner", Text),
    Column("batch_id", Text),
)
"""`batch_id` is there while the change that a job follows is not applied; until then nobody may take it."""
Index("idx_jobs_memory", jobs.c.memory_id, jobs.c.kind, jobs.c.seq)
Index("idx_jobs_processing", jobs.c.memory_id, jobs.c.kind, unique=True, **_only(text("state = 'processing'")))
Index("idx_jobs_pending", jobs.c.seq, **_only(text("state = 'pending'")))
Index("idx_jobs_due", jobs.c.not_before, **_only(text("state = 'pending'")))
Index("idx_jobs_batch_id", jobs.c.batch_id, **_only(text("batch_id IS NOT NULL")))
_scope_indexes(jobs, "jobs", "seq")

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("walls", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("revoked_at", Text),
)
Index("idx_api_keys_digest", api_keys.c.digest, unique=True)
Index("idx_api_keys_name", api_keys.c.name, unique=True, **_only(text("revoked_at IS NULL")))

promotions = Table(
    "promotions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("team", Text, nullable=False),
    Column("item_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("from_level", Text, nullable=False),
    Column("target_level", Text, nullable=False),
    Column("justification", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("votes", Text, nullable=False),
    Column("decided_at", Text),
)
Index("idx_promotions_team", promotions.c.team, promotions.c.seq)
Index("idx_promotions_item", promotions.c.item_id)

audit = Table(
    "audit",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("at", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject_id", Text, nullable=False),
    Column("details", Text, nullable=False),
)
Index("idx_audit_team", audit.c.team, audit.c.seq)
Index("idx_audit_subject", audit.c.subject_id, audit.c.seq)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    *_scope_columns(),
    Column("turns", Integer, nullable=False),
    Column("read_turns", Integer, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("last_at", Text, nullable=False),
    Column("ended_at", Text),
    Column("state", Text),
    Column("state_until", Text),
    Column("store", Text, nullable=False, server_default=text("''")),
)
"""`store` is the mark of the store that learns from a session, empty where no store has claimed it yet."""
Index("idx_sessions_last_at", sessions.c.last_at)
Index("idx_sessions_open", sessions.c.last_at, **_only(text("ended_at IS NULL OR read_turns < turns")))
Index("idx_sessions_state_until", sessions.c.state_until, **_only(text("state IS NOT NULL")))
_scope_indexes(sessions, "sessions", "last_at")

session_turns = Table(
    "session_turns",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("episodes", Text, nullable=False),
    Column("at", Text, nullable=False),
)

links = Table(
    "response_links",
    metadata,
    Column("id", Text, primary_key=True),
    Column("previous_id", Text),
    *_scope_columns(),
    Column("session", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("items", Text, nullable=False),
    Column("episodes", Text, nullable=False),
    Column("created_at", Text, nullable=False),
)
_scope_indexes(links, "response_links", "created_at")

namings = Table(
    "namings",
    metadata,
    Column("named_id", Text, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("owner_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
)
"""Which turns, states and links name a message, or a memory: by it an erasure finds them. `place` is `turn`, `state` or
`link`, `owner_id` the session's or the link's id, and `number` the turn's, else 0."""
Index("idx_namings_owner", namings.c.owner_id, namings.c.place)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""`change` numbers journal entries and history, `episode` episodes, `ticket` locks, `desk` jobs, keys, promotions and
audit, `runtime` the records of agent runtimes. Its row makes writers take turns, so that numbers become visible in
their order on every database."""

COUNTERS = ("change", "episode", "ticket", "desk", "runtime")

marks = Table(
    "marks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Small facts about the ledger itself, such as a scrub that was put off."""

CLEARED = "cleared"
"""The mark that holds the change number at which the ledger was last cleared."""

versions = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's own table, read here without Alembic; not part of `metadata`."""


@cache
def _insert_new(dialect: str, table: Table, by_any_index: bool) -> Any:
    insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
    return insert.on_conflict_do_nothing(index_elements=None if by_any_index else list(table.primary_key))


def insert_new(connection: Connection, table: Table, *, by_any_index: bool = False) -> Any:
    """An INSERT that leaves rows whose primary key exists as they are, in the words of the connection's database.

    With `by_any_index` so are those that a new one would equal in any unique index.
    """
    return _insert_new(connection.dialect.name, table, by_any_index)


# Pages of what a team has: each begins after a row of that team.


def after_id(connection: Connection, table: Table, team: str, after: str) -> list[ColumnElement[bool]]:
    """The condition that a row came after one; none for "", InvalidInputError for what is no row of the team."""
    if not after:
        return []
    query = select(table.c.seq).where(table.c.id == after, table.c.team == team)
    number = connection.execute(query).scalar()
    if number is None:
        raise InvalidInputError(f"after must be an id of an earlier page, not {after!r}", field="after", value=after)
    return [table.c.seq > number]


# Consecutive numbers: they only grow, and become visible in their order.

_ADVANCE = (
    update(counters)
    .where(counters.c.name == bindparam("counter"))
    .values(value=counters.c.value + bindparam("count"))
    .returning(counters.c.value)
)


def take_numbers(connection: Connection, counter: str, count: int) -> range:
    """The next `count` numbers of a counter; who takes the following ones waits for the end of this transaction."""
    last: int = connection.execute(_ADVANCE, {"counter": counter, "count": count}).scalar_one()
    return range(last - count + 1, last + 1)
