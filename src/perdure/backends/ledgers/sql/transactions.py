"""The ledger's transactions: their owner, how long it counts as alive, and their failures."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, TypeVar

from perdure.backends.blocking import run_unit
from perdure.backends.ledgers.sql import units
from perdure.domain.clock import Clock, iso
from perdure.domain.errors import InvalidInputError, LedgerError, PerdureError
from perdure.domain.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from sqlalchemy import Connection


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return an id of the machine's current run (Linux `random(4)`), or "" if unknown."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


# Locks on scopes: a ticket for everyone who holds one or waits, in the order of coming. In plain SQL, because every
# process that writes, if only how often memories were recalled, takes a lock.


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place among all processes, and whether it holds the lock."""

    owner: str
    number: int
    held: bool
    stranded: bool


def take_ticket(
    ask: units.Ask, writer: units.Writer, now: str, scope: Scope, store: str | None, *, keep: Collection[int] | None
) -> Ticket:
    """Draw a ticket, which holds the lock at once unless a living owner of an overlapping scope came before.

    If some tickets could not be returned in time, `keep` names the owner's tickets that are still in use.
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
        scope=units.scope_key(scope),
        now=now,
    )
    living, dead = _ahead(ask, writer, number, scope)
    for owner in dead:
        return_tickets(ask, owner)
    ticket = Ticket(writer.owner, number, held=not living, stranded=False)
    return _judge(ask, writer, ticket, scope, store)


def look_at(ask: units.Ask, writer: units.Writer, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
    """Check whether the ticket holds the lock now; only reads."""
    living, _ = _ahead(ask, writer, ticket.number, scope)
    return _judge(ask, writer, replace(ticket, held=not living), scope, store)


def _ahead(ask: units.Ask, writer: units.Writer, number: int, scope: Scope) -> tuple[set[str], set[str]]:
    """Return the living and the dead owners of earlier tickets that overlap."""
    rows = ask("SELECT owner, scope FROM scope_locks WHERE ticket < :number", number=number)
    owners = {owner for owner, text in rows if units.scope_of_key(text).overlaps(scope)}
    living = {owner for owner in owners if writer.alive(owner, ask)}
    return living, owners - living


def _judge(ask: units.Ask, writer: units.Writer, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
    if not ticket.held or store is None:
        return ticket
    return replace(ticket, stranded=stranded(ask, writer, store, scope))


_UNAPPLIED = (
    f"SELECT owner, {', '.join(SCOPE_FIELDS)} FROM journal "  # noqa: S608 - names of columns
    "WHERE store_identity = :store AND state = 'written'"
)


def stranded(ask: units.Ask, writer: units.Writer, store: str, scope: Scope) -> bool:
    """Whether somebody left entries of this store unapplied; cheap, because there are hardly any at a time."""
    verdicts: dict[str, bool] = {}
    for owner, *values in ask(_UNAPPLIED, store=store):
        if owner == writer.owner:
            # Its calls in flight hold locks of their own: what overlaps the scope now locked is nobody's any more.
            if scope.overlaps(Scope(**dict(zip(SCOPE_FIELDS, values, strict=True)))):
                return True
        elif verdicts.setdefault(owner, writer.alive(owner, ask)) is False:
            return True
    return False


def return_ticket(ask: units.Ask, ticket: Ticket) -> None:
    """Return a ticket, unless its number was given to another owner after a server crash."""
    ask(
        "DELETE FROM scope_locks WHERE ticket = :number AND owner = :owner",
        number=ticket.number,
        owner=ticket.owner,
    )


def lock_owners(ask: units.Ask) -> list[str]:
    """Return all owners of tickets, alive or dead."""
    return [owner for (owner,) in ask("SELECT DISTINCT owner FROM scope_locks")]


def return_tickets(ask: units.Ask, owner: str) -> None:
    """Return all tickets of an owner."""
    ask("DELETE FROM scope_locks WHERE owner = :owner", owner=owner)


class OwnerLostError(LedgerError):
    """The owner's lock was lost: to others it is dead, and holds nothing."""


class Owners(ABC):
    """The owners of a ledger, alive and dead."""

    @abstractmethod
    def claim(self) -> str:
        """Claim and return a new owner id."""

    @abstractmethod
    def release(self) -> None:
        """Release the claimed id."""

    @abstractmethod
    def abandon(self) -> None:
        """Forget the claimed id after a fork: it belongs to the parent process."""

    @abstractmethod
    def intact(self) -> bool:
        """Whether others can still see that the claimed id is alive, or none is claimed."""

    @abstractmethod
    def alive(self, owner: str, connection: Connection | units.Ask | None = None) -> bool:
        """Whether an owner is alive, asked in the given transaction if the database knows it."""

    def vouch(self, owner: str, connection: Connection | units.Ask) -> None:
        """Raise OwnerLostError unless this owner is, and is seen to be, alive until the transaction ends.

        Nothing to do if only the end of the process can release the lock.
        """

    @abstractmethod
    def sweep(self) -> None:
        """Remove what dead owners left."""


