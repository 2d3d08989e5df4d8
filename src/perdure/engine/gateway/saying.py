"""Saying: the words of turns on their way into the ledger, in order; of many turns at once where many wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perdure.backends.ledgers.base import Ledger
from perdure.backends.vault.base import FileStore
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Episode
from perdure.domain.job import Job
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.domain.session import Said, SessionTurn, no_jobs
from perdure.engine.derived import with_derived
from perdure.engine.finish import finish
from perdure.engine.gateway.borrowing import Borrowing, Loan
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.giving_way import GivingWay
from perdure.engine.gateway.line import Line
from perdure.engine.gateway.own_sessions import own_session, store_mark
from perdure.engine.gateway.turns import SMALL_TALK, Turns, says_nothing
from perdure.engine.gateway.unkept import Unkept, named
from perdure.engine.kernel import Kernel
from perdure.engine.rows import episode_item
from perdure.engine.soft import given_up, kept_from_failing

MOST_WAITING = 1_000
"""Utterances that wait for the ledger; of more the turns are not kept. A ledger that is not locked takes thousands a
second, so that as many wait only while nobody can write."""
MOST_CHARACTERS = 32_000_000
"""Characters of all of them."""
_NOT_KEPT = "the turn is not kept"
_NOT_SHOWN = "the messages are kept, but cannot be searched yet"

Due = Callable[[Conversation, str, int], Sequence[Job]]
"""What follows a turn, by its session's id and its number."""


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


