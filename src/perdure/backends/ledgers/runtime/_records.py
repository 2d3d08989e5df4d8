"""Records of agent runtimes: kept, found, changed, removed with what hangs on them, and tasks taken when due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, delete, insert, select, update

from perdure.backends.ledgers._numbers import take_numbers
from perdure.backends.ledgers._rows import Row, decode, encode
from perdure.backends.ledgers._tables import insert_new
from perdure.backends.ledgers._writer import Writer
from perdure.backends.ledgers.runtime._conditions import asked, conditions, in_order, key_of, order_columns, pieces
from perdure.backends.ledgers.runtime._tables import COUNTER, TABLES, tasks
from perdure.backends.ledgers.runtime._tags import encode_tags
from perdure.backends.ledgers.runtime.base import Query, Where
from perdure.domain import runtime as nouns
from perdure.domain.errors import InvalidInputError
from perdure.domain.naming import camel
from perdure.domain.records import read_offset
from perdure.domain.runtime import R, Record, Task
from perdure.domain.text import shown

_OF_AGENT: tuple[type[Record], ...] = tuple(noun for noun in TABLES if "agent_id" in TABLES[noun].c)
_HANGS_ON: Mapping[type[Record], Sequence[tuple[type[Record], str]]] = {
    nouns.Agent: [(noun, "agent_id") for noun in _OF_AGENT],
    nouns.World: [(nouns.Room, "world_id"), (nouns.Component, "world_id"), (nouns.Task, "world_id")],
    nouns.Room: [
        (nouns.Participant, "room_id"),
        (nouns.Component, "room_id"),
        (nouns.Task, "room_id"),
        (nouns.LogEntry, "room_id"),
    ],
    nouns.Entity: [
        (nouns.Participant, "entity_id"),
        (nouns.Component, "entity_id"),
        (nouns.Component, "source_entity_id"),
        (nouns.Relationship, "source_entity_id"),
        (nouns.Relationship, "target_entity_id"),
        (nouns.Task, "entity_id"),
        (nouns.LogEntry, "entity_id"),
    ],
    nouns.MessageServer: [(nouns.Channel, "message_server_id"), (nouns.ServerAgent, "message_server_id")],
    nouns.Channel: [(nouns.ChannelParticipant, "channel_id")],
}
"""Which records go when one does, by the field that names it; those of an agent only with its own."""


def _stored(column: Column[Any], value: Any) -> Any:
    """A field's value as its column holds it."""
    if "tags" in column.info:
        return encode_tags(value, column.name)
    if "json" in column.info:
        return encode(value, column.name)
    if "blank" in column.info:
        return value or ""
    return int(value) if "flag" in column.info else value


def _told(column: Column[Any], value: Any) -> Any:
    """The value of a field behind its column's."""
    if "tags" in column.info:
        return tuple(decode(value))
    if "json" in column.info:
        return decode(value)
    if "blank" in column.info:
        return value or None
    return bool(value) if "flag" in column.info else value


def _row(record: Record, seq: int) -> dict[str, Any]:
    table = TABLES[type(record)]
    columns = [column for column in table.c if column.name in record.field_names()]
    return {"seq": seq, **{column.name: _stored(column, getattr(record, column.name)) for column in columns}}


def _record(noun: type[R], row: Row) -> R:
    columns = [column for column in TABLES[noun].c if column.name in noun.field_names()]
    return noun(**{column.name: _told(column, row[column.name]) for column in columns})


# ------------------------------------------------------------------ keeping


def add(connection: Connection, records: Sequence[Record]) -> list[bool]:
    """Keep what is new."""
    if not records:
        return []
    numbers = take_numbers(connection, COUNTER, len(records))
    new = []
    for record, seq in zip(records, numbers, strict=True):
        table = TABLES[type(record)]
        statement = insert_new(connection, table, by_any_index=True).returning(table.c.seq)
        done = connection.execute(statement, _row(record, seq))
        new.append(done.first() is not None)
    return new


def missing(connection: Connection, records: Sequence[Record]) -> list[Record]:
    """Those of whose key there is none."""
    absent = []
    for record in records:
        key = key_of(type(record), {name: getattr(record, name) for name in record.KEY})
        if connection.execute(select(TABLES[type(record)].c.seq).where(*key)).first() is None:
            absent.append(record)
    return absent


