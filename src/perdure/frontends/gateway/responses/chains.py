"""Chains of responses in the ledger: looked up within their owner's scope, written in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from perdure.domain.clock import iso, system_clock
from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.scope import Scope
from perdure.domain.session import Link
from perdure.domain.text.readable import is_unicode
from perdure.engine.aio.calls import Deadline, degrade, never_fail
from perdure.engine.chat.turn_log import PendingTurn
from perdure.frontends.gateway.gateway import Gateway
from perdure.frontends.gateway.responses.items import CALLS, OUTPUTS, Item, kind_of

# Stored chains of responses: inputs and outputs, never injected memories.

_HEAD = "perdure.response"
"""The type of a link's first item: the response object without its output, and the number of input items."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One stored response."""

    link: Link

    @property
    def inputs(self) -> list[Item]:
        """Its input items."""
        head, items = self._split()
        return items[: head["inputs"]] if head else []

    @property
    def outputs(self) -> list[Item]:
        """Its output items."""
        head, items = self._split()
        return items[head["inputs"] :] if head else []

    @property
    def items(self) -> list[Item]:
        """Both; none once something of it was forgotten."""
        return self._split()[1]

    @property
    def response(self) -> dict[str, Any] | None:
        """The response object; None if it is an upstream's own, or was forgotten."""
        head, _ = self._split()
        return {**head["response"], "output": self.outputs} if head and head["response"] else None

    def _split(self) -> tuple[dict[str, Any] | None, list[Item]]:
        items = self.link.items
        return (items[0], items[1:]) if items and items[0].get("type") == _HEAD else (None, [])


def link_of(
    response: Mapping[str, Any],
    inputs: Sequence[Item],
    *,
    scope: Scope,
    session: str,
    previous_id: str | None = None,
    episodes: Sequence[str] = (),
    is_native: bool = False,
) -> Link:
    """Build the stored form of a response; for an upstream's own one, which the server stores, only the items."""
    told = {name: value for name, value in response.items() if name != "output"}
    head = {"type": _HEAD, "inputs": len(inputs), "response": None if is_native else told}
    return Link(
        id=str(response["id"]),
        previous_id=previous_id,
        scope=scope,
        session=session,
        model=str(response.get("model") or ""),
        items=[head, *inputs, *response.get("output", ())],
        episodes=tuple(episodes),
        created_at=iso(system_clock()),
    )


def earlier_items(chain: Sequence[Kept]) -> list[Item]:
    """Return all items of a chain, oldest first.

    If the beginning of a chain was forgotten, results of tool calls that are gone are left out too, because model
    servers accept no result without its call.
    """
    found: list[Item] = []
    calls: set[object] = set()
    for kept in chain:
        for item in kept.items:
            kind = kind_of(item)
            if kind in CALLS:
                calls.add(item.get("call_id"))
            if kind not in OUTPUTS or item.get("call_id") in calls:
                found.append(item)
    return found


T = TypeVar("T")
LONGEST_ID = 256  # maximum characters of an id that is looked up
MOST_UNDER_WAY = 200
"""Maximum responses that wait for the ledger; beyond it none is stored. An unlocked ledger takes hundreds a second."""
LATE_AT_ONCE = 16  # lookups that may still run after their request stopped waiting
logger = logging.getLogger("perdure")


