"""Records of agent runtimes: their tables, and how they are inserted, found, changed, deleted and taken when due.

A table has a column for each field of a noun, and `seq`, the insertion order. A changed table needs a migration, as in
`tables`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from perdure.backends.ledgers.repositories.base import Among, Query, RuntimeTables, Where
from perdure.backends.ledgers.sql import tables
from perdure.backends.ledgers.sql.units import ConnectionLostError, Runner, Transaction, reads, runs, writes
from perdure.domain import runtime as nouns
from perdure.domain.errors import InvalidInputError
from perdure.domain.runtime import R, Record, Task, camel, read_offset
from perdure.domain.text.readable import shown

COUNTER = "runtime"  # the counter that numbers records, and by which those who write them take turns


def _blank(*names: str) -> list[sa.Column[Any]]:
    """Return text columns where "" means none, so that none equals none in a unique index."""
    return [sa.Column(name, sa.Text, nullable=False, info={"blank": True}) for name in names]


def _json(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=False, info={"json": True}) for name in names]


def _tags(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False, info={"tags": True})


def _numbered(name: str, *columns: sa.Column[Any]) -> sa.Table:
    return sa.Table(name, tables.metadata, *columns, sa.Column("seq", sa.BigInteger, nullable=False))


agents = _numbered(
    "agents",
    *tables.text_keys("id"),
    *tables.texts("name"),
    *tables.optional_texts("username"),
    *_json("bio"),
    *tables.optional_texts("system"),
    sa.Column("enabled", sa.Integer, nullable=False, info={"flag": True}),
    *_json("settings", "metadata"),
    *tables.big_integers("created_at", "updated_at"),
)

entities = _numbered(
    "entities",
    *tables.text_keys("agent_id", "id"),
    _tags("names"),
    *_json("metadata"),
    *tables.big_integers("created_at"),
)

worlds = _numbered(
    "worlds",
    *tables.text_keys("agent_id", "id"),
    *tables.texts("name"),
    *tables.optional_texts("server_id", "message_server_id"),
    *_json("metadata"),
    *tables.big_integers("created_at"),
)

rooms = _numbered(
    "rooms",
    *tables.text_keys("agent_id", "id"),
    *tables.texts("name", "source", "type"),
    *tables.optional_texts("channel_id", "server_id", "message_server_id", "world_id"),
    *_json("metadata"),
    *tables.big_integers("created_at"),
)
sa.Index("idx_rooms_world_id", rooms.c.agent_id, rooms.c.world_id)

participants = _numbered(
    "participants",
    *tables.text_keys("agent_id", "entity_id", "room_id"),
    *tables.optional_texts("state"),
    *tables.big_integers("created_at"),
)
sa.Index("idx_participants_room_id", participants.c.agent_id, participants.c.room_id)

relationships = _numbered(
    "relationships",
    *tables.text_keys("agent_id", "id"),
    *tables.texts("source_entity_id", "target_entity_id"),
    _tags("tags"),
    *_json("metadata"),
    *tables.big_integers("created_at"),
)
sa.Index(
    "idx_relationships_of_two",
    relationships.c.agent_id,
    relationships.c.source_entity_id,
    relationships.c.target_entity_id,
    unique=True,
)
sa.Index("idx_relationships_target", relationships.c.agent_id, relationships.c.target_entity_id)

components = _numbered(
    "components",
    *tables.text_keys("agent_id", "id"),
    *tables.texts("entity_id", "type"),
    *_blank("world_id", "source_entity_id"),
    *tables.optional_texts("room_id"),
    *_json("data"),
    *tables.big_integers("created_at"),
)
sa.Index(
    "idx_components_of_entity",
    components.c.agent_id,
    components.c.entity_id,
    components.c.type,
    components.c.world_id,
    components.c.source_entity_id,
    unique=True,
)

tasks = _numbered(
    "tasks",
    *tables.text_keys("agent_id", "id"),
    *tables.texts("name", "description"),
    *tables.optional_texts("room_id", "world_id", "entity_id"),
    _tags("tags"),
    *_json("metadata"),
    sa.Column("due_at", sa.BigInteger),
    sa.Column("completed_at", sa.BigInteger),
    *tables.big_integers("created_at", "updated_at"),
    *tables.optional_texts("owner"),
)
"""`owner` is who has taken a task that is due, and is set to work on it."""
sa.Index("idx_tasks_name", tasks.c.agent_id, tasks.c.name)
sa.Index("idx_tasks_room_id", tasks.c.agent_id, tasks.c.room_id)
sa.Index("idx_tasks_due", tasks.c.agent_id, tasks.c.due_at, **tables.rows_where("completed_at IS NULL"))

cache = _numbered("cache", *tables.text_keys("agent_id", "key"), *_json("value"), *tables.big_integers("created_at"))
logs = _numbered(
    "logs",
    *tables.text_keys("agent_id", "id"),
    *tables.texts("type"),
    *_json("body"),
    *tables.optional_texts("entity_id", "room_id"),
    *tables.big_integers("created_at"),
)
sa.Index("idx_logs_created_at", logs.c.agent_id, logs.c.created_at, logs.c.seq)
sa.Index("idx_logs_room_id", logs.c.agent_id, logs.c.room_id, logs.c.created_at)

message_servers = _numbered(
    "message_servers",
    *tables.text_keys("id"),
    *tables.texts("name", "source_type"),
    *tables.optional_texts("source_id"),
    *_json("metadata"),
    *tables.big_integers("created_at", "updated_at"),
)

channels = _numbered(
    "channels",
    *tables.text_keys("id"),
    *tables.texts("message_server_id", "name", "type", "source_type"),
    *tables.optional_texts("source_id", "topic"),
    *_json("metadata"),
    *tables.big_integers("created_at", "updated_at"),
)
sa.Index("idx_channels_message_server_id", channels.c.message_server_id)

channel_participants = _numbered(
    "channel_participants", *tables.text_keys("channel_id", "entity_id"), *tables.big_integers("created_at")
)
sa.Index("idx_channel_participants_entity_id", channel_participants.c.entity_id)

server_agents = _numbered(
    "server_agents", *tables.text_keys("message_server_id", "agent_id"), *tables.big_integers("created_at")
)
sa.Index("idx_server_agents_agent_id", server_agents.c.agent_id)

TABLES: Mapping[type[Record], sa.Table] = {
    nouns.Agent: agents,
    nouns.Entity: entities,
    nouns.World: worlds,
    nouns.Room: rooms,
    nouns.Participant: participants,
    nouns.Relationship: relationships,
    nouns.Component: components,
    nouns.Task: tasks,
    nouns.CacheEntry: cache,
    nouns.LogEntry: logs,
    nouns.MessageServer: message_servers,
    nouns.Channel: channels,
    nouns.ChannelParticipant: channel_participants,
    nouns.ServerAgent: server_agents,
}
"""Where the records of each noun stand."""


def encode_tags(tags: Sequence[str], field: str) -> str:
    """Return the tags as a JSON list; InvalidInputError names the field for a tag that cannot be stored."""
    return f"[{','.join(_piece(tag, field) for tag in tags)}]"


def _piece(tag: str, field: str) -> str:
    """Return a tag as JSON with its own brackets and commas escaped.

    So a bracket or a comma before a quote always belongs to the list. Otherwise `,` would be found in `["[",":"]`.
    SQLite's own JSON functions cannot be used, because its texts end at a NUL.
    """
    return tables.encode(tag, field).replace("[", "\\u005b").replace(",", "\\u002c")


def has_tag(connection: sa.Connection, column: sa.Column[str], tag: str) -> sa.ColumnElement[bool]:
    place = sa.func.instr if connection.dialect.name == "sqlite" else sa.func.strpos
    piece = _piece(tag, column.name)
    return sa.or_(place(column, f"[{piece}") > 0, place(column, f",{piece}") > 0)


def conditions(table: sa.Table, where: Where) -> list[sa.ColumnElement[bool]]:
    return [_holds(table.c[name], value) for name, value in where.items()]


def _holds(column: sa.Column[Any], value: Any) -> sa.ColumnElement[bool]:
    if isinstance(value, Among):
        there = TABLES[value.noun]
        return column.in_(sa.select(there.c[value.field]).where(*conditions(there, value.where)))
    if isinstance(value, list):
        return column.in_(value)
    if value is None:
        return column.__eq__("") if "blank" in column.info else column.is_(None)
    return column.__eq__(value)


def pieces(where: Where) -> list[Where]:
    """Split a query where a list is longer than the database allows as parameters."""
    for name, value in where.items():
        if isinstance(value, list):
            each_once = list(dict.fromkeys(value))
            return [{**where, name: list(some)} for some in tables.chunks(each_once)]
    return [where]


def asked(connection: sa.Connection, query: Query[Any], where: Where) -> list[sa.ColumnElement[bool]]:
    """Return the query's conditions, without order and page."""
    table = TABLES[query.noun]
    return [*conditions(table, where), *_timely(table, query), *_tagged(connection, table, query)]


