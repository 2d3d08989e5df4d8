"""Chains of responses: each link stands for itself and names the one before it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from perdure.backends.ledgers.sql import sessions
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import (
    Row,
    chunks,
    decode,
    encode,
    moment_of,
    scope_columns,
    scope_of_row,
)
from perdure.backends.ledgers.sql.tables import links
from perdure.domain.errors import ConflictError
from perdure.domain.scope import Scope
from perdure.domain.session import Link

_EMPTY = "[]"


def put(tx: Transaction, link: Link) -> None:
    """Keep a response; of two who bring the same id the second finds the first one's, for writers take turns."""
    row = {
        "id": link.id,
        "previous_id": link.previous_id,
        **scope_columns(link.scope),
        "session": link.session,
        "model": link.model,
        "items": encode(link.items, "items"),
        "episodes": encode(list(link.episodes), "episodes"),
        "created_at": moment_of(link.created_at, "created_at"),
    }
    before = tx.connection.execute(select(links).where(links.c.id == link.id)).mappings().first()
    if before is not None and scope_of_row(before) != link.scope:
        raise ConflictError("there is a response of this id behind other walls: give each response an id of its own")
    _drop(tx.connection, [link.id])
    tx.connection.execute(insert(links), row)
    sessions.note_references(tx.connection, "link", link.id, link.episodes)


def name(tx: Transaction, id: str, episodes: Sequence[str]) -> bool:
    """More messages were kept of a response; one that a message is gone of meanwhile loses its text."""
    row = tx.connection.execute(select(links).where(links.c.id == id)).mappings().first()
    if row is None or row["items"] == _EMPTY:
        return False
    named = list(dict.fromkeys([*decode(row["episodes"]), *episodes]))
    if not sessions.are_there(tx.connection, named):
        _empty(tx.connection, [id])
        return False
    tx.connection.execute(update(links).where(links.c.id == id).values(episodes=encode(named, "episodes")))
    sessions.note_references(tx.connection, "link", id, episodes)
    return True


def _empty(connection: Connection, ids: Sequence[str]) -> None:
    for some in chunks(ids):
        connection.execute(update(links).where(links.c.id.in_(some)).values(items=_EMPTY, episodes=_EMPTY))
    sessions.drop_references(connection, ["link"], ids)


def _drop(connection: Connection, ids: Sequence[str]) -> None:
    for some in chunks(ids):
        connection.execute(delete(links).where(links.c.id.in_(some)))
    sessions.drop_references(connection, ["link"], ids)


def _link(row: Row) -> Link:
    return Link(
        id=row["id"],
        previous_id=row["previous_id"],
        scope=scope_of_row(row),
        session=row["session"],
        model=row["model"],
        items=decode(row["items"]),
        episodes=tuple(decode(row["episodes"])),
        created_at=row["created_at"],
    )


def _inside(scope: Scope) -> list[ColumnElement[bool]]:
    return [links.c[name] == value for name, value in scope.given().items()]


def get(tx: Transaction, id: str, scope: Scope) -> Link | None:
    """One response, where it stands inside the scope."""
    row = tx.connection.execute(select(links).where(links.c.id == id, *_inside(scope))).mappings().first()
    return None if row is None else _link(row)


def chain(tx: Transaction, id: str, scope: Scope) -> list[Link]:
    """A response and its ancestors inside the scope, in one query however long the chain is."""
    columns = select(links.c.id, links.c.previous_id)
    line = columns.where(links.c.id == id, *_inside(scope)).cte("line", recursive=True)
    # UNION drops a row that is there already, and so ends at a cycle.
    line = line.union(columns.where(links.c.id == line.c.previous_id, *_inside(scope)))
    rows = tx.connection.execute(select(links).where(links.c.id.in_(select(line.c.id)))).mappings()
    found = {row["id"]: _link(row) for row in rows}
    walked: dict[str, Link] = {}
    here: str | None = id
    while here is not None and here in found and here not in walked:
        walked[here] = found[here]
        here = found[here].previous_id
    return list(reversed(walked.values()))


def remove(tx: Transaction, id: str, scope: Scope) -> bool:
    """Let go of one response."""
    if get(tx, id, scope) is None:
        return False
    _drop(tx.connection, [id])
    return True


# ---------------------------------------------------------------------- erasure
def _ids_inside(connection: Connection, scope: Scope | None) -> list[str]:
    if scope is None:
        return []
    return list(connection.execute(select(links.c.id).where(*_inside(scope))).scalars())


def touched(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """How many responses go with a scope, or lose their text because they name one of the ids."""
    return len({*_ids_inside(connection, scope), *sessions.naming(connection, "link", ids)})


def erase(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """Let go of a scope's responses, and of the text of those that name one of the ids; how many."""
    count = touched(connection, ids, scope)
    emptied = sessions.naming(connection, "link", ids)
    _empty(connection, emptied)
    _drop(connection, _ids_inside(connection, scope))
    return count
