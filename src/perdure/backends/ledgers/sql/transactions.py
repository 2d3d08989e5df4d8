"""The ledger's transactions: whose they are, what they see of the owner's life, how they fail."""

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
from perdure.backends.ledgers.sql.units import (
    Ask,
    ConnectionLostError,
    Transaction,
    Writer,
    asking_on,
    scope_key,
    scope_of_key,
)
from perdure.domain.clock import Clock, iso
from perdure.domain.errors import InvalidInputError, LedgerError, PerdureError
from perdure.domain.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from sqlalchemy import Connection


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Which run of the machine this is (Linux `random(4)`), or "" where that cannot be told."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


# Locks on scopes: a ticket for everyone who holds one or waits, in the order of coming. In plain SQL, because every
# process that writes, if only how often memories were recalled, takes a lock.


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


class OwnerLostError(LedgerError):
    """The owner's lock was let go of without the owner's doing: to the others it is dead, and holds nothing."""


class Owners(ABC):
    """The living and the dead among those who opened a ledger."""

    @abstractmethod
    def claim(self) -> str:
        """A fresh owner id, alive from now on."""

    @abstractmethod
    def release(self) -> None:
        """The claimed id dies."""

    @abstractmethod
    def abandon(self) -> None:
        """Let go of the claimed id without a word: it belongs to the process that this one was forked from."""

    @abstractmethod
    def intact(self) -> bool:
        """Whether others can still see that the claimed id is alive, or none is claimed."""

    @abstractmethod
    def alive(self, owner: str, connection: Connection | Ask | None = None) -> bool:
        """Whether an owner, this one too, is alive; asked in the given transaction where the database knows it."""

    def vouch(self, owner: str, connection: Connection | Ask) -> None:
        """OwnerLostError unless this owner is alive, and seen to be until the given transaction ends.

        Nothing to do where only the end of the process can take the lock away.
        """

    @abstractmethod
    def sweep(self) -> None:
        """Remove what the dead left lying about."""