class Chains:
    """The chains of one gateway; LedgerError if they cannot be read."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._writing: dict[str, tuple[asyncio.Task[bool], Link]] = {}
        self._looking = Deadline(LATE_AT_ONCE)
        self._under_way = 0

    async def chain(self, response_id: str, walls: Scope) -> list[Kept]:
        """Return a response, also one being written, and those it continues, oldest first; none if unknown."""
        written: list[Kept] = []
        seen: set[str] = set()
        at: str | None = response_id
        while at is not None and (writing := self._writing.get(at)) is not None:
            link = writing[1]
            if at in seen or not walls.holds(link.scope):  # a server may use the same id again
                return written
            seen.add(at)
            written.insert(0, Kept(link))
            at = link.previous_id
        if at is None or not can_be_id(at):
            return written
        ledger = await self._gateway.engine.kernel.ledger_alone()
        return [*(Kept(link) for link in await ledger.chains.chain(at, walls)), *written]

    async def chain_in_time(self, response_id: str, walls: Scope, seconds: float) -> list[Kept]:
        """The same with a time limit, for memory only: empty if it cannot be read in time."""
        try:
            return await self._looking(self.chain(response_id, walls), seconds)
        except PerdureError:
            return []

    async def get(self, response_id: str, walls: Scope) -> Kept | None:
        """Return one response, even while it is being written; None if it is unknown in the scope."""
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
        """Whether a response is known in time to be another caller's, which our upstream key must not open."""
        try:
            kept = await self._looking(self.get(response_id, Scope()), seconds)
        except PerdureError:
            return False
        return kept is not None and (walls is None or not walls.holds(kept.link.scope))

    async def delete(self, response_id: str, walls: Scope) -> bool:
        """Delete one response; return whether there was one."""
        if (writing := self._writing.get(response_id)) is not None:
            await asyncio.wait({writing[0]})
        if not can_be_id(response_id):
            return False
        ledger = await self._gateway.engine.kernel.ledger_alone()
        return await ledger.chains.delete(response_id, walls)

    def put(self, link: Link, turn: PendingTurn | None) -> asyncio.Task[bool] | None:
        """Start storing a response, with the ids of its turn's messages; the task says whether it was stored.

        Failures are ignored: an answer is not lost because it cannot be continued. Returns None, and stores nothing, if
        too many wait for the ledger.
        """
        if self._under_way >= MOST_UNDER_WAY:
            logger.warning("a response is not kept, so no other can go on from it: others wait for the ledger")
            return None
        task = self._later(self._put(link, turn), link.id)
        self._writing[link.id] = (task, link)
        task.add_done_callback(lambda _: self._writing.pop(link.id, None))
        return task

    async def kept(self, link: Link, turn: PendingTurn | None) -> bool:
        """Store a response before its end is sent, because the next request may continue it; return whether it is
        stored.

        Waits no longer than memory may delay a request; after that it is stored later.
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

    async def _put(self, link: Link, turn: PendingTurn | None) -> bool:
        what, is_kept = "a response was not kept, so no other can go on from it", False
        with never_fail(what, []), degrade(what):
            episodes = await turn.user_episodes() if turn is not None else ()
            ledger = await self._gateway.engine.kernel.ledger_alone()
            await ledger.chains.put(replace(link, episodes=episodes))
            is_kept = True
        return is_kept

    def name(self, response_id: str, turn: PendingTurn | None) -> None:
        """Add the ids of a turn's messages to a response that is or will be stored, so that erasures find it."""
        if turn is not None:
            self._later(self._name(response_id, turn), response_id)

    async def _name(self, response_id: str, turn: PendingTurn) -> None:
        with degrade("what a response names is not told"):
            await turn.ended()
            if turn.answer_done is None or turn.session_id is None:
                return
            ledger = await self._gateway.engine.kernel.ledger_alone()
            turns = await ledger.sessions.turns(turn.session_id, turn.number, turn.number)
            for counted in turns:
                await ledger.chains.name(response_id, counted.episodes)


def can_be_id(given: str) -> bool:
    """Whether a text can be an id at all."""
    return 0 < len(given) <= LONGEST_ID and "\x00" not in given and is_unicode(given)


def unknown_previous(response_id: str) -> InvalidInputError:
    """Return OpenAI's error for an unknown previous_response_id."""
    error = InvalidInputError(
        f"Previous response with id '{response_id[:LONGEST_ID]}' not found.",
        field="previous_response_id",
        value=response_id,
    )
    error.code = "previous_response_not_found"
    return error
