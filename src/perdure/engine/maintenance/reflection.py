"""Reflection: derive insights from a scope's memories, and store them as memories of type `reflective`."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.blocking import run_blocking
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.filter import Condition, all_of, eq
from perdure.domain.maintenance import CONSOLIDATION, MERGE, REFLECTION, Experience, Insight, Pattern, Reflected
from perdure.domain.memory import LIVE, MemoryItem, text_hash
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, guarded
from perdure.engine.core.access import visible
from perdure.engine.core.batch import Batch, new_memory
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import SESSION
from perdure.engine.maintenance.consistency import FROM_FILES
from perdure.engine.maintenance.deletion import walk
from perdure.pipeline.curation.llm.consolidation import read_insights

NEWEST = 1000  # number of the newest memories, and messages, of a scope that are read
REFLECTIVE = "reflective"
ACTOR = "reflect"
_TIMES = re.compile(r"\s*\(\d+ times\)$")
_UNWANTED = ("delete", "delete_all", "undo", "revert", MERGE)
"""Actors whose deletion of an insight means that it must not come back."""


class Reflect:
    """Derives insights from the memories of a scope."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def __call__(self, scope: Scope, *, store: bool = True, about: str | None = None) -> Reflected:
        """Return the insights of a scope, all or those about something; see `reflect_scope`."""
        return await reflect_scope(self._kernel, scope, store=store, about=about)


async def reflect_scope(kernel: Kernel, scope: Scope, *, store: bool = True, about: str | None = None) -> Reflected:
    """Derive insights from the memories of a scope: by the rules, or by the model if it is the curator.

    Reads the newest 1,000 facts that may enter prompts, without earlier insights, memories about sessions and a team's
    memories. If a model fails, or the named memories do not support its insights, the rules do it. With `store` each
    insight becomes a memory of type `reflective` in this scope, which names its sources in `derived_from` and is
    forgotten with them. Its id is derived from its content, so running again updates it; an insight that no longer
    holds is removed. A lesson that already is a memory of that type is not stored twice. An insight that somebody
    reworded stays as it is, and one that somebody deleted, undid or merged stays away. `about` limits the returned
    insights to those with one of its words, in themselves or in their memories; all are stored.
    """
    items = await _facts(kernel, scope)
    reflected = Reflected()
    found = await _read(kernel, scope, [_experience(item) for item in items], reflected)
    by_id = {id_of(scope, insight): insight for insight in found}
    known = {item.id: item for item in items}
    own = {id: each.memory_ids[0] for id, each in by_id.items() if _is_a_memory(each, known)}
    if store:
        to_keep = {id: insight for id, insight in by_id.items() if id not in own}
        await _keep(kernel, scope, to_keep, known, reflected)
    standing = {row.id for row in await kernel.store.get_many(kernel.collection, list(by_id))}
    reflected.insights = [replace(insight, id=id if id in standing else own.get(id)) for id, insight in by_id.items()]
    if about is not None:
        reflected.insights = [each for each in reflected.insights if _is_about(about, each, known)]
    return reflected


def id_of(scope: Scope, insight: Insight) -> str:
    """Return the id of an insight's memory, derived from its content and scope."""
    return _id(scope, insight.pattern, insight.content)


def _id(scope: Scope, pattern: str, content: str) -> str:
    told = [scope.given(), pattern, _TIMES.sub("", content).casefold()]
    return str(uuid5(NAMESPACE_URL, f"perdure:insight:{json.dumps(told, sort_keys=True)}"))


def _was_edited(item: MemoryItem) -> bool:
    """Whether somebody reworded a stored insight: its id does not follow from its text then."""
    return item.id not in {_id(item.scope, pattern, item.memory) for pattern in get_args(Pattern)}


async def _facts(kernel: Kernel, scope: Scope) -> list[MemoryItem]:
    newest: deque[MemoryItem] = deque(maxlen=NEWEST)
    async for items in walk(kernel, scope, visible(scope, now=kernel.clock.now())):
        of_insights = await _merged_insights(kernel, items)
        newest.extend(item for item in items if _may_be_read(item) and item.id not in of_insights)
    return sorted(newest, key=lambda item: (item.told_at, item.created_at, item.id))


async def _merged_insights(kernel: Kernel, items: Sequence[MemoryItem]) -> set[str]:
    """Return the memories that insights were merged into, in which no pattern is looked for either."""
    merged = [item for item in items if item.source == CONSOLIDATION and item.type == REFLECTIVE]
    if not merged:
        return set()
    originals = tuple({id for item in merged for id in item.derived_from})
    insights = all_of(Condition("version_of", "in", originals), eq("source", REFLECTION))
    rows = (await kernel.store.list(kernel.collection, insights)).points
    found = {str(row.payload["version_of"]) for row in rows}
    return {item.id for item in merged if not found.isdisjoint(item.derived_from)}


