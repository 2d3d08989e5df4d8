"""Questions for records as SQL: what fields must hold, tags, times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, and_, or_, select

from perdure.backends.ledgers._rows import chunks
from perdure.backends.ledgers.runtime._tables import TABLES
from perdure.backends.ledgers.runtime._tags import has_tag
from perdure.backends.ledgers.runtime.base import Among, Query, Where
from perdure.domain.runtime import Record


def conditions(table: Table, where: Where) -> list[ColumnElement[bool]]:
    """That each field holds what it must."""
    return [_holds(table.c[name], value) for name, value in where.items()]


def _holds(column: Column[Any], value: Any) -> ColumnElement[bool]:
    if isinstance(value, Among):
        there = TABLES[value.noun]
        return column.in_(select(there.c[value.field]).where(*conditions(there, value.where)))
    if isinstance(value, list):
        return column.in_(value)
    if value is None:
        return column.__eq__("") if "blank" in column.info else column.is_(None)
    return column.__eq__(value)


def pieces(where: Where) -> list[Where]:
    """The same as several questions, where a list is longer than a database takes as parameters."""
    for name, value in where.items():
        if isinstance(value, list):
            each_once = list(dict.fromkeys(value))
            return [{**where, name: list(some)} for some in chunks(each_once)]
    return [where]


def asked(connection: Connection, query: Query[Any], where: Where) -> list[ColumnElement[bool]]:
    """All that a question says, but for its order and its page."""
    table = TABLES[query.noun]
    return [*conditions(table, where), *_timely(table, query), *_tagged(connection, table, query)]


def _timely(table: Table, query: Query[Any]) -> Iterator[ColumnElement[bool]]:
    if query.since is not None:
        yield table.c.created_at >= query.since
    if query.until is not None:
        yield table.c.created_at <= query.until
    if query.due is not None:
        yield and_(table.c.due_at <= query.due, table.c.completed_at.is_(None))


def _tagged(connection: Connection, table: Table, query: Query[Any]) -> Iterator[ColumnElement[bool]]:
    if not (query.all_tags or query.any_tag):
        return
    column = next(column for column in table.c if "tags" in column.info)
    if query.all_tags:
        yield and_(*(has_tag(connection, column, tag) for tag in query.all_tags))
    if query.any_tag:
        yield or_(*(has_tag(connection, column, tag) for tag in query.any_tag))


def in_order(query: Query[Any]) -> Sequence[ColumnElement[Any]]:
    """The columns by which the answer is ordered."""
    columns = order_columns(query)
    return [column.desc() for column in columns] if query.newest_first else columns


def order_columns(query: Query[Any]) -> list[Column[Any]]:
    """What is compared, in rising order."""
    table = TABLES[query.noun]
    return [table.c.created_at if query.due is None else table.c.due_at, table.c.seq]


def key_of(noun: type[Record], key: Where) -> list[ColumnElement[bool]]:
    """That a row is the one of a key."""
    return conditions(TABLES[noun], {name: key[name] for name in noun.KEY})
