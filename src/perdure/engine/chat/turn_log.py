"""The turn log: writes the turns of sessions to the ledger in order, in batches if many wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from perdure.backends.ledgers.base import Ledger
from perdure.backends.markdown.base import FileStore
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import InvalidInputError, LedgerLockedError
from perdure.domain.event import Episode
from perdure.domain.job import Job
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.domain.session import Said, Session, SessionTurn, no_jobs
from perdure.engine.aio.calls import degrade, never_fail, shielded
from perdure.engine.aio.priority import PriorityGate
from perdure.engine.aio.worker import BatchQueue
from perdure.engine.chat.caller_model import CallerModels, ModelGrant
from perdure.engine.chat.extraction import OVERLAP, Extraction
from perdure.engine.chat.rolling_summary import RollingSummaries, is_current
from perdure.engine.chat.session_reader import TRIES
from perdure.engine.chat.settings import Conversation, GatewaySettings
from perdure.engine.chat.turns import SMALL_TALK, Turns, says_nothing
from perdure.engine.core.embedding import with_derived
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.rows import episode_item
from perdure.engine.engine import Engine
from perdure.engine.graph.jobs import JobKinds

# Sessions belong to the vector store that created them, even when stores share a ledger.


def store_mark(kernel: Kernel) -> str:
    """Return the mark of this store's sessions in the ledger; call it on an open kernel."""
    return JobKinds(kernel.identity, kernel.config.vector_store.collection_name).store


async def own_session(kernel: Kernel, ledger: Ledger, name: str, scope: Scope) -> Session | None:
    """Return this store's session of this name in exactly this scope, or None."""
    return await ledger.sessions.get(name, scope, store_mark(kernel))


async def own_session_of(kernel: Kernel, ledger: Ledger, id: str) -> Session | None:
    """Return the session of this id, unless it belongs to another store."""
    session = await ledger.sessions.by_id(id)
    return session if session is not None and session.store in ("", store_mark(kernel)) else None


# Sessions without a ledger exist in the memory of this process.

logger = logging.getLogger("perdure")
MOST_SESSIONS = 1_000  # sessions held in memory; beyond it the one silent for longest is dropped


@dataclass(slots=True)
class _SessionInMemory:
    """A session in memory: its last turns, and their total number."""

    turns: int = 0
    read: list[list[Episode]] = field(default_factory=list)
    unread: list[list[Episode]] = field(default_factory=list)
    failures: int = 0  # how often a model gave no usable answer for the first unread turns
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)


