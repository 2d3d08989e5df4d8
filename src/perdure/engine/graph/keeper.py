"""The keeper: the graph store of one engine, and the jobs that make it conform to the memories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from perdure.backends.graphs.base import GraphStore
from perdure.backends.ledgers.desk.base import Jobs
from perdure.domain.clock import read_moment
from perdure.domain.errors import GraphDownError, InvalidInputError, LLMError, PerdureError
from perdure.domain.event import Change
from perdure.domain.job import Job
from perdure.domain.memory import MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.finish import finish
from perdure.engine.graph.conforming import Conforming
from perdure.engine.graph.jobs import GROWTH, PARKED_AFTER, Kinds, later, pause_after
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up, kept_from_failing
from perdure.engine.worker import Worker, is_ending

logger = logging.getLogger("perdure")

AT_A_TIME = 16
"""Jobs taken in one go."""
LANES = 4
"""Workers where a model reads the texts: one that hangs holds up no more than its own scope."""
IDLE = 30.0
"""Seconds after which the worker looks whether a process that died has left work."""
BUSY = 0.05
"""Seconds until it looks again where what is due is being done by another."""
MOST_SETTLED = 200
"""Jobs that a read does itself before it answers."""
SETTLING = 10.0
"""Seconds after which a read answers, whatever is still under way."""
FEW_SETTLED = 32
SETTLING_QUICKLY = 0.5
"""The same for a search."""
_FIRST_LOOK = 0.001
_SLOWEST_LOOK = 0.02
_PASSING = ("rate_limit", "timeout", "server", "connection", "authentication")
"""Codes of a model's failures that have nothing to do with the text."""


