"""A batch: the changes that one call makes to memories that it names, and the vectors of the rows that they leave."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.backends.vector_stores.base import Vector
from perdure.domain.clock import MonotonicClock
from perdure.domain.event import Change
from perdure.domain.memory import MemoryItem, new_id
from perdure.engine.core.rows import version_of


@dataclass(slots=True)
class Batch:
    """Changes in the order in which they are made."""

    clock: MonotonicClock
    changes: list[Change] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)

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
        """Write a memory that does not stand, dated as it says: a new one, or one that was deleted.

        With one that was deleted the messages come back that went with it (`hides`).
        """
        self.vectors[item.id] = vector
        self.changes.append(
            Change(
                id=new_id(), event="ADD", memory_id=item.id, at=item.updated_at, told_at=item.told_at, after=item,
                actor=actor, reason=reason, undoes=undoes, hides=hides,
            )
        )  # fmt: skip

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
        """Put a memory in the place of another, of the same id or not; the old one stays as a version."""
        moment = self.clock.tick()
        keep = version_of(before, untold_at=moment, replaced_by=after.id if after.id != before.id else None)
        after = after.with_(updated_at=moment, told_at=moment, version=before.version + 1)
        self.vectors[after.id] = vector
        self.vectors[keep.id] = old_vector
        self.changes.append(
            Change(
                id=new_id(), event="UPDATE", memory_id=after.id, at=moment, told_at=moment, before=before,
                after=after, keep=keep, actor=actor, reason=reason, undoes=undoes,
            )
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
        """Take a memory away, whose text stays as a version; it says which other memory took its place, if one did."""
        moment = self.clock.tick()
        keep = version_of(before, untold_at=moment, replaced_by=replaced_by)
        self.vectors[keep.id] = vector
        self.changes.append(
            Change(
                id=new_id(), event="DELETE", memory_id=before.id, at=moment, told_at=moment, before=before,
                keep=keep, actor=actor, reason=reason, undoes=undoes, hides=hides,
            )
        )  # fmt: skip