class InMemorySessions:
    """Sessions without a ledger; unread turns are lost when the process ends."""

    def __init__(self, engine: Engine, settings: GatewaySettings, borrowing: CallerModels) -> None:
        self._kernel = engine.kernel
        self._settings = settings
        self._extraction = Extraction(engine, settings)
        self._borrowing = borrowing
        self._summaries = RollingSummaries(engine.kernel)
        self._sessions: OrderedDict[tuple[Scope, str], _SessionInMemory] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_said = False

    def begin(self, conversation: Conversation, episodes: list[Episode], *, goes_on: bool = False) -> int:
        """Note the beginning of a turn, or more of the last unread one; return its number."""
        if not self._is_said:
            self._is_said = True
            logger.warning("no messages are kept: facts are read from what this process hears, and no sessions end")
        key = named(conversation)
        heard = self._sessions.setdefault(key, _SessionInMemory())
        self._sessions.move_to_end(key)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        if goes_on and heard.unread:
            heard.unread[-1] += episodes
            return heard.turns
        heard.turns += 1
        heard.unread.append(episodes)
        return heard.turns

    def end(self, conversation: Conversation, number: int, answer: Episode | None) -> None:
        """Note the answer, and read what is due."""
        heard = self._sessions.get(named(conversation))
        if heard is None:
            return
        place = number - heard.turns - 1  # counted from the end, where nothing is missing
        if answer is not None and -place <= len(heard.unread):
            heard.unread[place].append(answer)
        if number % self._extraction.every(conversation.dialect) == 0:
            task = asyncio.get_running_loop().create_task(self._read(conversation, heard))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Return once running work is done."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _read(self, conversation: Conversation, heard: _SessionInMemory) -> None:
        what = "what was said is not read"
        async with heard.alone:
            with never_fail(what, []), degrade(what):
                if conversation.dialect == "chat":
                    while heard.unread and await self._read_turns(conversation, heard, len(heard.unread)):
                        pass
                else:
                    due = len(heard.unread)
                    while due and (done := await self._read_turns(conversation, heard, due)):
                        due -= done
            longest = self._extraction.every(conversation.dialect) + OVERLAP
            heard.unread = heard.unread[-4 * longest :]

    async def _read_turns(self, conversation: Conversation, heard: _SessionInMemory, count: int) -> int:
        """Read at most so many next turns; return how many were read or skipped, 0 on failure."""
        # A caller's key reads only turns that came with it; the others are read before or after.
        key, first = named(conversation), heard.turns - len(heard.unread) + 1
        lent = self._borrowing.turns(key)
        is_lent = first in lent
        if conversation.dialect == "chat":
            count = min(count, self._extraction.together("chat", borrows=is_lent))
        alike = takewhile(lambda number: (number in lent) == is_lent, range(first, first + count))
        is_lasting = heard.failures >= TRIES  # then one by one, until the turn at fault is found
        turns = heard.unread[: 1 if is_lasting else len(list(alike))]
        async with self._borrowing.reader(key, first) as borrowed:
            extracted = await self._extraction.read(
                conversation.dialect,
                conversation.scope,
                [] if is_lent else _all(heard.read),
                turns,
                kept=False,
                borrowed=borrowed,
            )
        if extracted.failed:
            heard.failures += extracted.failed == "answer"
            if extracted.failed != "answer" or len(turns) > 1 or heard.failures < TRIES:
                return 0
            heard.failures = 0
            del heard.unread[0]  # it must not block later turns
            return 1
        heard.unread = heard.unread[len(turns) :]
        if not is_lasting or not heard.unread:
            heard.failures = 0
        heard.read = [*heard.read, *turns][-OVERLAP:]
        events = extracted.events
        has_changed = any(event.event != "NONE" for event in events)
        if self._settings.summaries and (has_changed or not await is_current(self._kernel, conversation.scope)):
            await self._summaries.renew(conversation.scope, events)
        return len(turns)


def named(conversation: Conversation) -> tuple[Scope, str]:
    """Return the key of a session that no ledger counts."""
    return conversation.scope, conversation.session


def _all(turns: Sequence[Sequence[Episode]]) -> list[Episode]:
    return [episode for turn in turns for episode in turn]


MOST_WAITING = 1_000
"""Entries that may wait for the ledger; beyond it turns are refused. An unlocked ledger takes thousands a second, so
this many wait only while nobody can write."""
MOST_CHARACTERS = 32_000_000  # maximum characters of all waiting entries
LONGEST_LOCK = 60.0
"""Seconds for which a write is tried again while another writer holds the ledger: a backup, a migration, a debugger.
The turns that wait have been answered already; one try alone waits as long as the ledger's own `busy_timeout`."""
PAUSE = 0.1  # seconds between such tries, in which others may write
_NOT_KEPT = "the turn is not kept"
_NOT_SHOWN = "the messages are kept, but cannot be searched yet"
Due = Callable[[Conversation, str, int], Sequence[Job]]
"""Return the jobs after a turn, from its session's id and its number."""


