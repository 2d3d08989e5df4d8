"""The rolling summary of a conversation: one memory of its own, renewed when something was learned (002 §4.4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.vector_stores.base import Vector
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import LLMError
from perdure.domain.event import Change, MemoryEvent
from perdure.domain.filter import Condition, Filter, Moment, Not, all_of, eq, matches
from perdure.domain.memory import LIVE, MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.gateway.extraction import PATIENCE
from perdure.engine.kernel import Kernel
from perdure.engine.rows import version_of
from perdure.engine.soft import given_up
from perdure.engine.visibility import visible
from perdure.engine.write_path import SESSION
from perdure.pipeline.firewall import suspect
from perdure.pipeline.llm.summary import Learned, summarised
from perdure.pipeline.summary import chosen, told

KIND = "summaries"
_MOST_FACTS = 400
"""Facts of a conversation that are looked at, the newest."""
_MARGIN = timedelta(minutes=2)
"""How far before the last summary a fact may be dated that came after it: another process was writing it then."""
_TRIES = 4
"""Times that a summary is made anew because what it is made of changed meanwhile."""


def summary_id(scope: Scope) -> str:
    """The id of the summary of what stands behind these walls, the same wherever it is made (K17)."""
    return str(uuid5(NAMESPACE_URL, f"perdure:summary:{json.dumps(scope.given(), sort_keys=True)}"))


async def summary_of(kernel: Kernel, scope: Scope) -> MemoryItem | None:
    """The summary of a conversation, if there is one; to be called on a kernel that is open."""
    point = await kernel.store.get(kernel.collection, summary_id(scope))
    item = None if point is None else MemoryItem.from_payload(point.payload)
    return item if item is not None and item.state == LIVE and item.kind == KIND else None


class Summaries:
    """Keeps the summaries of conversations; a failure costs nothing but the renewal."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def renew(self, scope: Scope, events: Sequence[MemoryEvent] = ()) -> None:
        """Bring the summary up to what was learned since it was made; nothing learned, nothing written (A21).

        One that an erasure took is made anew of what is left. `events` tell what no longer stands.
        """
        with given_up("the summary of the conversation is not renewed"):
            for _ in range(_TRIES):
                if await self._renewed(scope, events):
                    return

    async def _renewed(self, scope: Scope, events: Sequence[MemoryEvent]) -> bool:
        """Try once; False where what it was made of changed meanwhile."""
        kernel = self._kernel
        previous = await summary_of(kernel, scope)
        facts = await self._facts(scope, previous)
        made = await self._made(previous, facts, events)
        if made is None:
            return True
        text, parts = made
        embedded = await kernel.embedding.texts([text] if text else [])
        async with kernel.lock(scope):
            if await summary_of(kernel, scope) != previous or not await self._stand(facts):
                return False
            await self._write(scope, previous, text, parts, embedded.vectors[0] if text else None)
        return True

    async def _facts(self, scope: Scope, previous: MemoryItem | None) -> list[MemoryItem]:
        """What the summary before was made of, as far as it stands, and what was learned since; oldest first.

        What is kept out of prompts is kept out of here. Without a summary, all that was learned.
        """
        kernel = self._kernel
        now = kernel.ticker.now()
        filters: list[Filter] = [Not(eq("source", SESSION))]
        if previous is not None:
            made_at = read_moment(previous.updated_at) or now
            filters.append(Condition("updated_at", "gt", Moment(iso(made_at - _MARGIN))))
        page = await kernel.store.list(kernel.collection, visible(scope, now=now, filters=all_of(*filters)))
        found = {point.id: point.payload for point in page.points}
        if previous is not None:
            points = await kernel.store.get_many(kernel.collection, previous.derived_from)
            found.update(
                {point.id: point.payload for point in points if matches(visible(scope, now=now), point.payload)}
            )
        items = [MemoryItem.from_payload(payload) for payload in found.values()]
        trusted = [item for item in items if item.quarantined is None]
        return sorted(trusted, key=lambda item: (item.told_at, item.created_at, item.id))[-_MOST_FACTS:]

    async def _made(
        self, previous: MemoryItem | None, facts: list[MemoryItem], events: Sequence[MemoryEvent]
    ) -> tuple[str, list[MemoryItem]] | None:
        """The text, "" for none, and the facts that it was made of; None where the summary stands as it is."""
        llm = self._kernel.extractor
        if not facts:
            return None if previous is None else ("", [])
        if llm is None:
            parts = [facts[place] for place in chosen([item.memory for item in facts])]
            text = told([item.memory for item in parts])
            return None if previous is not None and text == previous.memory else (text, parts)
        new = [item for item in facts if previous is None or _is_new(item, previous)]
        gone = [event.old_memory or event.memory for event in events if event.event in ("UPDATE", "DELETE")]
        learned = Learned(tuple(item.memory for item in new), tuple(gone) if previous is not None else ())
        if learned.is_nothing:
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                return await summarised(llm, previous.memory if previous is not None else None, learned), new
        except TimeoutError as error:
            raise LLMError("the model did not answer in time", code="timeout") from error

    async def _stand(self, facts: Sequence[MemoryItem]) -> bool:
        """Whether all that it may tell still stands: what was forgotten meanwhile must not come back in it."""
        kernel = self._kernel
        points = await kernel.store.get_many(kernel.collection, [item.id for item in facts])
        return {point.id for point in points} == {item.id for item in facts}

    async def _write(
        self, scope: Scope, previous: MemoryItem | None, text: str, parts: list[MemoryItem], vector: Vector | None
    ) -> None:
        kernel = self._kernel
        moment = kernel.ticker.tick()
        vectors: dict[str, Vector | None] = {}
        after = self._item(scope, previous, text, parts, moment) if text else None
        keep = None
        if previous is not None:
            keep = version_of(previous, untold_at=moment)
            point = await kernel.store.get(kernel.collection, previous.id)
            vectors[keep.id] = None if point is None else point.vector
        if after is not None:
            vectors[after.id] = vector
        change = Change(
            id=new_id(),
            event="DELETE" if after is None else "ADD" if previous is None else "UPDATE",
            memory_id=summary_id(scope),
            at=moment,
            told_at=moment,
            before=previous,
            after=after,
            keep=keep,
            actor="gateway",
            reason="summary",
            sources=() if after is None else after.sources,
        )
        await kernel.commit([change], vectors)

    def _item(
        self, scope: Scope, previous: MemoryItem | None, text: str, parts: list[MemoryItem], moment: str
    ) -> MemoryItem:
        """The summary as it is kept: a model's holds all that went into the one before."""
        goes_on = previous if self._kernel.extractor is not None else None
        derived = (*(goes_on.derived_from if goes_on else ()), *(item.id for item in parts))
        sources = (*(goes_on.sources if goes_on else ()), *(id for item in parts for id in item.sources))
        made = previous or MemoryItem(
            id=summary_id(scope),
            memory=text,
            hash=text_hash(text),
            scope=scope,
            created_at=moment,
            updated_at=moment,
            told_at=moment,
            valid_from=moment,
            kind=KIND,
            role="summary",
        )
        return made.with_(
            memory=text,
            hash=text_hash(text),
            updated_at=moment,
            told_at=moment,
            version=1 if previous is None else previous.version + 1,
            derived_from=tuple(dict.fromkeys(derived)),
            quarantined=suspect(text, None),
            sources=tuple(dict.fromkeys(sources)),
        )


def _is_new(item: MemoryItem, previous: MemoryItem) -> bool:
    return item.id not in previous.derived_from or item.updated_at > previous.updated_at
