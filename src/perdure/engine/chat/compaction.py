"""Send a long history as a structured state and its last turns.

A job builds the state of a session every so many turns, in any process, and the state is kept for a while. It names its
sources and is erased with them; the next request has it rebuilt without them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.event import Episode
from perdure.domain.job import Job
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message, text_of
from perdure.domain.scope import Scope
from perdure.domain.session import Session
from perdure.engine.aio.calls import degrade, shielded
from perdure.engine.aio.worker import Worker, is_ending
from perdure.engine.chat.extraction import answer_in_time
from perdure.engine.chat.memory_reader import marks_of
from perdure.engine.chat.session_summary import SessionSummaries
from perdure.engine.chat.settings import Conversation, GatewaySettings
from perdure.engine.chat.turn_log import own_session
from perdure.engine.engine import Engine
from perdure.engine.graph.jobs import GROWTH, PARKED_AFTER, JobKinds, hand_in, later, pause_after
from perdure.pipeline.curation.llm.summary import state_by_model
from perdure.pipeline.prompting import compaction
from perdure.pipeline.prompting.quoting import strip_injected
from perdure.pipeline.quarantine import suspect

logger = logging.getLogger("perdure")
JOB = "state"  # the kind of the jobs; each session runs one at a time
MOST_TURNS = 400  # the newest turns that are read for a state; the previous state covers the older ones
MOST_UNKNOWN = 40  # turns from before the session was counted that a request may contain; with more it is sent whole
IDLE = 30.0  # seconds after which a worker checks for work that another process has left
Messages = list[dict[str, Any]]
Injected = Callable[[Scope, frozenset[str]], None]
"""Called with the fingerprints of what was injected into a prompt of a scope."""


class Compaction:
    """Replaces old turns in requests, and maintains the states of sessions; a failure costs only tokens."""

    def __init__(self, engine: Engine, settings: GatewaySettings, injected: Injected) -> None:
        self._kernel = engine.kernel
        self._injected = injected
        self._settings = settings.compression
        self._seconds = settings.recall_seconds
        self._is_on = settings.enabled and settings.compression.enabled
        self._accounts = SessionSummaries(engine.kernel)
        self._worker = Worker(self._work)

    async def start(self) -> None:
        """Start building due states, also those that an earlier process left; does nothing if compression is off."""
        if self._is_on:
            self._worker.wake()

    async def close(self) -> None:
        """Stop; unfinished work stays in the queue."""
        await self._worker.stop()

    async def __call__(
        self, conversation: Conversation, messages: Messages, *, within: float | None = None
    ) -> Messages:
        """Return the messages of a request (chat's or Responses' items) without those that the state replaces.

        Call it before memories are injected. It returns the very same list if compression is off, nothing is old, or
        there is no state yet. It raises nothing but CancelledError, and takes at most `recall_seconds`, and no longer
        than `within`, a time of the monotonic clock.
        """
        if not self._is_on or len(compaction.turns_of(messages)) <= self._settings.keep_turns:
            return messages
        try:
            with self._kernel.lifecycle.in_flight():
                async with asyncio.timeout(self._seconds if within is None else within - time.monotonic()):
                    return await self._compressed(conversation, messages)
        except Exception as error:  # whatever it is: the request goes on with its whole history
            logger.warning("the history is sent whole: %s", type(error).__name__)
            return messages

    async def _compressed(self, conversation: Conversation, messages: Messages) -> Messages:
        await self._kernel.open()
        ledger = self._kernel.ledger
        if ledger is None:
            return messages
        session = await own_session(self._kernel, ledger, conversation.session, conversation.scope)
        if session is None:
            return messages
        if self._is_due(session):
            await ledger.jobs.add([self._job(session)])
            self._worker.wake()
        if not session.state:
            return messages
        short, state = await run_blocking(_with_state, messages, session, self._settings.keep_turns)
        if short is not messages:
            self._injected(conversation.scope, marks_of((), "\n".join(compaction.words_of(state))))
        return short

    def _is_due(self, session: Session) -> bool:
        """Whether enough turns followed the state, or half of its lifetime is over while it is in use."""
        if session.turns - _covered(session.state) >= self._settings.every_turns:
            return True
        until = read_moment(session.state_until) if session.state_until else None
        return until is not None and until - self._kernel.clock.now() < self._ttl / 2

    @property
    def _ttl(self) -> timedelta:
        return timedelta(hours=self._settings.ttl_hours)

    @property
    def _kinds(self) -> JobKinds:
        return JobKinds(self._kernel.identity, self._kernel.config.vector_store.collection_name)

    def _job(self, session: Session) -> Job:
        """Return the job of a session at this turn; enqueueing it twice makes one job."""
        return self._kinds.job(JOB, session.id, session.scope, str(session.turns))

    async def _work(self) -> float:
        """Run some due jobs; return the seconds until there may be more."""
        try:
            with self._kernel.lifecycle.in_flight():
                await self._kernel.open()
                ledger, kind = self._kernel.ledger, self._kinds.named(JOB)
                if ledger is None:
                    return IDLE
                taken = await ledger.jobs.take([kind], 1)
                if taken:
                    await self._do(ledger, taken[0])
                    return 0.0
                due = await ledger.jobs.next_due([kind])
        except PerdureError as error:
            if is_ending(error):
                raise
            logger.warning("the states of sessions wait: %s", type(error).__name__)
            return pause_after(1)
        moment = None if due is None else read_moment(due)
        if moment is None:
            return IDLE
        return min(IDLE, max(0.05, (moment - self._kernel.clock.now()).total_seconds()))

    async def _do(self, ledger: Ledger, job: Job) -> None:
        left = True
        try:
            await self.build(ledger, job.memory_id)
            await shielded(ledger.jobs.done([job.id]))
            left = False
        except Exception as failure:  # whatever it is, it must not stop the sessions after this one
            if is_ending(failure):
                raise
            logger.warning("the state of a session was not built: %s", type(failure).__name__)
            pause, park = pause_after(job.attempts + 1, GROWTH), job.attempts + 1 >= PARKED_AFTER
            await shielded(ledger.jobs.failed(job.id, type(failure).__name__, not_before=later(pause), park=park))
            left = False
        finally:
            if left:  # cancelled: the next process does it
                await shielded(hand_in(ledger.jobs, (), [job.id], "the state of a session is built later"))

    async def build(self, ledger: Ledger, session_id: str) -> bool:
        """Build the state of a session from its messages; False if some of them were forgotten meanwhile.

        What was read first is checked again when the state is stored; the previous state is read last, so that nothing
        that was forgotten meanwhile can come back in it.
        """
        turns = await ledger.sessions.turns(session_id)
        if not turns:
            return False
        ids = [id for turn in turns for id in turn.episodes]
        found = {episode.id: episode for episode in await ledger.get_episodes(ids) if not episode.hidden}
        session = await ledger.sessions.by_id(session_id)
        if session is None:
            return False
        facts = await self._accounts.facts(session.scope, turns[-MOST_TURNS:])
        fresh = [turn for turn in turns if turn.number > _covered(session.state)][-MOST_TURNS:]
        said = [found[id] for turn in fresh for id in turn.episodes if id in found]
        state = await self._made(await run_blocking(_fit, said), facts, session.state)
        return await ledger.sessions.put_state(
            session_id,
            {**state, compaction.COVERED: turns[-1].number},
            iso(self._kernel.clock.now() + self._ttl),
            episodes=list(found),
            memories=[item.id for item in facts],
        )

    async def _made(
        self, fresh: Sequence[Message], facts: Sequence[MemoryItem], previous: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the state by a model if there is one; else, or if it fails, by rules."""
        llm = self._kernel.extractor
        if llm is not None:
            stated = [item.memory for item in facts if not _unfit(item.memory)]
            shown = {key: value for key, value in previous.items() if key != compaction.COVERED}
            with degrade("the state of a session is told by rules"):
                told = await answer_in_time(self._kernel.config, state_by_model(llm, fresh, stated, shown))
                if told and (state := compaction.bounded(told, unfit=_unfit)):
                    return state
        return await run_blocking(compaction.state_of, fresh, facts, previous, unfit=_unfit)


