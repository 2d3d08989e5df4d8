"""Extract facts from the unread turns of a session; unreadable turns are skipped after some attempts."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile

from perdure.domain.errors import QuotaError
from perdure.domain.event import Episode, MemoryEvent
from perdure.domain.memory import MemoryItem
from perdure.domain.session import Session, SessionTurn
from perdure.engine.aio.calls import degrade
from perdure.engine.chat.caller_model import CallerModels
from perdure.engine.chat.extraction import OVERLAP, Extracted, Extraction
from perdure.engine.chat.rolling_summary import RollingSummaries, is_current
from perdure.engine.chat.session_summary import SessionSummaries, sitting
from perdure.engine.chat.settings import Dialect, GatewaySettings
from perdure.engine.chat.turns import dialect_of
from perdure.engine.engine import Engine
from perdure.engine.maintenance.deletion import evict
from perdure.pipeline.curation.chat import has_drifted, tells_a_topic

TRIES = 3  # failures after which turns are read one by one, and a turn without a usable answer is skipped
SILENT_TRIES = 5
"""The same for a turn without any answer while the next turn is read: a model that is away is not the turn's fault."""
MOST_FAILED_SESSIONS = 1_000  # sessions whose failures are remembered; beyond it the oldest is dropped and starts over


@dataclass(slots=True)
class SessionFailure:
    """The turns of a session that failed last."""

    first: int = 0
    last: int = 0
    times: int = 0  # how often in a row the first of them failed
    passed: set[int] = field(default_factory=set)  # skipped turns, which are not context of others either

    @property
    def is_lasting(self) -> bool:
        """Whether it has failed often enough to look for the turn at fault."""
        return self.times >= TRIES

    @property
    def is_silent(self) -> bool:
        """Whether there was no answer often enough to try the next turn."""
        return self.times >= SILENT_TRIES