def put(connection: Connection, record: Record) -> None:
    """Keep, or replace; writers take turns by the counter."""
    table, (seq,) = TABLES[type(record)], take_numbers(connection, COUNTER, 1)
    key = key_of(type(record), {name: getattr(record, name) for name in record.KEY})
    connection.execute(delete(table).where(*key))
    connection.execute(insert(table), _row(record, seq))


# ------------------------------------------------------------------ finding


def find(connection: Connection, query: Query[R]) -> list[R]:
    """What is asked for, of a list of ids in several steps."""
    if query.limit is not None and query.limit < 1:
        raise InvalidInputError(f"limit must be at least 1, not {query.limit!r}", field="limit", value=query.limit)
    table, parts, skipped = TABLES[query.noun], pieces(query.where), read_offset(query.offset)
    last = None if query.limit is None else skipped + query.limit
    rows: list[Any] = []
    for part in parts:
        statement = select(table).where(*asked(connection, query, part)).order_by(*in_order(query))
        rows += connection.execute(statement if last is None else statement.limit(last)).mappings()
    if len(parts) > 1:
        names = [column.name for column in order_columns(query)]
        rows.sort(key=lambda row: tuple(row[name] for name in names), reverse=query.newest_first)
    return [_record(query.noun, row) for row in rows[skipped:last]]


# ------------------------------------------------------------------ changing


def change(connection: Connection, noun: type[Record], key: Where, changes: Mapping[str, Any]) -> bool:
    """Change one, unless what stays would be another."""
    table, here = TABLES[noun], key_of(noun, key)
    row = connection.execute(select(table).where(*here)).mappings().first()
    if row is None:
        return False
    _check_fixed(noun, row, changes)
    values = {name: _stored(table.c[name], value) for name, value in changes.items()}
    if values:
        connection.execute(update(table).where(*here).values(values))
    return True


def _check_fixed(noun: type[Record], row: Row, changes: Mapping[str, Any]) -> None:
    for name in (*noun.KEY, *noun.FIXED):
        stands = _told(TABLES[noun].c[name], row[name])
        if name in changes and changes[name] != stands:
            raise InvalidInputError(
                f"{camel(name)} of a {noun.noun()} stays as it is, {shown(stands)}: it cannot be "
                f"{shown(changes[name])}; delete it and create another",
                field=name,
                value=changes[name],
            )


# ------------------------------------------------------------------ removing


def remove(connection: Connection, noun: type[Record], where: Where) -> int:
    """Remove, and what hangs on it first."""
    return sum(_remove(connection, noun, part) for part in pieces(where))


def _remove(connection: Connection, noun: type[Record], where: Where) -> int:
    table = TABLES[noun]
    hanging = _HANGS_ON.get(noun, ())
    if hanging:
        columns = [table.c[name] for name in noun.KEY]
        for found in connection.execute(select(*columns).where(*conditions(table, where))).mappings().all():
            for other, field in hanging:
                walls = {"agent_id": found["agent_id"]} if "agent_id" in noun.KEY else {}
                _remove(connection, other, {**walls, field: found["id"]})
    return connection.execute(delete(table).where(*conditions(table, where))).rowcount


# ------------------------------------------------------------------ due tasks


def take(connection: Connection, writer: Writer, agent_id: str, id: str, due: int) -> Task | None:
    """Take one that is due and that nobody has who lives."""
    take_numbers(connection, COUNTER, 1)  # for its row makes takers take turns
    query = Query(noun=Task, where={"agent_id": agent_id, "id": id}, due=due)
    here = asked(connection, query, query.where)
    row = connection.execute(select(tasks).where(*here)).mappings().first()
    if row is None or _is_taken(connection, writer, row["owner"]):
        return None
    connection.execute(update(tasks).where(*here).values(owner=writer.owner))
    return _record(Task, row)


def _is_taken(connection: Connection, writer: Writer, owner: str | None) -> bool:
    return owner is not None and (owner == writer.owner or writer.alive(owner, connection))


def settle(connection: Connection, writer: Writer, agent_id: str, id: str, changes: Mapping[str, Any]) -> bool:
    """Change one that this owner has, and let go of it."""
    here = key_of(Task, {"agent_id": agent_id, "id": id})
    values = {name: _stored(tasks.c[name], value) for name, value in changes.items()}
    mine = update(tasks).where(*here, tasks.c.owner == writer.owner).values(owner=None, **values)
    return connection.execute(mine).rowcount > 0
