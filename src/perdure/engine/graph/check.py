"""Checking: where the graph does not hold what the memories say, for the doctor, and making it look again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from perdure.domain.clock import iso
from perdure.domain.errors import GraphError
from perdure.domain.memory import LIVE, MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.core.kernel import Kernel
from perdure.engine.graph.jobs import ENTITIES, TEMPORAL
from perdure.engine.graph.sync import GraphSync, StatementReader

EVERY = 10**9
"""A limit that no graph reaches."""


@dataclass(slots=True)
class Comparison:
    """Memories of which graph and store disagree, and why a comparison could not be made."""

    unsaid: list[str] = field(default_factory=list)
    """Memories that state something of which the graph holds nothing."""
    gone: list[str] = field(default_factory=list)
    """Memories of which the graph holds something and that do not stand."""
    waiting: int = 0
    """Jobs that are not done: what they are about is not compared."""
    parked: int = 0
    """Jobs that failed too often."""
    problem: str = ""
    """Why the graph could not be asked."""


class GraphCheck:
    """Holds the graph of one engine against its memories."""

    def __init__(self, kernel: Kernel, keeper: GraphSync) -> None:
        self._kernel = kernel
        self._keeper = keeper
        self._reading = StatementReader(kernel)

    async def compare(self) -> Comparison:
        """What disagrees; only reads, and while jobs wait only counts them."""
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
        """Make the graph conform to memories, and try again what was parked; how many jobs are left."""
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
