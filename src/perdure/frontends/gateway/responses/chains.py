"""Chains of responses in the ledger: found inside of their owner's walls, written beside the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.scope import Scope
from perdure.domain.session import Link
from perdure.domain.text import is_unicode
from perdure.engine.in_time import InTime
from perdure.engine.soft import given_up, kept_from_failing
from perdure.frontends.gateway.gateway import Gateway
from perdure.frontends.gateway.gateway import Keeping as TurnKeeping
from perdure.frontends.gateway.responses.keeping import Kept

T = TypeVar("T")

LONGEST_ID = 256
"""Characters of an id that is looked for."""
MOST_UNDER_WAY = 200
"""Responses that wait for the ledger; of more none is kept. One that is not locked takes hundreds a second."""
LATE_AT_ONCE = 16
"""Looks that may be under way after nobody waits for them any more."""

logger = logging.getLogger("perdure")


class Chains:
    """The chains of one gateway; LedgerError where they cannot be read."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._writing: dict[str, tuple[asyncio.Task[bool], Link]] = {}
        self._looking = InTime(LATE_AT_ONCE)
        self._under_way = 0

    async def chain(self, response_id: str, walls: Scope) -> list[Kept]:
        """A response and all that it goes on from, oldest first; none for an id that is unknown inside the walls.

        One that is being written counts: whoever was given it may go on from it at once.
        """
        written: list[Kept] = []
        seen: set[str] = set()
        at: str | None = response_id
        while at is not None and (writing := self._writing.get(at)) is not None:
            link = writing[1]
            if at in seen or not walls.holds(link.scope):  # a server may give the same id again
                return written
            seen.add(at)
            written.insert(0, Kept(link))
            at = link.previous_id
        if at is None or not can_be_id(at):
            return written
        ledger = await self._gateway.engine.kernel.ledger_alone()
        return [*(Kept(link) for link in await ledger.chains.chain(at, walls)), *written]

    async def chain_in_time(self, response_id: str, walls: Scope, seconds: float) -> list[Kept]:
        """The same, for what memory makes of it alone: none where that cannot be read in so many seconds."""
        try:
            return await self._looking(self.chain(response_id, walls), seconds)
        except PerdureError:
            return []

    async def get(self, response_id: str, walls: Scope) -> Kept | None:
        """One response, also while it is being written; None for one that is unknown inside the walls."""
        link: Link | None
        if (writing := self._writing.get(response_id)) is not None:
            link = writing[1]
            return Kept(link) if walls.holds(link.scope) else None
        if not can_be_id(response_id):
            return None
        ledger = await self._gateway.engine.kernel.ledger_alone()
        link = await ledger.chains.get(response_id, walls)
        return Kept(link) if link else None

    async def is_anothers(self, response_id: str, walls: Scope | None, seconds: float) -> bool:
        """Whether a response is known to be another's: then our upstream key must not open it to who asks.

        Not where that cannot be read in so many seconds, nor for one that was never kept here: its id is nobody's to
        guess.
        """
        try:
            kept = await self._looking(self.get(response_id, Scope()), seconds)
        except PerdureError:
            return False
        return kept is not None and (walls is None or not walls.holds(kept.link.scope))

    async def delete(self, response_id: str, walls: Scope) -> bool:
        """Let go of one response; whether there was one."""
        if (writing := self._writing.get(response_id)) is not None:
            await asyncio.wait({writing[0]})
        if not can_be_id(response_id):
            return False
        ledger = await self._gateway.engine.kernel.ledger_alone()
        return await ledger.chains.delete(response_id, walls)

    def put(self, link: Link, turn: TurnKeeping | None) -> asyncio.Task[bool] | None:
        """Begin to keep a response, with the ids of what the turn kept of it; the task tells whether it was kept.

        A failure is given up: an answer is not lost because nobody can go on from it. None, and nothing is kept, where
        too many wait for the ledger.
        """
        if self._under_way >= MOST_UNDER_WAY:
            logger.warning("a response is not kept, so no other can go on from it: others wait for the ledger")
            return None
        task = self._later(self._put(link, turn), link.id)
        self._writing[link.id] = (task, link)
        task.add_done_callback(lambda _: self._writing.pop(link.id, None))
        return task

    async def kept(self, link: Link, turn: TurnKeeping | None) -> bool:
        """Keep a response whose end is told after this, for the next request may go on from it at once; whether it is.

        No longer than memory may delay a request: then it is kept later, as one hopes.
        """
        task = self.put(link, turn)
        if task is None:
            return False
        await asyncio.wait({task}, timeout=self._gateway.settings.recall_seconds)
        return not task.done() or (not task.cancelled() and task.result())

    def _later(self, work: Coroutine[Any, Any, T], response_id: str) -> asyncio.Task[T]:
        self._under_way += 1
        task = self._gateway.later(work, f"response {response_id}")
        task.add_done_callback(self._ended)
        return task

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self._under_way -= 1

    async def _put(self, link: Link, turn: TurnKeeping | None) -> bool:
        what, is_kept = "a response was not kept, so no other can go on from it", False
        with kept_from_failing(what, []), given_up(what):
            episodes = await turn.episodes() if turn is not None else ()
            ledger = await self._gateway.engine.kernel.ledger_alone()
            await ledger.chains.put(replace(link, episodes=episodes))
            is_kept = True
        return is_kept

    def name(self, response_id: str, turn: TurnKeeping | None) -> None:
        """Name all that a turn keeps of a response, its answer too, once it is kept: so that erasures find it.

        For one that is being kept, or was.
        """
        if turn is not None:
            self._later(self._name(response_id, turn), response_id)

    async def _name(self, response_id: str, turn: TurnKeeping) -> None:
        with given_up("what a response names is not told"):
            ended = await turn.ended()
            if ended is None or ended.session_id is None:
                return
            ledger = await self._gateway.engine.kernel.ledger_alone()
            turns = await ledger.sessions.turns(ended.session_id, ended.number, ended.number)
            for counted in turns:
                await ledger.chains.name(response_id, counted.episodes)


def can_be_id(given: str) -> bool:
    """Whether a text can be an id at all."""
    return 0 < len(given) <= LONGEST_ID and "\x00" not in given and is_unicode(given)


def unknown_previous(response_id: str) -> InvalidInputError:
    """What OpenAI says of a previous_response_id that it does not know."""
    error = InvalidInputError(
        f"Previous response with id '{response_id[:LONGEST_ID]}' not found.",
        field="previous_response_id",
        value=response_id,
    )
    error.code = "previous_response_not_found"
    return error
