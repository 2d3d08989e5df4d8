"""The rolling summary of a conversation: a memory that is updated, and never shown outdated (ADR 18)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.clock import iso, read_moment
from perdure.domain.event import Change, MemoryEvent
from perdure.domain.filter import Condition, Filter, Moment, Not, all_of, eq, matches
from perdure.domain.memory import LIVE, MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.chat.extraction import answer_in_time
from perdure.engine.core.access import TRUSTED, visible
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import SESSION
from perdure.engine.core.rows import version_of
from perdure.engine.write.change_set import cosine
from perdure.pipeline.curation.llm.summary import Learned, summary_by_model
from perdure.pipeline.prompting.compaction import summary_facts, summary_text
from perdure.pipeline.quarantine import suspect
from perdure.pipeline.retrieval.words import word_score

KIND = "summaries"
_MOST_FACTS = 400  # maximum facts of a conversation that are used, the newest
_MARGIN = timedelta(minutes=2)
"""How much earlier than the last summary a fact may be dated and still be new: another process was writing it."""
_TRIES = 4  # attempts at a summary whose sources change meanwhile
_GONE = "gone"
"""Metadata key of a summary: ids in `derived_from` that were already gone, and known to be, when a model wrote it."""


def summary_id(scope: Scope) -> str:
    """Return the id of the summary of exactly this scope, the same wherever it is made."""
    return str(uuid5(NAMESPACE_URL, f"perdure:summary:{json.dumps(scope.given(), sort_keys=True)}"))


async def summary_of(kernel: Kernel, scope: Scope) -> MemoryItem | None:
    """Return the summary of a conversation, or None; call it on an open kernel."""
    point = await _point_of(kernel, scope)
    return None if point is None else MemoryItem.from_payload(point.payload)


async def _point_of(kernel: Kernel, scope: Scope) -> Point | None:
    point = await kernel.store.get(kernel.collection, summary_id(scope))
    item = None if point is None else MemoryItem.from_payload(point.payload)
    return point if item is not None and item.state == LIVE and item.kind == KIND else None


async def _score(kernel: Kernel, point: Point, query: str) -> float:
    """Return a summary's score for a query, as for a memory; by words if there is no vector."""
    near = cosine(await kernel.embedding.query(query), point.vector) if query.strip() else None
    return word_score(query, str(point.payload["memory"])) if near is None else kernel.embedding.embedder.score(near)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The current state of a summary's sources."""

    standing: tuple[Point, ...] = ()
    """The rows of sources that still exist and may enter a prompt, in the summary's order."""
    lost: frozenset[str] = frozenset()  # the ids of sources that have changed or gone since the summary was written

    @property
    def items(self) -> list[MemoryItem]:
        """The sources that still exist; built on demand, because every request asks only what is lost."""
        return [MemoryItem.from_payload(point.payload) for point in self.standing]


async def _parts_of(kernel: Kernel, summary: MemoryItem) -> _Parts:
    now = visible(summary.scope, now=kernel.clock.now(), filters=TRUSTED)
    points = await kernel.store.get_many(kernel.collection, summary.derived_from)
    standing = tuple(point for point in points if matches(now, point.payload))
    as_they_were = {point.id for point in standing if point.payload["updated_at"] <= summary.updated_at}
    return _Parts(standing, frozenset(summary.derived_from) - as_they_were - set(summary.metadata.get(_GONE, ())))


async def is_current(kernel: Kernel, scope: Scope) -> bool:
    """Whether a conversation has a summary whose sources are all unchanged."""
    summary = await summary_of(kernel, scope)
    return summary is not None and not (await _parts_of(kernel, summary)).lost


async def told_summary(kernel: Kernel, scope: Scope, query: str = "", threshold: float | None = None) -> str | None:
    """Return the text for a prompt: a conversation's summary, if there is one that may enter a prompt.

    With a threshold it must score that much, like any memory. If a source has changed or gone since, the rules write a
    text from the remaining sources until the summary is updated.
    """
    point = await _point_of(kernel, scope)
    summary = None if point is None else MemoryItem.from_payload(point.payload)
    if point is None or summary is None or summary.quarantined is not None:
        return None
    if threshold and await _score(kernel, point, query) < threshold:
        return None
    parts = await _parts_of(kernel, summary)
    if not parts.lost:
        return summary.memory
    text = _by_rules(parts.items)[0]
    return text if text and suspect(text, None) is None else None


def _by_rules(facts: Sequence[MemoryItem]) -> tuple[str, list[MemoryItem]]:
    """Return the rules' text for facts ("" for none), and the facts that it uses."""
    parts = [facts[place] for place in summary_facts([item.memory for item in facts])]
    return summary_text([item.memory for item in parts]), parts


@dataclass(frozen=True, slots=True)
class _Made:
    text: str = ""  # "" for none
    parts: Sequence[MemoryItem] = ()  # its source facts
    goes_on: MemoryItem | None = None  # the previous summary, if it was used too
    gone: tuple[str, ...] = ()  # sources of the previous summary that no longer exist


