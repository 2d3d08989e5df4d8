"""The ledger's tables for every database of SQLAlchemy Core, and the conversion of their rows.

A changed table needs a migration; a test compares the migrations' result with the tables here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from perdure.backends.ledgers.base import JournalEntry
from perdure.domain.clock import iso, parse_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Change, Episode, HistoryRecord
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope

metadata = sa.MetaData()


def text_keys(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, primary_key=True) for name in names]


def texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def optional_texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text) for name in names]


def integers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def big_integers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def rows_where(condition: str) -> dict[str, Any]:
    """Return the options of a partial index; see `for_postgresql`."""
    return {"sqlite_where": sa.text(condition)}


def for_postgresql() -> None:
    """Give every partial index its condition for PostgreSQL too, before its tables are created.

    Otherwise SQLAlchemy would import that dialect with every opening of a SQLite file.
    """
    for table in metadata.tables.values():
        for index in table.indexes:
            condition = index.dialect_options["sqlite"]["where"]
            if condition is not None:
                index.dialect_options["postgresql"]["where"] = condition


def _number_key(name: str) -> sa.Column[Any]:
    wide = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    return sa.Column(name, wide, primary_key=True, autoincrement=False)


def _scope_indexes(table: sa.Table, prefix: str, *then: str) -> None:
    """Index each scope field over the rows that have it."""
    for name in SCOPE_FIELDS:
        columns = (table.c[column] for column in then)
        sa.Index(f"idx_{prefix}_{name}", table.c[name], *columns, **rows_where(f"{name} IS NOT NULL"))


history = sa.Table(
    "memory_history",
    metadata,
    *text_keys("id"),
    *texts("memory_id", "event"),
    *optional_texts("old_value", "new_value"),
    *texts("timestamp"),
    sa.Column("is_deleted", sa.Integer, server_default=sa.text("0")),
    *optional_texts("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id"),
    *big_integers("seq"),
    *texts("actor", "reason"),
    sa.Column("confidence", sa.Float, nullable=False),
    *optional_texts("told_at", "undoes", "batch", "lineage_id"),
    sa.Column("erased", sa.Integer, nullable=False, server_default=sa.text("0")),
    *optional_texts("change"),
)
sa.Index("idx_history_memory_id", history.c.memory_id)
sa.Index("idx_history_timestamp", history.c.timestamp)
sa.Index("idx_history_seq", history.c.seq, unique=True)
sa.Index("idx_history_lineage_id", history.c.lineage_id, **rows_where("lineage_id IS NOT NULL"))
_scope_indexes(history, "history", "seq")

journal = sa.Table(
    "journal",
    metadata,
    _number_key("sequence"),
    *texts("id", "batch_id", "memory_id", "store_identity", "collection", "owner", "boot_id", "state", "change"),
    sa.Column("vector", sa.LargeBinary),
    sa.Column("keep_vector", sa.LargeBinary),
    *texts("created_at"),
    *optional_texts(*SCOPE_FIELDS),
)
sa.Index("idx_journal_batch_id", journal.c.batch_id)
sa.Index("idx_journal_memory_id", journal.c.memory_id)
sa.Index("idx_journal_written", journal.c.store_identity, **rows_where("state = 'written'"))

episodes = sa.Table(
    "episodes",
    metadata,
    *text_keys("id"),
    *big_integers("seq"),
    *texts("add_id"),
    *integers("position"),
    *texts("role"),
    *optional_texts("name"),
    *texts("content"),
    *optional_texts("message_id"),
    *texts("told_at", "created_at"),
    *optional_texts(*SCOPE_FIELDS),
    *integers("hidden", "pending"),
    *optional_texts("batch_id", "brought"),
)
"""`brought` is what a call brought for the facts of a message that waits to be read; else there is none."""
sa.Index("idx_episodes_told_at", episodes.c.told_at, episodes.c.seq)
sa.Index("idx_episodes_pending", episodes.c.seq, **rows_where("pending = 1"))
sa.Index("idx_episodes_batch_id", episodes.c.batch_id, **rows_where("batch_id IS NOT NULL"))
_scope_indexes(episodes, "episodes", "told_at", "seq")


def _kept_by_scope(name: str, key: str, *values: sa.Column[Any]) -> sa.Table:
    """Return a table of values by key and scope; `scope` is the scope's canonical JSON."""
    table = sa.Table(name, metadata, *text_keys(key, "scope"), *values, *texts("created_at"))
    sa.Index(f"idx_{name}_created_at", table.c.created_at)
    return table