@dataclass(eq=False, slots=True, kw_only=True)
class PendingTurn:
    """One turn of a session on its way into the ledger; the turn log fills in the results."""

    conversation: Conversation
    user: Message
    tools: Sequence[Message] = ()  # tools' results after the user's message
    grant: ModelGrant | None = None  # the caller's model and key for reading the turn, if enabled
    answer: str = ""
    complete: bool = True  # false if the answer broke off
    asks: bool = False  # whether the answer calls tools, whose results continue the turn
    session_id: str | None = None  # the ledger's id of the session; None without a ledger
    number: int = 0  # its place in the session, from 1 on; 0 if it is not counted (yet)
    episodes: tuple[str, ...] = ()  # the ids of its stored messages so far
    is_refused: bool = False  # whether the queue was full when it came
    user_done: asyncio.Future[None] | None = None
    """Done once the user's message is stored, or cannot be; None if it waits for the answer."""
    answer_done: asyncio.Future[None] | None = None
    """Done once the answer is stored, or cannot be; None before there is one."""

    @property
    def goes_on(self) -> bool:
        """Whether it has only tools' results, which continue the turn that called the tools."""
        return bool(self.tools) and not self.user.content.strip()

    async def user_episodes(self) -> tuple[str, ...]:
        """Wait for the user's messages and return their ids; none if they wait for the answer."""
        if self.user_done is None:
            return ()
        await asyncio.shield(self.user_done)
        return self.episodes

    async def ended(self) -> None:
        """Wait until the answer is stored, or cannot be; returns at once if there is none."""
        if self.answer_done is not None:
            await asyncio.shield(self.answer_done)


@dataclass(eq=False, slots=True, kw_only=True)
class _Entry:
    """One write of the log: the beginning of a turn, its answer, or both; or what was injected before."""

    scope: Scope
    turn: PendingTurn | None = None  # none for an injection
    begins: bool = False
    ends: bool = False
    injected: frozenset[str] = frozenset()
    is_kept: bool = False
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Done, without an error, as soon as `is_kept` is known."""

    @property
    def size(self) -> int:
        """Number of characters held while it waits."""
        if self.turn is None:
            return 0
        turn, size = self.turn, 0
        if self.begins:
            size += len(turn.user.content) + sum(len(tool.content) for tool in turn.tools)
        return size + (len(turn.answer) if self.ends else 0)

    @property
    def goes_on(self) -> bool:
        """Whether it continues the session's last turn, which must be stored before."""
        return self.begins and self.turn is not None and self.turn.goes_on


@dataclass(frozen=True, slots=True)
class _Made:
    """An entry in its stored form, and the entry that ends its turn if both wait."""

    parts: tuple[_Entry, ...]
    said: Said
    before: tuple[str, ...] = ()  # messages of the turn that it continues
    shown: tuple[Episode, ...] = ()  # its messages that get rows, if messages are searched
    small: frozenset[str] = frozenset()  # ids in `shown` that searches must not find


@dataclass(frozen=True, slots=True)
class _Shown:
    """Stored messages to be indexed, and whether jobs follow."""

    episodes: Sequence[Episode]
    small: frozenset[str]
    is_due: bool