def _with_state(messages: Messages, session: Session, keep_turns: int) -> tuple[Messages, dict[str, Any]]:
    """Return the request with the session's state, and that state, extended by rules for turns that it lacks."""
    begins = compaction.turns_of(messages)
    left_out = len(begins) - keep_turns
    behind = session.turns - _covered(session.state) + 1  # this request's own turn may not be counted yet
    first = max(0, len(begins) - behind)
    state: dict[str, Any] = dict(session.state)
    unknown = len(begins) - session.turns - 1
    if unknown > MOST_UNKNOWN:
        return messages, state
    if unknown > 0:
        earlier = _heard(messages[: begins[min(unknown, left_out)]])
        state = compaction.joined(compaction.state_of(earlier, (), {}, unfit=_unfit), state, unfit=_unfit)
    if first < left_out:
        state = compaction.state_of(_heard(messages[begins[first] : begins[left_out]]), (), state, unfit=_unfit)
    return compaction.compressed(messages, state, keep_turns), state


def _heard(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the user's and assistant's texts in a request's messages."""
    heard: list[Message] = []
    for message in messages:
        if message.get("role") in ("user", "assistant"):
            try:
                text = strip_injected(text_of(message.get("content")))
                heard.append(Message(str(message["role"]), text[: compaction.MOST_READ]))
            except InvalidInputError:
                continue
    return heard


def _fit(episodes: Sequence[Episode]) -> list[Message]:
    """Return the user's and assistant's messages that may enter a prompt."""
    spoken = [
        Message(episode.role, episode.content[: compaction.MOST_READ])
        for episode in episodes
        if episode.role in ("user", "assistant")
    ]
    return [message for message in spoken if not _unfit(message.content)]


def _unfit(text: str) -> bool:
    """Whether a text gives a model orders, and so must not be sent to it as part of a state."""
    return suspect(text, None) is not None


def _covered(state: Mapping[str, Any]) -> int:
    return int(state.get(compaction.COVERED) or 0)