idempotency = _kept_by_scope("idempotency", "key", *texts("value"), *optional_texts("batch_id"))
sa.Index("idx_idempotency_batch_id", idempotency.c.batch_id, **rows_where("batch_id IS NOT NULL"))
responses = _kept_by_scope("responses", "key", *texts("value"))
fingerprints = _kept_by_scope("fingerprints", "fingerprint")
locks = sa.Table("scope_locks", metadata, _number_key("ticket"), *texts("owner", "scope", "created_at"))
jobs = sa.Table(
    "jobs",
    metadata,
    *text_keys("id"),
    *big_integers("seq"),
    *texts("kind", "memory_id"),
    *optional_texts(*SCOPE_FIELDS),
    *texts("payload", "state"),
    *integers("attempts"),
    *texts("not_before", "created_at"),
    *optional_texts("error", "owner", "batch_id"),
)
"""`batch_id` is there while the change that a job follows is not applied; until then nobody may take it."""
sa.Index("idx_jobs_memory", jobs.c.memory_id, jobs.c.kind, jobs.c.seq)
sa.Index("idx_jobs_processing", jobs.c.memory_id, jobs.c.kind, unique=True, **rows_where("state = 'processing'"))
sa.Index("idx_jobs_pending", jobs.c.seq, **rows_where("state = 'pending'"))
sa.Index("idx_jobs_due", jobs.c.not_before, **rows_where("state = 'pending'"))
sa.Index("idx_jobs_batch_id", jobs.c.batch_id, **rows_where("batch_id IS NOT NULL"))
_scope_indexes(jobs, "jobs", "seq")

api_keys = sa.Table(
    "api_keys",
    metadata,
    *text_keys("id"),
    *big_integers("seq"),
    *texts("name", "digest", "hint", "role", "walls", "created_at"),
    *optional_texts("revoked_at"),
)
sa.Index("idx_api_keys_digest", api_keys.c.digest, unique=True)
sa.Index("idx_api_keys_name", api_keys.c.name, unique=True, **rows_where("revoked_at IS NULL"))

promotions = sa.Table(
    "promotions",
    metadata,
    *text_keys("id"),
    *big_integers("seq"),
    *texts("team", "item_id", "status", "from_level", "target_level", "justification", "requested_by"),
    *texts("created_at", "votes"),
    *optional_texts("decided_at"),
)
sa.Index("idx_promotions_team", promotions.c.team, promotions.c.seq)
sa.Index("idx_promotions_item", promotions.c.item_id)

audit = sa.Table(
    "audit",
    metadata,
    *text_keys("id"),
    *big_integers("seq"),
    *texts("at", "team", "actor", "action", "subject_id", "details"),
)
sa.Index("idx_audit_team", audit.c.team, audit.c.seq)
sa.Index("idx_audit_subject", audit.c.subject_id, audit.c.seq)

sessions = sa.Table(
    "sessions",
    metadata,
    *text_keys("id"),
    *texts("name"),
    *optional_texts(*SCOPE_FIELDS),
    *integers("turns", "read_turns"),
    *texts("started_at", "last_at"),
    *optional_texts("ended_at", "state", "state_until"),
    sa.Column("store", sa.Text, nullable=False, server_default=sa.text("''")),
)
"""`store` is the mark of the store that learns from a session, empty where no store has claimed it yet."""
sa.Index("idx_sessions_last_at", sessions.c.last_at)
sa.Index("idx_sessions_open", sessions.c.last_at, **rows_where("ended_at IS NULL OR read_turns < turns"))
sa.Index("idx_sessions_state_until", sessions.c.state_until, **rows_where("state IS NOT NULL"))
_scope_indexes(sessions, "sessions", "last_at")

session_turns = sa.Table(
    "session_turns",
    metadata,
    *text_keys("session_id"),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *texts("episodes", "at"),
)

links = sa.Table(
    "response_links",
    metadata,
    *text_keys("id"),
    *optional_texts("previous_id", *SCOPE_FIELDS),
    *texts("session", "model", "items", "episodes", "created_at"),
)
_scope_indexes(links, "response_links", "created_at")

namings = sa.Table(
    "namings",
    metadata,
    *text_keys("named_id", "place", "owner_id"),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
)
"""Which turns, states and links name a message, or a memory: by it an erasure finds them. `place` is `turn`, `state` or
`link`, `owner_id` the session's or the link's id, and `number` the turn's, else 0."""
sa.Index("idx_namings_owner", namings.c.owner_id, namings.c.place)