class TurnLog:
    """Writes turns to the ledger in the order in which they were said; nothing here raises.

    The `enqueue_` methods put entries into a queue and return at once. One task takes them in batches, writes a batch
    in one transaction with the jobs that follow, fills in the turns, and passes their messages to the search index;
    then it wakes the workers. No answer waits for any of this.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        due: Due,
        wake: Callable[[], None],
        borrowing: CallerModels,
        unkept: InMemorySessions,
        way: PriorityGate,
        lost: Callable[[str], None],
    ) -> None:
        """`lost` is called with the reason for a loss: `no_room` if the queue is full, `failed` otherwise."""
        self._kernel = kernel
        self._lost = lost
        self._due, self._wake = due, wake
        self._borrowing, self._unkept = borrowing, unkept
        self._way = way
        self._turns = Turns(kernel)
        self._words: BatchQueue[_Entry] = BatchQueue(self._keep, apart=_is_apart)
        self._rows: BatchQueue[_Shown] = BatchQueue(self._show)

    def enqueue_user(self, turn: PendingTurn) -> None:
        """Enqueue the user's message, then tools' results, and count the turn; refused if the log is full."""
        if self._takes(turn):
            self._put_user(turn)

    def enqueue_answer(self, turn: PendingTurn, answer: str, *, complete: bool = True, asks: bool = False) -> None:
        """Enqueue the answer, with the user's message unless it is enqueued already, and the jobs that follow.

        A turn that has not begun is refused if the log is full. A broken-off answer is not `complete`; one that `asks`
        for tools does not end a turn of Responses.
        """
        if turn.user_done is not None or (not turn.is_refused and self._takes(turn)):
            self._put_answer(turn, answer, complete=complete, asks=asks)

    def enqueue_injected(self, scope: Scope, fingerprints: frozenset[str]) -> None:
        """Enqueue the fingerprints of what was injected before the next message."""
        if fingerprints:
            self._put(_Entry(scope=scope, injected=fingerprints))

    async def keep_user(self, turn: PendingTurn) -> None:
        """Store the user's message for a caller that waits, and is never refused; it is searchable then."""
        self._put_user(turn)
        await turn.user_episodes()
        await self.shown()

    async def keep_answer(self, turn: PendingTurn, answer: str, *, complete: bool = True) -> None:
        """Store the answer, with the user's message unless it is stored, for a caller that waits."""
        self._put_answer(turn, answer, complete=complete, asks=False)
        await turn.ended()
        await self.shown()

    def _takes(self, turn: PendingTurn) -> bool:
        turn.is_refused = self.is_full
        if turn.is_refused:
            logger.warning("a turn is not kept: %d others wait for the ledger", len(self))
            self._lost("no_room")
        return not turn.is_refused

    def _put_user(self, turn: PendingTurn) -> None:
        turn.user_done = self._put(_Entry(scope=turn.conversation.scope, turn=turn, begins=True)).done

    def _put_answer(self, turn: PendingTurn, answer: str, *, complete: bool, asks: bool) -> None:
        begins = turn.user_done is None
        if begins and turn.grant is not None:  # the turn must be counted first, and the grant stored
            self._put_user(turn)
            begins = False
        turn.answer, turn.complete, turn.asks = answer, complete, asks
        entry = _Entry(scope=turn.conversation.scope, turn=turn, begins=begins, ends=True)
        turn.answer_done = self._put(entry).done

    def _put(self, entry: _Entry) -> _Entry:
        self._words.put(entry, entry.size)
        return entry

    @property
    def is_full(self) -> bool:
        """Whether the queue accepts no further turn."""
        return len(self._words) >= MOST_WAITING or self._words.size >= MOST_CHARACTERS

    async def room(self, seconds: float) -> bool:
        """Wait at most so many seconds for room; return whether there is any."""
        if self.is_full and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._words.until(lambda: not self.is_full)
            except TimeoutError:
                return False
        return not self.is_full

    async def so_far(self) -> None:
        """Return once all messages so far are stored and searchable."""
        await self._words.so_far()
        await self._rows.so_far()

    async def shown(self) -> None:
        """Return once all stored messages are searchable."""
        await self._rows.so_far()

    def __len__(self) -> int:
        return len(self._words) + len(self._rows)

    async def _keep(self, batch: list[_Entry]) -> None:
        try:
            with never_fail(_NOT_KEPT, []), degrade(_NOT_KEPT), self._kernel.lifecycle.in_flight():
                await self._kernel.open()
                await self._way.behind(self._kept(batch))
        finally:
            for each in batch:
                if not each.done.done():
                    if each.turn is not None and not each.is_kept:
                        self._lost("failed")
                    each.done.set_result(None)

    async def _kept(self, batch: list[_Entry]) -> None:
        ledger = None if self._kernel.config.episodes == "off" else self._kernel.ledger
        made: list[_Made] = []
        for parts in _turns_of(batch) if ledger is not None else [(each,) for each in batch]:
            with never_fail(_NOT_KEPT, []), degrade(_NOT_KEPT):
                if ledger is None or _is_uncounted(parts[0]):
                    await self._heard(parts[0])
                elif (one := await self._made(ledger, *parts)) is not None:
                    made.append(one)
        if ledger is not None and made:
            await self._written(ledger, made)

    async def _made(self, ledger: Ledger, each: _Entry, end: _Entry | None = None) -> _Made | None:
        parts = (each,) if end is None else (each, end)
        turn, asked = each.turn, None
        if turn is None:
            return _Made(parts, Said(scope=each.scope, injected=each.injected))
        conversation, episodes = turn.conversation, list[Episode]()
        dialect, scope, before = conversation.dialect, conversation.scope, turn.episodes
        if each.begins:
            asked = await _last_turn(self._kernel, ledger, conversation) if each.goes_on else None
            before = () if asked is None else asked.episodes
            episodes += self._turns.opening(dialect, scope, turn.user, turn.tools, before)
        elif turn.number == 0 or turn.session_id is None:
            return None
        else:
            self._borrowing.lend(turn.session_id, turn.number, turn.grant)
        is_over, last = False, parts[-1]
        if last.ends:
            ids = (*before, *(episode.id for episode in episodes))
            said = self._turns.answer(dialect, scope, ids, turn.answer, complete=turn.complete)
            # If it calls tools or has no text, later messages belong to the same turn of Responses.
            is_over = (said is not None and not turn.asks) or not turn.complete or dialect == "chat"
            episodes += [] if said is None else [said]
        known = (turn.session_id, turn.number) if turn.session_id is not None else None
        said_of = Said(
            scope=scope,
            name=conversation.session if each.begins else None,
            store=store_mark(self._kernel),
            turn=(asked.session_id, asked.number) if asked is not None else known,
            episodes=tuple(episodes),
            at=episodes[0].told_at if episodes else iso(self._kernel.clock.now()),
            jobs=(lambda session_id, number: self._due(conversation, session_id, number)) if is_over else no_jobs,
        )
        if not self._kernel.config.searches_messages:
            return _Made(parts, said_of, before)
        small = frozenset(each.id for each in episodes if says_nothing(each, turn.user.content))
        if isinstance(self._kernel.store, FileStore):  # if messages are files, each of them is one
            return _Made(parts, said_of, before, tuple(episodes), small)
        return _Made(parts, said_of, before, tuple(each for each in episodes if each.id not in small))

    async def _written(self, ledger: Ledger, made: Sequence[_Made]) -> None:
        """Write everything in one transaction; if something in it is refused, each entry alone."""
        try:
            turns = await self._once_unlocked(ledger, [one.said for one in made])
        except InvalidInputError:
            entries = [each for one in made for each in one.parts]
            if len(entries) == 1:
                raise
            for each in entries:
                with degrade(_NOT_KEPT):
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

    async def _once_unlocked(self, ledger: Ledger, said: Sequence[Said]) -> Sequence[SessionTurn | None]:
        """Write in one transaction; while another writer holds the ledger, again and again, for `LONGEST_LOCK`."""
        end, is_told = time.monotonic() + LONGEST_LOCK, False
        while True:
            try:
                return await shielded(ledger.sessions.keep(said))
            except LedgerLockedError:
                if time.monotonic() >= end:
                    raise
                if not is_told:
                    logger.warning("turns wait: another process holds the ledger")
                is_told = True
                await asyncio.sleep(PAUSE)

    def _note(self, made: _Made, counted: SessionTurn | None) -> None:
        """Set the results on a turn: that it is stored, and its number in the session."""
        for part in made.parts:
            part.is_kept = True
        each = made.parts[0]
        if each.turn is None or counted is None or not each.begins:
            return
        if made.said.jobs is not no_jobs:  # its end has no grant; an older one must not read it
            self._borrowing.lend(counted.session_id, counted.number, None)
        went_on = made.said.turn == (counted.session_id, counted.number)
        ids = (*(made.before if went_on else ()), *counted.episodes)
        turn = each.turn
        turn.session_id, turn.number, turn.episodes = counted.session_id, counted.number, ids

    async def _heard(self, each: _Entry) -> None:
        """Process an entry without a ledger."""
        if each.injected and self._kernel.ledger is not None:
            await self._kernel.ledger.add_fingerprints(each.scope, each.injected)
        turn = each.turn
        if turn is None:
            each.is_kept = True
            return
        conversation = turn.conversation
        if each.begins:
            episodes = self._turns.opening(conversation.dialect, conversation.scope, turn.user, turn.tools)
            turn.number = self._unkept.begin(conversation, episodes, goes_on=each.goes_on)
            turn.episodes = tuple(episode.id for episode in episodes)
        if each.ends and turn.number:
            said = self._turns.answer(
                conversation.dialect, conversation.scope, turn.episodes, turn.answer, complete=turn.complete
            )
            self._borrowing.lend(named(conversation), turn.number, turn.grant)
            self._unkept.end(conversation, turn.number, said)
        each.is_kept = turn.number > 0  # if its beginning could not be stored, neither can this

    async def _show(self, batch: list[_Shown]) -> None:
        """Index stored messages for search; the jobs that follow start afterwards."""
        episodes = [episode for some in batch for episode in some.episodes]
        small = frozenset(id for some in batch for id in some.small)
        with never_fail(_NOT_SHOWN, []), degrade(_NOT_SHOWN), self._kernel.lifecycle.in_flight():
            await self._way.behind(self._shown(episodes, small))
        if any(some.is_due for some in batch):
            self._wake()

    async def _shown(self, episodes: Sequence[Episode], small: frozenset[str]) -> None:
        kernel, ledger = self._kernel, await self._kernel.required_ledger()
        # If the embedder falls behind, rows get no vectors until the memory is next opened.
        is_late = len(self._rows) >= MOST_WAITING
        texts = [] if is_late else [episode.content for episode in episodes]
        vectors = (await kernel.embedding.texts(texts)).vectors or [None] * len(episodes)
        items = [episode_item(episode) for episode in episodes]
        points = [
            Point(item.id, vector, (item.with_(type=SMALL_TALK) if item.id in small else item).to_payload())
            for item, vector in zip(items, vectors, strict=True)
        ]
        rows = await with_derived(kernel.embedding, points)
        # Messages erased or hidden meanwhile must not come back as rows.
        stand = {each.id for each in await ledger.get_episodes([each.id for each in episodes]) if not each.hidden}
        await shielded(kernel.put_rows([row for row in rows if row.id in stand]))
        if kernel.file_observer is not None:
            kernel.file_observer.note(())


