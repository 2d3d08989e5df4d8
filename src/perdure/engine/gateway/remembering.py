"""The write side of the gateway: what was said is kept at once, and read for facts outside of the answer's way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso
from perdure.domain.errors import NotFoundError
from perdure.domain.job import Job
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.gateway.borrowing import Borrowing, Loan
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.extraction import Extraction
from perdure.engine.gateway.reading import SessionReading
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.gateway.turns import Turns
from perdure.engine.gateway.unkept import Unkept, named
from perdure.engine.gateway.working import SessionWork
from perdure.engine.soft import given_up, kept_from_failing

_NOT_KEPT = "the turn is not kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a session: the user's words are kept, the answer may still come."""

    conversation: Conversation
    user: Message
    session_id: str | None = None
    """The ledger's id of the session; None where no ledger counts it."""
    number: int = 0
    """Its place in the session, from 1 on; 0 where it could not be counted."""
    episodes: tuple[str, ...] = ()
    """The messages that are kept of it so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """What the end of a session came to."""

    session_id: str
    turns: int
    facts: int
    """Memories that stand of what was said in its last sitting."""
    summary_id: str | None = None
    """The episodic memory that tells of it; None where nothing in it was worth one."""
    is_read: bool = True
    """Whether all of it has been read for facts; what could not be is tried again."""


class Remembering:
    """Keeps turns, and has what is due of them done by jobs; nothing here raises but where it says so."""

    def __init__(self, engine: Engine, settings: GatewaySettings) -> None:
        self._kernel = engine.kernel
        self._settings = settings
        self._turns = Turns(engine.kernel)
        self._extraction = Extraction(engine, settings)
        self._borrowing = Borrowing(engine, settings)
        self._reading = SessionReading(engine, settings, self._borrowing)
        self._work = SessionWork(engine, settings, self._borrowing)
        self._unkept = Unkept(engine, settings, self._borrowing)

    @property
    def borrows(self) -> bool:
        """Whether the loans of turns are used: where their own model is to read them (U24)."""
        return self._borrowing.is_on

    async def begin(self, conversation: Conversation, user: Message, tools: Sequence[Message] = ()) -> Turn:
        """Keep what the user said, then what tools said, and count the turn (K37)."""
        turn = Turn(conversation=conversation, user=user)
        with kept_from_failing(_NOT_KEPT, []), given_up(_NOT_KEPT), self._kernel.calls.one():
            await self._kernel.open()
            turn = await self._begun(turn, tools)
        return turn

    async def _begun(self, turn: Turn, tools: Sequence[Message]) -> Turn:
        conversation = turn.conversation
        episodes = self._turns.opening(conversation.dialect, conversation.scope, turn.user, tools)
        ids = tuple(episode.id for episode in episodes)
        ledger = self._ledger
        if ledger is None:
            return replace(turn, number=self._unkept.begin(conversation, episodes), episodes=ids)
        await self._turns.keep(episodes)
        at = episodes[0].told_at if episodes else iso(self._kernel.ticker.now())
        counted = await ledger.sessions.open_turn(conversation.session, conversation.scope, ids, at)
        return replace(turn, session_id=counted.session_id, number=counted.number, episodes=ids)

    async def end(self, turn: Turn, answer: str, *, complete: bool = True, loan: Loan | None = None) -> None:
        """Keep the answer, and queue what is due; one that was broken off is marked so.

        `loan` is what the turn's own model may read it by, where that is set.
        """
        with kept_from_failing(_NOT_KEPT, []), given_up(_NOT_KEPT), self._kernel.calls.one():
            await self._kernel.open()
            await self._ended(turn, answer, complete, loan)

    async def _ended(self, turn: Turn, answer: str, complete: bool, loan: Loan | None) -> None:
        conversation, ledger = turn.conversation, self._ledger
        said = self._turns.answer(conversation.dialect, conversation.scope, turn.episodes, answer, complete=complete)
        if turn.number == 0:
            return
        if turn.session_id is None or ledger is None:
            self._borrowing.lend(named(conversation), turn.number, loan)
            self._unkept.end(conversation, turn.number, said)
            return
        self._borrowing.lend(turn.session_id, turn.number, loan)
        if said is not None:
            await self._turns.keep([said], asked=turn.user.content)
        jobs = self._due(turn, turn.session_id)
        ids = () if said is None else (said.id,)
        at = iso(self._kernel.ticker.now()) if said is None else said.told_at
        if await ledger.sessions.add_to_turn(turn.session_id, turn.number, ids, at, jobs) and jobs:
            self._work.wake()

    async def keep(
        self,
        conversation: Conversation,
        user: Message,
        answer: str,
        tools: Sequence[Message] = (),
        *,
        loan: Loan | None = None,
    ) -> None:
        """Both, the user's words first (K38)."""
        await self.end(await self.begin(conversation, user, tools), answer, loan=loan)

    async def end_session(self, name: str, scope: Scope) -> SessionEnd:
        """Read what is unread of a session, and tell of it in an episodic memory (V65).

        NotFoundError where there is none of this name behind exactly these walls; LedgerError without a ledger.
        """
        with self._kernel.calls.one():
            ledger = await self._kernel.required_ledger()
            session = await ledger.sessions.get(name, scope)
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
        """Begin to work on what is due, also on what an earlier process left over, or could not do."""
        what = "what is due of sessions is done once something is said"
        with kept_from_failing(what, []), given_up(what), self._kernel.calls.one():
            await self._kernel.open()
            if self._kernel.ledger is not None:
                await self._work.resume(self._kernel.ledger)

    async def close(self) -> None:
        """Stop; what is not done stays in the queue for the next one."""
        await self._unkept.settled()
        await self._work.stop()
        await self._borrowing.close()

    @property
    def _ledger(self) -> Ledger | None:
        """The ledger, where it keeps what is said."""
        return None if self._kernel.config.episodes == "off" else self._kernel.ledger

    def _due(self, turn: Turn, session_id: str) -> list[Job]:
        """What is due after a turn: every N-th is read (V32), others where the subject may have changed (V66)."""
        scope = turn.conversation.scope
        if turn.number % self._extraction.every(turn.conversation.dialect) == 0:
            return [self._work.job("read", session_id, scope, turn.number)]
        if self._settings.drift_threshold is not None and turn.number > 1:
            return [self._work.job("drift", session_id, scope, turn.number)]
        return []
