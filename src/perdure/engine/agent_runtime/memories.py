"""Write an agent's memories as stated, without extraction; an ordinary change with history and `undo`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from perdure.backends.vector_stores.base import Hit, Point, Vector
from perdure.domain.clock import iso
from perdure.domain.errors import ConflictError, EmbeddingError
from perdure.domain.fact import Fact, Neighbour
from perdure.domain.filter import And, Condition, Filter, Moment, Not, all_of, eq
from perdure.domain.memory import LIVE, MemoryItem, text_hash
from perdure.domain.runtime import LAST, moment_of
from perdure.domain.scope import Scope
from perdure.engine.agent_runtime.drafts import Draft, carries, document_of, says
from perdure.engine.aio.calls import guarded, shielded
from perdure.engine.core.access import reaches, visible
from perdure.engine.core.batch import Batch, messages_of
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import fragments_of, summaries_of
from perdure.engine.read.access_counts import AccessCounts, recalled
from perdure.pipeline.curation.rules.reconciliation import says_nothing_new
from perdure.pipeline.curation.rules.reconciliation.alignment import alignment
from perdure.pipeline.maintenance.probes import folded
from perdure.pipeline.retrieval.rescoring import bm25
from perdure.pipeline.retrieval.words import word_score

# Duplicates: the memory that a new one would repeat, for `unique`.

SAME_AS_STORED = 0.95  # cosine from which two memories count as similar
NEAREST = 8  # memories that are compared
STATEMENT = 300
"""Characters up to which similar vectors are meaningful: models and rules read only the beginning of longer texts."""
_AXES = ("user_id", "agent_id", "run_id", "world_id")
_APART = ("swapped_numbers", "swapped_times", "names_both")
"""Signs that nearly equal sentences are different facts: "on Monday" and "on Tuesday" have a cosine of .985."""


async def is_near(kernel: Kernel, draft: Draft, vector: Vector | None) -> bool:
    """Whether a memory of the same table, room, world and entity has nearly this vector, whatever its text."""
    if vector is None:
        return False
    hits = await kernel.store.search(kernel.collection, vector, 1, _beside(kernel, draft))
    return bool(hits) and hits[0].score >= SAME_AS_STORED


async def repeated(kernel: Kernel, draft: Draft, vector: Vector | None) -> str | None:
    """Return the id of the memory that this one would repeat, or None.

    Either its text is the same but for case, width and white space; or it is short, its vector is nearly the same, no
    number, date or name differs, and the rules find nothing new in it. "User is not allergic to peanuts" is near its
    opposite (.979), and is stored. Memories without text repeat each other if their content is the same.
    """
    within, text = _beside(kernel, draft), folded(draft.text)
    rows = (await kernel.store.list(kernel.collection, all_of(within, eq("hash", text_hash(draft.text))))).points
    if not text:
        return next((row.id for row in rows if row.payload.get("content", {}) == draft.content), None)
    if rows:
        return rows[0].id
    if vector is None:
        rows = (await kernel.store.list(kernel.collection, within)).points
        return next((row.id for row in rows if folded(_text(row.payload)) == text), None)
    for hit in await kernel.store.search(kernel.collection, vector, NEAREST, within):
        found = _text(hit.payload)
        if folded(found) == text or (hit.score >= SAME_AS_STORED and _is_repeat(draft.text, hit)):
            return hit.id
    return None


def _beside(kernel: Kernel, draft: Draft) -> And:
    """Return the filter for rows of the same table, agent, room, world and entity; also for fields it lacks."""
    given = draft.scope.given()
    lacking = [Not(Condition(name, "gte", "")) for name in _AXES if name not in given]
    return visible(draft.scope, now=kernel.clock.now(), kinds=(draft.table,), filters=all_of(*lacking))


def _is_repeat(text: str, hit: Hit) -> bool:
    known = _text(hit.payload)
    if max(len(text), len(known)) > STATEMENT:
        return False
    found = alignment(text, known)
    if any(found[name] for name in _APART):
        return False
    memory = Neighbour(item=MemoryItem.from_payload(hit.payload), similarity=hit.score)
    return says_nothing_new(Fact(text=text), memory)


def _text(payload: Mapping[str, Any]) -> str:
    return str(payload.get("memory", ""))


# Reads: newest first by room, time and flag; by id; and by meaning.

FEW = 1_000  # rows up to which a table is read whole to find its newest
BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=30))
"""Periods before now that are searched in turn if there are more: the newest rows of a long chat are of today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """A query for memories."""

    scope: Scope
    table: str | None  # none means any table
    rooms: tuple[str, ...] | None = None  # only these rooms; the scope then names none
    unique: bool = False  # only memories whose flag is not false
    start: int | None = None
    end: int | None = None  # milliseconds, both included
    document_id: str | None = None  # only fragments of this document

    def filter(self, now: datetime, *, include_past: bool = False) -> And:
        """Return the filter of its rows, with invalid ones only if the past is included."""
        parts: list[Filter | None] = []
        if self.rooms is not None:
            parts.append(Condition("run_id", "in", self.rooms))
        if self.unique:
            parts.append(Not(eq("unique", False)))
        if self.start is not None:
            parts.append(Condition("created_at", "gte", Moment(moment_of(self.start))))
        if self.end is not None and self.end < LAST:
            parts.append(Condition("created_at", "lt", Moment(moment_of(self.end + 1))))
        if self.document_id is not None:
            parts.append(eq("derived_from", self.document_id))
        kinds = () if self.table is None else (self.table,)
        return visible(self.scope, now=now, kinds=kinds, include_past=include_past, filters=all_of(*parts))


