"""Sessions that no ledger counts: they are read all the same, from what this process has heard of them."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from perdure.domain.event import Episode
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.gateway.borrowing import Borrowing
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.extraction import OVERLAP, Extraction
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.gateway.summaries import Summaries, is_current
from perdure.engine.gateway.troubles import TRIES
from perdure.engine.soft import given_up, kept_from_failing

logger = logging.getLogger("perdure")

MOST_SESSIONS = 1_000
"""Sessions that are held in mind; of more the one that was silent for longest goes."""


@dataclass(slots=True)
class _Heard:
    """A session as far as it is in mind: its last turns, and how many there have been."""

    turns: int = 0
    read: list[list[Episode]] = field(default_factory=list)
    unread: list[list[Episode]] = field(default_factory=list)
    failures: int = 0
    """How often a model said nothing of use of the first that are unread."""
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)


class Unkept:
    """Best effort: what the process has not read when it ends is lost."""

    def __init__(self, engine: Engine, settings: GatewaySettings, borrowing: Borrowing) -> None:
        self._kernel = engine.kernel
        self._settings = settings
        self._extraction = Extraction(engine, settings)
        self._borrowing = borrowing
        self._summaries = Summaries(engine.kernel)
        self._sessions: OrderedDict[tuple[Scope, str], _Heard] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_said = False

    def begin(self, conversation: Conversation, episodes: list[Episode], *, goes_on: bool = False) -> int:
        """Take note of a turn's beginning, or of more of the last one where that is unread; its number."""
        if not self._is_said:
            self._is_said = True
            logger.warning("no messages are kept: facts are read from what this process hears, and no sessions end")
        key = named(conversation)
        heard = self._sessions.setdefault(key, _Heard())
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
        """Take note of the answer, and read what is due."""
        heard = self._sessions.get(named(conversation))
        if heard is None:
            return
        place = number - heard.turns - 1  # counted from the end, of which nothing is missing
        if answer is not None and -place <= len(heard.unread):
            heard.unread[place].append(answer)
        if number % self._extraction.every(conversation.dialect) == 0:
            task = asyncio.get_running_loop().create_task(self._read(conversation, heard))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Return once what is under way is done."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _read(self, conversation: Conversation, heard: _Heard) -> None:
        what = "what was said is not read"
        async with heard.alone:
            with kept_from_failing(what, []), given_up(what):
                if conversation.dialect == "chat":
                    while heard.unread and await self._read_turns(conversation, heard, 1):
                        pass
                else:
                    due = len(heard.unread)
                    while due and (done := await self._read_turns(conversation, heard, due)):
                        due -= done
            longest = self._extraction.every(conversation.dialect) + OVERLAP
            heard.unread = heard.unread[-4 * longest :]

    async def _read_turns(self, conversation: Conversation, heard: _Heard, count: int) -> int:
        """Read the next turns, so many at most; how many were, or were passed over; 0 where they could not be."""
        # A borrowed key reads what came with it, after no other turns; those beside are read before or after.
        key, first = named(conversation), heard.turns - len(heard.unread) + 1
        lent = self._borrowing.turns(key)
        is_lent = first in lent
        alike = takewhile(lambda number: (number in lent) == is_lent, range(first, first + count))
        is_lasting = heard.failures >= TRIES  # then one by one, until the turn is found that is at fault
        turns = heard.unread[: 1 if is_lasting else len(list(alike))]
        async with self._borrowing.reader(key, first) as borrowed:
            extracted = await self._extraction.read(
                conversation.dialect,
                conversation.scope,
                [] if is_lent else _all(heard.read),
                _all(turns),
                kept=False,
                borrowed=borrowed,
            )
        if extracted.failed:
            heard.failures += extracted.failed == "answer"
            if extracted.failed != "answer" or len(turns) > 1 or heard.failures < TRIES:
                return 0
            heard.failures = 0
            del heard.unread[0]  # it must not keep what follows from being read (K41)
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
    """What a session is known by that no ledger counts."""
    return conversation.scope, conversation.session


def _all(turns: Sequence[Sequence[Episode]]) -> list[Episode]:
    return [episode for turn in turns for episode in turn]