def _timely(table: sa.Table, query: Query[Any]) -> Iterator[sa.ColumnElement[bool]]:
    if query.since is not None:
        yield table.c.created_at >= query.since
    if query.until is not None:
        yield table.c.created_at <= query.until
    if query.due is not None:
        yield sa.and_(table.c.due_at <= query.due, table.c.completed_at.is_(None))


def _tagged(connection: sa.Connection, table: sa.Table, query: Query[Any]) -> Iterator[sa.ColumnElement[bool]]:
    if not (query.all_tags or query.any_tag):
        return
    column = next(column for column in table.c if "tags" in column.info)
    if query.all_tags:
        yield sa.and_(*(has_tag(connection, column, tag) for tag in query.all_tags))
    if query.any_tag:
        yield sa.or_(*(has_tag(connection, column, tag) for tag in query.any_tag))


def in_order(query: Query[Any]) -> Sequence[sa.ColumnElement[Any]]:
    """Return the columns that order the result."""
    columns = order_columns(query)
    return [column.desc() for column in columns] if query.newest_first else columns


def order_columns(query: Query[Any]) -> list[sa.Column[Any]]:
    """Return the sort key, ascending."""
    table = TABLES[query.noun]
    return [table.c.created_at if query.due is None else table.c.due_at, table.c.seq]