class RollingSummaries:
    """Maintains the summaries of conversations; a failure only delays the update."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def renew(self, scope: Scope, events: Sequence[MemoryEvent] = ()) -> None:
        """Update the summary with what was learned since, or make an erased one again; `events` end old facts."""
        with degrade("the summary of the conversation is not renewed"):
            for _ in range(_TRIES):
                if await self._renewed(scope, events):
                    return

    async def _renewed(self, scope: Scope, events: Sequence[MemoryEvent]) -> bool:
        """Try once; False if its sources changed meanwhile."""
        kernel = self._kernel
        previous = await summary_of(kernel, scope)
        before = _Parts() if previous is None else await _parts_of(kernel, previous)
        goes_on = previous
        if kernel.extractor is not None and before.lost - _told_of(events):
            # A model that does not know what has changed would repeat it, so it starts again.
            goes_on, before = None, _Parts(lost=before.lost)
        facts = await self._facts(scope, goes_on, before.items)
        made = await self._made(goes_on, before, facts, events) if facts else _Made()
        if made is None or (not facts and previous is None):
            return True
        embedded = await kernel.embedding.texts([made.text] if made.text else [])
        async with kernel.lock(scope):
            if await summary_of(kernel, scope) != previous or not await self._stand(facts):
                return False
            await self._write(scope, previous, made, embedded.vectors[0] if made.text else None)
        return True

    async def _facts(self, scope: Scope, previous: MemoryItem | None, parts: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the summary's remaining sources, and later ones that prompts may contain; oldest first."""
        kernel = self._kernel
        now = kernel.clock.now()
        filters: list[Filter] = [Not(eq("source", SESSION))]
        if previous is not None:
            made_at = read_moment(previous.updated_at) or now
            filters.append(Condition("updated_at", "gt", Moment(iso(made_at - _MARGIN))))
        page = await kernel.store.list(kernel.collection, visible(scope, now=now, filters=all_of(*filters)))
        found = {item.id: item for item in parts}
        found.update((point.id, MemoryItem.from_payload(point.payload)) for point in page.points)
        trusted = [item for item in found.values() if item.quarantined is None]
        return sorted(trusted, key=lambda item: (item.told_at, item.created_at, item.id))[-_MOST_FACTS:]

    async def _made(
        self, previous: MemoryItem | None, before: _Parts, facts: list[MemoryItem], events: Sequence[MemoryEvent]
    ) -> _Made | None:
        """Return the new summary of some facts; None if the previous one stays."""
        llm = self._kernel.extractor
        if llm is None:
            text, parts = _by_rules(facts)
            is_told = previous is not None and text == previous.memory and not before.lost
            return None if is_told else _Made(text, parts)
        new = [item for item in facts if previous is None or _is_new(item, previous)]
        gone = [event.old_memory or event.memory for event in events if event.event in ("UPDATE", "DELETE")]
        learned = Learned(tuple(item.memory for item in new), tuple(gone) if previous is not None else ())
        if learned.is_nothing:
            return None
        known = previous.memory if previous is not None else None
        text = await answer_in_time(self._kernel.config, summary_by_model(llm, known, learned))
        left = {point.id for point in before.standing}
        no_more = () if previous is None else tuple(id for id in previous.derived_from if id not in left)
        return _Made(text, new, previous, no_more)

    async def _stand(self, facts: Sequence[MemoryItem]) -> bool:
        """Whether all of its sources are unchanged: what changed or went must not come back in it."""
        kernel = self._kernel
        points = await kernel.store.get_many(kernel.collection, [item.id for item in facts])
        return {(point.id, point.payload.get("updated_at")) for point in points} == {
            (item.id, item.updated_at) for item in facts
        }

    async def _write(self, scope: Scope, previous: MemoryItem | None, made: _Made, vector: Vector | None) -> None:
        kernel = self._kernel
        moment = kernel.clock.tick()
        after = _item(scope, previous, made, moment) if made.text else None
        await commit_summary(kernel, previous, after, vector, at=moment, told_at=moment, reason="summary")


async def commit_summary(
    kernel: Kernel,
    before: MemoryItem | None,
    after: MemoryItem | None,
    vector: Vector | None,
    *,
    at: str,
    told_at: str,
    reason: str,
) -> None:
    """Commit a summary, keeping the previous one as a version; None as `after` deletes it. Hold the scope's lock."""
    item = after or before
    assert item is not None, "a summary is written, replaced or deleted"
    vectors = {} if after is None else {after.id: vector}
    keep = None
    if before is not None:
        keep = version_of(before, untold_at=told_at)
        point = await kernel.store.get(kernel.collection, before.id)
        vectors[keep.id] = None if point is None else point.vector
    change = Change(
        id=new_id(),
        event="DELETE" if after is None else "ADD" if before is None else "UPDATE",
        memory_id=item.id,
        at=at,
        told_at=told_at,
        before=before,
        after=after,
        keep=keep,
        actor="gateway",
        reason=reason,
        sources=() if after is None else after.sources,
    )
    await kernel.commit([change], vectors)


def _item(scope: Scope, previous: MemoryItem | None, made: _Made, moment: str) -> MemoryItem:
    """Build the summary's memory; one that continues the previous summary also names all sources of that one."""
    goes_on = made.goes_on
    derived = (*(goes_on.derived_from if goes_on else ()), *(item.id for item in made.parts))
    sources = (*(goes_on.sources if goes_on else ()), *(id for item in made.parts for id in item.sources))
    item = previous or MemoryItem.new(summary_id(scope), made.text, scope, moment, kind=KIND, role="summary")
    return item.with_text(
        made.text,
        updated_at=moment,
        told_at=moment,
        version=1 if previous is None else previous.version + 1,
        derived_from=tuple(dict.fromkeys(derived)),
        metadata={_GONE: list(made.gone)} if made.gone else {},
        quarantined=suspect(made.text, None),
        sources=tuple(dict.fromkeys(sources)),
    )


def _told_of(events: Sequence[MemoryEvent]) -> set[str]:
    """Return the ids of the memories that events changed or deleted."""
    changed = [event for event in events if event.event in ("UPDATE", "DELETE")]
    return {id for event in changed for id in (event.id, event.replaced_id) if id is not None}


def _is_new(item: MemoryItem, previous: MemoryItem) -> bool:
    return item.id not in previous.derived_from or item.updated_at > previous.updated_at
