"""The write side of the gateway: store turns at once, and extract facts from them in the background."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import NotFoundError, PerdureError
from perdure.domain.job import Job
from perdure.domain.scope import Scope
from perdure.domain.session import Session
from perdure.engine.aio.calls import degrade, never_fail, shielded
from perdure.engine.aio.priority import PriorityGate
from perdure.engine.aio.worker import Worker, is_ending
from perdure.engine.chat.caller_model import CallerModels
from perdure.engine.chat.extraction import Extraction
from perdure.engine.chat.session_reader import SessionReader
from perdure.engine.chat.settings import Conversation, GatewaySettings
from perdure.engine.chat.turn_log import InMemorySessions, TurnLog, own_session, own_session_of, store_mark
from perdure.engine.engine import Engine
from perdure.engine.graph import jobs as job_queue

# Session jobs: they survive a crash, and several processes share them.

logger = logging.getLogger("perdure")
JOB = "session"  # the kind of the jobs; each session runs one at a time, so that its turns are read in order
Task = Literal["read", "drift", "quiet", "end"]
"""Read up to a turn; read if the subject changed with it; read if nobody has spoken since; end the session."""

LANES = 4  # sessions processed concurrently where a model reads: one that hangs delays only its own session
AT_ONCE = 8  # jobs taken at a time if rules read, which take some milliseconds each
IDLE = 30.0  # seconds after which a worker checks for work that another process has left
BUSY = 0.05
SWEEP = 60.0  # maximum seconds between two checks for silent sessions
LATER = 600.0
"""Seconds between two attempts at a job that failed PARKED_AFTER times: a model may be away for hours, and no session
must stay unread until the next process starts."""
ENDING = 60.0  # maximum seconds that the caller who ends a session waits; the rest is done later
_FIRST_LOOK = 0.005
_SLOWEST_LOOK = 0.1
SWEPT = 100  # maximum sessions that one check ends
QUIET = 5.0
"""Seconds of silence after which rules read unread turns, unless a setting says otherwise: rules cost nothing."""
LATEST = 20  # the latest sessions of the same scope that are read when another one begins


class SessionJobs:
    """The session jobs of one process and the workers that run them."""

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        borrowing: CallerModels,
        way: PriorityGate,
        shown: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self._reading = SessionReader(engine, settings, borrowing, shown)
        self._silence = timedelta(minutes=settings.session_minutes)
        self._sweep_every = min(SWEEP, settings.session_minutes * 60 / 4)
        self._swept_at = -math.inf
        self._asks_a_model = self._kernel.extractor is not None or borrowing.is_on
        self.quiet_seconds = settings.quiet_seconds
        if self.quiet_seconds is None:
            self.quiet_seconds = 0.0 if self._asks_a_model else QUIET
        lanes, self._at_once = (LANES, 1) if self._asks_a_model else (1, AT_ONCE)
        self._workers = [Worker(lambda: way.behind(self._work())) for _ in range(lanes)]

    # ------------------------------------------------------------------ life
    def wake(self) -> None:
        """Wake the workers: there may be work."""
        for worker in self._workers:
            worker.wake()

    async def resume(self, ledger: Ledger) -> None:
        """Resume the jobs that an earlier process left, including those it had parked."""
        await ledger.jobs.revive([self._kind])
        self.wake()

    async def stop(self) -> None:
        """Stop; running jobs return to the queue."""
        for worker in self._workers:
            await worker.stop()

    # ------------------------------------------------------------------ jobs
    @property
    def _kind(self) -> str:
        return job_queue.JobKinds(self._kernel.identity, self._kernel.config.vector_store.collection_name).named(JOB)

    def job(self, task: Task, session_id: str, scope: Scope, turn: int, *, after: float = 0.0) -> Job:
        """Build a job whose id is derived from its cause, so repeats make one job; it runs `after` seconds later."""
        id = str(uuid5(NAMESPACE_URL, f"perdure:{self._kind}:{task}:{session_id}:{turn}"))
        told, when = {"task": task, "turn": turn}, job_queue.later(after) if after else ""
        return Job(id=id, kind=self._kind, memory_id=session_id, scope=scope, payload=told, not_before=when)

    async def _work(self) -> float:
        """Run some due jobs; return the seconds until there may be more."""
        try:
            with self._kernel.lifecycle.in_flight():
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
            if is_ending(error):
                raise
            logger.warning("what is due of sessions waits: %s", error.message)
            return job_queue.pause_after(3)
        wait = IDLE if due is None else min(IDLE, max(BUSY, job_queue.seconds_until(due)))
        return min(wait, self._sweep_every)

    async def _do(self, ledger: Ledger, jobs: Sequence[Job]) -> None:
        done: list[str] = []
        try:
            for job in jobs:
                if await self._try(ledger, job):
                    done.append(job.id)
        finally:
            # A cancelled task returns its unfinished jobs to the queue.
            left = [job.id for job in jobs if job.id not in done]
            await shielded(job_queue.hand_in(ledger.jobs, done, left, "what was due of a session will be done again"))

    async def _try(self, ledger: Ledger, job: Job) -> bool:
        """Run one job; True also if it failed and the queue knows."""
        try:
            session = await own_session_of(self._kernel, ledger, job.memory_id)
            is_read = session is None or await self._carry_out(ledger, session, job)
            error = "" if is_read else "the turns could not be read"
        except Exception as failure:  # whatever it is, it must not stop the sessions after this one
            if is_ending(failure):
                raise
            error = type(failure).__name__
            logger.warning("what was due of a session failed: %s", job_queue.failure_line(failure))
        if error:
            tries = job.attempts + 1
            pause = LATER if tries >= job_queue.PARKED_AFTER else job_queue.pause_after(tries, job_queue.GROWTH)
            await ledger.jobs.failed(job.id, error, not_before=job_queue.later(pause), park=False)
        return not error

    async def _carry_out(self, ledger: Ledger, session: Session, job: Job) -> bool:
        """Run the job; return whether everything is read. Turns that are read with the next ones count as done."""
        turn = int(job.payload["turn"])
        match job.payload["task"]:
            case "end":
                return await self._conclude(ledger, session, turn)
            case "drift" if not await self._reading.has_drifted(session, turn):
                return True
            case "quiet" if session.turns > turn:
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
        await ledger.sessions.end(session.id, iso(self._kernel.clock.now()), silent_since=iso(silent))
        return is_read

    # ------------------------------------------------------------------ ends
    async def _sweep(self, ledger: Ledger) -> bool:
        """End sessions that have been silent for long; return whether there were any."""
        now = time.monotonic()
        if now - self._swept_at < self._sweep_every:
            return False
        self._swept_at = now
        before = iso(self._kernel.clock.now() - self._silence)
        silent = await ledger.sessions.idle(before, SWEPT, store=store_mark(self._kernel))
        await ledger.jobs.add([self.job("end", session.id, session.scope, session.turns) for session in silent])
        return bool(silent)

    async def begins(self, ledger: Ledger, name: str, scope: Scope, seconds: float) -> None:
        """Have the sessions in the same scope read when a session of this name begins.

        Waits at most so many seconds until they are read; does not wait if a model reads, which takes too long for an
        answer. A short conversation is over when the next one begins, and its facts should be known by then.
        """
        latest = await ledger.sessions.list(scope, LATEST)
        unread = {each.id: each for each in latest if each.read_turns < each.turns and each.name != name}
        if not unread:
            return
        await ledger.jobs.add([self.job("read", each.id, each.scope, each.turns) for each in unread.values()])
        self.wake()
        until, look = time.monotonic() + seconds, _FIRST_LOOK
        while unread and not self._asks_a_model and time.monotonic() < until:
            await asyncio.sleep(look)
            look = min(2 * look, _SLOWEST_LOOK)
            for each in list(unread.values()):
                found = await ledger.sessions.by_id(each.id)
                if found is None or found.read_turns >= each.turns:
                    del unread[each.id]

    async def ended(self, ledger: Ledger, session: Session) -> Session:
        """End a session now and wait for that; return the session as it is then, or after the time limit."""
        until, look, asked = time.monotonic() + ENDING, _FIRST_LOOK, -1
        while time.monotonic() < until and (session.ended_at is None or session.read_turns < session.turns):
            if session.turns != asked:  # also if it continued meanwhile
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


JUST_SAID = 0.1  # seconds that the beginning of a conversation waits for the last messages to be stored
FEW = 8  # maximum number of waiting messages for which it waits


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """The outcome of ending a session."""

    session_id: str
    turns: int
    facts: int  # number of memories from its last sitting that still exist
    summary_id: str | None = None
    """The episodic memory that describes it; None if nothing was worth one, or while it is still being read."""
    is_read: bool = True  # whether every turn was read for facts; failed ones are retried


class MemoryWriter:
    """Stores turns and schedules the jobs that follow; only documented methods raise."""

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        *,
        way: PriorityGate | None = None,
        lost: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`lost` is called with the reason if a turn, or its answer, is not stored."""
        self._kernel = engine.kernel
        self._settings = settings
        self._extraction = Extraction(engine, settings)
        self._borrowing = CallerModels(engine, settings)
        self._reading = SessionReader(engine, settings, self._borrowing, self._shown)
        way = way or PriorityGate()
        self._work = SessionJobs(engine, settings, self._borrowing, way, self._shown)
        self._unkept = InMemorySessions(engine, settings, self._borrowing)
        self.turns = TurnLog(
            engine.kernel,
            due=self._due,
            wake=self._work.wake,
            borrowing=self._borrowing,
            unkept=self._unkept,
            way=way,
            lost=lost,
        )
        """The queue of turns."""

    @property
    def borrows(self) -> bool:
        """Whether turns may be read by the model of their own request."""
        return self._borrowing.is_on

    @property
    def waiting(self) -> int:
        """Number of messages that wait to be stored or to be indexed."""
        return len(self.turns)

    async def written(self) -> None:
        """Wait until all messages so far are stored and searchable."""
        await self.turns.so_far()

    async def begins(self, conversation: Conversation, seconds: float) -> None:
        """Have the user's other sessions read as one begins, waiting for so long at most; never fails a request."""
        until = time.monotonic() + seconds
        what = "what was said in an earlier conversation is read later"
        with never_fail(what, []), degrade(what), self._kernel.lifecycle.in_flight():
            ledger = self._kernel.ledger
            if ledger is None or not self._kernel.open.done:
                return
            if self.waiting <= FEW:  # without the ledger more messages wait, and requests must not
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(seconds, JUST_SAID)):
                        await self.turns.so_far()
            with suppress(TimeoutError):
                async with asyncio.timeout(left := until - time.monotonic()):
                    await self._work.begins(ledger, conversation.session, conversation.scope, left)

    async def end_session(self, name: str, scope: Scope) -> SessionEnd:
        """Read the unread turns of a session, and describe it in an episodic memory.

        NotFoundError if exactly this scope has none of this name; LedgerError without a ledger.
        """
        with self._kernel.lifecycle.in_flight():
            ledger = await self._kernel.required_ledger()
            session = await own_session(self._kernel, ledger, name, scope)
            if session is None:
                raise NotFoundError(f"there is no session {name!r}")
            session = await self._work.ended(ledger, session)
            facts, account = await self._reading.outcome(session)
            return SessionEnd(
                session_id=session.id,
                turns=session.turns,
                facts=facts,
                summary_id=None if account is None else account.id,
                is_read=session.read_turns >= session.turns,
            )

    async def start(self) -> None:
        """Start working on due jobs, including those that an earlier process left or could not do."""
        what = "what is due of sessions is done once something is said"
        with never_fail(what, []), degrade(what), self._kernel.lifecycle.in_flight():
            await self._kernel.open()
            if self._kernel.ledger is not None:
                await self._work.resume(self._kernel.ledger)

    async def close(self) -> None:
        """Store all messages and stop; unread turns stay in the queue for the next process."""
        await self.turns.so_far()
        await self._unkept.settled()
        await self._work.stop()
        await self._borrowing.close()

    async def _shown(self) -> None:
        await self.turns.shown()

    def _due(self, conversation: Conversation, session_id: str, number: int) -> list[Job]:
        """Return the jobs due after a turn: read every N-th, or if the subject changed, or if nobody continues."""
        if number % self._extraction.every(conversation.dialect) == 0:
            return [self._work.job("read", session_id, conversation.scope, number)]
        jobs = list[Job]()
        if quiet := self._work.quiet_seconds:
            jobs.append(self._work.job("quiet", session_id, conversation.scope, number, after=quiet))
        if self._settings.drift_threshold is not None and number > 1:
            jobs.append(self._work.job("drift", session_id, conversation.scope, number))
        return jobs
