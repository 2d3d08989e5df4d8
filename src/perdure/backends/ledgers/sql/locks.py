"""Locks on scopes: a ticket for everyone who holds one or waits, in the order of coming.

In plain SQL (`plain`), because every process that writes, if only how often memories were recalled, takes a lock.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from perdure.backends.ledgers.sql.plain import scope_key, scope_of_key
from perdure.backends.ledgers.sql.units import Ask, Writer
from perdure.domain.scope import SCOPE_FIELDS, Scope


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place among all processes, and what it gives."""

    owner: str
    number: int
    held: bool
    stranded: bool


def take_ticket(
    ask: Ask, writer: Writer, now: str, scope: Scope, store: str | None, *, keep: Collection[int] | None
) -> Ticket:
    """Draw a ticket, which holds the lock at once if no living owner of an overlapping scope came before.

    Where some could not be given back in their time, `keep` says which of the owner's tickets still stand.
    """
    if keep is not None:
        held = ask("SELECT ticket FROM scope_locks WHERE owner = :owner", owner=writer.owner)
        for (ticket,) in held:
            if ticket not in keep:
                return_ticket(ask, Ticket(writer.owner, ticket, held=False, stranded=False))
    ((number,),) = ask("UPDATE counters SET value = value + 1 WHERE name = 'ticket' RETURNING value")
    ask(
        "INSERT INTO scope_locks (ticket, owner, scope, created_at) VALUES (:number, :owner, :scope, :now)",
        number=number,
        owner=writer.owner,
        scope=scope_key(scope),
        now=now,
    )
    living, dead = _ahead(ask, writer, number, scope)
    for owner in dead:
        return_tickets(ask, owner)
    ticket = Ticket(writer.owner, number, held=not living, stranded=False)
    return _judge(ask, writer, ticket, scope, store)


def look_at(ask: Ask, writer: Writer, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
    """Whether the ticket holds the lock by now; only reads."""
    living, _ = _ahead(ask, writer, ticket.number, scope)
    return _judge(ask, writer, replace(ticket, held=not living), scope, store)


def _ahead(ask: Ask, writer: Writer, number: int, scope: Scope) -> tuple[set[str], set[str]]:
    """The living and the dead owners of earlier tickets that overlap."""
    rows = ask("SELECT owner, scope FROM scope_locks WHERE ticket < :number", number=number)
    owners = {owner for owner, text in rows if scope_of_key(text).overlaps(scope)}
    living = {owner for owner in owners if writer.alive(owner, ask)}
    return living, owners - living


def _judge(ask: Ask, writer: Writer, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
    if not ticket.held or store is None:
        return ticket
    return replace(ticket, stranded=stranded(ask, writer, store, scope))


_UNAPPLIED = (
    f"SELECT owner, {', '.join(SCOPE_FIELDS)} FROM journal "  # noqa: S608 - names of columns
    "WHERE store_identity = :store AND state = 'written'"
)


def stranded(ask: Ask, writer: Writer, store: str, scope: Scope) -> bool:
    """Whether somebody left entries of this store unapplied; cheap, because hardly any are unapplied at a time."""
    verdicts: dict[str, bool] = {}
    for owner, *values in ask(_UNAPPLIED, store=store):
        if owner == writer.owner:
            # Its calls in flight hold locks of their own: what overlaps the scope now locked is nobody's any more.
            if scope.overlaps(Scope(**dict(zip(SCOPE_FIELDS, values, strict=True)))):
                return True
        elif verdicts.setdefault(owner, writer.alive(owner, ask)) is False:
            return True
    return False


def return_ticket(ask: Ask, ticket: Ticket) -> None:
    """Give a ticket back; a number that was given to another owner after the server had crashed is left alone."""
    ask(
        "DELETE FROM scope_locks WHERE ticket = :number AND owner = :owner",
        number=ticket.number,
        owner=ticket.owner,
    )


def lock_owners(ask: Ask) -> list[str]:
    """Everyone who has a ticket, alive or dead."""
    return [owner for (owner,) in ask("SELECT DISTINCT owner FROM scope_locks")]


def return_tickets(ask: Ask, owner: str) -> None:
    """Give back every ticket of an owner."""
    ask("DELETE FROM scope_locks WHERE owner = :owner", owner=owner)
