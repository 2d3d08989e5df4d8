"""History: what happened to each memory, and the changes behind it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, bindparam, func, or_, select, tuple_, update

from perdure.backends.ledgers.base import Ledger, Mark, Touched
from perdure.backends.ledgers.sql.tables import (
    CLEARED,
    change_from_json,
    change_to_json,
    change_with,
    check_limit,
    chunks,
    episodes,
    foreign_history_row,
    history,
    history_record,
    history_row,
    in_scope,
    insert_new,
    known_ids,
    marks,
    rows_with,
    take_numbers,
)
from perdure.backends.ledgers.sql.units import Transaction, asking_on, marks_of_now, reads, writes
from perdure.domain.event import Change, HistoryRecord
from perdure.domain.scope import Scope

_ONE = select(history).where(history.c.id == bindparam("event_id"))
_LATER = (
    select(history)
    .where(history.c.memory_id == bindparam("memory"), history.c.seq > bindparam("after"))
    .order_by(history.c.seq)
)


_LAST = tuple(
    select(column, func.max(history.c.timestamp)).where(column.in_(bindparam("keys", expanding=True))).group_by(column)
    for column in (history.c.memory_id, history.c.lineage_id)
)


def _line_of_memory() -> ColumnElement[bool]:
    """Select rows of one memory, and of every memory that shares a lineage with it.

    The first of a line may predate the line, whose id may be its own.
    """
    lines = select(history.c.lineage_id).where(
        history.c.memory_id == bindparam("memory"), history.c.lineage_id.is_not(None)
    )
    members = select(history.c.memory_id).where(history.c.lineage_id.in_(lines))
    return or_(
        history.c.memory_id == bindparam("memory"),
        history.c.memory_id.in_(members),
        history.c.memory_id.in_(lines),
        history.c.lineage_id == bindparam("memory"),
    )


_OF_MEMORY = select(history).where(_line_of_memory()).order_by(history.c.timestamp, history.c.seq)


def add_history(connection: Connection, changes: Sequence[tuple[Change, int, str]], batch: str | None) -> None:
    """Add the rows of changes, each with its sequence number and JSON; existing rows stay unchanged."""
    floors = _last_times(connection, [change for change, _, _ in changes])
    rows = []
    for change, sequence, json_text in changes:
        line = _line(change)
        # A clock that was set back must not put an effect before its cause.
        timestamp = max([change.at, *(floors[key] for key in line if key in floors)])
        floors.update(dict.fromkeys(line, timestamp))
        rows.append(history_row(change, sequence, timestamp, batch, json_text))
    if rows:
        connection.execute(insert_new(connection, history), rows)


def _line(change: Change) -> list[str]:
    lineage = change.item.lineage_id
    return [change.memory_id] if lineage is None else [change.memory_id, lineage]


def _last_times(connection: Connection, changes: Sequence[Change]) -> dict[str, str]:
    """Return the last timestamp of each memory and lineage that may already have a history."""
    fresh = (change.event == "ADD" and change.undoes is None and change.item.lineage_id is None for change in changes)
    keys = {key for change, new in zip(changes, fresh, strict=True) if not new for key in _line(change)}
    last: dict[str, str] = {}
    for some in chunks(sorted(keys)):
        for query in _LAST:
            for key, moment in connection.execute(query, {"keys": some}):
                last[key] = max(moment, last.get(key, moment))
    return last


def record_history(connection: Connection, changes: Sequence[Change]) -> None:
    """Add history for changes without a journal."""
    numbers = take_numbers(connection, "change", len(changes))
    add_history(
        connection,
        [(change, number, change_to_json(change)) for change, number in zip(changes, numbers, strict=True)],
        None,
    )


@writes(Ledger.import_history, within=None)
def import_history(tx: Transaction, records: Sequence[HistoryRecord]) -> int:
    known = known_ids(tx.connection, history, [record.id for record in records])
    fresh = {record.id: record for record in records if record.id not in known}
    if not fresh:
        return 0
    ordered = sorted(fresh.values(), key=lambda record: (record.timestamp, record.sequence))
    numbers = take_numbers(tx.connection, "change", len(ordered))
    rows = [foreign_history_row(record, number) for record, number in zip(ordered, numbers, strict=True)]
    tx.connection.execute(insert_new(tx.connection, history), rows)
    return len(rows)


@reads(Ledger.history)
def of_memory(tx: Transaction, memory_id: str) -> list[HistoryRecord]:
    return [history_record(row) for row in tx.connection.execute(_OF_MEMORY, {"memory": memory_id}).mappings()]


@reads(Ledger.history_record)
def one_record(tx: Transaction, event_id: str) -> HistoryRecord | None:
    row = tx.connection.execute(_ONE, {"event_id": event_id}).mappings().first()
    return None if row is None else history_record(row)


@reads(Ledger.event)
def one_change(tx: Transaction, event_id: str) -> Change | None:
    row = tx.connection.execute(_ONE, {"event_id": event_id}).mappings().first()
    return None if row is None or row["change"] is None else change_from_json(row["change"])


@reads(Ledger.events)
def changes_of(tx: Transaction, event_ids: Sequence[str]) -> dict[str, Change]:
    query = select(history.c.id, history.c.change).where(history.c.change.is_not(None))
    rows = rows_with(tx.connection, query, history.c.id, event_ids)
    return {row["id"]: change_from_json(row["change"]) for row in rows}


@reads(Ledger.later_events)
def later_records(tx: Transaction, memory_id: str, sequence: int) -> list[HistoryRecord]:
    rows = tx.connection.execute(_LATER, {"memory": memory_id, "after": sequence}).mappings()
    return [history_record(row) for row in rows]


@reads(Ledger.events_since)
def changes_since(tx: Transaction, scope: Scope, moment: str) -> list[Change]:
    query = (
        select(history.c.change)
        .where(*in_scope(history, scope), history.c.timestamp > moment, history.c.change.is_not(None))
        .order_by(history.c.timestamp.desc(), history.c.seq.desc())
    )
    return [change_from_json(text) for text in tx.connection.execute(query).scalars()]


@reads(Ledger.events_of_scope)
def page_of_scope(tx: Transaction, scope: Scope, limit: int = 500, after: int = 0) -> list[HistoryRecord]:
    check_limit(limit)
    query = select(history).where(*in_scope(history, scope), history.c.seq > after).order_by(history.c.seq).limit(limit)
    return [history_record(row) for row in tx.connection.execute(query).mappings()]


@reads(Ledger.deletions)
def last_deletions(
    tx: Transaction, scope: Scope, limit: int = 500, before: tuple[str, int] | None = None
) -> list[HistoryRecord]:
    check_limit(limit)
    later, place = history.alias(), tuple_(history.c.timestamp, history.c.seq)
    stands = select(later.c.id).where(
        later.c.memory_id == history.c.memory_id, tuple_(later.c.timestamp, later.c.seq) > place
    )
    query = select(history).where(
        *in_scope(history, scope), history.c.event == "DELETE", history.c.erased == 0, ~stands.exists()
    )
    if before is not None:
        query = query.where(place < tuple_(*before))
    query = query.order_by(history.c.timestamp.desc(), history.c.seq.desc()).limit(limit)
    return [history_record(row) for row in tx.connection.execute(query).mappings()]


def redact(connection: Connection, memory_ids: Sequence[str]) -> int:
    """Remove the text from the rows of memories; return how many still had it."""
    gone = update(history).where(history.c.erased == 0)
    gone = gone.values(old_value=None, new_value=None, change=None, reason="", erased=1)
    return change_with(connection, gone, history.c.memory_id, memory_ids)


# Which rows of a store may have changed inside a scope since a mark, for those who keep copies of them.

_CLEARED = select(marks.c.value).where(marks.c.name == CLEARED)


def touched_since(tx: Transaction, scope: Scope, since: Mark) -> Touched:
    given, now = marks_of_now(asking_on(tx.connection))
    cleared = tx.connection.execute(_CLEARED).scalar()
    # A mark from the future is of a ledger whose earlier copy this is.
    another = since.change > given.change or since.episode > given.episode
    if another or (cleared is not None and since.change < int(cleared)):
        return Touched(now, (), (), reset=True)
    written: dict[str, None] = {}
    gone: dict[str, None] = {}
    rows = select(history.c.memory_id, history.c.event, history.c.change).where(
        *in_scope(history, scope), history.c.seq > since.change
    )
    for id, event, text in tx.connection.execute(rows.order_by(history.c.seq)):
        change = None if text is None else change_from_json(text)
        deleted, kept = (gone, written) if event == "DELETE" else (written, gone)
        kept.pop(id, None)
        deleted[id] = None
        if change is not None:
            if change.before is not None and change.before.id != id:
                written.pop(change.before.id, None)
                gone[change.before.id] = None
            for message in change.hides:
                kept.pop(message, None)
                deleted[message] = None
    said = select(episodes.c.id).where(*in_scope(episodes, scope), episodes.c.seq > since.episode)
    for id in tx.connection.execute(said.order_by(episodes.c.seq)).scalars():
        if id not in gone:
            written[id] = None
    return Touched(now, tuple(written), tuple(gone))