class FailedTurns:
    """The failures known to one process; another one makes a few attempts more."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, SessionFailure] = OrderedDict()

    def of(self, session_id: str) -> SessionFailure:
        """Return the failure of a session; an empty one if there is none."""
        return self._of.get(session_id, SessionFailure())

    def failed(self, session_id: str, first: int, last: int) -> SessionFailure:
        """Turns could not be read; the trouble as it is now."""
        trouble = self._of.setdefault(session_id, SessionFailure())
        if trouble.first != first:
            trouble.first, trouble.last, trouble.times = first, last, 0
        trouble.last = max(trouble.last, last)
        trouble.times += 1
        if len(self._of) > MOST_FAILED_SESSIONS:
            self._of.popitem(last=False)
        return trouble

    def passes_over(self, session_id: str, turn: int) -> None:
        """Skip a turn from now on, also as context."""
        self._of.setdefault(session_id, SessionFailure()).passed.add(turn)

    def read(self, session_id: str, through: int) -> None:
        """Note that turns up to one were read; a failure ends once all of its turns are read."""
        trouble = self._of.get(session_id)
        if trouble is None:
            return
        if through < trouble.last:
            trouble.first = through + 1  # the others that failed with it are read one by one, too
        elif trouble.passed:
            trouble.first = trouble.last = trouble.times = 0
        else:
            del self._of[session_id]


logger = logging.getLogger("perdure")
CONTEXT_TURNS = 12
"""Minimum turns of context before a chat's turn for the rules: it begins at every twelfth turn, so that the reading of
one turn can be reused for the next."""
LOOKED_BACK = 500  # last turns of a session in which its last sitting is searched


class SessionReader:
    """Reads the turns of sessions that a ledger counts."""

    def __init__(
        self, engine: Engine, settings: GatewaySettings, borrowing: CallerModels, shown: Callable[[], Awaitable[None]]
    ) -> None:
        """`shown` returns once all stored messages are rows, which count as entries."""
        self._engine = engine
        self._shown = shown
        self._kernel = engine.kernel
        self._settings = settings
        self._extraction = Extraction(engine, settings)
        self._borrowing = borrowing
        self._summaries = RollingSummaries(engine.kernel)
        self._accounts = SessionSummaries(engine.kernel)
        self._troubles = FailedTurns()

    async def read(self, session: Session, through: int) -> bool:
        """Read the unread turns up to one, and update the summary; False if some stay unread for the next time."""
        ledger = await self._kernel.required_ledger()
        events: list[MemoryEvent] = []
        done, through = session.read_turns, min(through, session.turns)
        if done >= through:
            return True
        while done < through:
            step = await self._step(session, done, through)
            if step is None:
                break
            done, found = step
            events += found
            await ledger.sessions.mark_read(session.id, done)
        await self._follow(session, events)
        return done >= through

    async def _step(self, session: Session, done: int, through: int) -> tuple[int, list[MemoryEvent]] | None:
        """Read the next turns; return the last one read and the events, or None if they could not be read.

        Turns that failed together too often are read one by one. One that fails alone is skipped if a model answered
        for it, or reads the turn after it: it must not block all later turns.
        """
        ledger = await self._kernel.required_ledger()
        longest = max(self._extraction.every("responses") + OVERLAP, 2 * CONTEXT_TURNS)
        turns = await ledger.sessions.turns(session.id, max(1, done + 1 - longest), min(through, done + longest))
        window = _Window(turns, await self._episodes(turns), done)
        unread = [turn for turn in window.turns if turn.number > done]
        if not unread:
            return through, []  # they were erased
        read = unread[:1] if self._troubles.of(session.id).is_lasting else self._together(session, window, unread)
        last = read[-1].number
        extracted = await self._extracted(session, window, read)
        if extracted.is_stale:
            return done, []  # the remaining ones are read at once
        if not extracted.failed:
            self._troubles.read(session.id, last)
            return last, extracted.events
        if extracted.failed == "embedder":
            return None
        trouble = self._troubles.failed(session.id, read[0].number, last)
        if not trouble.is_lasting:
            return None
        if len(read) > 1:
            return done, []  # one by one
        if extracted.failed == "reader":  # either the turn or the reader is at fault
            following = unread[1:2] if trouble.is_silent else []
            extracted = await self._extracted(session, window, following) if following else Extracted()
            if not extracted.is_read:
                return None
            last = following[0].number
        logger.warning("a turn that cannot be read for facts is passed over: its messages stay")
        self._troubles.passes_over(session.id, read[0].number)
        self._troubles.read(session.id, last)
        return last, extracted.events

    def _together(self, session: Session, window: _Window, unread: Sequence[SessionTurn]) -> list[SessionTurn]:
        """Return the first unread turns that are read together."""
        dialect, lent = window.dialect(unread[0]), self._borrowing.turns(session.id)
        is_lent = unread[0].number in lent
        most = window.done + self._extraction.together(dialect, borrows=is_lent)
        # A caller's key reads only turns that came with it, also as context; the others are read before or after.
        alike = takewhile(lambda turn: window.dialect(turn) == dialect and (turn.number in lent) == is_lent, unread)
        return [turn for turn in alike if turn.number <= most] or [unread[0]]

    async def _extracted(self, session: Session, window: _Window, read: Sequence[SessionTurn]) -> Extracted:
        first, last = read[0].number, read[-1].number
        dialect, trouble, lent = (
            window.dialect(read[0]),
            self._troubles.of(session.id),
            self._borrowing.turns(session.id),
        )
        earliest = _beginning(window.done) if dialect == "chat" else last - self._reach + 1
        before = [
            turn
            for turn in window.turns
            if earliest <= turn.number <= window.done
            and turn.number not in trouble.passed
            and (turn.number in lent or first not in lent)
            and not (trouble.is_lasting and dialect == "responses")  # the cause of the failure may be there
        ]
        try:
            async with self._borrowing.reader(session.id, first) as borrowed:
                return await self._extraction.read(
                    dialect,
                    session.scope,
                    window.said(before),
                    [window.said([turn]) for turn in read],
                    key=f"turns:{session.id}:{first}-{last}",
                    borrowed=borrowed,
                )
        except QuotaError as error:  # reading it again would change nothing
            logger.warning("what was said is not learned: %s", error.message)
            return Extracted(is_read=True)

    @property
    def _reach(self) -> int:
        """Number of turns in a Responses window: those to read, and those before them."""
        return self._extraction.every("responses") + OVERLAP

    async def _follow(self, session: Session, events: Sequence[MemoryEvent]) -> None:
        """Run what follows from new facts; each step may fail alone."""
        has_changed = any(event.event != "NONE" for event in events)
        if self._settings.summaries and (has_changed or not await is_current(self._kernel, session.scope)):
            await self._summaries.renew(session.scope, events)
        if self._settings.max_entries:
            with degrade("the conversation keeps more than its entries"):
                await self._shown()
                await evict(self._kernel, session.scope, self._settings.max_entries)

    async def has_drifted(self, session: Session, turn: int) -> bool:
        """Whether the user changes the subject with a turn."""
        threshold = self._settings.drift_threshold
        if threshold is None or turn < 2 or not self._kernel.embedding.available:
            return False
        ledger = await self._kernel.required_ledger()
        turns = await ledger.sessions.turns(session.id, turn - 1, turn)
        episodes = await self._episodes(turns)
        texts = [
            " ".join(episodes[id].content for id in each.episodes if id in episodes and episodes[id].role == "user")
            for each in turns
        ]
        if len(texts) < 2 or not all(map(tells_a_topic, texts)):
            return False
        before, now = (await self._kernel.embedding.texts(texts)).vectors
        return before is not None and now is not None and has_drifted(before, now, threshold)

    async def tell(self, session: Session) -> None:
        """Describe the session's last sitting in an episodic memory, and run the configured maintenance."""
        await self._accounts.tell(session, await self._sitting(session))
        for chore in dict.fromkeys(self._settings.at_session_end):
            with degrade(f"the end of a session was not followed by {chore}"):
                if chore == "consolidate":
                    await self._engine.consolidate.scope(session.scope)
                else:
                    await self._engine.reflect(session.scope)

    async def outcome(self, session: Session) -> tuple[int, MemoryItem | None]:
        """Return the number of memories from the last sitting, and the memory that describes it."""
        turns = await self._sitting(session)
        facts = await self._accounts.facts(session.scope, turns)
        return len(facts), await self._accounts.find(session.id, turns)

    async def _sitting(self, session: Session) -> list[SessionTurn]:
        ledger = await self._kernel.required_ledger()
        turns = await ledger.sessions.turns(session.id, max(1, session.turns - LOOKED_BACK + 1))
        return sitting(turns, timedelta(minutes=self._settings.session_minutes))

    async def _episodes(self, turns: Sequence[SessionTurn]) -> dict[str, Episode]:
        ledger = await self._kernel.required_ledger()
        ids = [id for turn in turns for id in turn.episodes]
        found = await ledger.get_episodes(ids) if ids else []
        return {episode.id: episode for episode in found if not episode.hidden}


@dataclass(frozen=True, slots=True)
class _Window:
    turns: Sequence[SessionTurn]
    episodes: dict[str, Episode]
    done: int  # the last turn that has been read

    def said(self, turns: Sequence[SessionTurn]) -> list[Episode]:
        """The messages of some of them."""
        return [self.episodes[id] for turn in turns for id in turn.episodes if id in self.episodes]

    def dialect(self, turn: SessionTurn) -> Dialect:
        """Return how to read a turn; one without messages is read as any."""
        known = [self.episodes[id] for id in turn.episodes if id in self.episodes]
        return dialect_of(known[0], turn.episodes[0]) if known else "chat"


def _beginning(done: int) -> int:
    """Return the turn at which the context of a chat begins."""
    return max(0, done // CONTEXT_TURNS - 1) * CONTEXT_TURNS + 1
