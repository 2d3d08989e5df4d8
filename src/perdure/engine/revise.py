"""Explicit changes: update, delete, undo and rollback; each is told now, by whoever calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.clock import iso
from perdure.domain.errors import ConflictError, NotFoundError
from perdure.domain.event import AddResult, Change, MemoryEvent
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.kernel import Kernel
from perdure.engine.rows import version_of
from perdure.engine.visibility import visible
from perdure.pipeline.slots import read_slots

PAGE = 500
"""Memories taken at a time where a whole scope is walked."""


@dataclass(slots=True)
class _Batch:
    changes: list[Change] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)


class Revise:
    """Changes that the caller names."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def update(self, id: str, text: str, metadata: dict[str, Any]) -> MemoryItem:
        """Overwrite a memory's text, keeping its id; the old text stays as a version."""
        kernel = self._kernel
        await kernel.ready()
        scope = (await self._standing(id))[0].scope
        vector = await kernel.vector(text)
        async with kernel.lock(scope):
            before, old_vector = await self._standing(id)
            batch = _Batch()
            after = before.with_(
                memory=text,
                hash=text_hash(text),
                metadata={**before.metadata, **metadata},
                slots=read_slots(text),
                confidence=1.0,
            )
            self._replace(batch, before, after, old_vector, vector, actor="update", reason="explicit")
            await kernel.commit(batch.changes, batch.vectors)
        return batch.changes[0].item

    async def delete(self, id: str) -> None:
        """Remove a memory from every read of the present; its text stays as a version until it is erased."""
        kernel = self._kernel
        await kernel.ready()
        scope = (await self._standing(id))[0].scope
        async with kernel.lock(scope):
            before, vector = await self._standing(id)
            batch = _Batch()
            self._remove(batch, before, vector, actor="delete", reason="explicit")
            await kernel.commit(batch.changes, batch.vectors)

    async def delete_all(self, scope: Scope) -> int:
        """Remove every memory of the scope, whatever its kind or validity; answers how many."""
        kernel = self._kernel
        await kernel.ready()
        count = 0
        async with kernel.lock(scope):
            everything = visible(scope, now=kernel.ticker.now(), kinds=("facts", "messages"), include_past=True)
            while True:
                page = await kernel.store.list(kernel.collection, everything, PAGE, with_vectors=True)
                if not page.points:
                    return count
                batch = _Batch()
                for point in page.points:
                    item = MemoryItem.from_payload(point.payload)
                    self._remove(batch, item, point.vector, actor="delete_all", reason="explicit")
                await kernel.commit(batch.changes, batch.vectors)
                count += len(page.points)

    async def undo(self, event_id: str) -> AddResult:
        """Take back one event by its inverse; ConflictError where a later event built on it."""
        kernel = self._kernel
        await kernel.ready()
        change, sequence = await kernel.event(event_id)
        async with kernel.lock(change.item.scope):
            later = await kernel.later_events(change, sequence)
            if later:
                raise ConflictError(
                    f"event {event_id} cannot be undone: event {later[0]} changed the same memory after it;"
                    f" undo that one first"
                )
            batch = _Batch()
            standing = await self._point(change.item.id)
            await self._restore(batch, standing, change.before, change.memory_id, actor="undo", undoes=change)
            await kernel.commit(batch.changes, batch.vectors)
        return self._result(batch)

    async def rollback(self, scope: Scope, to: datetime) -> AddResult:
        """Bring the scope's memories back to how they stood at a moment of the clock, by inverse events."""
        kernel = self._kernel
        await kernel.ready()
        async with kernel.lock(scope):
            first: dict[str, Change] = {}
            lines: dict[str, str] = {}
            for change in await kernel.events_since(scope, iso(to)):  # newest first, so the earliest is kept
                line = change.item.lineage_id or change.memory_id
                first[line] = change
                lines.setdefault(line, change.item.id)
            batch = _Batch()
            for line, change in first.items():
                standing = await self._point(lines[line])
                await self._restore(batch, standing, change.before, change.memory_id, actor="rollback", undoes=None)
            await kernel.commit(batch.changes, batch.vectors)
        return self._result(batch)

    # ------------------------------------------------------------------ one memory
    async def _restore(
        self,
        batch: _Batch,
        standing: Point | None,
        target: MemoryItem | None,
        memory_id: str,
        *,
        actor: str,
        undoes: Change | None,
    ) -> None:
        """Make the memory stand as `target` says (None: not at all), from how it stands now."""
        now = None if standing is None else MemoryItem.from_payload(standing.payload)
        reason = f"takes back {undoes.id}" if undoes else "rollback"
        undone = undoes.id if undoes else None
        if now is None and target is None:
            return
        if target is None:
            assert now is not None and standing is not None
            self._remove(batch, now, standing.vector, actor=actor, reason=reason, undoes=undone)
        elif now is None:
            vector = await self._kernel.vector(target.memory)
            hides = undoes.hides if undoes else target.sources
            self._revive(batch, target, vector, actor=actor, reason=reason, undoes=undone, hides=hides)
        elif now.with_(updated_at="", told_at="", version=0) != target.with_(updated_at="", told_at="", version=0):
            vector = await self._kernel.vector(target.memory)
            old = None if standing is None else standing.vector
            self._replace(batch, now, target, old, vector, actor=actor, reason=reason, undoes=undone)

    def _replace(
        self,
        batch: _Batch,
        before: MemoryItem,
        after: MemoryItem,
        old_vector: Vector | None,
        vector: Vector | None,
        *,
        actor: str,
        reason: str,
        undoes: str | None = None,
    ) -> None:
        moment = self._kernel.ticker.tick()
        keep = version_of(before, untold_at=moment, replaced_by=after.id if after.id != before.id else None)
        after = after.with_(updated_at=moment, told_at=moment, version=before.version + 1)
        batch.vectors[after.id] = vector
        batch.vectors[keep.id] = old_vector
        batch.changes.append(
            Change(
                id=new_id(), event="UPDATE", memory_id=after.id, at=moment, told_at=moment, before=before,
                after=after, keep=keep, actor=actor, reason=reason, undoes=undoes,
            )
        )  # fmt: skip

    def _remove(
        self,
        batch: _Batch,
        before: MemoryItem,
        vector: Vector | None,
        *,
        actor: str,
        reason: str,
        undoes: str | None = None,
    ) -> None:
        moment = self._kernel.ticker.tick()
        keep = version_of(before, untold_at=moment)
        batch.vectors[keep.id] = vector
        batch.changes.append(
            Change(
                id=new_id(), event="DELETE", memory_id=before.id, at=moment, told_at=moment, before=before,
                keep=keep, actor=actor, reason=reason, undoes=undoes,
            )
        )  # fmt: skip

    def _revive(
        self,
        batch: _Batch,
        target: MemoryItem,
        vector: Vector | None,
        *,
        actor: str,
        reason: str,
        undoes: str | None,
        hides: tuple[str, ...],
    ) -> None:
        """Bring a deleted memory back, with the messages that went with it."""
        moment = self._kernel.ticker.tick()
        after = target.with_(updated_at=moment, told_at=moment, version=target.version + 1)
        batch.vectors[after.id] = vector
        batch.changes.append(
            Change(
                id=new_id(), event="ADD", memory_id=after.id, at=moment, told_at=moment, after=after,
                actor=actor, reason=reason, undoes=undoes, hides=hides,
            )
        )  # fmt: skip

    # ------------------------------------------------------------------ reading
    async def _standing(self, id: str) -> tuple[MemoryItem, Vector | None]:
        point = await self._point(id)
        if point is None:
            raise NotFoundError(f"there is no memory with the id {id!r}")
        return MemoryItem.from_payload(point.payload), point.vector

    async def _point(self, id: str) -> Point | None:
        point = await self._kernel.store.get(self._kernel.collection, id)
        return None if point is None or point.payload.get("state") != "live" else point

    def _result(self, batch: _Batch) -> AddResult:
        events: Sequence[MemoryEvent] = [MemoryEvent.of(change) for change in batch.changes]
        return AddResult(list(events), bare=self._kernel.bare)
