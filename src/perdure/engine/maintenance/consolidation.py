"""Consolidation: merge several memories about the same thing into one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError
from perdure.domain.maintenance import CONSOLIDATION, MERGE, REFLECTION, Consolidation
from perdure.domain.memory import LIVE, MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.aio.calls import degrade, guarded
from perdure.engine.core.access import UNRESTRICTED, is_inside, visible
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import SESSION
from perdure.engine.maintenance.deletion import walk
from perdure.pipeline.curation.llm.consolidation import merge_texts
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.maintenance.consolidation import Member, condense, groups, merge
from perdure.pipeline.retrieval.standing_facts import is_standing

NEWEST = 100  # number of the newest memories of a scope that are examined
TRIES = 3  # attempts at a merge if another writer changes one of the memories meanwhile
REASON = "consolidated"


class Consolidate:
    """Merges memories; each merge is one commit.

    `undo` of the addition reverts the whole merge, `undo` of a deletion brings that original back alone.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def __call__(
        self, ids: Sequence[str], walls: Scope = UNRESTRICTED, *, dry_run: bool = False
    ) -> Consolidation:
        """Merge the memories with these ids, at least two, into one; with `dry_run` only return the result.

        They must have the same scope and the same type, else InvalidInputError; NotFoundError for an id outside of the
        caller's scope. Statements about different things are joined.
        """
        distinct = list(dict.fromkeys(ids))
        if len(distinct) < 2:
            raise InvalidInputError(
                f"consolidate takes at least 2 different memories, not {len(distinct)}", field="memory_ids", value=ids
            )
        return await _consolidate(self._kernel, distinct, walls, dry_run=dry_run)

    @guarded
    async def scope(self, scope: Scope, *, at_least: int = 2, dry_run: bool = False) -> list[Consolidation]:
        """Merge related memories of a scope; see `consolidate_scope`."""
        return await consolidate_scope(self._kernel, scope, at_least=at_least, dry_run=dry_run)


async def consolidate_scope(
    kernel: Kernel, scope: Scope, *, at_least: int = 2, dry_run: bool = False
) -> list[Consolidation]:
    """Merge related memories among the scope's newest 100; do nothing if it has fewer than `at_least`.

    Never merged are memories of different scopes or types, those kept out of prompts, insights, memories about
    sessions, wishes for how to be answered, a team's, and expired ones. `pipeline.consolidation.groups` finds the
    groups. The rules merge only those that condense into one statement: if unrelated statements were joined, a later
    contradiction of one would cost the others. A model merges a group whole; if it fails, the rules do it.
    """
    newest: deque[MemoryItem] = deque(maxlen=NEWEST)
    count = 0
    async for items in walk(kernel, scope, visible(scope, now=kernel.clock.now())):
        count += len(items)
        newest.extend(item for item in items if _may_merge(item))
    if count < at_least:
        return []
    by_id = {item.id: item for item in newest}
    members = [
        Member(id=item.id, text=item.memory, told_at=_told(item)[0], family=_family(item)) for item in by_id.values()
    ]
    done: list[Consolidation] = []
    for group in groups(members):
        if len(group) > 1:
            done += await _consolidate_group(kernel, [by_id[id] for id in group], dry_run)
    return done


async def _consolidate_group(kernel: Kernel, items: Sequence[MemoryItem], dry_run: bool) -> list[Consolidation]:
    walls = items[0].scope
    warnings: list[str] = []
    if _writes_with_model(kernel):
        with degrade("a group of memories was not merged by the model", warnings):
            ids = [item.id for item in items]
            return [await _consolidate(kernel, ids, walls, dry_run=dry_run, by_rules=False)]
    done: list[Consolidation] = []
    ordered = sorted(items, key=_told)
    for statement in condense([item.memory for item in ordered]):
        if len(statement.places) > 1:
            with degrade("a group of memories was not merged", warnings):
                ids = [ordered[place].id for place in statement.places]
                done.append(await _consolidate(kernel, ids, walls, dry_run=dry_run, by_model=False))
    return done


async def _consolidate(
    kernel: Kernel, ids: Sequence[str], walls: Scope, *, dry_run: bool, by_rules: bool = True, by_model: bool = True
) -> Consolidation:
    """Merge memories into one; if `by_rules` is false, a model's failure is LLMError."""
    for _ in range(TRIES):
        rows = await _standing(kernel, ids, walls)
        items = [MemoryItem.from_payload(row.payload) for row in rows]
        _check(items, ids)
        items.sort(key=_told)
        warnings: list[str] = []
        text, by = await _write(kernel, [item.memory for item in items], warnings, by_rules, by_model)
        vector = await kernel.embedding.query(text)
        merged = _merged(kernel, items, text)
        if dry_run:
            return Consolidation(memory=merged, removed=tuple(items), by=by, warnings=tuple(warnings), dry_run=True)
        async with kernel.lock(items[0].scope):
            now = await _standing(kernel, ids, walls)
            if [_stamp(row) for row in now] != [_stamp(row) for row in rows]:
                continue  # another writer changed something while the text was written
            batch = Batch(kernel.clock)
            moment = kernel.clock.tick()
            merged = merged.with_(updated_at=moment, told_at=moment)
            batch.add(merged, vector, actor=MERGE, reason=REASON)
            vectors = {row.id: row.vector for row in now}
            for item in items:
                batch.remove(item, vectors[item.id], actor=MERGE, reason=REASON, replaced_by=merged.id)
            warnings += await kernel.commit(batch.changes, batch.vectors)
        return Consolidation(memory=merged, removed=tuple(items), by=by, warnings=tuple(warnings))
    raise ConflictError("the memories were changed while they were being merged: try again")