@dataclass(eq=False, slots=True, kw_only=True)
class Utterance:
    """Something that was said: how a turn begins, its answer, or both; or what was put into a prompt before."""

    scope: Scope
    turn: Turn | None = None
    """As it stands once this is kept."""
    tools: Sequence[Message] = ()
    begins: bool = False
    after: Utterance | None = None
    """What began the turn, where this ends it."""
    answer: str | None = None
    complete: bool = True
    asks: bool = False
    """Whether the answer asks for tools, whose words go on with the turn."""
    loan: Loan | None = None
    injected: frozenset[str] = frozenset()
    is_kept: bool = False
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Ends, without an error, as soon as it is known whether this `is_kept`."""

    @property
    def size(self) -> int:
        """Characters that are held while it waits."""
        user = len(self.turn.user.content) if self.turn is not None and self.begins else 0
        return user + sum(len(tool.content) for tool in self.tools) + len(self.answer or "")

    @property
    def of(self) -> Turn:
        """The turn that it is of, as far as that is known."""
        turn = self.after.turn if self.after is not None else self.turn
        assert turn is not None, "only what was put into a prompt is of no turn"
        return turn

    @property
    def goes_on(self) -> bool:
        """Whether tools alone speak, which goes on with the turn in which they were asked."""
        return self.begins and bool(self.tools) and self.turn is not None and not self.turn.user.content.strip()


@dataclass(frozen=True, slots=True)
class _Made:
    """An utterance as the ledger is to keep it, and the one that ends its turn where both wait."""

    parts: tuple[Utterance, ...]
    said: Said
    before: tuple[str, ...] = ()
    """Messages of the turn that it goes on with."""
    shown: tuple[Episode, ...] = ()
    """Those of its messages that get rows, where messages are searched."""
    small: frozenset[str] = frozenset()
    """Ids of those in `shown` that are not to be found."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """Messages that are kept and are to be found, and whether there is work to do after that."""

    episodes: Sequence[Episode]
    small: frozenset[str]
    is_due: bool


class Saying:
    """Keeps utterances in the order in which they were said; nothing here raises."""

    def __init__(self, kernel: Kernel, *, due: Due, wake: Callable[[], None], borrowing: Borrowing, unkept: Unkept,
                 way: GivingWay) -> None:  # fmt: skip
        self._kernel = kernel
        self._due, self._wake = due, wake
        self._borrowing, self._unkept = borrowing, unkept
        self._way = way
        self._turns = Turns(kernel)
        self._words: Line[Utterance] = Line(self._keep, apart=_is_apart)
        self._rows: Line[_Shown] = Line(self._show)

    def put(self, utterance: Utterance) -> Utterance:
        """Let something be kept, after all that was said before it."""
        self._words.put(utterance, utterance.size)
        return utterance

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no further turn may."""
        return len(self._words) >= MOST_WAITING or self._words.size >= MOST_CHARACTERS

    async def room(self, seconds: float) -> bool:
        """Wait until a turn may be kept, for so long at most; whether one may."""
        if self.is_full and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._words.until(lambda: not self.is_full)
            except TimeoutError:
                return False
        return not self.is_full

    async def so_far(self) -> None:
        """Return once all that was said by now is kept, and can be searched."""
        await self._words.so_far()
        await self._rows.so_far()

    async def shown(self) -> None:
        """Return once all that is kept by now can be searched."""
        await self._rows.so_far()

    def __len__(self) -> int:
        return len(self._words) + len(self._rows)

    # ------------------------------------------------------------------ words
    async def _keep(self, batch: list[Utterance]) -> None:
        try:
            with kept_from_failing(_NOT_KEPT, []), given_up(_NOT_KEPT), self._kernel.calls.one():
                await self._kernel.open()
                await self._way.behind(self._kept(batch))
        finally:
            for each in batch:
                if not each.done.done():
                    each.done.set_result(None)

    async def _kept(self, batch: list[Utterance]) -> None:
        ledger = None if self._kernel.config.episodes == "off" else self._kernel.ledger
        made: list[_Made] = []
        for parts in _turns_of(batch) if ledger is not None else [(each,) for each in batch]:
            with kept_from_failing(_NOT_KEPT, []), given_up(_NOT_KEPT):
                if ledger is None or (parts[0].after is not None and parts[0].of.session_id is None):
                    await self._heard(parts[0])
                elif (one := await self._made(ledger, *parts)) is not None:
                    made.append(one)
        if ledger is not None and made:
            await self._written(ledger, made)

    async def _made(self, ledger: Ledger, each: Utterance, end: Utterance | None = None) -> _Made | None:
        """An utterance as the ledger is to keep it; None where the turn that it ends has not begun."""
        parts = (each,) if end is None else (each, end)
        if each.turn is None and each.after is None:
            return _Made(parts, Said(scope=each.scope, injected=each.injected))
        turn, asked = each.of, None
        conversation, episodes = turn.conversation, list[Episode]()
        dialect, scope, before = conversation.dialect, conversation.scope, turn.episodes
        if each.begins:
            asked = await _last_turn(self._kernel, ledger, conversation) if each.goes_on else None
            before = () if asked is None else asked.episodes
            episodes += self._turns.opening(dialect, scope, turn.user, each.tools, before)
        elif turn.number == 0 or turn.session_id is None:
            return None
        else:
            self._borrowing.lend(turn.session_id, turn.number, each.loan)
        is_over, last = False, parts[-1]
        if last.answer is not None:
            ids = (*before, *(episode.id for episode in episodes))
            said = self._turns.answer(dialect, scope, ids, last.answer, complete=last.complete)
            # Where it asks for tools, or has no words, what follows belongs to the batch that is read of Responses.
            is_over = (said is not None and not last.asks) or not last.complete or dialect == "chat"
            episodes += [] if said is None else [said]
        known = (turn.session_id, turn.number) if turn.session_id is not None else None
        said_of = Said(
            scope=scope,
            name=conversation.session if each.begins else None,
            store=store_mark(self._kernel),
            turn=(asked.session_id, asked.number) if asked is not None else known,
            episodes=tuple(episodes),
            at=episodes[0].told_at if episodes else iso(self._kernel.ticker.now()),
            jobs=(lambda session_id, number: self._due(conversation, session_id, number)) if is_over else no_jobs,
        )
        if self._kernel.config.episodes != "search":
            return _Made(parts, said_of, before)
        small = frozenset(each.id for each in episodes if says_nothing(each, turn.user.content))
        if isinstance(self._kernel.store, FileStore):  # where a message is a file, each of them is one (K12)
            return _Made(parts, said_of, before, tuple(episodes), small)
        return _Made(parts, said_of, before, tuple(each for each in episodes if each.id not in small))

    async def _written(self, ledger: Ledger, made: Sequence[_Made]) -> None:
        """Write all of it at once; where some of it cannot be written, each utterance alone."""
        try:
            turns = await finish(ledger.sessions.keep([one.said for one in made]))
        except InvalidInputError:
            utterances = [each for one in made for each in one.parts]
            if len(utterances) == 1:
                raise
            for each in utterances:
                with given_up(_NOT_KEPT):
                    await self._kept([each])
            return
        for one, turn in zip(made, turns, strict=True):
            self._note(one, turn)
        shown = [episode for one in made for episode in one.shown]
        is_due = any(one.said.jobs is not no_jobs for one in made)
        if shown:
            self._rows.put(_Shown(shown, frozenset(id for one in made for id in one.small), is_due))
        elif is_due:
            self._wake()

    def _note(self, made: _Made, counted: SessionTurn | None) -> None:
        """Tell an utterance that it is kept, and which turn it became."""
        for part in made.parts:
            part.is_kept = True
        each = made.parts[0]
        if each.turn is None or counted is None or not each.begins:
            return
        if made.said.jobs is not no_jobs:  # its end came without a loan: none of an erased session's may read it
            self._borrowing.lend(counted.session_id, counted.number, None)
        went_on = made.said.turn == (counted.session_id, counted.number)
        ids = (*(made.before if went_on else ()), *counted.episodes)
        each.turn = replace(each.turn, session_id=counted.session_id, number=counted.number, episodes=ids)

    async def _heard(self, each: Utterance) -> None:
        """Take note of an utterance where no ledger keeps it."""
        if each.injected and self._kernel.ledger is not None:
            await self._kernel.ledger.add_fingerprints(each.scope, each.injected)
        if each.turn is None and each.after is None:
            each.is_kept = True
            return
        turn = each.of
        conversation = turn.conversation
        if each.begins:
            episodes = self._turns.opening(conversation.dialect, conversation.scope, turn.user, each.tools)
            number = self._unkept.begin(conversation, episodes, goes_on=each.goes_on)
            turn = each.turn = replace(turn, number=number, episodes=tuple(episode.id for episode in episodes))
        if each.answer is not None and turn.number:
            said = self._turns.answer(
                conversation.dialect, conversation.scope, turn.episodes, each.answer, complete=each.complete
            )
            self._borrowing.lend(named(conversation), turn.number, each.loan)
            self._unkept.end(conversation, turn.number, said)
        each.is_kept = turn.number > 0  # where its beginning could not be kept, neither can this

    # ------------------------------------------------------------------ rows
    async def _show(self, batch: list[_Shown]) -> None:
        """Let messages be searched that are kept; what follows them begins afterwards."""
        episodes = [episode for some in batch for episode in some.episodes]
        small = frozenset(id for some in batch for id in some.small)
        with kept_from_failing(_NOT_SHOWN, []), given_up(_NOT_SHOWN), self._kernel.calls.one():
            await self._way.behind(self._shown(episodes, small))
        if any(some.is_due for some in batch):
            self._wake()

    async def _shown(self, episodes: Sequence[Episode], small: frozenset[str]) -> None:
        kernel, ledger = self._kernel, await self._kernel.required_ledger()
        # Where the embedder cannot keep up, rows come without vectors: they get these when the memory is next opened.
        is_late = len(self._rows) >= MOST_WAITING
        texts = [] if is_late else [episode.content for episode in episodes]
        vectors = (await kernel.embedding.texts(texts)).vectors or [None] * len(episodes)
        items = [episode_item(episode) for episode in episodes]
        points = [
            Point(item.id, vector, (item.with_(type=SMALL_TALK) if item.id in small else item).to_payload())
            for item, vector in zip(items, vectors, strict=True)
        ]
        rows = await with_derived(kernel.embedding, points)
        # What was erased or hidden meanwhile must not come back as a row.
        stand = {each.id for each in await ledger.get_episodes([each.id for each in episodes]) if not each.hidden}
        await finish(kernel.store.apply(kernel.collection, [row for row in rows if row.id in stand], []))
        if kernel.vault is not None:
            kernel.vault.note(())


def _is_apart(batch: list[Utterance], each: Utterance) -> bool:
    """Whether something can be kept only once what stands before it is.

    A loan must be lent before the turn can be read that it ends, and that has to be counted first.
    """
    return each.goes_on or (each.loan is not None and each.after in batch)


def _turns_of(batch: Sequence[Utterance]) -> list[tuple[Utterance, ...]]:
    """What is kept as one: turns with their ends, where both are there."""
    ends = {each.after: each for each in batch if each.after is not None}
    begun = set(batch)
    return [
        (each, ends[each]) if each in ends else (each,)
        for each in batch
        if each.after is None or each.after not in begun
    ]


async def _last_turn(kernel: Kernel, ledger: Ledger, conversation: Conversation) -> SessionTurn | None:
    """The turn that the session stands at; None for one that has not begun, or that is over."""
    session = await own_session(kernel, ledger, conversation.session, conversation.scope)
    if session is None or session.ended_at is not None:
        return None
    turns = await ledger.sessions.turns(session.id, session.turns)
    return turns[-1] if turns else None