@dataclass(frozen=True, slots=True)
class MemoryMatches:
    """A memory and its vector, if requested and present."""

    item: MemoryItem
    vector: Vector | None = None


class MemoryReader:
    """Reads current memories; each method stays inside its scope."""

    def __init__(self, kernel: Kernel, accesses: AccessCounts) -> None:
        self._kernel = kernel
        self._accesses = accesses

    @guarded
    async def newest(
        self, asked: MemoryQuery, *, count: int | None, offset: int = 0, with_vectors: bool = False
    ) -> list[MemoryMatches]:
        """Return at most `count` memories after the first `offset`, newest first by (created_at, id)."""
        kernel = self._kernel
        wanted = None if count is None else offset + count
        within = asked.filter(kernel.clock.now())
        rows = await self._newest(within, wanted)
        chosen = [row for row in rows[offset:wanted] if _is_seen(asked.scope, row)]
        if with_vectors and chosen:
            whole = await kernel.store.get_many(kernel.collection, [row.id for row in chosen])
            return [MemoryMatches(MemoryItem.from_payload(row.payload), row.vector) for row in whole]
        return [MemoryMatches(MemoryItem.from_payload(row.payload)) for row in chosen]

    async def _newest(self, within: And, wanted: int | None) -> list[Point]:
        """Return rows newest first, at least as many as wanted if there are."""
        kernel = self._kernel
        page = await kernel.store.list(kernel.collection, within, None if wanted is None else max(FEW, wanted))
        if page.next_cursor is not None and wanted is not None:
            for span in BACK:
                since = Condition("created_at", "gte", Moment(iso(kernel.clock.now() - span)))
                page = await kernel.store.list(kernel.collection, all_of(within, since))
                if len(page.points) >= wanted:
                    break
            else:
                page = await kernel.store.list(kernel.collection, within)
        return page.points[::-1]

    @guarded
    async def by_ids(self, ids: Sequence[str], scope: Scope, table: str | None = None) -> list[MemoryMatches]:
        """Return the memories of these ids in the scope, newest first; others are skipped."""
        kernel = self._kernel
        rows = await kernel.store.get_many(kernel.collection, list(dict.fromkeys(ids)))
        found = [
            MemoryMatches(MemoryItem.from_payload(row.payload), row.vector) for row in rows if _is_seen(scope, row)
        ]
        if table is not None:
            found = [each for each in found if each.item.kind == table]
        return sorted(found, key=lambda each: (each.item.created_at, each.item.id), reverse=True)

    @guarded
    async def count(self, asked: MemoryQuery) -> int:
        """Return how many memories match."""
        kernel = self._kernel
        return await kernel.store.count(kernel.collection, asked.filter(kernel.clock.now()))

    @guarded
    async def search(
        self, asked: MemoryQuery, *, query: str | None, vector: Vector | None, floor: float | None, count: int
    ) -> list[MemoryMatches]:
        """Return at most `count` memories similar to the query, or to its vector.

        `score` is the cosine as a score in [0, 1], at least `floor`. The best come first; if the query's words are
        given, they count as much as the meaning in that order, and exclude no memory.
        """
        kernel = self._kernel
        if vector is None and query is not None:
            vector = await kernel.embedding.query(query)
        within = asked.filter(kernel.clock.now())
        if vector is not None:
            score = kernel.embedding.embedder.score
            hits = await kernel.store.search(kernel.collection, vector, count, within)
            items = [MemoryItem.from_payload(hit.payload, score=score(hit.score), similarity=hit.score) for hit in hits]
        else:
            hits = await kernel.store.keyword_search(kernel.collection, query or "", count, within) or []
            items = [
                MemoryItem.from_payload(hit.payload, score=word_score(query or "", hit.payload.get("memory", "")))
                for hit in hits
            ]
        items = [item for item in items if reaches(asked.scope, item.scope) and (item.score or 0.0) >= (floor or 0.0)]
        self._accesses.note(recalled(items, floor))
        if query is not None:
            order = by_words(query, [item.memory for item in items], [item.score or 0.0 for item in items])
            items = [items[place] for place in order]
        whole = {row.id: row for row in await kernel.store.get_many(kernel.collection, [item.id for item in items])}
        return [MemoryMatches(item, whole[item.id].vector if item.id in whole else None) for item in items]