def _may_be_read(item: MemoryItem) -> bool:
    is_the_users = item.role in ("memory", "user") and item.tags is None
    return is_the_users and item.quarantined is None and item.source not in (REFLECTION, SESSION)


def _experience(item: MemoryItem) -> Experience:
    tellings = frozenset(item.sources) or frozenset({item.id})
    return Experience(id=item.id, text=item.memory, type=item.type, tellings=tellings)


async def _read(
    kernel: Kernel, scope: Scope, memories: Sequence[Experience], reflected: Reflected
) -> Sequence[Insight]:
    if kernel.llm is not None and kernel.config.chosen_curator == "llm":
        with degrade("the rules reflected, not the model", reflected.warnings):
            found = await read_insights(kernel.llm, memories)
            reflected.by = "llm"
            return found
    episodes = [] if kernel.ledger is None else await kernel.ledger.recent_episodes(scope, NEWEST)
    said = [(episode.id, episode.content) for episode in episodes if episode.role == "user"]
    from perdure.pipeline.maintenance.insight import insights  # slow to import, and only needed here

    return await run_blocking(insights, memories, said)


def _is_a_memory(insight: Insight, known: Mapping[str, MemoryItem]) -> bool:
    return len(insight.memory_ids) == 1 and known[insight.memory_ids[0]].type == REFLECTIVE


def _is_about(topic: str, insight: Insight, known: Mapping[str, MemoryItem]) -> bool:
    from perdure.pipeline.maintenance.insight import speaks_of

    texts = [insight.content, *(known[id].memory for id in insight.memory_ids)]
    return any(speaks_of(topic, text) for text in texts)


async def _keep(
    kernel: Kernel, scope: Scope, wanted: Mapping[str, Insight], known: Mapping[str, MemoryItem], reflected: Reflected
) -> None:
    """Make the scope's stored insights equal to the wanted ones, in one commit."""
    embedded = await kernel.embedding.texts([insight.content for insight in wanted.values()])
    vectors: dict[str, Vector | None] = dict(zip(wanted, embedded.vectors, strict=True))
    async with kernel.lock(scope):
        kept = await _kept(kernel, scope)
        standing = {id: row for id, row in kept.items() if not _was_edited(MemoryItem.from_payload(row.payload))}
        named = {id for insight in wanted.values() for id in insight.memory_ids}
        rows = await kernel.store.get_many(kernel.collection, list(named))
        there = {row.id for row in rows if row.payload.get("state") == LIVE}
        batch = Batch(kernel.clock)
        for id, insight in wanted.items():
            if not there.issuperset(insight.memory_ids):
                continue  # forgotten since they were read
            members = [known[each] for each in insight.memory_ids]
            if id in standing:
                reflected.updated += _update(batch, standing.pop(id), insight, members, vectors[id])
            elif id not in kept and not await _is_unwanted(kernel, id):
                blank = new_memory(kernel, "", scope, id=id, type=REFLECTIVE, source=REFLECTION)
                batch.add(blank.with_(**_fields(insight, members)), vectors[id], actor=ACTOR, reason="insight")
                reflected.added += 1
        for row in standing.values():
            batch.remove(MemoryItem.from_payload(row.payload), row.vector, actor=ACTOR, reason="holds no longer")
            reflected.removed += 1
        if batch.changes:
            reflected.warnings += await kernel.commit(batch.changes, batch.vectors)


async def _kept(kernel: Kernel, scope: Scope) -> dict[str, Point]:
    found: dict[str, Point] = {}
    async for items in walk(kernel, scope, eq("source", REFLECTION), eq("type", REFLECTIVE)):
        ids = [item.id for item in items if item.scope == scope]
        found.update((row.id, row) for row in await kernel.store.get_many(kernel.collection, ids))
    return found


async def _is_unwanted(kernel: Kernel, id: str) -> bool:
    """Whether somebody deleted an insight, took it back or merged it into another memory."""
    records = [] if kernel.ledger is None else await kernel.ledger.history(id)
    if kernel.ledger is None or not records or not records[-1].is_deleted:
        return False
    if records[-1].actor != FROM_FILES:
        return records[-1].actor in _UNWANTED
    change = await kernel.ledger.event(records[-1].id)
    return change is not None and change.keep is not None  # no text is kept of what left with a branch


def _fields(insight: Insight, members: Sequence[MemoryItem]) -> dict[str, object]:
    return {
        "memory": insight.content,
        "hash": text_hash(insight.content),
        "derived_from": insight.memory_ids,
        "sources": tuple(dict.fromkeys(source for member in members for source in member.sources)),
    }


def _update(batch: Batch, row: Point, insight: Insight, members: Sequence[MemoryItem], vector: Vector | None) -> bool:
    """Update a stored insight; return whether anything changed."""
    before = MemoryItem.from_payload(row.payload)
    after = before.with_(**_fields(insight, members))
    if after == before:
        return False
    batch.replace(before, after, row.vector, vector, actor=ACTOR, reason="insight")
    return True
