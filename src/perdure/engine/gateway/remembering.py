"""The write side of the gateway: what was said is kept at once, and read for facts outside of the answer's way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.errors import NotFoundError
from perdure.domain.job import Job
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.gateway.borrowing import Borrowing, Loan
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.extraction import Extraction
from perdure.engine.gateway.giving_way import GivingWay
from perdure.engine.gateway.own_sessions import own_session
from perdure.engine.gateway.reading import SessionReading
from perdure.engine.gateway.saying import Saying, Turn, Utterance
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.gateway.unkept import Unkept
from perdure.engine.gateway.working import SessionWork
from perdure.engine.soft import given_up, kept_from_failing


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

    def __init__(self, engine: Engine, settings: GatewaySettings, *, way: GivingWay | None = None) -> None:
        self._kernel = engine.kernel
        self._settings = settings
        self._extraction = Extraction(engine, settings)
        self._borrowing = Borrowing(engine, settings)
        self._reading = SessionReading(engine, settings, self._borrowing, self._shown)
        way = way or GivingWay()
        self._work = SessionWork(engine, settings, self._borrowing, way, self._shown)
        self._unkept = Unkept(engine, settings, self._borrowing)
        self._saying = Saying(
            engine.kernel,
            due=self._due,
            wake=self._work.wake,
            borrowing=self._borrowing,
            unkept=self._unkept,
            way=way,
        )

    @property
    def borrows(self) -> bool:
        """Whether the loans of turns are used: where their own model is to read them (U24)."""
        return self._borrowing.is_on

    # ------------------------------------------------------------------ what is said
    @property
    def is_full(self) -> bool:
        """Whether so much waits for the ledger that no further turn is taken."""
        return self._saying.is_full

    @property
    def waiting(self) -> int:
        """What was said and waits to be kept, or to be found."""
        return len(self._saying)

    async def room(self, seconds: float) -> bool:
        """Wait until a turn is taken, for so long at most; whether one is."""
        return await self._saying.room(seconds)

    async def written(self) -> None:
        """Wait until what was said by now is kept, and can be found."""
        await self._saying.so_far()

    def opens(self, conversation: Conversation, user: Message, tools: Sequence[Message] = ()) -> Utterance:
        """Have what the user said kept, then what tools said, and the turn counted (K37).

        What tools said alone, with a user who says nothing, goes on with the turn in which they were asked.
        """
        turn = Turn(conversation=conversation, user=user)
        return self._saying.put(Utterance(scope=conversation.scope, turn=turn, tools=tuple(tools), begins=True))

    def answers(
        self,
        opening: Utterance,
        answer: str,
        *,
        complete: bool = True,
        asks: bool = False,
        loan: Loan | None = None,
    ) -> Utterance:
        """Have the answer kept, and queue what is due; one that was broken off is marked so.

        One that `asks` for tools does not end a turn of Responses. `loan` is what the turn's own model may read it by,
        where that is set.
        """
        return self._saying.put(
            Utterance(scope=opening.scope, after=opening, answer=answer, complete=complete, asks=asks, loan=loan)
        )

    def says(
        self,
        conversation: Conversation,
        user: Message,
        answer: str,
        tools: Sequence[Message] = (),
        *,
        complete: bool = True,
        asks: bool = False,
        loan: Loan | None = None,
    ) -> Utterance:
        """Have both kept, the user's words first (K38)."""
        if loan is not None:  # it must be lent before anyone may read the turn, which is counted first
            return self.answers(self.opens(conversation, user, tools), answer, complete=complete, asks=asks, loan=loan)
        turn = Turn(conversation=conversation, user=user)
        whole = Utterance(
            scope=conversation.scope,
            turn=turn,
            tools=tuple(tools),
            begins=True,
            answer=answer,
            complete=complete,
            asks=asks,
        )
        return self._saying.put(whole)

    def injects(self, scope: Scope, fingerprints: frozenset[str]) -> None:
        """Have it noted what was put into the prompt of what is said next."""
        if fingerprints:
            self._saying.put(Utterance(scope=scope, injected=fingerprints))

    async def begin(self, conversation: Conversation, user: Message, tools: Sequence[Message] = ()) -> Turn:
        """The same as `opens`; returns when it is kept."""
        turn = await _turn(self.opens(conversation, user, tools))
        await self._saying.shown()
        return turn

    async def end(self, turn: Turn, answer: str, *, complete: bool = True, loan: Loan | None = None) -> None:
        """The same as `answers`; returns when it is kept."""
        said = Utterance(scope=turn.conversation.scope, turn=turn, answer=answer, complete=complete, loan=loan)
        await _turn(self._saying.put(said))
        await self._saying.shown()

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
        await _turn(self.says(conversation, user, answer, tools, loan=loan))
        await self._saying.shown()

    async def end_session(self, name: str, scope: Scope) -> SessionEnd:
        """Read what is unread of a session, and tell of it in an episodic memory (V65).

        NotFoundError where there is none of this name behind exactly these walls; LedgerError without a ledger.
        """
        with self._kernel.calls.one():
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
        """Begin to work on what is due, also on what an earlier process left over, or could not do."""
        what = "what is due of sessions is done once something is said"
        with kept_from_failing(what, []), given_up(what), self._kernel.calls.one():
            await self._kernel.open()
            if self._kernel.ledger is not None:
                await self._work.resume(self._kernel.ledger)

    async def close(self) -> None:
        """Keep what was said, and stop; what is not read stays in the queue for the next one."""
        await self._saying.so_far()
        await self._unkept.settled()
        await self._work.stop()
        await self._borrowing.close()

    async def _shown(self) -> None:
        await self._saying.shown()

    def _due(self, conversation: Conversation, session_id: str, number: int) -> list[Job]:
        """What is due after a turn: every N-th is read (V32), others where the subject may have changed (V66)."""
        if number % self._extraction.every(conversation.dialect) == 0:
            return [self._work.job("read", session_id, conversation.scope, number)]
        if self._settings.drift_threshold is not None and number > 1:
            return [self._work.job("drift", session_id, conversation.scope, number)]
        return []


async def _turn(said: Utterance) -> Turn:
    """The turn of what was said, as soon as that is kept, or cannot be."""
    await asyncio.shield(said.done)
    return said.of