def key_of(noun: type[Record], key: Where) -> list[sa.ColumnElement[bool]]:
    return conditions(TABLES[noun], {name: key[name] for name in noun.KEY})


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


def _stored(column: sa.Column[Any], value: Any) -> Any:
    if "tags" in column.info:
        return encode_tags(value, column.name)
    if "json" in column.info:
        return tables.encode(value, column.name)
    if "blank" in column.info:
        return value or ""
    return int(value) if "flag" in column.info else value


def _loaded(column: sa.Column[Any], value: Any) -> Any:
    if "tags" in column.info:
        return tuple(tables.decode(value))
    if "json" in column.info:
        return tables.decode(value)
    if "blank" in column.info:
        return value or None
    return bool(value) if "flag" in column.info else value


def _row(record: Record, seq: int) -> dict[str, Any]:
    table = TABLES[type(record)]
    columns = [column for column in table.c if column.name in record.field_names()]
    return {"seq": seq, **{column.name: _stored(column, getattr(record, column.name)) for column in columns}}


def _record(noun: type[R], row: tables.Row) -> R:
    columns = [column for column in TABLES[noun].c if column.name in noun.field_names()]
    return noun(**{column.name: _loaded(column, row[column.name]) for column in columns})


@writes(RuntimeTables.add)
def add(tx: Transaction, records: Sequence[Record]) -> list[bool]:
    if not records:
        return []
    numbers = tables.take_numbers(tx.connection, COUNTER, len(records))
    new = []
    for record, seq in zip(records, numbers, strict=True):
        table = TABLES[type(record)]
        statement = tables.insert_new(tx.connection, table, by_any_index=True).returning(table.c.seq)
        done = tx.connection.execute(statement, _row(record, seq))
        new.append(done.first() is not None)
    return new


@runs(RuntimeTables.ensure)
async def ensure(runner: Runner, records: Sequence[Record]) -> None:
    missing = await runner.run_read(lambda tx: _missing(tx, records))
    if missing:
        await runner.run_write(lambda tx: add(tx, missing), durable=True)


def _missing(tx: Transaction, records: Sequence[Record]) -> list[Record]:
    absent = []
    for record in records:
        key = key_of(type(record), {name: getattr(record, name) for name in record.KEY})
        if tx.connection.execute(sa.select(TABLES[type(record)].c.seq).where(*key)).first() is None:
            absent.append(record)
    return absent


@writes(RuntimeTables.put)
def put(tx: Transaction, record: Record) -> None:
    table, (seq,) = TABLES[type(record)], tables.take_numbers(tx.connection, COUNTER, 1)
    key = key_of(type(record), {name: getattr(record, name) for name in record.KEY})
    tx.connection.execute(sa.delete(table).where(*key))
    tx.connection.execute(sa.insert(table), _row(record, seq))


