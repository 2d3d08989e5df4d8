"""The rows behind the locks: a ticket for everyone who holds or waits, in the order of coming."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection, bindparam, delete, insert, select

from perdure.backends.ledgers.sql.context import Transaction, Writer
from perdure.backends.ledgers.sql.journal import stranded
from perdure.backends.ledgers.sql.rows import scope_key, scope_of_key
from perdure.backends.ledgers.sql.tables import locks, take_numbers
from perdure.domain.scope import Scope

_EARLIER = select(locks.c.ticket, locks.c.owner, locks.c.scope).where(locks.c.ticket < bindparam("before"))
_DROP = delete(locks).where(locks.c.ticket == bindparam("number"), locks.c.owner == bindparam("holder"))
_DROP_OWNER = delete(locks).where(locks.c.owner == bindparam("dead"))
_OWNERS = select(locks.c.owner).distinct()


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place among all processes, and what it gives."""

    owner: str
    number: int
    held: bool
    stranded: bool


def enter(tx: Transaction, scope: Scope, store: str | None, *, keep: Collection[int] | None) -> Ticket:
    """Draw a ticket, which holds the lock at once if no living owner of an overlapping scope came before.

    Where some could not be given back in their time, `keep` says which of the owner's tickets still stand.
    """
    if keep is not None:
        tx.connection.execute(delete(locks).where(locks.c.owner == tx.writer.owner, locks.c.ticket.not_in(keep)))
    number = take_numbers(tx.connection, "ticket", 1)[0]
    row = {"ticket": number, "owner": tx.writer.owner, "scope": scope_key(scope), "created_at": tx.now}
    tx.connection.execute(insert(locks), row)
    living, dead = _ahead(tx.connection, tx.writer, number, scope)
    for owner in dead:
        leave_all(tx.connection, owner)
    ticket = Ticket(tx.writer.owner, number, held=not living, stranded=False)
    return _judge(tx.connection, tx.writer, ticket, scope, store)


def look(connection: Connection, writer: Writer, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
    """Whether the ticket holds the lock by now; only reads."""
    living, _ = _ahead(connection, writer, ticket.number, scope)
    return _judge(connection, writer, replace(ticket, held=not living), scope, store)


def _ahead(connection: Connection, writer: Writer, number: int, scope: Scope) -> tuple[set[str], set[str]]:
    """The living and the dead owners of earlier tickets that overlap."""
    rows = connection.execute(_EARLIER, {"before": number}).all()
    owners = {owner for _, owner, text in rows if scope_of_key(text).overlaps(scope)}
    living = {owner for owner in owners if writer.alive(owner, connection)}
    return living, owners - living


def _judge(connection: Connection, writer: Writer, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
    if not ticket.held or store is None:
        return ticket
    return replace(ticket, stranded=stranded(connection, writer, store, scope))


def leave(connection: Connection, ticket: Ticket) -> None:
    """Give a ticket back; a number that was given to another owner after the server had crashed is left alone."""
    connection.execute(_DROP, {"number": ticket.number, "holder": ticket.owner})


def owners(connection: Connection) -> list[str]:
    """Everyone who has a ticket, alive or dead."""
    return list(connection.execute(_OWNERS).scalars())


def leave_all(connection: Connection, owner: str) -> None:
    """Give back every ticket of an owner."""
    connection.execute(_DROP_OWNER, {"dead": owner})
