"""Memories that a caller states field by field (001 §7): nothing is extracted, and nothing is reconciled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.backends.blocking import run_blocking
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.errors import ConflictError, NotFoundError
from perdure.domain.memory import LIVE, MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.aio.lifecycle import guarded
from perdure.engine.core.access import UNRESTRICTED, is_inside
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel
from perdure.engine.write.provenance import INLINE_CHARACTERS
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import suspect


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One memory as its caller states it, checked; of an update, what is None stays as it was.

    A caller's word is trusted, whoever's it was before, unless it reads like an order to a model.
    """

    content: str | None = None
    type: str | None = None
    source: str | None = None
    importance: float | None = None

    def given(self) -> dict[str, Any]:
        """The fields of a memory item that it sets."""
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
    """Stores and updates memories as they are stated; each is a change with history, which `undo` takes back."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def store(self, statement: Statement, scope: Scope, id: str | None = None) -> MemoryItem:
        """Keep a new memory, under the caller's id if one is given; ConflictError for an id that was ever used."""
        kernel = self._kernel
        fields = await _fields(statement)
        vector = await kernel.embedding.query(fields["memory"])
        # An id of the caller's own could stand anywhere, so that no other writer may be at work.
        async with kernel.lock(scope if id is None else Scope()):
            if id is not None and await self._was_used(id):
                raise ConflictError(f"there is a memory with the id {id!r} already, or there was one: use another")
            moment = kernel.clock.tick()
            chosen = id or new_id()
            item = MemoryItem(
                id=chosen,
                scope=scope,
                created_at=moment,
                updated_at=moment,
                told_at=moment,
                valid_from=moment,
                lineage_id=chosen if kernel.config.updates == "supersede" else None,
                **fields,
            )
            batch = Batch(kernel.clock)
            batch.add(item, vector, actor="store", reason="explicit")
            await kernel.commit(batch.changes, batch.vectors)
        return item

    @guarded
    async def update(self, id: str, statement: Statement, walls: Scope = UNRESTRICTED) -> MemoryItem:
        """Set the fields that are given, keeping the id; the memory as it was stays as a version."""
        kernel = self._kernel
        scope = MemoryItem.from_payload((await self._standing(id, walls)).payload).scope
        fields = await _fields(statement)
        vector: Vector | None = None
        if statement.content is not None:
            vector = await kernel.embedding.query(statement.content)
        async with kernel.lock(scope):
            row = await self._standing(id, walls)
            before = MemoryItem.from_payload(row.payload)
            if all(getattr(before, name) == value for name, value in fields.items()):
                return before
            batch = Batch(kernel.clock)
            new_vector = row.vector if statement.content is None else vector
            batch.replace(before, before.with_(**fields), row.vector, new_vector, actor="update", reason="explicit")
            await kernel.commit(batch.changes, batch.vectors)
        return batch.changes[0].item

    async def _was_used(self, id: str) -> bool:
        kernel = self._kernel
        if await kernel.store.get(kernel.collection, id) is not None:
            return True
        return kernel.ledger is not None and bool(await kernel.ledger.history(id))

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


async def _fields(statement: Statement) -> dict[str, Any]:
    """What a statement sets; a long text is read beside the event loop, which others need meanwhile."""
    if len(statement.content or "") <= INLINE_CHARACTERS:
        return statement.given()
    return await run_blocking(statement.given)
