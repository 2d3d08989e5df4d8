"""Trusting: a person's own verdict on a memory, over the firewall's; each is a change that `undo` takes back."""

from __future__ import annotations

from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import NotFoundError
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.lifecycle import guarded
from perdure.engine.core.access import UNRESTRICTED, is_inside
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel


class QuarantineReview:
    """Takes memories out of quarantine, and puts them there."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def trust(self, id: str, walls: Scope = UNRESTRICTED) -> MemoryItem:
        """Let a memory enter prompts from now on; where it came from stays known."""
        return await self._mark(id, None, walls, actor="trust")

    @guarded
    async def distrust(self, id: str, reason: str, walls: Scope = UNRESTRICTED) -> MemoryItem:
        """Keep a memory out of prompts from now on; it is still found, listed and shown with the reason."""
        return await self._mark(id, reason, walls, actor="distrust")

    async def _mark(self, id: str, reason: str | None, walls: Scope, *, actor: str) -> MemoryItem:
        kernel = self._kernel
        scope = MemoryItem.from_payload((await self._standing(id, walls)).payload).scope
        async with kernel.lock(scope):
            row = await self._standing(id, walls)
            before = MemoryItem.from_payload(row.payload)
            if before.quarantined == reason:
                return before
            batch = Batch(kernel.clock)
            after = before.with_(quarantined=reason)
            batch.replace(before, after, row.vector, row.vector, actor=actor, reason=reason or "trusted")
            await kernel.commit(batch.changes, batch.vectors)
        return batch.changes[0].item

    async def _standing(self, id: str, walls: Scope) -> Point:
        kernel = self._kernel
        row = await kernel.store.get(kernel.collection, id)
        if (
            row is None
            or row.payload.get("state") != LIVE
            or not is_inside(walls, MemoryItem.from_payload(row.payload))
        ):
            raise NotFoundError(f"there is no memory with the id {id!r}")
        return row