counters = sa.Table("counters", metadata, *text_keys("name"), *big_integers("value"))
"""`change` numbers journal entries and history, `episode` episodes, `ticket` locks, `desk` jobs, keys, promotions and
audit, `runtime` the records of agent runtimes. Its row makes writers take turns, so that numbers become visible in
their order on every database."""

COUNTERS = ("change", "episode", "ticket", "desk", "runtime")
marks = sa.Table("marks", metadata, *text_keys("name"), *texts("value"))
"""Small facts about the ledger itself, such as a scrub that was put off."""

CLEARED = "cleared"  # the mark that holds the change number at which the ledger was last cleared
versions = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))
"""Where the version of the tables stands, as Alembic kept it in earlier perdures; not part of `metadata`."""


@cache
def _insert_new(dialect: str, table: sa.Table, by_any_index: bool) -> Any:
    insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
    return insert.on_conflict_do_nothing(index_elements=None if by_any_index else list(table.primary_key))


def insert_new(connection: sa.Connection, table: sa.Table, *, by_any_index: bool = False) -> Any:
    """Return an INSERT that skips rows with an existing primary key, in the database's dialect.

    With `by_any_index` it skips rows that collide in any unique index.
    """
    return _insert_new(connection.dialect.name, table, by_any_index)


# Consecutive numbers: they only grow, and become visible in their order.

_ADVANCE = (
    sa.update(counters)
    .where(counters.c.name == sa.bindparam("counter"))
    .values(value=counters.c.value + sa.bindparam("count"))
    .returning(counters.c.value)
)


def take_numbers(connection: sa.Connection, counter: str, count: int) -> range:
    """Return the next `count` numbers of a counter; later callers wait for the end of this transaction."""
    last: int = connection.execute(_ADVANCE, {"counter": counter, "count": count}).scalar_one()
    return range(last - count + 1, last + 1)


def in_scope(table: sa.FromClause, scope: Scope | None) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that a row has all of a scope's values."""
    return [] if scope is None else [table.c[name] == value for name, value in scope.given().items()]


