"""History: what happened to each memory (000 §5), and the changes behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select

from perdure.backends.ledgers.base import Mark, Touched
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import (
    change_from_json,
    change_to_json,
    check_limit,
    chunks,
    foreign_history_row,
    history_record,
    history_row,
)
from perdure.backends.ledgers.sql.tables import (
    CLEARED,
    counters,
    episodes,
    history,
    insert_new,
    journal,
    marks,
    take_numbers,
)
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


def import_history(tx: Transaction, records: Sequence[HistoryRecord]) -> int:
    """Add records as they are, oldest first; how many were new."""
    known = _known(tx.connection, [record.id for record in records])
    fresh = {record.id: record for record in records if record.id not in known}
    if not fresh:
        return 0
    ordered = sorted(fresh.values(), key=lambda record: (record.timestamp, record.sequence))
    numbers = take_numbers(tx.connection, "change", len(ordered))
    rows = [foreign_history_row(record, number) for record, number in zip(ordered, numbers, strict=True)]
    tx.connection.execute(insert_new(tx.connection, history), rows)
    return len(rows)


def _known(connection: Connection, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for some in chunks(ids):
        found.update(connection.execute(select(history.c.id).where(history.c.id.in_(some))).scalars())
    return found


def of_memory(tx: Transaction, memory_id: str) -> list[HistoryRecord]:
    """All records of a memory's line, in order."""
    return [history_record(row) for row in tx.connection.execute(_OF_MEMORY, {"memory": memory_id}).mappings()]


def one_record(tx: Transaction, event_id: str) -> HistoryRecord | None:
    """One record."""
    row = tx.connection.execute(_ONE, {"event_id": event_id}).mappings().first()
    return None if row is None else history_record(row)


def one_change(tx: Transaction, event_id: str) -> Change | None:
    """The change behind one record."""
    row = tx.connection.execute(_ONE, {"event_id": event_id}).mappings().first()
    return None if row is None or row["change"] is None else change_from_json(row["change"])


def changes_of(tx: Transaction, event_ids: Sequence[str]) -> dict[str, Change]:
    """The changes behind records, by the records' ids."""
    found: dict[str, Change] = {}
    for some in chunks(event_ids):
        query = select(history.c.id, history.c.change).where(history.c.id.in_(some), history.c.change.is_not(None))
        found.update({row.id: change_from_json(row.change) for row in tx.connection.execute(query)})
    return found


def later_records(tx: Transaction, memory_id: str, sequence: int) -> list[HistoryRecord]:
    """Records of one memory after a sequence number."""
    rows = tx.connection.execute(_LATER, {"memory": memory_id, "after": sequence}).mappings()
    return [history_record(row) for row in rows]


def changes_since(tx: Transaction, scope: Scope, moment: str) -> list[Change]:
    """Changes in a scope after a moment, newest first."""
    query = (
        select(history.c.change)
        .where(within(scope), history.c.timestamp > moment, history.c.change.is_not(None))
        .order_by(history.c.timestamp.desc(), history.c.seq.desc())
    )
    return [change_from_json(text) for text in tx.connection.execute(query).scalars()]


def page_of_scope(tx: Transaction, scope: Scope, limit: int = 500, after: int = 0) -> list[HistoryRecord]:
    """Records of a scope after a sequence number."""
    check_limit(limit)
    query = select(history).where(within(scope), history.c.seq > after).order_by(history.c.seq).limit(limit)
    return [history_record(row) for row in tx.connection.execute(query).mappings()]


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


# Which rows of a store may have changed inside a scope since a mark, for those who keep copies of them.

_COUNTERS = select(counters.c.name, counters.c.value).where(counters.c.name.in_(("change", "episode")))
_CLEARED = select(marks.c.value).where(marks.c.name == CLEARED)
_FIRST_WRITTEN = select(func.min(journal.c.sequence)).where(journal.c.state == "written")


def touched(tx: Transaction, scope: Scope, since: Mark | None = None) -> Touched:
    """What happened since a mark; with None only the mark of now."""
    values = {name: int(value) for name, value in tx.connection.execute(_COUNTERS)}
    now = Mark(values.get("change", 0), values.get("episode", 0))
    if since == now:  # nothing was written anywhere; a batch on its way would have moved the counter
        return Touched(now, (), ())
    first = tx.connection.execute(_FIRST_WRITTEN).scalar()
    if first is not None:  # its history may become visible after that of later numbers
        now = Mark(min(now.change, first - 1), now.episode)
    if since is None:
        return Touched(now, (), ())
    cleared = tx.connection.execute(_CLEARED).scalar()
    another = since.change > values.get("change", 0) or since.episode > values.get(
        "episode", 0
    )  # an earlier copy of it
    if another or (cleared is not None and since.change < int(cleared)):
        return Touched(now, (), (), reset=True)
    written: dict[str, None] = {}
    gone: dict[str, None] = {}
    rows = select(history.c.memory_id, history.c.event, history.c.change).where(
        within(scope), history.c.seq > since.change
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
    said = select(episodes.c.id).where(
        *(episodes.c[name] == value for name, value in scope.given().items()), episodes.c.seq > since.episode
    )
    for id in tx.connection.execute(said.order_by(episodes.c.seq)).scalars():
        if id not in gone:
            written[id] = None
    return Touched(now, tuple(written), tuple(gone))