def _writes_with_model(kernel: Kernel) -> bool:
    return kernel.llm is not None and kernel.config.chosen_curator == "llm"


async def _write(
    kernel: Kernel, texts: Sequence[str], warnings: list[str], by_rules: bool, by_model: bool
) -> tuple[str, Literal["rules", "llm"]]:
    """Return the merged text, oldest first, and its author."""
    if by_model and kernel.llm is not None and _writes_with_model(kernel):
        if not by_rules:
            return await merge_texts(kernel.llm, texts), "llm"
        with degrade("the rules merged the memories, not the model", warnings):
            return await merge_texts(kernel.llm, texts), "llm"
    return merge(texts), "rules"


async def _standing(kernel: Kernel, ids: Sequence[str], walls: Scope) -> list[Point]:
    """Return the rows with these ids, in their order; NotFoundError for one that is missing or outside the scope."""
    rows = {row.id: row for row in await kernel.store.get_many(kernel.collection, list(ids))}
    for id in ids:
        row = rows.get(id)
        if (
            row is None
            or row.payload.get("state") != LIVE
            or not is_inside(walls, MemoryItem.from_payload(row.payload))
        ):
            raise NotFoundError(f"there is no memory with the id {shown(id)}")
    return [rows[id] for id in ids]


def _check(items: Sequence[MemoryItem], ids: Sequence[str]) -> None:
    first = items[0]
    for item in items[1:]:
        if item.scope != first.scope:
            names = sorted({name for name, _ in set(item.scope.given().items()) ^ set(first.scope.given().items())})
            raise InvalidInputError(
                f"only memories of one scope can be merged: these differ in {', '.join(names)}",
                field="memory_ids", value=ids,
            )  # fmt: skip
        if item.type != first.type:
            raise InvalidInputError(
                f"only memories of one type can be merged, not {first.type} and {item.type}",
                field="memory_ids", value=ids,
            )  # fmt: skip
        if (item.expires_at is None) != (first.expires_at is None):
            raise InvalidInputError(
                "memories that expire cannot be merged with ones that stay", field="memory_ids", value=ids
            )
    if any(item.kind != "facts" or item.tags is not None for item in items):
        raise InvalidInputError(
            "only facts can be merged, and none of a team's: a team promotes its memories",
            field="memory_ids",
            value=ids,
        )


def _stamp(row: Point) -> tuple[object, ...]:
    """Return a value that differs after any change of the memory."""
    return row.payload.get("version"), row.payload.get("updated_at"), row.payload.get("memory")


def _told(item: MemoryItem) -> tuple[str, str, str]:
    return item.valid_from or item.told_at, item.told_at, item.created_at


def _may_merge(item: MemoryItem) -> bool:
    return (
        item.tags is None
        and item.role == "memory"
        and item.quarantined is None
        and item.source not in (REFLECTION, SESSION)
        and not is_standing(item.memory)
    )


def _family(item: MemoryItem) -> tuple[object, ...]:
    return item.scope, item.type, item.expires_at is None


def _merged(kernel: Kernel, items: Sequence[MemoryItem], text: str) -> MemoryItem:
    """Combine several memories, oldest first, into one with their common scope and all their data."""
    id, moment = new_id(), kernel.clock.tick()
    suspect = next((item for item in items if item.quarantined is not None), None)
    origins = [suspect.origin] if suspect else [item.origin for item in items if item.origin is not None]
    metadata = {name: value for item in items for name, value in item.metadata.items()}
    known = [item.confidence for item in items if item.confidence is not None]
    speakers = {item.speaker for item in items}
    sources = dict.fromkeys(source for item in items for source in item.sources)
    older = dict.fromkeys(each for item in items for each in item.older)
    ids = [item.id for item in items]
    return MemoryItem(
        id=id,
        memory=text,
        hash=text_hash(text),
        scope=items[0].scope,
        created_at=min(item.created_at for item in items),
        updated_at=moment,
        told_at=moment,
        speaker=speakers.pop() if len(speakers) == 1 else None,
        type=items[0].type,
        metadata=metadata,
        sources=tuple(sources),
        source=CONSOLIDATION,
        importance=max(item.importance for item in items),
        access_count=sum(item.access_count for item in items),
        last_accessed_at=max((item.last_accessed_at for item in items if item.last_accessed_at), default=None),
        valid_from=min((item.valid_from or item.told_at) for item in items),
        valid_to=_latest([item.valid_to for item in items]),
        expires_at=_latest([item.expires_at for item in items]),
        lineage_id=id if kernel.config.updates == "supersede" else None,
        slots=read_slots(text),
        confidence=min(known) if known else None,
        older=tuple(each for each in older if each not in ids),
        derived_from=tuple(ids),
        origin=origins[0] if origins else None,
        quarantined=suspect.quarantined if suspect else None,
    )


def _latest(moments: Sequence[str | None]) -> str | None:
    """Return the last of the times; None, which means never, if one of them is None."""
    return max(moment for moment in moments if moment is not None) if all(moments) else None
