"""Forgetting: what was asked for goes from every place that held its text, and the report names each (U4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from perdure.backends.vector_stores.base import Point
from perdure.domain.event import Change, ErasedPlace, ErasureReport
from perdure.domain.filter import Condition, Filter, Or, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.kernel import Kernel
from perdure.engine.read_path import Query, ReadPath
from perdure.engine.rows import version_of
from perdure.engine.soft import given_up

PAGE = 500
"""Rows looked at at a time where a whole scope is walked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be forgotten: one memory, what a query finds, or all that a scope holds."""

    scope: Scope
    id: str | None = None
    query: str | None = None
    threshold: float = 0.75
    erase: bool = True
    dry_run: bool = False


@dataclass(slots=True)
class _Found:
    """The rows that go, and what stands beside them."""

    rows: dict[str, Point] = field(default_factory=dict)
    memories: dict[str, None] = field(default_factory=dict)
    episodes: dict[str, None] = field(default_factory=dict)

    @property
    def live(self) -> list[MemoryItem]:
        items = (MemoryItem.from_payload(point.payload) for point in self.rows.values())
        return [item for item in items if item.state == LIVE]

    @property
    def versions(self) -> int:
        return len(self.rows) - len(self.live)


class Forget:
    """Takes memories, their versions and the messages they came from out of every place."""

    def __init__(self, kernel: Kernel, read_path: ReadPath) -> None:
        self._kernel = kernel
        self._read_path = read_path

    @call
    async def __call__(self, request: Request) -> ErasureReport:
        """Forget what the request names; with `dry_run` only say what that would be."""
        scope = await self._scope(request)
        if request.dry_run:
            found = await self._find(request)
            return await self._report(found, request, dry_run=True)
        async with self._kernel.lock(scope):
            found = await self._find(request)
            report = await self._report(found, request, dry_run=False)
            return await finish(self._forget(found, request, report))

    async def _forget(self, found: _Found, request: Request, report: ErasureReport) -> ErasureReport:
        kernel = self._kernel
        await self._take_out(found, request)
        if not request.erase:
            return report
        await kernel.sync()  # before the journal lets go of what the store has just deleted
        if kernel.ledger is not None:
            await kernel.ledger.erase(list(found.memories), list(found.episodes), request.whole)
        return await self._scrub(report)

    # ------------------------------------------------------------------ finding
    async def _scope(self, request: Request) -> Scope:
        """The walls to lock: the memory's own where an id is given, else those of the request."""
        if request.id is None:
            return request.scope
        rows = await self._rows(await self._line(request.id))
        return MemoryItem.from_payload(rows[0].payload).scope if rows else Scope()

    async def _find(self, request: Request) -> _Found:
        found = _Found()
        if request.id is not None:
            rows = await self._rows(await self._line(request.id))
            if all(_stands_within(row, request.scope) for row in rows):
                self._note(found, rows)
                found.memories.setdefault(request.id, None)
        elif request.query is not None:
            for id in await self._answers(request):
                if id not in found.memories:
                    self._note(found, await self._rows(await self._line(id)))
        else:
            self._note(found, await self._rows(scope_filter(request.scope)))
        if self._kernel.ledger is not None:
            await self._find_in_ledger(found, request, self._kernel.ledger)
        return found

    async def _answers(self, request: Request) -> list[str]:
        """Ids of the memories that the query finds; of deleted ones too, whose text `as_of` and `history` still show."""
        kernel = self._kernel
        count = await kernel.store.count(kernel.collection, scope_filter(request.scope))
        query = Query(
            text=request.query or "",
            scope=request.scope,
            threshold=request.threshold,
            include_past=True,
            limit=max(1, count),
        )
        living = (await self._read_path.find(query)).results
        past = (await self._read_path.find(replace(query, versions=True))).results
        gone = [item.id for item in past if await kernel.store.get(kernel.collection, item.id) is None]
        return [*(item.id for item in living), *gone]

    async def _line(self, id: str) -> Filter:
        """A memory, its versions, and those of the line that it belongs to, whichever of the line is named."""
        ids = {id}
        if self._kernel.ledger is not None:
            ids.update(record.memory_id for record in await self._kernel.ledger.history(id))
        own = Or((Condition("id", "in", tuple(ids)), Condition("version_of", "in", tuple(ids))))
        ids.update(str(row.payload["lineage_id"]) for row in await self._rows(own) if row.payload.get("lineage_id"))
        return Or(tuple(Condition(field, "in", tuple(ids)) for field in ("id", "version_of", "lineage_id")))

    async def _find_in_ledger(self, found: _Found, request: Request, ledger: Ledger) -> None:
        """Add what only the ledger still knows: sources of deleted texts, and a scope's episodes and history."""
        for memory_id in list(found.memories):
            for record in await ledger.history(memory_id):
                found.memories.setdefault(record.memory_id, None)
                change = None if record.erased else await ledger.event(record.id)
                for episode in change.sources if change else ():
                    found.episodes.setdefault(episode, None)
        if request.whole is not None:
            cursor: str | None = None
            while True:
                page = await ledger.list_episodes(request.whole, PAGE, cursor, include_hidden=True)
                found.episodes.update(dict.fromkeys(episode.id for episode in page.episodes))
                cursor = page.next_cursor
                if cursor is None:
                    break
            after = 0
            while records := await ledger.events_of_scope(request.whole, PAGE, after):
                found.memories.update(dict.fromkeys(record.memory_id for record in records))
                after = records[-1].sequence

    def _note(self, found: _Found, rows: Iterable[Point]) -> None:
        for point in rows:
            item = MemoryItem.from_payload(point.payload)
            found.rows[point.id] = point
            found.memories.setdefault(item.version_of or item.id, None)
            found.episodes.update(dict.fromkeys(item.sources))

    async def _rows(self, filter: Filter) -> list[Point]:
        page = await self._kernel.store.list(self._kernel.collection, filter, with_vectors=True)
        return page.points

    # ------------------------------------------------------------------ taking out
    async def _take_out(self, found: _Found, request: Request) -> None:
        """Delete the memories as changes like any other; then versions, and the messages' traces in other memories."""
        kernel = self._kernel
        changes = [self._deletion(item, request.erase) for item in found.live]
        if not request.erase:
            vectors = {change.keep.id: found.rows[change.memory_id].vector for change in changes if change.keep}
            await kernel.commit(changes, vectors)
            return
        await kernel.commit(changes, {})
        kept = await self._without_sources(found)
        hidden = [id for id in found.rows if found.rows[id].payload.get("state") != LIVE]
        searched = list(found.episodes) if kernel.config.episodes == "search" else []
        if kept or hidden or searched:
            await kernel.store.apply(kernel.collection, kept, [*hidden, *searched])

    def _deletion(self, item: MemoryItem, erase: bool) -> Change:
        moment = self._kernel.ticker.tick()
        keep = None if erase else version_of(item, untold_at=moment)
        return Change(
            id=new_id(), event="DELETE", memory_id=item.id, at=moment, told_at=moment, before=item,
            keep=keep, actor="forget", reason="explicit", sources=(), hides=item.sources,
        )  # fmt: skip

    async def _without_sources(self, found: _Found) -> list[Point]:
        """Rows of other memories that came from the same messages: they keep their text and lose that source."""
        if not found.episodes:
            return []
        scopes = {MemoryItem.from_payload(point.payload).scope for point in found.rows.values()}
        shared = Condition("sources", "in", tuple(found.episodes))
        rows: dict[str, Point] = {}
        for scope in scopes:
            for point in await self._rows(all_of(scope_filter(scope), shared)):
                if point.id not in found.rows:
                    left = [id for id in point.payload.get("sources", []) if id not in found.episodes]
                    rows[point.id] = replace(point, payload={**point.payload, "sources": left})
        return list(rows.values())

    # ------------------------------------------------------------------ telling
    async def _report(self, found: _Found, request: Request, scope: Scope, *, dry_run: bool) -> ErasureReport:
        kernel = self._kernel
        counts = {"history": 0, "episodes": 0, "journal": 0, "cache": 0}
        if kernel.ledger is not None:
            whole = scope if request.id is None and request.query is None else None
            counts |= await kernel.ledger.count_places(list(found.memories), list(found.episodes), whole)
        live = found.live
        numbers = {"store": len(live), "text_index": len(found.rows), "versions": found.versions, **counts}
        order = ("store", "text_index", "history", "episodes", "versions", "journal", "cache")
        places = [_place(name, numbers.get(name, 0), request, dry_run) for name in order]
        results = live or [MemoryItem.from_payload(point.payload) for point in found.rows.values()]
        return ErasureReport(results, places, dry_run=dry_run, erase=request.erase)

    async def _scrub(self, report: ErasureReport) -> ErasureReport:
        """Make the bytes unreadable: now, or, where another process holds a file, when the last one closes it."""
        kernel = self._kernel
        done = {"store": False, "ledger": kernel.ledger is None}
        with given_up("the store's bytes are cleaned later"):
            done["store"] = await kernel.store.scrub()
        if kernel.ledger is not None:
            with given_up("the ledger's bytes are cleaned later"):
                done["ledger"] = await kernel.ledger.scrub()
        places: list[ErasedPlace] = []
        for place in report.places:
            where = "store" if place.place in ("store", "text_index", "versions") else "ledger"
            if done[where] or place.status != "erased":
                places.append(place)
            else:
                note = "gone from every read; its bytes go when the file is closed by all"
                places.append(replace(place, status="pending", note=note))
        return replace(report, places=places)


def _line(id: str) -> Or:
    """A memory, its versions, and those of the line that it belongs to."""
    return Or((eq("id", id), eq("version_of", id), eq("lineage_id", id)))


def _place(name: str, count: int, request: Request, dry_run: bool) -> ErasedPlace:
    status: Literal["erased", "pending", "kept", "found", "none"]
    if count == 0:
        status = "none"
    elif dry_run:
        status = "found"
    else:
        status = "erased" if request.erase or name in ("store",) else "kept"
    return ErasedPlace(name, count, status)
