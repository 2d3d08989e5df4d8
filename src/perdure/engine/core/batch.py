"""The changes that one call makes to named memories, and the vectors of the resulting rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from perdure.backends.vector_stores.base import Point
from perdure.domain.event import Change
from perdure.domain.memory import NOTES, MemoryItem, new_id
from perdure.engine.core.lookup import live_row, retellings
from perdure.engine.core.rows import version_of

if TYPE_CHECKING:
    from perdure.backends.vector_stores.base import Vector
    from perdure.domain.clock import MonotonicClock
    from perdure.domain.scope import Scope
    from perdure.engine.core.kernel import Kernel


async def messages_of(kernel: Kernel, item: MemoryItem, vector: Vector | None) -> tuple[str, ...]:
    """Return the messages that go out of reach with a deleted memory, whose vector this is.

    Those are the ones that it was read from, those that tell it again, or it itself: they would be found as they were
    said. What else they told stays, as facts and notes.
    """
    if item.kind == "messages":
        return (item.id,)
    if kernel.config.episodes != "words" or item.kind not in ("facts", NOTES):
        return ()
    return tuple(dict.fromkeys((*item.sources, *await retellings(kernel, item, vector))))


async def hide_messages(kernel: Kernel, ids: Sequence[str]) -> None:
    """Hide messages from all reads; their search rows are deleted, and files leave a tombstone.

    Hold the lock of a scope that covers them.
    """
    assert kernel.ledger is not None, "they are kept there"
    await kernel.ledger.hide_episodes(ids)
    if not kernel.config.searches_messages:
        return
    from perdure.backends.markdown.base import FileStore

    kept: list[Point] = []
    if isinstance(kernel.store, FileStore):
        moment = kernel.clock.tick()
        for point in await kernel.store.get_many(kernel.collection, ids):
            keep = version_of(MemoryItem.from_payload(point.payload), untold_at=moment)
            kept.append(Point(keep.id, point.vector, keep.to_payload()))
    await kernel.store.apply(kernel.collection, kept, ids)
    if kernel.file_observer is not None:
        kernel.file_observer.note(())


@dataclass(slots=True)
class Batch:
    """Changes in order, each with an `actor` and a `reason`; `undoes` names the event that it reverts."""

    clock: MonotonicClock
    changes: list[Change] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)

    def _note(
        self, event: Literal["ADD", "UPDATE", "DELETE"], id: str, at: str, *, told_at: str | None = None, **fields: Any
    ) -> None:
        self.changes.append(
            Change(id=new_id(), event=event, memory_id=id, at=at, told_at=told_at or at, **fields),
        )

    def add(
        self,
        item: MemoryItem,
        vector: Vector | None,
        *,
        actor: str,
        reason: str,
        undoes: str | None = None,
        hides: tuple[str, ...] = (),
    ) -> None:
        """Write a new or deleted memory with its own dates; messages in `hides` are shown again."""
        self.vectors[item.id] = vector
        self._note(
            "ADD", item.id, item.updated_at, told_at=item.told_at,
            after=item, actor=actor, reason=reason, undoes=undoes, hides=hides,
        )  # fmt: skip

    def revive(self, item: MemoryItem, vector: Vector | None, **how: Any) -> None:
        """Write a deleted memory again, with the current time, as its next version; `how` is as for `add`."""
        moment = self.clock.tick()
        self.add(item.with_(updated_at=moment, told_at=moment, version=item.version + 1), vector, **how)

    def replace(
        self,
        before: MemoryItem,
        after: MemoryItem,
        old_vector: Vector | None,
        vector: Vector | None,
        *,
        actor: str,
        reason: str,
        undoes: str | None = None,
    ) -> None:
        """Replace a memory with another, of the same id or not; the old one stays as a version."""
        moment = self.clock.tick()
        keep = version_of(before, untold_at=moment, replaced_by=after.id if after.id != before.id else None)
        after = after.with_(updated_at=moment, told_at=moment, version=before.version + 1)
        self.vectors[after.id] = vector
        self.vectors[keep.id] = old_vector
        self._note(
            "UPDATE", after.id, moment,
            before=before, after=after, keep=keep, actor=actor, reason=reason, undoes=undoes,
        )  # fmt: skip

    def remove(
        self,
        before: MemoryItem,
        vector: Vector | None,
        *,
        actor: str,
        reason: str,
        undoes: str | None = None,
        hides: tuple[str, ...] = (),
        replaced_by: str | None = None,
    ) -> None:
        """Delete a memory and keep its text as a version, which names the replacement, if there is one."""
        moment = self.clock.tick()
        keep = version_of(before, untold_at=moment, replaced_by=replaced_by)
        self.vectors[keep.id] = vector
        self._note(
            "DELETE", before.id, moment,
            before=before, keep=keep, actor=actor, reason=reason, undoes=undoes, hides=hides,
        )  # fmt: skip


async def edit(
    kernel: Kernel,
    id: str,
    walls: Scope,
    change: Callable[[MemoryItem], MemoryItem],
    *,
    actor: str,
    reason: str,
    text: str | None = None,
    even_if_same: bool = False,
) -> MemoryItem:
    """Replace a memory with the result of `change`, under the lock of its scope; the old one stays as a version.

    `text` is the new text to embed, if there is one. Nothing is written if nothing changes, unless `even_if_same`.
    NotFoundError if the access scope contains no such memory.
    """
    scope = (await live_row(kernel, id, walls))[0].scope
    vector = None if text is None else await kernel.embedding.query(text)
    async with kernel.lock(scope):
        before, row = await live_row(kernel, id, walls)
        after = change(before)
        if after == before and not even_if_same:
            return before
        batch = Batch(kernel.clock)
        batch.replace(before, after, row.vector, row.vector if text is None else vector, actor=actor, reason=reason)
        await kernel.commit(batch.changes, batch.vectors)
    return batch.changes[0].item


def new_memory(kernel: Kernel, text: str, scope: Scope, *, id: str | None = None, **fields: Any) -> MemoryItem:
    """Build a memory with the current time, under the caller's id or a new one."""
    moment, id = kernel.clock.tick(), id or new_id()
    return MemoryItem.new(
        id, text, scope, moment, lineage_id=id if kernel.config.updates == "supersede" else None, **fields
    )
