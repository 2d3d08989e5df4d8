"""Explicit memories, set field by field without extraction or reconciliation, and reviews of quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perdure.backends.blocking import run_blocking
from perdure.domain.clock import Clock, MonotonicClock, system_clock
from perdure.domain.errors import ConflictError, NotFoundError
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import guarded
from perdure.engine.core.access import UNRESTRICTED
from perdure.engine.core.batch import Batch, edit, messages_of, new_memory
from perdure.engine.core.kernel import Kernel
from perdure.engine.write.provenance import INLINE_CHARACTERS
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import suspect


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An explicit memory, validated; in an update, None leaves a field unchanged.

    A caller's statement is trusted, whatever its earlier origin, unless it reads like an order to a model.
    """

    content: str | None = None
    type: str | None = None
    source: str | None = None
    importance: float | None = None

    def given(self) -> dict[str, Any]:
        """Return the fields of a memory item that it sets."""
        fields: dict[str, Any] = {
            name: value for name in ("type", "source", "importance") if (value := getattr(self, name)) is not None
        }
        if self.content is not None:
            fields |= {
                "memory": self.content,
                "hash": text_hash(self.content),
                "slots": read_slots(self.content),
                "confidence": 1.0,
                "origin": None,
                "quarantined": suspect(self.content, None),
            }
        return fields


class Explicit:
    """Stores and updates explicit memories; each change has history, and `undo` reverts it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def store(self, statement: Statement, scope: Scope, id: str | None = None) -> MemoryItem:
        """Store a new memory, under the caller's id if one is given; ConflictError if the id was ever used."""
        kernel = self._kernel
        fields = await _fields(statement)
        vector = await kernel.embedding.query(fields["memory"])
        del fields["hash"]
        # The caller's own id may exist in any scope, so all other writers are locked out.
        async with kernel.lock(scope if id is None else Scope()):
            if id is not None and await self._was_used(id):
                raise ConflictError(f"there is a memory with the id {id!r} already, or there was one: use another")
            item = new_memory(kernel, fields.pop("memory"), scope, id=id, **fields)
            batch = Batch(kernel.clock)
            batch.add(item, vector, actor="store", reason="explicit")
            await kernel.commit(batch.changes, batch.vectors)
        return item

    @guarded
    async def update(self, id: str, statement: Statement, walls: Scope = UNRESTRICTED) -> MemoryItem:
        """Set the given fields and keep the id; the earlier state stays as a version."""
        fields = await _fields(statement)
        return await edit(
            self._kernel,
            id,
            walls,
            lambda before: before.with_(**fields),
            actor="update",
            reason="explicit",
            text=statement.content,
        )

    async def _was_used(self, id: str) -> bool:
        kernel = self._kernel
        if await kernel.store.get(kernel.collection, id) is not None:
            return True
        return kernel.ledger is not None and bool(await kernel.ledger.history(id))


async def _fields(statement: Statement) -> dict[str, Any]:
    """Return the fields that a statement sets; a long text is checked in a thread."""
    if len(statement.content or "") <= INLINE_CHARACTERS:
        return statement.given()
    return await run_blocking(statement.given)


class QuarantineReview:
    """Releases memories from quarantine, and quarantines them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def trust(self, id: str, walls: Scope = UNRESTRICTED) -> MemoryItem:
        """Let a memory enter prompts from now on; its origin stays recorded."""
        return await self._mark(id, None, walls, actor="trust")

    @guarded
    async def distrust(self, id: str, reason: str, walls: Scope = UNRESTRICTED) -> MemoryItem:
        """Keep a memory out of prompts from now on; searches and lists still return it with the reason.

        The messages that tell it are kept out too; trusting it does not release them.
        """
        item = await self._mark(id, reason, walls, actor="distrust")
        row = await self._kernel.store.get(self._kernel.collection, id)
        for message in await messages_of(self._kernel, item, None if row is None else row.vector):
            with suppress(NotFoundError):  # not searched: deleted, or from before messages were
                if message != id:
                    await self._mark(message, reason, walls, actor="distrust")
        return item

    async def _mark(self, id: str, reason: str | None, walls: Scope, *, actor: str) -> MemoryItem:
        return await edit(
            self._kernel,
            id,
            walls,
            lambda before: before.with_(quarantined=reason),
            actor=actor,
            reason=reason or "trusted",
        )


def jotted(texts: Iterable[tuple[str, Scope]], *, clock: Clock = system_clock) -> list[MemoryItem]:
    """Return a memory for each text, in this order, with ascending times.

    Nothing is extracted or reconciled. A text that reads like an order to a model is quarantined.
    """
    moments = MonotonicClock(clock)
    items = []
    for text, scope in texts:
        moment, id = moments.tick(), new_id()
        items.append(
            MemoryItem(
                id=id,
                scope=scope,
                created_at=moment,
                updated_at=moment,
                told_at=moment,
                valid_from=moment,
                lineage_id=id,
                **Statement(content=text).given(),
            )
        )
    return items
