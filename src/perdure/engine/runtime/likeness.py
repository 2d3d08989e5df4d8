"""Likeness: which memory a new one would repeat, for spec 003's `unique` (C4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.backends.vector_stores.base import Hit, Vector
from perdure.domain.fact import Fact, Neighbour
from perdure.domain.filter import And, Condition, Not, all_of, eq
from perdure.domain.memory import MemoryItem, text_hash
from perdure.engine.kernel import Kernel
from perdure.engine.runtime.drafts import Draft
from perdure.engine.visibility import visible
from perdure.pipeline.duplicates import folded
from perdure.pipeline.reconciliation import says_nothing_new
from perdure.pipeline.reconciliation.alignment import alignment

SAME = 0.95
"""Cosine from which two memories are alike (C4)."""
NEAREST = 8
"""Memories that are looked at."""
STATEMENT = 300
"""Characters up to which a near vector tells anything: of longer texts models and rules read the beginning alone."""
_AXES = ("user_id", "agent_id", "run_id", "world_id")
_APART = ("swapped_numbers", "swapped_times", "names_both")
"""What makes near-equal sentences different facts: "on Monday" and "on Tuesday" have a cosine of .985 (U8)."""


async def is_near(kernel: Kernel, draft: Draft, vector: Vector | None) -> bool:
    """Whether a memory of the same table, room, world and entity has nearly this vector; the text is not looked at."""
    if vector is None:
        return False
    hits = await kernel.store.search(kernel.collection, vector, 1, _beside(kernel, draft))
    return bool(hits) and hits[0].score >= SAME


async def repeated(kernel: Kernel, draft: Draft, vector: Vector | None) -> str | None:
    """The id of the memory beside which this one would say nothing new, or None.

    Its text is the same but for case, width and white space; or it is short, its vector is nearly the same, no number,
    date or name stands where the other has a different one, and the rules find nothing new in it. "User is not allergic
    to peanuts" is near to its contrary (.979), and is kept. Of memories without text the content is the same.
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
        if folded(found) == text or (hit.score >= SAME and _is_repeat(draft.text, hit)):
            return hit.id
    return None


def _beside(kernel: Kernel, draft: Draft) -> And:
    """The rows of the same table, agent, room, world and entity; what the draft does not have, they have not either."""
    given = draft.scope.given()
    lacking = [Not(Condition(name, "gte", "")) for name in _AXES if name not in given]
    return visible(draft.scope, now=kernel.ticker.now(), kinds=(draft.table,), filters=all_of(*lacking))


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