def by_words(query: str, texts: Sequence[str], scores: Sequence[float]) -> list[int]:
    """Return the indexes of all texts, best first by score and BM25, the latter as a share of the best."""
    words = bm25(query, texts)
    best = max(words, default=0.0) or 1.0
    worth = [score + word / best for score, word in zip(scores, words, strict=True)]
    return sorted(range(len(texts)), key=lambda place: (-worth[place], place))


def _is_seen(scope: Scope, row: Point) -> bool:
    item = MemoryItem.from_payload(row.payload)
    return item.state == LIVE and reaches(scope, item.scope)


ACTOR, REASON = "runtime", "explicit"
AT_A_TIME = 100  # memories deleted in one batch
SAME = 0.999  # cosine from which two vectors count as the same text's: a service's vectors vary a little between calls
Pending = Callable[[str, str], None]
"""Called with the id and the text of a memory whose embedding failed: it is stored without a vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The changes of a memory; None leaves a field unchanged."""

    text: str | None = None
    content: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    vector: Vector | None = None
    unique: bool | None = None

    def of(self, before: MemoryItem) -> MemoryItem:
        """Return the changed memory: content and metadata each replace the whole."""
        fields: dict[str, Any] = {}
        if self.text is not None and self.text != before.memory:
            fields |= says(self.text, before.kind)
        if self.content is not None:
            fields["content"] = self.content
        if self.metadata is not None:
            fields |= carries(self.metadata)
            if document_of(self.metadata) is None and document_of(before.metadata) is None:
                fields["derived_from"] = before.derived_from  # metadata must not change the sources of an insight
        if self.unique is not None:
            fields["unique"] = self.unique
        return before.with_(**fields)


