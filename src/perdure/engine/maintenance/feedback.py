"""Feedback: what a reader thinks of a memory moves its importance, and so how long it lasts (V72)."""

from __future__ import annotations

from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.aio.lifecycle import guarded
from perdure.engine.core.access import UNRESTRICTED, is_inside
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel
from perdure.pipeline.maintenance.retention import FEEDBACK, weighed

VERDICTS = tuple(FEEDBACK)
VERDICT, REASON, BEFORE = "feedback", "feedback_reason", "importance_before_feedback"
"""Keys of the metadata: what was said, why, and what the memory was worth without it."""
_OTHER_NAMES = {"good": "positive", "bad": "negative", "awful": "very_negative"}


def read_verdict(value: object) -> str | None:
    """A verdict in mem0's words (POSITIVE, ...), the library's or the command's (good, bad, awful); None is none."""
    if value is None:
        return None
    name = value.strip().casefold().replace(" ", "_").replace("-", "_") if isinstance(value, str) else ""
    name = _OTHER_NAMES.get(name, name)
    if name not in FEEDBACK:
        raise InvalidInputError(
            f"feedback must be one of {', '.join(VERDICTS)} ({', '.join(_OTHER_NAMES)}), or none, not {shown(value)}",
            field="feedback",
            value=value,
        )
    return name


class Feedback:
    """Keeps the last verdict on a memory."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def __call__(
        self, id: str, verdict: str | None, reason: str | None = None, walls: Scope = UNRESTRICTED
    ) -> MemoryItem:
        """Judge a memory, or take the judgement back with None; the same again changes nothing.

        The importance goes to what it was without a verdict plus .25 (positive), -.25 (negative) or -.5 (very
        negative), within [0, 1]. The verdict stands in the metadata, in mem0's words, and each change in the history.
        """
        kernel = self._kernel
        if reason is not None:
            if not isinstance(reason, str):
                raise InvalidInputError(f"reason must be text, not {shown(reason)}", field="reason", value=reason)
            check_unicode(reason, "reason")
        scope = (await self._standing(id, walls)).scope
        async with kernel.lock(scope):
            before = await self._standing(id, walls)
            after = _judged(before, verdict, reason)
            if after == before:
                return before
            point = await kernel.store.get(kernel.collection, id)
            vector = None if point is None else point.vector
            batch = Batch(kernel.clock)
            batch.replace(before, after, vector, vector, actor="feedback", reason=verdict or "taken back")
            await kernel.commit(batch.changes, batch.vectors)
        return batch.changes[0].item

    async def _standing(self, id: str, walls: Scope) -> MemoryItem:
        point = await self._kernel.store.get(self._kernel.collection, id)
        item = None if point is None else MemoryItem.from_payload(point.payload)
        if item is None or item.state != "live" or not is_inside(walls, item):
            raise NotFoundError(f"there is no memory with the id {id!r}")
        return item


def _judged(item: MemoryItem, verdict: str | None, reason: str | None) -> MemoryItem:
    kept = item.metadata.get(BEFORE)
    before = float(kept) if isinstance(kept, (int, float)) and not isinstance(kept, bool) else None
    importance, plain = weighed(item.importance, before, verdict)
    told = {} if verdict is None else {VERDICT: verdict.upper(), REASON: reason, BEFORE: plain}
    others = {key: value for key, value in item.metadata.items() if key not in (VERDICT, REASON, BEFORE)}
    given = {key: value for key, value in told.items() if value is not None}
    return item.with_(importance=importance, metadata={**others, **given})