def _is_apart(batch: list[_Entry], each: _Entry) -> bool:
    """Whether an entry must be stored after the one before it: a grant needs its counted turn, a reader the grant."""
    if each.goes_on:
        return True
    is_granted = each.ends and each.turn is not None and each.turn.grant is not None
    return is_granted and any(before.begins and before.turn is each.turn for before in batch)


def _is_uncounted(entry: _Entry) -> bool:
    """Whether an entry ends a turn that no ledger counts."""
    return entry.turn is not None and not entry.begins and entry.turn.session_id is None


def _turns_of(batch: Sequence[_Entry]) -> list[tuple[_Entry, ...]]:
    ends = {each.turn: each for each in batch if each.turn is not None and not each.begins}
    begun = {each.turn for each in batch if each.turn is not None and each.begins}
    return [
        (each, ends[each.turn]) if each.begins and each.turn in ends else (each,)
        for each in batch
        if each.turn is None or each.begins or each.turn not in begun
    ]


async def _last_turn(kernel: Kernel, ledger: Ledger, conversation: Conversation) -> SessionTurn | None:
    """Return the session's current turn; None if none has begun or the last one is over."""
    session = await own_session(kernel, ledger, conversation.session, conversation.scope)
    if session is None or session.ended_at is not None:
        return None
    turns = await ledger.sessions.turns(session.id, session.turns)
    return turns[-1] if turns else None
