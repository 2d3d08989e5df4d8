"""Explain why a search does not return a memory: the first step that dropped it, with the numbers of that step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from perdure.domain.event import Absence
from perdure.domain.filter import Condition, Or, all_of, eq, matches, scope_filter
from perdure.domain.memory import LIVE, MemoryItem
from perdure.engine.core.access import scope_of, visible
from perdure.engine.core.kernel import Kernel
from perdure.engine.read.search import FAINT, ReadPath
from perdure.engine.requests import Query

EVERY = 2**31 - 1  # more memories than any scope holds


class WhyNot:
    """Follows one memory through a search."""

    def __init__(self, kernel: Kernel, read: ReadPath) -> None:
        self._kernel = kernel
        self._read = read

    async def __call__(self, id: str, query: Query) -> Absence:
        """Return why the search does not return the memory; `returned` if it does.

        A memory of another scope is answered like an unknown one, so that its existence stays private.
        """
        query = await self._read.rewritten(query, [])
        found = (await self._read.find(replace(query, explain=True))).results
        for rank, item in enumerate(found, 1):
            if item.id == id:
                told = {"rank": rank, "of": len(found), "score": item.score, "explanation": item.explanation}
                return _absence("returned", f"it comes at rank {rank}", **told)
        gone = await self._not_there(id, query)
        return gone if gone is not None else await self._ranked(id, query, found)

    async def _not_there(self, id: str, query: Query) -> Absence | None:
        kernel = self._kernel
        texts = all_of(scope_filter(query.scope), Or((eq("id", id), eq("version_of", id))))
        points = (await kernel.store.list(kernel.collection, texts)).points
        items = [MemoryItem.from_payload(point.payload) for point in points]
        standing = [item for item in items if item.state == LIVE]
        if not standing and not (query.reads_past and items):
            records = await kernel.ledger.history(id) if kernel.ledger is not None else []
            last = records[-1] if records else None
            if last is None or not query.scope.holds(scope_of(last)):
                return _absence("unknown", "there is no such memory in this scope")
            if last.erased:
                return _absence("erased", f"it was erased; the last event was at {last.timestamp}")
            return _absence("deleted", f"it was deleted at {last.timestamp}", deleted_at=last.timestamp)
        reasons = [self._hidden(item, query) for item in (items if query.reads_past else standing)]
        return None if None in reasons else reasons[-1]

    def _hidden(self, item: MemoryItem, query: Query) -> Absence | None:
        """Return which part of the filter excludes it."""
        payload = item.to_payload()
        now = self._kernel.clock.now()
        see = partial(visible, query.scope, now=now, kinds=(item.kind,), as_of=query.as_of)
        if not matches(see(include_past=True), payload):
            return _absence("not_told_yet", f"it was told at {item.told_at}, after the moment that is asked for")
        if not query.include_past and not matches(see(), payload):
            ended = {name: getattr(item, name) for name in ("valid_to", "expires_at") if getattr(item, name)}
            told = " and ".join(f"{name} is {moment}" for name, moment in ended.items())
            return _absence("past", f"it no longer holds: {told}; include_past=True brings it", **ended)
        if query.types and item.type not in query.types:
            return _absence("type", f"its type is {item.type}, not one of {', '.join(query.types)}", type=item.type)
        if query.filters is not None and not matches(query.filters, payload):
            return _absence("filter", "the filter does not match it")
        if matches(Condition("kind", "in", self._read.searched), payload):
            return None
        if item.kind == "messages":
            return _absence(
                "kind",
                'it is a message as it was said, and messages are searched with episodes="words" and the preset best',
            )
        *others, last = self._read.searched
        return _absence("kind", f"it is one of the {item.kind}, and {', '.join(others)} and {last} are searched")

    async def _ranked(self, id: str, query: Query, came: list[MemoryItem]) -> Absence:
        """Return whether the threshold or the limit excludes it, from its rank among all."""
        found = (await self._read.find(replace(query, limit=EVERY, threshold=0.0, explain=True))).results
        place = next((place for place, item in enumerate(found) if item.id == id), None)
        if place is None:
            standing_for = [item.id for item in found if id in item.sources]
            if standing_for:
                sentence = f"what was read out of it stands for it, such as {standing_for[0]}: each thing is told once"
                return _absence("retold", sentence, retold_by=standing_for, of=len(found))
            sentence = f"no word of the question and nothing of its meaning leads there; {len(found)} others were found"
            return _absence("not_matched", sentence, of=len(found))
        item = found[place]
        numbers = {"rank": place + 1, "of": len(found), "score": item.score, "explanation": item.explanation}
        floor = query.preset.threshold if query.threshold is None else query.threshold
        if floor is not None and (item.score or 0.0) < floor:
            return _absence("threshold", f"its score {item.score:.3f} is below {floor:g}", threshold=floor, **numbers)
        best = max((item.score or 0.0 for item in found), default=0.0)
        if query.threshold is None and query.preset.ranking == "fused" and (item.score or 0.0) < FAINT * best:
            told = f"its score {item.score:.3f} is under {FAINT:g} of the best one's {best:.3f}; threshold=0 brings it"
            return _absence("faint", told, best_score=best, **numbers)
        last = came[-1].score or 0.0 if came else 0.0
        sentence = f"it ranks {place + 1} and {query.limit} were asked for; the last of them scores {last:.3f}"
        return _absence("limit", sentence, last_score=last, **numbers)


def _absence(reason: str, sentence: str, **numbers: object) -> Absence:
    return Absence(reason, sentence, dict(numbers))