class Memories:
    """Creates, updates and deletes; `pending` is called for failed embeddings.

    Ids of agents, entities, rooms and worlds are scope values, stored as they are and never mapped to UUIDs: the entity
    `ana` of a runtime is the user `ana` of every other interface.
    """

    def __init__(self, kernel: Kernel, pending: Pending) -> None:
        self._kernel = kernel
        self._pending = pending

    @guarded
    async def create(self, draft: Draft, walls: Scope) -> str:
        """Store a memory and return its id; the existing one's if it must be unique, and is not.

        An id that exists in the scope changes nothing; ConflictError if it exists elsewhere.
        """
        kernel = self._kernel
        if draft.id is not None and await self._stands(draft.id, walls):
            return draft.id
        [vector] = await self._vectors([draft])
        # The caller's own id may exist in any scope, so all other writers are locked out.
        async with kernel.lock(draft.scope if draft.id is None else Scope()):
            if draft.id is not None and await self._stands(draft.id, walls):
                return draft.id
            known = await repeated(kernel, draft, vector) if draft.unique else None
            if known is not None:
                return known
            unique = draft.unique
            if unique is None:
                unique = not await is_near(kernel, draft, vector)
            item = draft.item(kernel.clock.tick(), unique=unique)
            await self._add([(item, vector)])
        return item.id

    @guarded
    async def create_all(self, drafts: Sequence[Draft]) -> list[str]:
        """Store memories of one scope, all or none, with new ids; return these in order."""
        kernel = self._kernel
        vectors = await self._vectors(drafts)
        async with kernel.lock(drafts[0].scope):
            items = [draft.item(kernel.clock.tick(), unique=draft.unique is not False) for draft in drafts]
            await self._add(list(zip(items, vectors, strict=True)))
        return [item.id for item in items]

    async def _add(self, made: Sequence[tuple[MemoryItem, Vector | None]]) -> None:
        kernel = self._kernel
        batch = Batch(kernel.clock)
        for item, vector in made:
            batch.add(item, vector, actor=ACTOR, reason=REASON)
        await kernel.commit(batch.changes, batch.vectors)
        for item, vector in made:
            self._note(item, vector)

    def _note(self, item: MemoryItem, vector: Vector | None) -> None:
        if vector is None and item.memory.strip() and self._kernel.embedding.available:
            self._pending(item.id, item.memory)

    async def _vectors(self, drafts: Sequence[Draft]) -> list[Vector | None]:
        """Return the given vectors, and those of the other texts; None without a text or if embedding failed."""
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

    @guarded
    async def update(self, id: str, revision: Revision, walls: Scope) -> bool:
        """Change a memory, keeping its id; False if there is none.

        A new text is embedded again, unless the stored vector is the caller's own, which stays until another is given.
        It counts as the caller's if the embedder would not have produced it from the old text.
        """
        kernel = self._kernel
        row = await self._row(id, walls)
        if row is None:
            return False
        vector = revision.vector
        text = revision.text
        is_new = text is not None and text != row.payload.get("memory")
        stays = not is_new
        if vector is None and text is not None and is_new:
            vector, stays = await self._anew(row, text)
        async with kernel.lock(MemoryItem.from_payload(row.payload).scope):
            row = await self._row(id, walls)
            if row is None:
                return False
            before = MemoryItem.from_payload(row.payload)
            after = revision.of(before)
            stays = stays or after.memory == before.memory
            kept = row.vector if stays and vector is None else vector
            if after == before and revision.vector is None:
                return True
            batch = Batch(kernel.clock)
            batch.replace(before, after, row.vector, kept, actor=ACTOR, reason=REASON)
            await kernel.commit(batch.changes, batch.vectors)
        self._note(after, kept)
        return True

    async def _anew(self, row: Point, text: str) -> tuple[Vector | None, bool]:
        """Return the vector of a row's new text, or that the row's own stays because a caller gave it."""
        embedding, before = self._kernel.embedding, str(row.payload.get("memory", ""))
        if row.vector is not None and not (embedding.available and before.strip()):
            return None, True  # no embedder here could have produced it
        wanted = [each for each in (text, before if row.vector is not None else "") if each.strip()]
        made = dict(zip(wanted, (await embedding.texts(wanted)).vectors, strict=True))
        of_before = made.get(before)
        if row.vector is not None and of_before is not None and not _is_alike(row.vector, of_before):
            return None, True
        return made.get(text), False

    @guarded
    async def embed(self, id: str, text: str, walls: Scope) -> Vector | None:
        """Embed a memory without a vector (no change in history); None if it is gone or changed. EmbeddingError."""
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

    @guarded
    async def delete(self, ids: Sequence[str], walls: Scope) -> int:
        """Delete memories, their fragments and summaries of their sessions; return how many. No error if unknown."""
        kernel = self._kernel
        count = 0
        for start in range(0, len(ids), AT_A_TIME):
            async with kernel.lock(walls):
                rows = await self._rows(ids[start : start + AT_A_TIME], walls)
                rows += await summaries_of(kernel, [MemoryItem.from_payload(row.payload) for row in rows], walls)
                count += await shielded(self._remove(rows, walls))
        return count

    @guarded
    async def delete_all(self, asked: MemoryQuery, walls: Scope) -> int:
        """Delete every matching memory, valid or not, and their fragments; return how many."""
        kernel = self._kernel
        count = 0
        async with kernel.lock(walls):
            while True:
                within = asked.filter(kernel.clock.now(), include_past=True)
                page = await kernel.store.list(kernel.collection, within, AT_A_TIME, with_vectors=True)
                rows = [row for row in page.points if reaches(asked.scope, MemoryItem.from_payload(row.payload).scope)]
                if not rows:
                    return count
                count += await shielded(self._remove(rows, walls))

    async def _remove(self, rows: Sequence[Point], walls: Scope) -> int:
        kernel = self._kernel
        whole = {row.id: row for row in rows}
        whole |= {row.id: row for row in await fragments_of(kernel, list(whole), walls)}
        batch = Batch(kernel.clock)
        for row in whole.values():
            item = MemoryItem.from_payload(row.payload)
            hides = await messages_of(kernel, item, row.vector)
            batch.remove(item, row.vector, actor=ACTOR, reason=REASON, hides=hides)
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


def _is_alike(one: Vector, other: Vector) -> bool:
    """Whether two vectors are the same text's."""
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return lengths == 0.0 or float(np.dot(one, other)) / lengths > SAME


def levenshtein(one: str, other: str, most: int) -> int | None:
    """Return the edit distance of two texts, None above `most`, row by row (Wagner and Fischer 1974)."""
    if abs(len(one) - len(other)) > most:
        return None
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        above, row = row, [place]
        for column, beside in enumerate(other, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != beside)))
        if min(row) > most:
            return None
    return row[-1] if row[-1] <= most else None