class Database(ABC):
    """A database in the words of its own dialect; every method blocks, and may be called from any thread."""

    owners: Owners
    read_only: bool = False
    """Whether it can only be read where it lies, once it is open: `writing` and `scrub` are a ReadOnlyError then."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Equal for two that are the same database, without secrets."""

    @abstractmethod
    def open(self) -> None:
        """Get ready for connections, and make the database where it is missing."""

    def prepare(self, connection: Connection) -> None:
        """Give the tables that were just made, or upgraded, what only this dialect has."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection that is not in use."""

    @abstractmethod
    def forsake(self) -> None:
        """Drop the connections without a word: they belong to the process that this one was forked from."""

    def version(self) -> int | None:
        """A number that is another one whenever anything was committed; None where that takes a round trip."""
        return None

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the database."""

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """A transaction that only reads, for plain SQL."""
        with self.reading() as connection:
            yield asking_on(connection)

    def is_current(self) -> bool:
        """Whether the tables are there, as the newest migration leaves them."""
        from perdure.backends.ledgers.sql import upkeep

        with self.reading() as connection:
            return upkeep.is_current(connection)

    @abstractmethod
    def writing(self, *, durable: bool) -> AbstractContextManager[Connection]:
        """A transaction that writes, committed at the end; a durable one survives power loss from then on."""

    @contextmanager
    def changing(self) -> Iterator[Ask]:
        """A transaction for plain SQL that writes what nobody misses after power loss."""
        with self.writing(durable=False) as connection:
            yield asking_on(connection)

    @abstractmethod
    def translate(self, error: Exception) -> PerdureError | None:
        """The error in perdure's words, without any stored text in it; None if it is not the database's."""

    @abstractmethod
    def scrub(self) -> bool:
        """Rewrite the files so that nothing deleted is left in them; False if another process prevents it."""

    @abstractmethod
    def check(self) -> list[str]:
        """What the database finds wrong with itself, a sentence each."""

    @abstractmethod
    def size(self) -> int:
        """Bytes that the database takes."""


P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="Connection | Ask")

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

    def check_open(self) -> None:
        """LedgerError where the ledger is not open."""
        self._open_writer()

    def _open_writer(self) -> Writer:
        writer = self._writer
        if writer is None:
            raise LedgerError(f"the ledger {self._database.identity} is not open")
        return writer

    def now(self) -> str:
        return iso(self._clock())

    @property
    def transactions(self) -> Transactions:
        """These; a repository has those of its ledger."""
        return self

    async def run_read(self, unit: Callable[[Transaction], T]) -> T:
        writer, now = self._open_writer(), self.now()
        return await run_unit(
            partial(self._run, self._database.reading, lambda connection: unit(Transaction(connection, writer, now)))
        )

    async def run_plain(self, unit: Callable[[Ask, Writer], T]) -> T:
        """Run a unit that asks in plain SQL, in a thread (`units.Runner`)."""
        writer = self._open_writer()
        return await run_unit(partial(self._run, self._database.asking, unit, writer))

    async def run_write(
        self, unit: Callable[[Transaction], T], *, durable: bool, within: Iterable[Scope] | None = ()
    ) -> T:
        """Run a unit that writes, in a thread (`units.Runner`)."""
        self._open_writer()
        begin = self._durably if durable else self._quickly

        def run(connection: Connection, writer: Writer, now: str) -> T:
            return unit(Transaction(connection, writer, now))

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
        """For what the journal heals, or nobody misses, after power loss."""
        return self._database.writing(durable=False)

    def _change(
        self,
        begin: Callable[[], AbstractContextManager[C]],
        unit: Callable[[C, Writer, str], T],
        within: Iterable[Scope] | None = (),
        now: str | None = None,
    ) -> T:
        """A transaction that writes, of an owner who counts as alive until its end.

        An owner whose lock was lost, as it is when the server restarts, gives way to a fresh one. What a lock of the
        lost owner was held for fails: what is written `within` scopes that overlap it, and all where that is None.
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
        writer: Writer,
        begin: Callable[[], AbstractContextManager[C]],
        unit: Callable[[C, Writer, str], T],
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

    def _succeed(self, lost: Writer, error: OwnerLostError) -> Writer:
        """A fresh owner in the place of a lost one; of several threads that find the loss the first one claims it."""
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
        """Draw a ticket (for `ScopeLock`)."""

        def unit(ask: Ask, writer: Writer, now: str) -> Ticket:
            owner = writer.owner
            keep = [number for other, number in list(self._tickets) if other == owner] if self._untidy else None
            return take_ticket(ask, writer, now, scope, store, keep=keep)

        with self._drawing:
            try:
                ticket = self._change(self._database.changing, unit)
            except ConnectionLostError:
                self._untidy = True
                # Nobody else could tell a ticket that was drawn after all from one that is held.
                ticket = self._change(self._database.changing, unit)
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

        def unit(ask: Ask) -> Ticket:
            self._database.owners.vouch(ticket.owner, ask)
            return look_at(ask, writer, ticket, scope, store)

        found = self._run(self._database.asking, unit)
        # Who was found dead may have written after this transaction had begun to see: what it left, a later one sees.
        return self._run(self._database.asking, unit) if found.held else found

    def leave(self, ticket: Ticket) -> None:
        """Give a ticket back (for `ScopeLock`)."""
        self._tickets.pop((ticket.owner, ticket.number), None)

        def unit(ask: Ask, _writer: Writer, _now: str) -> None:
            return_ticket(ask, ticket)

        try:
            try:
                self._change(self._database.changing, unit)
            except ConnectionLostError:
                self._change(self._database.changing, unit)
        except PerdureError as error:
            # The work under the lock is done, so this must not fail it: the next ticket drawn takes this one along.
            self._untidy = True
            logger.warning("a lock of the ledger is given back late: %s", error)