def chunks(values: Sequence[str], size: int = 500) -> list[Sequence[str]]:
    """Split values into lists that every database accepts as parameters."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def rows_with(
    connection: sa.Connection, query: sa.Select[Any], column: sa.ColumnElement[Any], values: Sequence[str]
) -> Iterator[sa.RowMapping]:
    """Return the rows of a query whose column has one of the values."""
    for some in chunks(values):
        yield from connection.execute(query.where(column.in_(some))).mappings().all()


def change_with(
    connection: sa.Connection, statement: sa.Update | sa.Delete, column: sa.ColumnElement[Any], values: Sequence[str]
) -> int:
    """Update or delete the rows whose column has one of the values; return how many."""
    return sum(connection.execute(statement.where(column.in_(some))).rowcount for some in chunks(values))


def known_ids(connection: sa.Connection, table: sa.Table, ids: Sequence[str]) -> set[str]:
    return {row["id"] for row in rows_with(connection, sa.select(table.c.id), table.c.id, ids)}


def count_rows(connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
    """Return the number of rows that satisfy the conditions."""
    found: int = connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one()
    return found


def row_of(connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.RowMapping | None:
    return connection.execute(sa.select(table).where(*conditions)).mappings().first()


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ENCODE_STRICTLY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_ITEMS = ("before", "after", "keep")
_PLAIN = ("id", "event", "memory_id", "at", "told_at", "actor", "reason", "confidence", "undoes")
_LISTS = ("sources", "hides")
_FLOAT32 = np.dtype("<f4")


class Row(Protocol):
    """A row with values by column name."""

    def __getitem__(self, column: str, /) -> Any: ...


def encode(value: Any, field: str) -> str:
    """Return the value as JSON; InvalidInputError names the field if that is impossible."""
    try:
        return _ENCODE_STRICTLY(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{field} must be JSON: {error}", field=field, value=None) from None


def decode(text: str) -> Any:
    return json.loads(text)


def moment_of(value: str, field: str) -> str:
    """Return the time as fixed-width text for comparisons; InvalidInputError names an invalid field."""
    return iso(parse_moment(value, field))


def scope_of_row(row: Row) -> Scope:
    return Scope(**columns_of(row, SCOPE_FIELDS))


def change_to_json(change: Change) -> str:
    """Return the change as JSON with complete payloads."""
    fields = fields_of(change, (*_PLAIN, *_LISTS))
    for name in _ITEMS:
        item: MemoryItem | None = getattr(change, name)
        if item is not None:
            fields[name] = item.to_payload()
    return _ENCODE(fields)


def change_from_json(text: str) -> Change:
    """Return the change from `change_to_json`; unknown fields are ignored."""
    fields = json.loads(text)
    values = {name: fields[name] for name in _PLAIN if name in fields}
    for name in _LISTS:
        values[name] = tuple(fields.get(name, ()))
    for name in _ITEMS:
        if fields.get(name) is not None:
            values[name] = MemoryItem.from_payload(fields[name])
    return Change(**values)


def vector_to_bytes(vector: NDArray[np.float32] | None) -> bytes | None:
    return None if vector is None else np.ascontiguousarray(vector, dtype=_FLOAT32).tobytes()


def vector_from_bytes(data: bytes | None) -> NDArray[np.float32] | None:
    """Return a new vector from little-endian float32 bytes."""
    return None if data is None else np.frombuffer(data, dtype=_FLOAT32).astype(np.float32)


_JOURNAL = ("batch_id", "store_identity", "collection")
_HISTORY = ("id", "memory_id", "event", "timestamp", "actor", "reason", "confidence", "told_at", "undoes")
_EPISODE = ("id", "add_id", "position", "role", "name", "content", "message_id", "told_at", "created_at")


def fields_of(value: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def columns_of(row: Row, names: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def journal_row(entry: JournalEntry, sequence: int, owner: str, boot: str, now: str) -> dict[str, Any]:
    """Return the row of a journal entry to be written."""
    return {
        **fields_of(entry, _JOURNAL),
        "sequence": sequence,
        "id": entry.change.id,
        "memory_id": entry.change.memory_id,
        "owner": owner,
        "boot_id": boot,
        "state": "written",
        "change": change_to_json(entry.change),
        "vector": vector_to_bytes(entry.vector),
        "keep_vector": vector_to_bytes(entry.keep_vector),
        "created_at": now,
        **fields_of(entry.change.item.scope, SCOPE_FIELDS),
    }


def journal_entry(row: Row) -> JournalEntry:
    return JournalEntry(
        **columns_of(row, (*_JOURNAL, "sequence", "owner", "boot_id", "state", "created_at")),
        change=change_from_json(row["change"]),
        vector=vector_from_bytes(row["vector"]),
        keep_vector=vector_from_bytes(row["keep_vector"]),
    )


def history_row(change: Change, sequence: int, timestamp: str, batch: str | None, json_text: str) -> dict[str, Any]:
    return {
        **fields_of(change, (name for name in _HISTORY if name != "timestamp")),
        "timestamp": timestamp,
        "old_value": None if change.before is None else change.before.memory,
        "new_value": None if change.after is None else change.after.memory,
        "is_deleted": int(change.event == "DELETE"),
        **fields_of(change.item.scope, SCOPE_FIELDS),
        "seq": sequence,
        "batch": batch,
        "lineage_id": change.item.lineage_id,
        "erased": 0,
        "change": json_text,
    }


def foreign_history_row(record: HistoryRecord, sequence: int) -> dict[str, Any]:
    """Return the history row of a foreign record, which has no change and cannot be undone."""
    row: dict[str, Any] = dict.fromkeys((*SCOPE_FIELDS, "batch", "lineage_id", "change"))
    row.update({name: value for name, value in record.model_dump().items() if name != "sequence"})
    row.update(seq=sequence, is_deleted=int(record.is_deleted), erased=int(record.erased))
    return row


def history_record(row: Row) -> HistoryRecord:
    return HistoryRecord(
        **columns_of(row, (*_HISTORY, "old_value", "new_value", *SCOPE_FIELDS)),
        is_deleted=bool(row["is_deleted"]),
        sequence=row["seq"],
        erased=bool(row["erased"]),
    )


def episode_row(episode: Episode, sequence: int, batch: str | None) -> dict[str, Any]:
    return {
        **fields_of(episode, _EPISODE),
        "seq": sequence,
        **{name: episode.scope.get(name) for name in SCOPE_FIELDS},
        "hidden": int(episode.hidden),
        "pending": int(episode.pending),
        "batch_id": batch,
        "brought": encode(episode.brought, "brought") if episode.pending and episode.brought else None,
    }


def episode_of(row: Row) -> Episode:
    return Episode(
        **columns_of(row, _EPISODE),
        scope={name: row[name] for name in SCOPE_FIELDS if row[name] is not None},
        hidden=bool(row["hidden"]),
        pending=bool(row["pending"]),
        brought=decode(row["brought"]) if row["brought"] else {},
    )


def check_limit(limit: int) -> None:
    """Raise InvalidInputError for a limit below 1."""
    if limit < 1:
        raise InvalidInputError(f"limit must be at least 1, not {limit!r}", field="limit", value=limit)
