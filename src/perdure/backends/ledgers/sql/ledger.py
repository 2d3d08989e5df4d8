"""The ledger over any relational database: each method is one unit of work, run in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.ledgers.base import Held, Ledger, Mark, Touched
from perdure.backends.ledgers.repositories import base as repositories
from perdure.backends.ledgers.sql.transactions import (
    Database,
    Ticket,
    Transactions,
    boot_id,
    lock_owners,
    return_tickets,
)
from perdure.backends.ledgers.sql.units import Ask, Transaction, Writer, implemented, marks_of_now, scrub_wanted
from perdure.domain.clock import Clock, system_clock
from perdure.domain.errors import LedgerError, PerdureError
from perdure.domain.scope import Scope

T = TypeVar("T")

# What all ledgers of one process share that stand on the same database.


class Shared(Generic[T]):
    """One object for each database, created on first use and kept while in use.

    A forked process starts with none, because it lacks the threads that held their locks.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def of(self, identity: str) -> T:
        """Return the database's object."""
        with self._guard:
            found = self._objects.get(identity)
            if found is None:
                found = self._objects[identity] = self._make()
            return found

    def _forget(self) -> None:
        self._guard = threading.Lock()
        self._objects: WeakValueDictionary[str, T] = WeakValueDictionary()


# Turns inside one process: who may write next where scopes overlap, first come first served.
#
# It knows nothing of event loops: tasks of several loops and threads, and of several ledger objects that share one
# database, stand in the same queue.


class Turn:
    """A place in the queue; it is granted once no earlier place of an overlapping scope is left."""

    __slots__ = ("granted", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.granted: Future[None] = Future()


class ScopeQueue:
    """Places in order of arrival; methods may be called from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turns: list[Turn] = []

    def join(self, scope: Scope) -> Turn:
        """Add a place at the end; granted at once if nothing is in its way."""
        turn = Turn(scope)
        with self._guard:
            free = self._is_free(turn)
            self._turns.append(turn)
        if free:
            turn.granted.set_result(None)
        return turn

    async def wait(self, turn: Turn) -> None:
        """Return once the place is granted; a cancelled caller must still leave."""
        if not turn.granted.done():
            await asyncio.wrap_future(turn.granted)

    def leave(self, turn: Turn) -> None:
        """Give the place up, and grant those that it blocked; doing it twice is no error."""
        with self._guard:
            if turn not in self._turns:
                return
            self._turns.remove(turn)
            freed = [
                other
                for other in self._turns
                if not other.granted.done() and other.scope.overlaps(turn.scope) and self._is_free(other)
            ]
        for other in freed:
            # Cancelled in this very moment: its waiter leaves, which grants the next.
            with contextlib.suppress(InvalidStateError):
                other.granted.set_result(None)

    def _is_free(self, turn: Turn) -> bool:
        for earlier in self._turns:
            if earlier is turn:
                break
            if earlier.scope.overlaps(turn.scope):
                return False
        return True


QUEUES = Shared(ScopeQueue)  # the queue of each database in this process


# A lock on a scope: first a turn in this process, then a ticket among all that share the ledger.

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05  # seconds between two looks at a lock that another process holds


class Tickets(Protocol):
    """The source of tickets; methods block."""

    def enter(self, scope: Scope, store: str | None) -> Ticket:
        """Draw a ticket."""

    def look(self, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
        """Return the ticket's current state."""

    def leave(self, ticket: Ticket) -> None:
        """Return a ticket; never raises."""


class ScopeLock(AbstractAsyncContextManager[Held]):
    """One use of one lock, for one `async with`."""

    def __init__(self, queue: ScopeQueue, tickets: Tickets, scope: Scope, store: str | None) -> None:
        self._queue = queue
        self._tickets = tickets
        self._scope = scope
        self._store = store
        self._guard = threading.Lock()
        self._turn: Turn | None = None
        self._ticket: Ticket | None = None
        self._left = False

    async def __aenter__(self) -> Held:
        if self._turn is not None:
            raise LedgerError("a lock is for one `async with`: call lock() again")
        self._turn = self._queue.join(self._scope)
        try:
            await self._queue.wait(self._turn)
            ticket = await run_blocking(self._enter)
            pause = _FIRST_PAUSE
            while not ticket.held:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)
                ticket = await run_blocking(self._tickets.look, ticket, self._scope, self._store)
        except BaseException:
            await _surely(self._leave)
            raise
        return Held(ticket.stranded)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _surely(self._leave)

    def _enter(self) -> Ticket:
        with self._guard:
            if self._left:
                raise LedgerError("the lock was given up before it was held")
            self._ticket = self._tickets.enter(self._scope, self._store)
            return self._ticket

    def _leave(self) -> None:
        """Return ticket and place, once, from any thread, after a running draw of the ticket."""
        with self._guard:
            if self._left:
                return
            self._left = True
            try:
                if self._ticket is not None:
                    self._tickets.leave(self._ticket)
            finally:
                if self._turn is not None:
                    self._queue.leave(self._turn)