class Database(ABC):
    """A database with its dialect; methods block, and may be called from any thread."""

    owners: Owners
    read_only: bool = False
    """Whether it can only be read where it lies, once it is open: `writing` and `scrub` are a ReadOnlyError then."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """The database's id, without secrets: equal for two that are the same database."""

    @abstractmethod
    def open(self) -> None:
        """Prepare for connections, and create the database if it is missing."""

    def prepare(self, connection: Connection) -> None:
        """Add dialect-specific parts to new or upgraded tables."""

    @abstractmethod
    def close(self) -> None:
        """Close unused connections."""

    @abstractmethod
    def forsake(self) -> None:
        """Forget the connections after a fork: they belong to the parent process."""

    def version(self) -> int | None:
        """Return a number that changes with every commit; None if that takes a round trip."""
        return None

    def check_place(self) -> None:
        """Raise an error if the open database was removed or replaced where it lies."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Open a transaction that sees one state of the database."""

    @contextmanager
    def asking(self) -> Iterator[units.Ask]:
        """Open a read transaction for plain SQL."""
        with self.reading() as connection:
            yield units.asking_on(connection)

    def is_current(self) -> bool:
        """Whether the tables are those of the newest migration."""
        from perdure.backends.ledgers.sql import upkeep

        with self.reading() as connection:
            return upkeep.is_current(connection)

    @abstractmethod
    def writing(self, *, durable: bool) -> AbstractContextManager[Connection]:
        """Open a write transaction, committed at the end; a durable one then survives power loss."""

    @contextmanager
    def changing(self) -> Iterator[units.Ask]:
        """Open a write transaction for plain SQL, which power loss may undo."""
        with self.writing(durable=False) as connection:
            yield units.asking_on(connection)

    @abstractmethod
    def translate(self, error: Exception) -> PerdureError | None:
        """Return perdure's error without stored text; None if it is not the database's."""

    @abstractmethod
    def scrub(self) -> bool:
        """Rewrite the files without deleted data; False if another process prevents it."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return one sentence for each problem that the database finds."""

    @abstractmethod
    def size(self) -> int:
        """Return the database's size in bytes."""


P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="Connection | units.Ask")
logger = logging.getLogger("perdure")


