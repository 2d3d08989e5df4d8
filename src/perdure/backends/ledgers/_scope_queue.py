"""Turns inside one process: who may write next where scopes overlap, first come first served.

It knows nothing of event loops: tasks of several loops and threads, and of several ledger objects that share one
database, stand in the same queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future, InvalidStateError

from perdure.backends.ledgers._shared import Shared
from perdure.domain.scope import Scope


class Turn:
    """A place in the queue; it is granted once no earlier place of an overlapping scope is left."""

    __slots__ = ("granted", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.granted: Future[None] = Future()


class ScopeQueue:
    """Places in the order of coming; every method may be called from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turns: list[Turn] = []

    def join(self, scope: Scope) -> Turn:
        """A place at the end, granted at once if nothing stands in its way."""
        turn = Turn(scope)
        with self._guard:
            free = self._is_free(turn)
            self._turns.append(turn)
        if free:
            turn.granted.set_result(None)
        return turn

    async def wait(self, turn: Turn) -> None:
        """Return once the place is granted; one who is cancelled still has to leave."""
        if not turn.granted.done():
            await asyncio.wrap_future(turn.granted)

    def leave(self, turn: Turn) -> None:
        """Give the place up, and grant those that it held back; doing it twice is no error."""
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


QUEUES = Shared(ScopeQueue)
"""The queue of each database in this process."""