async def _surely(action: Callable[[], None]) -> None:
    """Run a blocking action in a thread to its end, also if the caller is cancelled; it may be called twice."""
    try:
        task = asyncio.get_running_loop().create_task(run_blocking(action))
    except RuntimeError:
        # The loop is gone, and with it the caller: a forgotten coroutine is being put away.
        action()
        return
    # A loop that ends cancels every task, and one that had not begun would never be done.
    task.add_done_callback(lambda ended: action() if ended.cancelled() else None)
    await asyncio.shield(task)


logger = logging.getLogger("perdure")


# The repositories of a ledger: tables whose methods are units of work, run in the ledger's transactions.


class Repository:
    """A group of tables of one ledger."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions


@implemented
class SqlJobs(Repository, repositories.Jobs):
    """Jobs in a table."""


@implemented
class SqlKeys(Repository, repositories.Keys):
    """API keys in a table."""


@implemented
class SqlPromotions(Repository, repositories.Promotions):
    """Promotions in a table, updated by compare-and-set."""


@implemented
class SqlAudit(Repository, repositories.Audit):
    """The audit in a table."""


@implemented
class SqlSettings(Repository, repositories.Settings):
    """Settings in a table."""


@implemented
class SqlSessions(Repository, repositories.Sessions):
    """Sessions in tables; after power loss, turns are read again and states are made again."""


@implemented
class SqlChains(Repository, repositories.Chains):
    """Responses in a table."""


@implemented
class SqlRuntime(Repository, repositories.RuntimeTables):
    """Records of agent runtimes, a table for each noun."""


@implemented
class SqlLedger(Transactions, Ledger):
    """A ledger in a database that SQLAlchemy supports.

    Most methods are functions in the modules beside this one, each of which names the method that it implements
    (`units`).
    """

    jobs = property(SqlJobs)
    keys = property(SqlKeys)
    promotions = property(SqlPromotions)
    audit = property(SqlAudit)
    settings = property(SqlSettings)
    sessions = property(SqlSessions)
    chains = property(SqlChains)
    runtime = property(SqlRuntime)

    def __init__(self, database: Database, clock: Clock = system_clock) -> None:
        super().__init__(database, clock)
        self._queue = QUEUES.of(database.identity)

    def version(self) -> int | None:
        return None if self._writer is None else self._database.version()

    # ------------------------------------------------------------------ life
    @property
    def identity(self) -> str:
        return self._database.identity

    @property
    def read_only(self) -> bool:
        return self._writer is not None and self._database.read_only

    def check_place(self) -> None:
        try:
            self._database.check_place()
        except OSError as error:
            self._tell(error)

    @property
    def owner(self) -> str:
        return self._open_writer().owner

    async def open(self) -> None:
        await run_unit(self._open)

    async def close(self) -> None:
        await run_unit(self._close)

    def _open(self) -> None:
        with self._opening:
            if self._writer is not None:
                return
            try:
                self._database.open()
                self._prepare()
                owner = ""
                if not self._database.read_only:
                    owner = self._database.owners.claim()
                    self._database.owners.sweep()
            except Exception as error:
                self._database.close()
                self._tell(error)
            self._writer = Writer(owner, boot_id(), self._database.owners.alive)
            self._tickets.clear()
            self._untidy = False
            _OPEN.add(self)

    def _prepare(self) -> None:
        current = self._database.is_current()
        if self._database.read_only:
            if not current:
                raise LedgerError(
                    f"the ledger {self.identity} is of an older perdure, and may only be read where it lies: open it "
                    "once where it may be written"
                )
            return
        if not current:
            from perdure.backends.ledgers.sql import upkeep

            with self._database.writing(durable=True) as connection:
                upkeep.bring_up_to_date(connection)
                self._database.prepare(connection)
        with self._database.asking() as ask:
            dead = [owner for owner in lock_owners(ask) if not self._database.owners.alive(owner, ask)]
        if dead:
            with self._database.changing() as ask:
                for owner in dead:
                    return_tickets(ask, owner)

    def _close(self) -> None:
        with self._opening:
            if self._writer is None:
                return
            try:
                if not self._database.read_only:
                    self._release(self._writer.owner)
            finally:
                self._writer = None
                _OPEN.discard(self)
                self._database.owners.release()
                self._database.close()

    def _release(self, owner: str) -> None:
        def left(ask: Ask) -> tuple[bool, bool]:
            return scrub_wanted(ask) is not None, owner in lock_owners(ask)

        try:
            unclean, ticketed = self._run(self._database.asking, left)
            if unclean:
                self._scrub()
            if ticketed:
                self._run(self._database.changing, return_tickets, owner)
        except PerdureError as error:
            # What is left behind, others can tell from the owner's death.
            logger.warning("ledger close failed; locks will expire with the process: %s", error)

    def forsake(self) -> None:
        """Leave everything to the parent process from which this one was forked."""
        # Locks may have been held by threads that this process does not have.
        self._opening = threading.Lock()
        self._drawing = threading.Lock()
        self._queue = QUEUES.of(self.identity)
        self._writer = None
        self._database.forsake()

    async def touched(self, scope: Scope, since: Mark | None = None) -> Touched:
        given, seen = await self.run_plain(lambda ask, _writer: marks_of_now(ask))
        if since == given:  # nothing was written anywhere; a batch on its way would have moved the counter
            return Touched(given, (), ())
        if since is None:
            return Touched(seen, (), ())

        def unit(tx: Transaction) -> Touched:
            from perdure.backends.ledgers.sql.history import touched_since  # SQLAlchemy, see `units`

            return touched_since(tx, scope, since)

        return await self.run_read(unit)

    # ------------------------------------------------------------------ erasure
    async def scrub(self) -> bool:
        self._open_writer()
        return await run_unit(self._scrub)

    def _scrub(self) -> bool:
        from perdure.backends.ledgers.sql import upkeep

        wanted = self._run(self._database.asking, scrub_wanted)
        try:
            clean = self._database.scrub()
        except Exception as error:
            self._tell(error)
        if clean and wanted:
            self._run(self._quickly, upkeep.note_scrubbed, wanted)
        return clean

    # ------------------------------------------------------------------ locks
    def lock(self, scope: Scope, store_identity: str | None = None) -> AbstractAsyncContextManager[Held]:
        return ScopeLock(self._queue, self, scope, store_identity)

    # ------------------------------------------------------------------ upkeep
    async def check(self) -> list[str]:
        self._open_writer()
        return await run_unit(self._check)

    def _check(self) -> list[str]:
        from perdure.backends.ledgers.sql import upkeep

        # What stands in a damaged file says nothing about what was written there.
        try:
            found = self._database.check()
        except Exception as error:
            self._tell(error)
        return found or self._run(self._database.reading, upkeep.check)

    async def stats(self) -> dict[str, int]:
        return await run_unit(self._stats)

    def _stats(self) -> dict[str, int]:
        from perdure.backends.ledgers.sql import upkeep

        counts = self._run(self._database.reading, upkeep.stats)
        try:
            return {**counts, "bytes": self._database.size()}
        except Exception as error:
            self._tell(error)


_OPEN: weakref.WeakSet[SqlLedger] = weakref.WeakSet()


def _after_fork() -> None:
    for ledger in list(_OPEN):
        ledger.forsake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
