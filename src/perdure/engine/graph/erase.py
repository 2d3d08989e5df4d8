"""Erase forgotten memories from the graph, and check it against the memories for the doctor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso
from perdure.domain.errors import GraphError, LedgerError
from perdure.domain.event import ErasedPlace
from perdure.domain.memory import LIVE, MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.core.kernel import Kernel
from perdure.engine.graph.jobs import ENTITIES, TEMPORAL
from perdure.engine.graph.sync import GraphSync, StatementReader
from perdure.engine.maintenance.last_events import history_pages

PAGE = 500  # memories named to the graph at a time, and history records read
LATER = "the graph cannot be reached: a job erases it as soon as it can"


class GraphErasure:
    """Erases memories from the graph of one engine."""

    def __init__(self, keeper: GraphSync) -> None:
        self._keeper = keeper

    async def found(self, memory_ids: Sequence[str]) -> ErasedPlace:
        """Return how much the graph holds of memories; unknown while it is down."""
        count: int | None = None
        with degrade("the graph could not be asked what it holds"):
            store = await self._keeper.store()
            count = sum([await store.count(some) for some in _pages(memory_ids)])
        if count is None:
            return ErasedPlace("graph", 0, "pending", LATER)
        return ErasedPlace("graph", count, "found" if count else "none")

    async def erase(self, memory_ids: Sequence[str], whole: Scope | None = None) -> bool:
        """Remove all statements of memories, and of a scope; False if `later` must do it after the ledger's erasure."""
        done = False
        with degrade("the graph is erased later"):
            store = await self._keeper.store()
            for some in _pages(memory_ids):
                await store.erase(some)
            if whole is not None:
                await store.erase_scope(whole)
            done = True
        return done

    async def later(self, memory_ids: Iterable[str], scope: Scope) -> None:
        """Enqueue jobs, without text, that erase memories when the graph is back; GraphError if that is impossible."""
        queue = self._keeper.queue
        if queue is None:
            raise GraphError("the graph could not be erased, and no ledger keeps that for later: forget it again")
        try:
            await queue.add(self._keeper.kinds.erasing([(id, scope) for id in memory_ids], new_id()))
        except LedgerError as error:
            raise GraphError(f"the graph could not be erased, nor kept for later: {error.message}") from error
        self._keeper.wake()

    async def reset(self) -> bool:
        """Remove everything; return whether it is gone."""
        done = False
        with degrade("the graph is cleared later"):
            await (await self._keeper.store()).reset()
            done = True
        return done


def with_status(place: ErasedPlace, status: Literal["erased", "kept", "pending"]) -> ErasedPlace:
    """Return the place with the result for the graph."""
    if status == "pending":
        return ErasedPlace(place.place, place.count, "pending", LATER)
    return ErasedPlace(place.place, place.count, status if place.count else "none")


async def all_memory_ids(ledger: Ledger) -> list[str]:
    """Return the ids of all memories that a ledger ever recorded, erased ones too."""
    ids: dict[str, None] = {}
    async for records in history_pages(ledger):
        ids.update(dict.fromkeys(record.memory_id for record in records))
    return list(ids)


def _pages(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))


EVERY = 10**9  # a limit above the size of any graph


@dataclass(slots=True)
class Comparison:
    """Memories on which graph and store disagree, and why a comparison failed."""

    unsaid: list[str] = field(default_factory=list)  # memories with statements that the graph lacks
    gone: list[str] = field(default_factory=list)  # memories with statements in the graph that no longer exist
    waiting: int = 0  # unfinished jobs, whose memories are not compared
    parked: int = 0  # jobs that failed too often
    problem: str = ""  # why the graph could not be read


class GraphCheck:
    """Compares the graph of one engine with its memories."""

    def __init__(self, kernel: Kernel, keeper: GraphSync) -> None:
        self._kernel = kernel
        self._keeper = keeper
        self._reading = StatementReader(kernel)

    async def compare(self) -> Comparison:
        """Return what disagrees; only reads, and while jobs wait only counts them."""
        found = Comparison()
        queue = self._keeper.queue
        if queue is not None:
            status = await queue.status(self._keeper.kinds.all)
            found.waiting, found.parked = status.pending + status.processing, status.failed
        try:
            entities = await (await self._keeper.store()).entities(Scope(), limit=EVERY)
        except GraphError as error:
            found.problem = error.message
            return found
        if not found.waiting:
            stated = {id for entity in entities for id in entity.memory_ids}
            standing = {item.id: item async for item in self._standing()}
            found.gone = sorted(stated - set(standing))
            found.unsaid = [id for id, item in standing.items() if id not in stated and self._reading.is_due(item)]
        return found

    async def look_again(self, memory_ids: Sequence[str]) -> int:
        """Update the graph from memories, and retry parked jobs; return how many jobs are left."""
        kinds, cause, wanted = self._keeper.kinds, new_id(), set(memory_ids)
        scopes = {item.id: item.scope async for item in self._standing() if item.id in wanted}
        jobs = [
            kinds.job(kind, id, scopes.get(id, Scope()), cause) for id in memory_ids for kind in (ENTITIES, TEMPORAL)
        ]
        queue = self._keeper.queue
        if queue is None:
            await self._keeper.do_now(jobs)
            return 0
        await queue.add(jobs)
        await queue.revive(kinds.all)
        left = -1
        while True:
            await self._keeper.settle(Scope())
            status = await queue.status(kinds.all)
            now = status.pending + status.processing
            if now == left or not now:
                return now + status.failed
            left = now

    async def _standing(self) -> AsyncIterator[MemoryItem]:
        now = iso(self._kernel.clock.now())
        async for points in self._kernel.store.stream(self._kernel.collection):
            for point in points:
                item = MemoryItem.from_payload(point.payload)
                if item.state == LIVE and item.kind == "facts" and not (item.expires_at and item.expires_at <= now):
                    yield item
