"""Conforming: a job looks at how its memory stands now, and makes the graph say so (DESIGN §3).

However often and in whatever order jobs are done, the graph ends with what the memories say.
"""

from __future__ import annotations

from dataclasses import replace

from perdure.backends.graphs.base import GraphStore
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.filter import all_of, eq, scope_filter
from perdure.domain.graph import Relation, Statement
from perdure.domain.job import Job
from perdure.domain.memory import LIVE, VERSION, MemoryItem
from perdure.engine.graph.jobs import ENTITIES, ERASE, Kinds
from perdure.engine.graph.reading import Reading
from perdure.engine.kernel import Kernel


class Conforming:
    """Does jobs, one at a time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._reading = Reading(kernel)

    @property
    def is_quick(self) -> bool:
        """Whether no language model is asked."""
        return self._reading.is_quick

    async def __call__(self, graph: GraphStore, job: Job) -> None:
        """Make the graph conform to one memory; fails as graph, store and model do, and may be done again."""
        kind = Kinds.bare(job.kind)
        item = None if kind == ERASE else await self._present(job.memory_id)
        moment = str(job.payload.get("at") or iso(self._kernel.ticker.now()))
        if item is None:
            await self._leave(graph, job.memory_id, moment)
            return
        await graph.state(await self._statement(graph, kind, item), max(moment, item.told_at))
        if await self._present(job.memory_id) is None:
            # It went meanwhile. Whoever erased it looked at the graph before this was there, or will after.
            await self._leave(graph, job.memory_id, moment)

    async def _present(self, id: str) -> MemoryItem | None:
        """The memory as it stands; None where it does not, or has run out."""
        kernel = self._kernel
        point = await kernel.store.get(kernel.collection, id)
        item = None if point is None else MemoryItem.from_payload(point.payload)
        if item is None or item.state != LIVE or item.kind != "facts":
            return None
        return None if item.expires_at and item.expires_at <= iso(kernel.ticker.now()) else item

    async def _leave(self, graph: GraphStore, id: str, moment: str) -> None:
        """The memory is gone: from the present, or, where nothing keeps its text, from every time."""
        if await self._earlier(id) or await self._present_row(id):
            await graph.take_back([id], moment)
        else:
            await graph.erase([id])

    async def _present_row(self, id: str) -> bool:
        return await self._kernel.store.get(self._kernel.collection, id) is not None

    async def _earlier(self, id: str) -> list[Point]:
        kernel = self._kernel
        return (await kernel.store.list(kernel.collection, eq("version_of", id))).points

    # ------------------------------------------------------------------ what it states
    async def _statement(self, graph: GraphStore, kind: str, item: MemoryItem) -> Statement:
        if kind == ENTITIES:
            return self._reading.listed(item)
        read = await self._reading.told(graph, item)
        present = {_pair(relation) for relation in read.relations}
        past = [relation for relation in await self._outlived(item) if _pair(relation) not in present]
        return replace(read, relations=tuple(dict.fromkeys((*read.relations, *past))))

    async def _outlived(self, item: MemoryItem) -> list[Relation]:
        """What earlier texts stated that life has moved on from, until it did.

        An `add` that updates a memory says from when the new text holds; a text that was merely corrected, or an
        update that was undone, held for no time of its own.
        """
        if item.version == 1:
            return []
        line = sorted((MemoryItem.from_payload(row.payload) for row in await self._line(item)), key=_version)
        found: list[Relation] = []
        for earlier, later in zip(line, [*line[1:], item], strict=True):
            end = later.valid_from
            if end is not None and end > (earlier.valid_from or earlier.told_at):
                found += self._reading.until(earlier, end)
        return found

    async def _line(self, item: MemoryItem) -> list[Point]:
        """The earlier texts of a memory, under whichever id it had."""
        if item.lineage_id is None:
            return await self._earlier(item.id)
        kernel = self._kernel
        line = all_of(scope_filter(item.scope), eq("lineage_id", item.lineage_id), eq("state", VERSION))
        return (await kernel.store.list(kernel.collection, line)).points


def _pair(relation: Relation) -> tuple[str, str, str]:
    return relation.source_key, relation.relation, relation.target_key


def _version(item: MemoryItem) -> int:
    return item.version
