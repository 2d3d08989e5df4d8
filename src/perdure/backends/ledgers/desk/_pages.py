"""Pages of what a team has: each begins after a row of that team."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Table, select

from perdure.domain.errors import InvalidInputError


def after_id(connection: Connection, table: Table, team: str, after: str) -> list[ColumnElement[bool]]:
    """The condition that a row came after one; none for "", InvalidInputError for what is no row of the team."""
    if not after:
        return []
    query = select(table.c.seq).where(table.c.id == after, table.c.team == team)
    number = connection.execute(query).scalar()
    if number is None:
        raise InvalidInputError(f"after must be an id of an earlier page, not {after!r}", field="after", value=after)
    return [table.c.seq > number]
