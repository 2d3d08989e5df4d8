"""History: what happened to each memory (000 §5), and the changes behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select

from perdure.backends.ledgers._numbers import take_numbers
from perdure.backends.ledgers._rows import (
    change_from_json,
    change_to_json,
    check_limit,
    chunks,
    foreign_history_row,
    history_record,
    history_row,
)
from perdure.backends.ledgers._tables import history, insert_new
from perdure.domain.event import Change, HistoryRecord
from perdure.domain.scope import Scope

_ONE = select(history).where(history.c.id == bindparam("event_id"))
_LATER = (
    select(history)
    .where(history.c.memory_id == bindparam("memory"), history.c.seq > bindparam("after"))
    .order_by(history.c.seq)
)


def _line_of_memory() -> ColumnElement[bool]:
    """Rows of one memory, and of every memory that shares a lineage with it (U3).

    The first of a line may have been added before there was a line, and the line may bear its id.
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


def within(scope: Scope) -> ColumnElement[bool]:
    """Rows whose scope has every value that the given one has."""
    return and_(True, *(history.c[name] == value for name, value in scope.given().items()))


def add_history(connection: Connection, changes: Sequence[tuple[Change, int, str]], batch: str | None) -> None:
    """Add the rows of changes, each with its sequence number and its JSON; rows that exist are left as they are."""
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
    """The last timestamp of each memory and lineage that may have a history already."""
    fresh = (change.event == "ADD" and change.undoes is None and change.item.lineage_id is None for change in changes)
    keys = {key for change, new in zip(changes, fresh, strict=True) if not new for key in _line(change)}
    last: dict[str, str] = {}
    for some in chunks(sorted(keys)):
        for column in (history.c.memory_id, history.c.lineage_id):
            query = select(column, func.max(history.c.timestamp)).where(column.in_(some)).group_by(column)
            for key, moment in connection.execute(query):
                last[key] = max(moment, last.get(key, moment))
    return last


def record_history(connection: Connection, changes: Sequence[Change]) -> None:
    """Add history for changes that no journal holds."""
    numbers = take_numbers(connection, "change", len(changes))
    add_history(
        connection,
        [(change, number, change_to_json(change)) for change, number in zip(changes, numbers, strict=True)],
        None,
    )


def import_history(connection: Connection, records: Sequence[HistoryRecord]) -> int:
    """Add records as they are, oldest first; how many were new."""
    known = _known(connection, [record.id for record in records])
    fresh = {record.id: record for record in records if record.id not in known}
    if not fresh:
        return 0
    ordered = sorted(fresh.values(), key=lambda record: (record.timestamp, record.sequence))
    numbers = take_numbers(connection, "change", len(ordered))
    rows = [foreign_history_row(record, number) for record, number in zip(ordered, numbers, strict=True)]
    connection.execute(insert_new(connection, history), rows)
    return len(rows)


def _known(connection: Connection, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for some in chunks(ids):
        found.update(connection.execute(select(history.c.id).where(history.c.id.in_(some))).scalars())
    return found


def of_memory(connection: Connection, memory_id: str) -> list[HistoryRecord]:
    """All records of a memory's line, in order."""
    return [history_record(row) for row in connection.execute(_OF_MEMORY, {"memory": memory_id}).mappings()]


def one_record(connection: Connection, event_id: str) -> HistoryRecord | None:
    """One record."""
    row = connection.execute(_ONE, {"event_id": event_id}).mappings().first()
    return None if row is None else history_record(row)


def one_change(connection: Connection, event_id: str) -> Change | None:
    """The change behind one record."""
    row = connection.execute(_ONE, {"event_id": event_id}).mappings().first()
    return None if row is None or row["change"] is None else change_from_json(row["change"])


def later_records(connection: Connection, memory_id: str, sequence: int) -> list[HistoryRecord]:
    """Records of one memory after a sequence number."""
    rows = connection.execute(_LATER, {"memory": memory_id, "after": sequence}).mappings()
    return [history_record(row) for row in rows]


def changes_since(connection: Connection, scope: Scope, moment: str) -> list[Change]:
    """Changes in a scope after a moment, newest first."""
    query = (
        select(history.c.change)
        .where(within(scope), history.c.timestamp > moment, history.c.change.is_not(None))
        .order_by(history.c.timestamp.desc(), history.c.seq.desc())
    )
    return [change_from_json(text) for text in connection.execute(query).scalars()]


def page_of_scope(connection: Connection, scope: Scope, limit: int, after: int) -> list[HistoryRecord]:
    """Records of a scope after a sequence number."""
    check_limit(limit)
    query = select(history).where(within(scope), history.c.seq > after).order_by(history.c.seq).limit(limit)
    return [history_record(row) for row in connection.execute(query).mappings()]


def redact(connection: Connection, memory_ids: Iterable[str]) -> int:
    """Take the text out of the rows of memories; how many rows still had it."""
    count = 0
    for some in chunks(list(memory_ids)):
        gone = (
            history.update()
            .where(history.c.memory_id.in_(some), history.c.erased == 0)
            .values(old_value=None, new_value=None, change=None, reason="", erased=1)
        )
        count += connection.execute(gone).rowcount
    return count
