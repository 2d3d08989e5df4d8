"""The ledger's transactions: whose they are, what they see of the owner's life, how they fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, TypeVar

from perdure.backends.blocking import run_unit
from perdure.backends.ledgers import _units as units
from perdure.backends.ledgers._database import ConnectionLostError, Database
from perdure.backends.ledgers._owners import OwnerLostError
from perdure.domain.clock import Clock, iso
from perdure.domain.errors import InvalidInputError, LedgerError, PerdureError
from perdure.domain.scope import Scope

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from perdure.backends.ledgers._locks import Ticket
    from perdure.backends.ledgers._writer import Writer

P = ParamSpec("P")
T = TypeVar("T")
Transaction = Callable[[], "AbstractContextManager[Connection]"]

logger = logging.getLogger("perdure")


class Transactions:
    """Units of work on one database, and the tickets that are drawn by them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._opening = threading.Lock()
        self._writer: Writer | None = None
        self._tickets: dict[tuple[str, int], Scope] = {}
        """What this handle holds or waits for, by owner and number."""
        self._drawing = threading.Lock()
        self._untidy = False
        """Whether some ticket could not be given back, or may have been drawn by a call that failed."""

    def _open_writer(self) -> Writer:
        writer = self._writer
        if writer is None:
            raise LedgerError(f"the ledger {self._database.identity} is not open")
        return writer

    def now(self) -> str:
        """The present moment by the ledger's clock."""
        return iso(self._clock())

    # ------------------------------------------------------------------ in one hop
    async def see(self, unit: Callable[[Connection, Writer], T]) -> T:
        """Run a unit that only reads, in a thread."""
        writer = self._open_writer()
        return await run_unit(partial(self._run, self._database.reading, unit, writer))

    async def alter(
        self, unit: Callable[[Connection, Writer], T], *, durable: bool, within: Iterable[Scope] | None = ()
    ) -> T:
        """Run a unit that writes, in a thread; what it needs of locks that may be lost is what `within` names."""
        self._open_writer()
        transaction = self._durably if durable else self._quickly
        return await run_unit(partial(self._change, transaction, unit, within))

    # ------------------------------------------------------------------ units of work
    def _run(
        self,
        transaction: Transaction,
        unit: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._open_writer()
        try:
            with transaction() as connection:
                return unit(connection, *args, **kwargs)
        except Exception as error:
            self._tell(error)

    def _durably(self) -> AbstractContextManager[Connection]:
        return self._database.writing(durable=True)

    def _quickly(self) -> AbstractContextManager[Connection]:
        """For what the journal heals, or nobody misses, after power loss."""
        return self._database.writing(durable=False)

    def _change(
        self, transaction: Transaction, unit: Callable[[Connection, Writer], T], within: Iterable[Scope] | None = ()
    ) -> T:
        """A transaction that writes, of an owner who counts as alive until its end.

        An owner whose lock was lost, as it is when the server restarts, gives way to a fresh one. What a lock of the
        lost owner was held for fails: what is written `within` scopes that overlap it, and all where that is None.
        """
        scopes = None if within is None else list(within)
        writer = self._open_writer()
        try:
            try:
                return self._change_as(writer, transaction, unit, scopes)
            except OwnerLostError as lost:
                writer = self._succeed(writer, lost)
            return self._change_as(writer, transaction, unit, scopes)
        except Exception as error:
            self._tell(error)

    def _change_as(
        self,
        writer: Writer,
        transaction: Transaction,
        unit: Callable[[Connection, Writer], T],
        within: list[Scope] | None,
    ) -> T:
        for (owner, _), scope in list(self._tickets.items()):
            if owner != writer.owner and (within is None or any(scope.overlaps(other) for other in within)):
                raise LedgerError(
                    f"the connection to the ledger {self._database.identity} was lost, and with it the lock of this "
                    "call, which wrote nothing more: call again"
                )
        with transaction() as connection:
            self._database.owners.vouch(writer.owner, connection)
            return unit(connection, writer)

    def _succeed(self, lost: Writer, error: OwnerLostError) -> Writer:
        """A fresh owner in the place of a lost one; of several threads that find the loss the first one claims it."""
        with self._opening:
            writer = self._open_writer()
            if writer.owner == lost.owner:
                logger.warning("%s; its locks were given up, and the ledger goes on", error)
                writer = self._writer = replace(lost, owner=self._database.owners.claim())
            return writer

    def _tell(self, error: Exception) -> NoReturn:
        """Raise the error as callers may see it."""
        if isinstance(error, PerdureError):
            raise error
        if isinstance(error, UnicodeEncodeError):
            wrong = error.object[error.start : error.end]
            raise InvalidInputError(
                f"text must be Unicode without lone surrogates, not {wrong!r}", field="text", value=wrong
            ) from error
        raise self._database.translate(error) or error from error

    # ------------------------------------------------------------------ locks
    def enter(self, scope: Scope, store: str | None) -> Ticket:
        """Draw a ticket (for `ScopeLock`)."""
        now = self.now()

        def unit(connection: Connection, writer: Writer) -> Ticket:
            keep = [number for owner, number in list(self._tickets) if owner == writer.owner] if self._untidy else None
            return units.locks.enter(connection, writer, scope, store, keep=keep, now=now)

        with self._drawing:
            try:
                ticket = self._change(self._quickly, unit)
            except ConnectionLostError:
                self._untidy = True
                # Nobody else could tell a ticket that was drawn after all from one that is held.
                ticket = self._change(self._quickly, unit)
            self._untidy = False
            self._tickets[ticket.owner, ticket.number] = scope
        return ticket

    def look(self, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
        """How a ticket stands by now (for `ScopeLock`)."""
        writer = self._open_writer()
        if ticket.owner != writer.owner:
            raise LedgerError(
                f"the connection to the ledger {self._database.identity} was lost while waiting for a lock"
            )

        def unit(connection: Connection) -> Ticket:
            self._database.owners.vouch(ticket.owner, connection)
            return units.locks.look(connection, writer, ticket, scope, store)

        found = self._run(self._database.reading, unit)
        # Who was found dead may have written after this transaction had begun to see: what it left, a later one sees.
        return self._run(self._database.reading, unit) if found.held else found

    def leave(self, ticket: Ticket) -> None:
        """Give a ticket back (for `ScopeLock`)."""
        self._tickets.pop((ticket.owner, ticket.number), None)
        try:
            try:
                self._change(self._quickly, lambda connection, _: units.locks.leave(connection, ticket))
            except ConnectionLostError:
                self._change(self._quickly, lambda connection, _: units.locks.leave(connection, ticket))
        except PerdureError as error:
            # The work under the lock is done, so this must not fail it: the next ticket drawn takes this one along.
            self._untidy = True
            logger.warning("a lock of the ledger is given back late: %s", error)