@reads(RuntimeTables.find)
def find(tx: Transaction, query: Query[R]) -> list[R]:
    if query.limit is not None:
        tables.check_limit(query.limit)
    table, parts, skipped = TABLES[query.noun], pieces(query.where), read_offset(query.offset)
    last = None if query.limit is None else skipped + query.limit
    rows: list[Any] = []
    for part in parts:
        statement = sa.select(table).where(*asked(tx.connection, query, part)).order_by(*in_order(query))
        rows += tx.connection.execute(statement if last is None else statement.limit(last)).mappings()
    if len(parts) > 1:
        names = [column.name for column in order_columns(query)]
        rows.sort(key=lambda row: tuple(row[name] for name in names), reverse=query.newest_first)
    return [_record(query.noun, row) for row in rows[skipped:last]]


@writes(RuntimeTables.change)
def change(tx: Transaction, noun: type[Record], key: Where, changes: Mapping[str, Any]) -> bool:
    table, here = TABLES[noun], key_of(noun, key)
    row = tables.row_of(tx.connection, table, *here)
    if row is None:
        return False
    _check_fixed(noun, row, changes)
    values = {name: _stored(table.c[name], value) for name, value in changes.items()}
    if values:
        tx.connection.execute(sa.update(table).where(*here).values(values))
    return True


def _check_fixed(noun: type[Record], row: tables.Row, changes: Mapping[str, Any]) -> None:
    for name in (*noun.KEY, *noun.FIXED):
        stands = _loaded(TABLES[noun].c[name], row[name])
        if name in changes and changes[name] != stands:
            raise InvalidInputError(
                f"{camel(name)} of a {noun.noun()} stays as it is, {shown(stands)}: it cannot be "
                f"{shown(changes[name])}; delete it and create another",
                field=name,
                value=changes[name],
            )


@writes(RuntimeTables.remove)
def remove(tx: Transaction, noun: type[Record], where: Where) -> int:
    return sum(_remove(tx.connection, noun, part) for part in pieces(where))


def _remove(connection: sa.Connection, noun: type[Record], where: Where) -> int:
    table = TABLES[noun]
    hanging = _HANGS_ON.get(noun, ())
    if hanging:
        columns = [table.c[name] for name in noun.KEY]
        for found in connection.execute(sa.select(*columns).where(*conditions(table, where))).mappings().all():
            for other, field in hanging:
                owner = {"agent_id": found["agent_id"]} if "agent_id" in noun.KEY else {}
                _remove(connection, other, {**owner, field: found["id"]})
    return connection.execute(sa.delete(table).where(*conditions(table, where))).rowcount


@runs(RuntimeTables.take)
async def take(runner: Runner, agent_id: str, id: str, due: int) -> Task | None:
    """Take a due task; return it again if the caller is cancelled."""
    taken: list[Task] = []

    def unit(tx: Transaction) -> Task | None:
        task = _take(tx, agent_id, id, due)
        taken[:] = [task] if task is not None else []
        return task

    try:
        return await runner.run_write(unit, durable=False)
    except (asyncio.CancelledError, ConnectionLostError):
        if taken:  # it would wait for this owner's end: nobody was told of it
            await runner.run_write(lambda tx: settle(tx, agent_id, id, {}), durable=True)
        raise


def _take(tx: Transaction, agent_id: str, id: str, due: int) -> Task | None:
    """Take a due task that no living owner has."""
    tables.take_numbers(tx.connection, COUNTER, 1)  # for its row makes takers take turns
    query = Query(noun=Task, where={"agent_id": agent_id, "id": id}, due=due)
    here = asked(tx.connection, query, query.where)
    row = tables.row_of(tx.connection, tasks, *here)
    owner = None if row is None else row["owner"]
    if row is None or (owner is not None and (owner == tx.writer.owner or tx.writer.alive(owner, tx.connection))):
        return None
    tx.connection.execute(sa.update(tasks).where(*here).values(owner=tx.writer.owner))
    return _record(Task, row)


@writes(RuntimeTables.settle)
def settle(tx: Transaction, agent_id: str, id: str, changes: Mapping[str, Any]) -> bool:
    here = key_of(Task, {"agent_id": agent_id, "id": id})
    values = {name: _stored(tasks.c[name], value) for name, value in changes.items()}
    mine = sa.update(tasks).where(*here, tasks.c.owner == tx.writer.owner).values(owner=None, **values)
    return tx.connection.execute(mine).rowcount > 0