class Keeper:
    """Follows the changes of one kernel with a graph; nothing here ever fails a write."""

    def __init__(self, kernel: Kernel, fresh: Callable[[], GraphStore]) -> None:
        self._kernel = kernel
        self._fresh = fresh
        self._store = fresh()
        self._conforming = Conforming(kernel)
        self._workers = [Worker(self._work) for _ in range(1 if self.is_quick else LANES)]
        self._under_way: dict[str, Job] = {}
        self._taking: set[object] = set()
        self._at_work: dict[str, Scope] = {}
        self._pauses = 0
        self._batch = AT_A_TIME if self.is_quick else 1

    async def store(self) -> GraphStore:
        """The graph, open; GraphDownError where it cannot be reached."""
        await self._store.open()
        return self._store

    @property
    def kinds(self) -> Kinds:
        """The kinds of this store's jobs."""
        return Kinds(self._kernel.identity, self._kernel.config.vector_store.collection_name)

    @property
    def queue(self) -> Jobs | None:
        """The ledger's queue; None without a ledger."""
        return None if self._kernel.ledger is None else self._kernel.ledger.jobs

    @property
    def is_quick(self) -> bool:
        """Whether the work needs no language model, so that a search may wait for it."""
        return self._conforming.is_quick

    # ------------------------------------------------------------------ following changes
    def jobs(self, changes: Sequence[Change]) -> list[Job]:
        """The work that these changes make, for the ledger to keep beside them."""
        return self.kinds.of_changes(changes)

    async def at_once(self, changes: Sequence[Change], warnings: list[str]) -> None:
        """Make the graph conform now, where no ledger keeps the work; a graph that fails falls behind."""
        what = "the graph does not follow this change"
        for job in self.kinds.of_changes(changes):
            with kept_from_failing(what, warnings), given_up(what, warnings):
                await self.do_now([job])

    async def do_now(self, jobs: Sequence[Job]) -> None:
        """Do jobs that no queue holds."""
        for job in jobs:
            await self._conforming(await self.store(), job)

    async def arrived(self, items: Sequence[MemoryItem]) -> None:
        """Let the graph look at memories that were imported; what fails is left to the doctor."""
        jobs, what = self.kinds.of_items(items, new_id()), "the graph does not hold what was imported"
        with given_up(what):
            if self.queue is not None:
                await self.queue.add(jobs)
                self.wake()
            else:
                await self.do_now(jobs)

    def wake(self) -> None:
        """There may be work."""
        if self._kernel.ledger is not None:
            for worker in self._workers:
                worker.wake()

    async def close(self) -> None:
        """Stop the worker, leaving what is not done to the next one, and let go of the graph."""
        for worker in self._workers:
            await worker.stop()
        with given_up("the graph could not be closed"):
            await self._store.close()

    def forsake(self) -> None:
        """This process was forked: begin anew, and leave open connections to the parent."""
        _LEFT_TO_THE_PARENT.append(self._store)
        self._store = self._fresh()
        for worker in self._workers:
            worker.reset()
        self._under_way.clear()
        self._taking.clear()
        self._at_work.clear()

    # ------------------------------------------------------------------ doing what is due
    async def _work(self) -> float:
        """Do some of what is due; the seconds until there may be more."""
        queue = self.queue
        if queue is None:
            return IDLE
        try:
            taken = await self._take(queue, self._batch)
            if taken:
                await self._do(queue, taken)
                return 0.0
            due = await queue.next_due(self.kinds.all)
        except PerdureError as error:  # the ledger is locked or full: its own errors tell whoever writes
            logger.warning("the graph's jobs wait: %s", error.message)
            return pause_after(3)
        return IDLE if due is None else min(IDLE, max(BUSY, _seconds_until(due)))

    async def settle(self, scope: Scope) -> None:
        """Do what is due inside a scope, or wait for who does it, so that a read sees what was written; bounded."""
        await self._settle_within(scope, MOST_SETTLED, SETTLING, others=True)

    async def settle_quickly(self, scope: Scope) -> None:
        """The same for a search, which looks at what there is where much is due, or a model would be asked."""
        if self.is_quick:
            await self._settle_within(scope, FEW_SETTLED, SETTLING_QUICKLY, others=False)

    async def _settle_within(self, scope: Scope, most: int, patience: float, *, others: bool) -> None:
        if self.queue is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._settle(self.queue, scope, most, others)

    async def _settle(self, queue: Jobs, scope: Scope, left: int, others: bool) -> None:
        look = _FIRST_LOOK
        while left > 0:
            is_busy = self._is_at(scope)
            taken = [] if is_busy else await self._take(queue, min(self._batch, left), scope)
            left -= len(taken)
            if taken:
                if not await self._do(queue, taken):
                    return
                continue
            is_busy = is_busy or self._is_at(scope)
            if not is_busy and others:  # another process may have taken what was written here
                is_busy = (await queue.status(self.kinds.all, scope)).processing > 0
            if not is_busy:
                return
            await asyncio.sleep(look)
            look = min(2 * look, _SLOWEST_LOOK)

    def _is_at(self, scope: Scope) -> bool:
        """Whether another task of this process does jobs of a scope, or is about to."""
        return bool(self._taking) or any(scope.holds(job.scope) for job in list(self._under_way.values()))

    async def _take(self, queue: Jobs, limit: int, scope: Scope | None = None) -> list[Job]:
        """Take jobs; from before they are taken until they are done others can see that they are under way."""
        mine = object()
        self._taking.add(mine)
        try:
            taken = await queue.take(self.kinds.all, limit, scope)
            self._under_way.update({job.id: job for job in taken})
        finally:
            self._taking.discard(mine)
        return taken

    async def _do(self, queue: Jobs, taken: Sequence[Job]) -> bool:
        """Do jobs that were taken, in order; whether the graph could be reached."""
        done: list[str] = []
        waiting = {job.id: job for job in taken}
        try:
            for job in taken:
                if any(worker.is_paused for worker in self._workers):
                    return True
                async with self._alone(job):
                    reached = await self._try(queue, job, waiting)
                if not reached:
                    return False
                if job.id in waiting:
                    done.append(job.id)
                    del waiting[job.id]
            return True
        finally:
            # A task that is cancelled still says what it has done, and gives back the rest.
            await finish(_hand_in(queue, done, list(waiting)))
            for job in taken:
                self._under_way.pop(job.id, None)

    @asynccontextmanager
    async def _alone(self, job: Job) -> AsyncIterator[None]:
        """One at a time where scopes overlap, so that a name is resolved against what was told before it."""
        look = _FIRST_LOOK
        while any(scope.overlaps(job.scope) for scope in list(self._at_work.values())):
            await asyncio.sleep(look)
            look = min(2 * look, _SLOWEST_LOOK)
        self._at_work[job.id] = job.scope
        try:
            yield
        finally:
            del self._at_work[job.id]

    async def _try(self, queue: Jobs, job: Job, waiting: dict[str, Job]) -> bool:
        """Do one job, and tell the queue where that failed; False where nothing can be done for now."""
        try:
            await self._conforming(await self.store(), job)
        except Exception as error:  # whatever it is, a job must not stop those after it
            if is_ending(error):
                raise
            if isinstance(error, GraphDownError) or (isinstance(error, LLMError) and error.code in _PASSING):
                self._pauses += 1
                logger.warning("the graph's jobs wait: %s", _told(error))
                await queue.give_back(list(waiting), not_before=later(pause_after(self._pauses)))
                waiting.clear()
                return False
            del waiting[job.id]
            park = job.attempts + 1 >= PARKED_AFTER
            logger.warning("a job %s of memory %s failed: %s", Kinds.bare(job.kind), job.memory_id, _told(error))
            pause = pause_after(job.attempts + 1, GROWTH)
            await queue.failed(job.id, _told(error), not_before=later(pause), park=park)
            return True
        self._pauses = 0
        return True


async def _hand_in(queue: Jobs, done: Sequence[str], waiting: Sequence[str]) -> None:
    with given_up("jobs of the graph will be done again"):
        if done:
            await queue.done(done)
        if waiting:
            await queue.give_back(waiting, not_before=later(0.0))


def _told(error: Exception) -> str:
    """An error in one line without any text of a memory: what names values is told by its class alone."""
    if isinstance(error, PerdureError) and not isinstance(error, InvalidInputError):
        return f"{type(error).__name__}: {' '.join(error.message.split())}"
    return type(error).__name__


def _seconds_until(moment: str) -> float:
    due = read_moment(moment)
    return 0.0 if due is None else (due - datetime.now(UTC)).total_seconds()


_LEFT_TO_THE_PARENT: list[GraphStore] = []
"""Graphs that a forked process must neither use nor close."""
