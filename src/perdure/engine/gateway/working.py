"""Working: what is due of sessions is done by jobs, which no crash loses and several processes share (DESIGN §3)."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.job import Job
from perdure.domain.scope import Scope
from perdure.domain.session import Session
from perdure.engine.engine import Engine
from perdure.engine.finish import finish
from perdure.engine.gateway.borrowing import Borrowing
from perdure.engine.gateway.giving_way import GivingWay
from perdure.engine.gateway.own_sessions import own_session_of, store_mark
from perdure.engine.gateway.reading import SessionReading
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.graph.jobs import GROWTH, PARKED_AFTER, Kinds, later, pause_after
from perdure.engine.soft import given_up
from perdure.engine.worker import Worker, is_ending

logger = logging.getLogger("perdure")

JOB = "session"
"""The kind of the jobs: of one session one at a time, so that its turns are read in their order."""
Task = Literal["read", "drift", "end"]
"""Read up to a turn; do so if the subject has changed with it; the session has ended."""

LANES = 4
"""Sessions that are worked on at a time: a model that hangs holds up no more than its own."""
AT_ONCE = 8
"""Jobs that are taken at a time where rules read, which take some milliseconds for each."""
IDLE = 30.0
"""Seconds after which a worker looks whether another process has left work."""
BUSY = 0.05
SWEEP = 60.0
"""Seconds between two looks for sessions that have fallen silent, at most."""
LATER = 600.0
"""Seconds between two tries of what failed PARKED_AFTER times: a model that was away for hours is asked again, and no
session stays unread until the next process begins."""
ENDING = 60.0
"""Seconds that whoever ends a session waits for it at most; what is not done by then is done later."""
_FIRST_LOOK = 0.005
_SLOWEST_LOOK = 0.1
SWEPT = 100
"""Sessions that one look ends."""


class SessionWork:
    """The workers of one process."""

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        borrowing: Borrowing,
        way: GivingWay,
        shown: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self._reading = SessionReading(engine, settings, borrowing, shown)
        self._silence = timedelta(minutes=settings.session_minutes)
        self._sweep_every = min(SWEEP, settings.session_minutes * 60 / 4)
        self._swept_at = -math.inf
        asks_a_model = self._kernel.extractor is not None or borrowing.is_on
        lanes, self._at_once = (LANES, 1) if asks_a_model else (1, AT_ONCE)
        self._workers = [Worker(lambda: way.behind(self._work())) for _ in range(lanes)]

    # ------------------------------------------------------------------ life
    def wake(self) -> None:
        """There may be work."""
        for worker in self._workers:
            worker.wake()

    async def resume(self, ledger: Ledger) -> None:
        """Go on with what an earlier process left over, also with what it had given up."""
        await ledger.jobs.revive([self._kind])
        self.wake()

    async def stop(self) -> None:
        """Stop; what is under way is given back."""
        for worker in self._workers:
            await worker.stop()

    # ------------------------------------------------------------------ jobs
    @property
    def _kind(self) -> str:
        return Kinds(self._kernel.identity, self._kernel.config.vector_store.collection_name).named(JOB)

    def job(self, task: Task, session_id: str, scope: Scope, turn: int) -> Job:
        """A job whose id is of its cause: told twice, it is there once."""
        id = str(uuid5(NAMESPACE_URL, f"perdure:{self._kind}:{task}:{session_id}:{turn}"))
        return Job(id=id, kind=self._kind, memory_id=session_id, scope=scope, payload={"task": task, "turn": turn})

    async def _work(self) -> float:
        """Do some of what is due; the seconds until there may be more."""
        try:
            with self._kernel.calls.one():
                ledger = self._kernel.ledger
                if ledger is None:
                    return IDLE
                taken = await ledger.jobs.take([self._kind], self._at_once)
                if taken:
                    await self._do(ledger, taken)
                    return 0.0
                if await self._sweep(ledger):
                    return 0.0
                due = await ledger.jobs.next_due([self._kind])
        except PerdureError as error:
            logger.warning("what is due of sessions waits: %s", error.message)
            return pause_after(3)
        wait = IDLE if due is None else min(IDLE, max(BUSY, _seconds_until(due)))
        return min(wait, self._sweep_every)

    async def _do(self, ledger: Ledger, jobs: Sequence[Job]) -> None:
        done: list[str] = []
        try:
            for job in jobs:
                if await self._try(ledger, job):
                    done.append(job.id)
        finally:
            # A task that is cancelled gives back what it has not done.
            left = [job.id for job in jobs if job.id not in done]
            await finish(_hand_in(ledger, done, left))

    async def _try(self, ledger: Ledger, job: Job) -> bool:
        """Do one job; True too where it failed and the queue was told so."""
        try:
            session = await own_session_of(self._kernel, ledger, job.memory_id)
            is_read = session is None or await self._carry_out(ledger, session, job)
            error = "" if is_read else "the turns could not be read"
        except Exception as failure:  # whatever it is, it must not stop the sessions after this one
            if is_ending(failure):
                raise
            error = type(failure).__name__
            logger.warning("what was due of a session failed: %s", _told(failure))
        if error:
            tries = job.attempts + 1
            pause = LATER if tries >= PARKED_AFTER else pause_after(tries, GROWTH)
            await ledger.jobs.failed(job.id, error, not_before=later(pause), park=False)
        return not error

    async def _carry_out(self, ledger: Ledger, session: Session, job: Job) -> bool:
        """Whether all that was to be read is read; what is read with the next turns all the same counts as done."""
        turn = int(job.payload["turn"])
        match job.payload["task"]:
            case "end":
                return await self._conclude(ledger, session, turn)
            case "drift" if not await self._reading.has_drifted(session, turn):
                return True
            case _:
                await self._reading.read(session, turn)
                return True

    async def _conclude(self, ledger: Ledger, session: Session, turn: int) -> bool:
        went_on = session.turns > turn
        if went_on or (session.ended_at is not None and session.read_turns >= session.turns):
            return True
        is_read = await self._reading.read(session, session.turns)
        if session.ended_at is None or is_read:
            await self._reading.tell(session)
        silent = (read_moment(session.last_at) or datetime.now(UTC)) + timedelta(microseconds=1)
        await ledger.sessions.end(session.id, iso(self._kernel.ticker.now()), silent_since=iso(silent))
        return is_read

    # ------------------------------------------------------------------ ends
    async def _sweep(self, ledger: Ledger) -> bool:
        """Let sessions end that have been silent for long; whether there were some."""
        now = time.monotonic()
        if now - self._swept_at < self._sweep_every:
            return False
        self._swept_at = now
        before = iso(self._kernel.ticker.now() - self._silence)
        silent = await ledger.sessions.idle(before, SWEPT, store=store_mark(self._kernel))
        await ledger.jobs.add([self.job("end", session.id, session.scope, session.turns) for session in silent])
        return bool(silent)

    async def ended(self, ledger: Ledger, session: Session) -> Session:
        """End a session now, and wait until that is done; the session as it is then, or after a while."""
        until, look, asked = time.monotonic() + ENDING, _FIRST_LOOK, -1
        while time.monotonic() < until and (session.ended_at is None or session.read_turns < session.turns):
            if session.turns != asked:  # also where it went on meanwhile
                asked = session.turns
                await ledger.jobs.add([self.job("end", session.id, session.scope, asked)])
                self.wake()
            await asyncio.sleep(look)
            look = min(2 * look, _SLOWEST_LOOK)
            found = await ledger.sessions.by_id(session.id)
            if found is None or (found.ended_at is not None and not await self._is_waiting(ledger, session.scope)):
                return found or session
            session = found
        return session

    async def _is_waiting(self, ledger: Ledger, scope: Scope) -> bool:
        status = await ledger.jobs.status([self._kind], scope)
        return status.processing > 0


async def _hand_in(ledger: Ledger, done: Sequence[str], left: Sequence[str]) -> None:
    with given_up("what was due of a session will be done again"):
        if done:
            await ledger.jobs.done(done)
        if left:
            await ledger.jobs.give_back(left, not_before=later(0.0))


def _told(failure: Exception) -> str:
    """A failure in one line without any text of a memory: what names values is told by its class alone."""
    if isinstance(failure, PerdureError) and not isinstance(failure, InvalidInputError):
        return f"{type(failure).__name__}: {' '.join(failure.message.split())}"
    return type(failure).__name__


def _seconds_until(moment: str) -> float:
    due = read_moment(moment)
    return 0.0 if due is None else (due - datetime.now(UTC)).total_seconds()
