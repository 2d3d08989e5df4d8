"""Writing an agent's memories (spec 003): each is stated by its caller, so nothing is extracted and nothing reconciled.

Every write is a change like any other, with history, which `undo` takes back; its actor is `runtime`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.errors import ConflictError, EmbeddingError
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.batch import Batch
from perdure.engine.calls import call
from perdure.engine.cascade import accounts_of, fragments_of
from perdure.engine.finish import finish
from perdure.engine.kernel import Kernel
from perdure.engine.runtime.drafts import Draft, carries, document_of, says
from perdure.engine.runtime.likeness import is_near, repeated
from perdure.engine.runtime.reading import Asked
from perdure.engine.walls import reaches

ACTOR, REASON = "runtime", "explicit"
AT_A_TIME = 100
"""Memories that are deleted in one batch (C9)."""

Pending = Callable[[str, str], None]
"""Told the id and the text of a memory whose embedding failed: it stands without a vector, for now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What is new of a memory; None leaves it."""

    text: str | None = None
    content: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    vector: Vector | None = None
    unique: bool | None = None

    def of(self, before: MemoryItem) -> MemoryItem:
        """The memory with it: content and metadata each replace the whole."""
        fields: dict[str, Any] = {}
        if self.text is not None and self.text != before.memory:
            fields |= says(self.text, before.kind)
        if self.content is not None:
            fields["content"] = self.content
        if self.metadata is not None:
            fields |= carries(self.metadata)
            if document_of(self.metadata) is None and document_of(before.metadata) is None:
                fields["derived_from"] = before.derived_from  # what an insight was made of is not its metadata's to say
        if self.unique is not None:
            fields["unique"] = self.unique
        return before.with_(**fields)


class Memories:
    """Creates, updates and deletes; `pending` hears of what could not be embedded.

    Ids of agents, entities, rooms and worlds are scope values, kept as they are given and never made into UUIDs: the
    entity `ana` of a runtime is the user `ana` of every other way in (U7).
    """

    def __init__(self, kernel: Kernel, pending: Pending) -> None:
        self._kernel = kernel
        self._pending = pending

    # ------------------------------------------------------------------ create
    @call
    async def create(self, draft: Draft, walls: Scope) -> str:
        """Keep a memory and answer with its id: that of the one it repeats, where it was to be unique and is not.

        An id that stands already inside of the walls changes nothing (C3); ConflictError for one that stands elsewhere.
        """
        kernel = self._kernel
        if draft.id is not None and await self._stands(draft.id, walls):
            return draft.id
        [vector] = await self._vectors([draft])
        # An id of the caller's own could stand anywhere, so that no other writer may be at work.
        async with kernel.lock(draft.scope if draft.id is None else Scope()):
            if draft.id is not None and await self._stands(draft.id, walls):
                return draft.id
            known = await repeated(kernel, draft, vector) if draft.unique else None
            if known is not None:
                return known
            unique = draft.unique
            if unique is None:
                unique = not await is_near(kernel, draft, vector)
            item = draft.item(kernel.ticker.tick(), unique=unique)
            await self._add([(item, vector)])
        return item.id

    @call
    async def create_all(self, drafts: Sequence[Draft]) -> list[str]:
        """Keep memories of one scope, all or none, with ids that are new; their ids in order."""
        kernel = self._kernel
        vectors = await self._vectors(drafts)
        async with kernel.lock(drafts[0].scope):
            items = [draft.item(kernel.ticker.tick(), unique=draft.unique is not False) for draft in drafts]
            await self._add(list(zip(items, vectors, strict=True)))
        return [item.id for item in items]

    async def _add(self, made: Sequence[tuple[MemoryItem, Vector | None]]) -> None:
        kernel = self._kernel
        batch = Batch(kernel.ticker)
        for item, vector in made:
            batch.add(item, vector, actor=ACTOR, reason=REASON)
        await kernel.commit(batch.changes, batch.vectors)
        for item, vector in made:
            self._note(item, vector)

    def _note(self, item: MemoryItem, vector: Vector | None) -> None:
        if vector is None and item.memory.strip() and self._kernel.embedding.available:
            self._pending(item.id, item.memory)

    async def _vectors(self, drafts: Sequence[Draft]) -> list[Vector | None]:
        """The given vectors, and those of the other texts; None where there is no text or its embedding failed."""
        vectors = [draft.vector for draft in drafts]
        places = [place for place, draft in enumerate(drafts) if draft.vector is None and draft.text.strip()]
        embedded = await self._kernel.embedding.texts([drafts[place].text for place in places])
        for place, vector in zip(places, embedded.vectors, strict=True):
            vectors[place] = vector
        return vectors

    async def _stands(self, id: str, walls: Scope) -> bool:
        kernel = self._kernel
        row = await kernel.store.get(kernel.collection, id)
        if row is None:
            return False
        item = MemoryItem.from_payload(row.payload)
        if item.state != LIVE or not reaches(walls, item.scope):
            raise ConflictError(f"there is something with the id {id!r} already: use another")
        return True

    # ------------------------------------------------------------------ update
    @call
    async def update(self, id: str, revision: Revision, walls: Scope) -> bool:
        """Change a memory, keeping its id, and embed its text anew where that is new; False where there is none."""
        kernel = self._kernel
        row = await self._row(id, walls)
        if row is None:
            return False
        vector = revision.vector
        text = revision.text
        is_new = text is not None and text != row.payload.get("memory")
        if vector is None and text is not None and is_new and text.strip():
            [vector] = (await kernel.embedding.texts([text])).vectors
        async with kernel.lock(MemoryItem.from_payload(row.payload).scope):
            row = await self._row(id, walls)
            if row is None:
                return False
            before = MemoryItem.from_payload(row.payload)
            after = revision.of(before)
            kept = row.vector if after.memory == before.memory and vector is None else vector
            if after == before and revision.vector is None:
                return True
            batch = Batch(kernel.ticker)
            batch.replace(before, after, row.vector, kept, actor=ACTOR, reason=REASON)
            await kernel.commit(batch.changes, batch.vectors)
        self._note(after, kept)
        return True

    @call
    async def embed(self, id: str, text: str, walls: Scope) -> Vector | None:
        """Give a memory that has none the vector of its text, and answer with it; None where it is gone or changed.

        A vector is made of the text, so that this is no change of the memory. EmbeddingError if it fails.
        """
        kernel = self._kernel
        row = await self._row(id, walls)
        if row is None:
            return None
        vector = await kernel.embedding.query(text)
        if vector is None:
            raise EmbeddingError(f"there is no embedder: {kernel.embedding.embedder.unavailable()}")
        async with kernel.lock(MemoryItem.from_payload(row.payload).scope):
            row = await self._row(id, walls)
            if row is None or row.payload.get("memory") != text:
                return None
            if row.vector is None:
                await kernel.store.update(kernel.collection, id, vector=vector)
        return vector

    # ------------------------------------------------------------------ delete
    @call
    async def delete(self, ids: Sequence[str], walls: Scope) -> int:
        """Remove memories, what was cut from them and what tells of a session in their words; how many went.

        Unknown ids are no error.
        """
        kernel = self._kernel
        count = 0
        for start in range(0, len(ids), AT_A_TIME):
            async with kernel.lock(walls):
                rows = await self._rows(ids[start : start + AT_A_TIME], walls)
                rows += await accounts_of(kernel, [MemoryItem.from_payload(row.payload) for row in rows], walls)
                count += await finish(self._remove(rows, walls))
        return count

    @call
    async def delete_all(self, asked: Asked, walls: Scope) -> int:
        """Remove every memory that is asked for, valid still or not, and what was cut from them; how many."""
        kernel = self._kernel
        count = 0
        async with kernel.lock(walls):
            while True:
                within = asked.filter(kernel.ticker.now(), include_past=True)
                page = await kernel.store.list(kernel.collection, within, AT_A_TIME, with_vectors=True)
                rows = [row for row in page.points if reaches(asked.scope, MemoryItem.from_payload(row.payload).scope)]
                if not rows:
                    return count
                count += await finish(self._remove(rows, walls))

    async def _remove(self, rows: Sequence[Point], walls: Scope) -> int:
        kernel = self._kernel
        whole = {row.id: row for row in rows}
        whole |= {row.id: row for row in await fragments_of(kernel, list(whole), walls)}
        batch = Batch(kernel.ticker)
        for row in whole.values():
            batch.remove(MemoryItem.from_payload(row.payload), row.vector, actor=ACTOR, reason=REASON)
        if whole:
            await kernel.commit(batch.changes, batch.vectors)
        return len(whole)

    async def _row(self, id: str, walls: Scope) -> Point | None:
        return next(iter(await self._rows([id], walls)), None)

    async def _rows(self, ids: Sequence[str], walls: Scope) -> list[Point]:
        kernel = self._kernel
        rows = await kernel.store.get_many(kernel.collection, list(dict.fromkeys(ids)))
        return [row for row in rows if _is_inside(MemoryItem.from_payload(row.payload), walls)]


def _is_inside(item: MemoryItem, walls: Scope) -> bool:
    return item.state == LIVE and reaches(walls, item.scope)
