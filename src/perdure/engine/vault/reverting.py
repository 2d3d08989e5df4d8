"""Taking back what a version changed: inverse events of memories, so that history, undo and `as_of` know of it."""

from __future__ import annotations

from perdure.backends.vault.versions.base import BOOKKEEPING, Step
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.errors import ConflictError
from perdure.domain.filter import all_of, eq
from perdure.domain.memory import LIVE, VERSION, MemoryItem
from perdure.engine.batch import Batch
from perdure.engine.kernel import Kernel

ACTOR = "revert"


class Reverting:
    """Puts the inverse of a version's step into a batch; to be used under the lock of all writers."""

    def __init__(self, kernel: Kernel, batch: Batch, name: str) -> None:
        self._kernel = kernel
        self._batch = batch
        self._name = name

    async def __call__(self, step: Step) -> list[str]:
        """Warnings of what cannot be taken back; ConflictError where something stands otherwise than it left it."""
        reason = f"takes back version {self._name}"
        for pair in (*step.replaced, *step.marked):
            await self._replace(pair.before, pair.after, reason)
        for item in step.learned:
            point = await self._standing(item)
            if point is not None:
                self._batch.remove(_item(point), point.vector, actor=ACTOR, reason=reason)
            elif await self._went_on(item):
                raise self._conflict(item)
        for item in step.dropped:
            await self._revive(item, reason)
        gone = len(step.erased)
        return [f"{gone} erased {'memory stays' if gone == 1 else 'memories stay'} gone"] if gone else []

    async def _replace(self, before: MemoryItem, after: MemoryItem, reason: str) -> None:
        point = await self._standing(after)
        if point is None:
            raise self._conflict(after)
        now = _item(point)
        if before.id != after.id and await self._point(before.id) is not None:
            raise self._conflict(before)
        if now == before.with_(**{name: getattr(now, name) for name in BOOKKEEPING}):
            return
        vector = await self._kernel.embedding.query(before.memory)
        self._batch.replace(now, before, point.vector, vector, actor=ACTOR, reason=reason)

    async def _revive(self, item: MemoryItem, reason: str) -> None:
        if await self._point(item.id) is not None:
            if await self._standing(item) is None:
                raise self._conflict(item)
            return
        vector: Vector | None = await self._kernel.embedding.query(item.memory)
        moment = self._kernel.ticker.tick()
        revived = item.with_(updated_at=moment, told_at=moment, version=item.version + 1)
        self._batch.add(revived, vector, actor=ACTOR, reason=reason)

    # ------------------------------------------------------------------ how it stands
    async def _point(self, id: str) -> Point | None:
        point = await self._kernel.store.get(self._kernel.collection, id)
        return point if point is not None and point.payload.get("state") == LIVE else None

    async def _standing(self, item: MemoryItem) -> Point | None:
        """The row of a memory, None where it is gone; ConflictError where it says something else."""
        point = await self._point(item.id)
        if point is not None and point.payload.get("memory") != item.memory:
            raise self._conflict(item)
        return point

    async def _went_on(self, item: MemoryItem) -> bool:
        """Whether another memory took its place."""
        of_it = all_of(eq("version_of", item.id), eq("state", VERSION))
        page = await self._kernel.store.list(self._kernel.collection, of_it)
        return any(point.payload.get("replaced_by") for point in page.points)

    def _conflict(self, item: MemoryItem) -> ConflictError:
        return ConflictError(
            f"version {self._name} cannot be taken back: memory {item.id} was changed after it; take that back first"
        )


def _item(point: Point) -> MemoryItem:
    return MemoryItem.from_payload(point.payload)