class Transactions:
    """Units of work on one database, and their tickets."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._opening = threading.Lock()
        self._writer: units.Writer | None = None
        self._tickets: dict[tuple[str, int], Scope] = {}  # what this handle holds or waits for, by owner and number
        self._drawing = threading.Lock()
        self._untidy = False
        """Whether some ticket could not be given back, or may have been drawn by a call that failed."""

    def check_open(self) -> None:
        """Raise LedgerError if the ledger is not open."""
        self._open_writer()

    def _open_writer(self) -> units.Writer:
        writer = self._writer
        if writer is None:
            raise LedgerError(f"the ledger {self._database.identity} is not open")
        return writer

    def now(self) -> str:
        return iso(self._clock())

    @property
    def transactions(self) -> Transactions:
        """Return this object; a repository returns its ledger's."""
        return self

    async def run_read(self, unit: Callable[[units.Transaction], T]) -> T:
        writer, now = self._open_writer(), self.now()
        return await run_unit(
            partial(
                self._run, self._database.reading, lambda connection: unit(units.Transaction(connection, writer, now))
            )
        )

    async def run_plain(self, unit: Callable[[units.Ask, units.Writer], T]) -> T:
        """Run a unit with plain SQL in a thread (`units.Runner`)."""
        writer = self._open_writer()
        return await run_unit(partial(self._run, self._database.asking, unit, writer))

    async def run_write(
        self, unit: Callable[[units.Transaction], T], *, durable: bool, within: Iterable[Scope] | None = ()
    ) -> T:
        """Run a unit that writes in a thread (`units.Runner`)."""
        self._open_writer()
        begin = self._durably if durable else self._quickly

        def run(connection: Connection, writer: units.Writer, now: str) -> T:
            return unit(units.Transaction(connection, writer, now))

        return await run_unit(partial(self._change, begin, run, within, self.now()))

    def _run(
        self,
        begin: Callable[[], AbstractContextManager[C]],
        unit: Callable[Concatenate[C, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._open_writer()
        try:
            with begin() as connection:
                return unit(connection, *args, **kwargs)
        except Exception as error:
            self._tell(error)

    def _durably(self) -> AbstractContextManager[Connection]:
        return self._database.writing(durable=True)

    def _quickly(self) -> AbstractContextManager[Connection]:
        """Open a transaction that power loss may undo: the journal repairs it, or nobody misses it."""
        return self._database.writing(durable=False)

    def _change(
        self,
        begin: Callable[[], AbstractContextManager[C]],
        unit: Callable[[C, units.Writer, str], T],
        within: Iterable[Scope] | None = (),
        now: str | None = None,
    ) -> T:
        """Open a write transaction of an owner that counts as alive until its end.

        A lost owner, as after a server restart, is replaced by a new one. Writes under a lock of the lost owner fail:
        those `within` overlapping scopes, or all if it is None.
        """
        scopes = None if within is None else list(within)
        now = now or self.now()
        writer = self._open_writer()
        try:
            try:
                return self._change_as(writer, begin, unit, scopes, now)
            except OwnerLostError as lost:
                writer = self._succeed(writer, lost)
            return self._change_as(writer, begin, unit, scopes, now)
        except Exception as error:
            self._tell(error)

    def _change_as(
        self,
        writer: units.Writer,
        begin: Callable[[], AbstractContextManager[C]],
        unit: Callable[[C, units.Writer, str], T],
        within: list[Scope] | None,
        now: str,
    ) -> T:
        for (owner, _), scope in list(self._tickets.items()):
            if owner != writer.owner and (within is None or any(scope.overlaps(other) for other in within)):
                raise LedgerError(
                    f"the connection to the ledger {self._database.identity} was lost, and with it the lock of this "
                    "call, which wrote nothing more: call again"
                )
        with begin() as connection:
            self._database.owners.vouch(writer.owner, connection)
            return unit(connection, writer, now)

    def _succeed(self, lost: units.Writer, error: OwnerLostError) -> units.Writer:
        """Replace a lost owner; of several threads that notice the loss the first claims the new one."""
        with self._opening:
            writer = self._open_writer()
            if writer.owner == lost.owner:
                logger.warning("%s; its locks were given up, and the ledger goes on", error)
                writer = self._writer = replace(lost, owner=self._database.owners.claim())
            return writer

    def _tell(self, error: Exception) -> NoReturn:
        if isinstance(error, PerdureError):
            raise error
        if isinstance(error, UnicodeEncodeError):
            wrong = error.object[error.start : error.end]
            raise InvalidInputError(
                f"text must be Unicode without lone surrogates, not {wrong!r}", field="text", value=wrong
            ) from error
        raise self._database.translate(error) or error from error

    def enter(self, scope: Scope, store: str | None) -> Ticket:
        def unit(ask: units.Ask, writer: units.Writer, now: str) -> Ticket:
            owner = writer.owner
            keep = [number for other, number in list(self._tickets) if other == owner] if self._untidy else None
            return take_ticket(ask, writer, now, scope, store, keep=keep)

        with self._drawing:
            try:
                ticket = self._change(self._database.changing, unit)
            except units.ConnectionLostError:
                self._untidy = True
                # Nobody else could tell a ticket that was drawn after all from one that is held.
                ticket = self._change(self._database.changing, unit)
            self._untidy = False
            self._tickets[ticket.owner, ticket.number] = scope
        return ticket

    def look(self, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
        writer = self._open_writer()
        if ticket.owner != writer.owner:
            raise LedgerError(
                f"the connection to the ledger {self._database.identity} was lost while waiting for a lock"
            )

        def unit(ask: units.Ask) -> Ticket:
            self._database.owners.vouch(ticket.owner, ask)
            return look_at(ask, writer, ticket, scope, store)

        found = self._run(self._database.asking, unit)
        # Who was found dead may have written after this transaction had begun to see: what it left, a later one sees.
        return self._run(self._database.asking, unit) if found.held else found

    def leave(self, ticket: Ticket) -> None:
        self._tickets.pop((ticket.owner, ticket.number), None)

        def unit(ask: units.Ask, _writer: units.Writer, _now: str) -> None:
            return_ticket(ask, ticket)

        try:
            try:
                self._change(self._database.changing, unit)
            except units.ConnectionLostError:
                self._change(self._database.changing, unit)
        except PerdureError as error:
            # The work under the lock is done, so this must not fail it: the next ticket drawn takes this one along.
            self._untidy = True
            logger.warning("a lock of the ledger is given back late: %s", error)
