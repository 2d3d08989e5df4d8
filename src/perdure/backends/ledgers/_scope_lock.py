"""A lock on a scope: first a turn in this process, then a ticket among all that share the ledger."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers._scope_queue import ScopeQueue, Turn
from perdure.backends.ledgers.base import Held
from perdure.domain.errors import LedgerError
from perdure.domain.scope import Scope

if TYPE_CHECKING:
    from perdure.backends.ledgers._locks import Ticket

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05
"""Seconds between two looks at a lock that another process holds."""


class Tickets(Protocol):
    """Where tickets come from; every method blocks."""

    def enter(self, scope: Scope, store: str | None) -> Ticket:
        """Draw a ticket."""

    def look(self, ticket: Ticket, scope: Scope, store: str | None) -> Ticket:
        """How a ticket stands by now."""

    def leave(self, ticket: Ticket) -> None:
        """Give a ticket back; never raises."""


class ScopeLock(AbstractAsyncContextManager[Held]):
    """One hold of one lock, for one `async with`."""

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
        """Give back ticket and turn, once, from any thread; a drawing of the ticket under way is waited for."""
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
    """Run a blocking action in a thread and return when it is done; it is done also where the caller is cancelled.

    The action may be called twice.
    """
    try:
        task = asyncio.get_running_loop().create_task(run_blocking(action))
    except RuntimeError:
        # The loop is gone, and with it the caller: a forgotten coroutine is being put away.
        action()
        return
    # A loop that ends cancels every task, and one that had not begun would never be done.
    task.add_done_callback(lambda ended: action() if ended.cancelled() else None)
    await asyncio.shield(task)
