"""The services of one memory over one kernel; every front end holds an `Engine`."""

from __future__ import annotations

from perdure.domain.event import Absence
from perdure.domain.maintenance import BenchReport
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, guarded, shielded
from perdure.engine.core.kernel import Kernel
from perdure.engine.graph.erase import GraphCheck, GraphErasure, all_memory_ids
from perdure.engine.graph.queries import GraphReads
from perdure.engine.graph.related import Related
from perdure.engine.graph.sync import GraphSync
from perdure.engine.maintenance.consolidation import Consolidate
from perdure.engine.maintenance.recall_benchmark import BenchRequest, Progress, bench
from perdure.engine.maintenance.reflection import Reflect
from perdure.engine.maintenance.tasks import MaintenanceTasks, Quotas
from perdure.engine.markdown.file_sync import FileSync
from perdure.engine.markdown.versions_api import FileVersions
from perdure.engine.read.search import ReadPath
from perdure.engine.read.why_not import WhyNot
from perdure.engine.requests import Query
from perdure.engine.write.add import WritePath
from perdure.engine.write.explicit import Explicit, QuarantineReview
from perdure.engine.write.forget import Forget
from perdure.engine.write.revise import Revise


class Engine:
    """Everything that a memory can do, by service."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = self._kernel = kernel
        graph = kernel.change_observer if isinstance(kernel.change_observer, GraphSync) else None
        files = kernel.file_observer if isinstance(kernel.file_observer, FileSync) else None
        quotas = kernel.quota if isinstance(kernel.quota, Quotas) else Quotas(kernel)
        self.versions = FileVersions(kernel, None if files is None else files.versioning)
        self.graph = GraphReads(kernel, graph)
        self.graph_check = None if graph is None else GraphCheck(kernel, graph)
        self._erasing = None if graph is None else GraphErasure(graph)
        self.write = WritePath(kernel)
        self.access_counts = quotas.access_counts
        self.read = ReadPath(kernel, None if graph is None else Related(kernel, graph), self.access_counts)
        self.revise = Revise(kernel)
        self.forget = Forget(kernel, self.read, self._erasing)
        self.explicit = Explicit(kernel)
        self.quarantine = QuarantineReview(kernel)
        self.consolidate = Consolidate(kernel)
        self.reflect = Reflect(kernel)
        self.maintenance = MaintenanceTasks(kernel, quotas)
        self._why_not = WhyNot(kernel, self.read)

    @guarded
    async def reset(self) -> None:
        """Clear memories, history, episodes, journal, jobs and graph of this engine; keys and settings stay.

        A graph that cannot be reached is cleared of what there was by jobs, when it is back.
        """
        async with self.kernel.lock(Scope()):
            await shielded(self._clear())

    @guarded
    async def why_not(self, id: str, query: Query) -> Absence:
        """Explain why a search does not return a memory."""
        return await self._why_not(id, query)

    @guarded
    async def bench(self, request: BenchRequest, progress: Progress | None = None) -> BenchReport:
        """Measure recall on the memories in the store."""
        return await bench(self.kernel, request, progress)

    async def _clear(self) -> None:
        kernel, graph = self.kernel, self._erasing
        self.read.forget_copies()
        left: list[str] = []
        if graph is not None and not await graph.reset() and kernel.ledger is not None:
            left = await all_memory_ids(kernel.ledger)
        await kernel.store.reset()
        if kernel.ledger is not None:
            await kernel.store.sync()  # before the journal lets go of what power loss could bring back
            await kernel.ledger.reset()
        if graph is not None and left:
            await graph.later(left, Scope())

    async def close(self) -> None:
        """Wait for calls in flight and close every backend; further calls raise ClosedError."""
        await self.access_counts.close()
        if self.maintenance.quotas.waiting:
            with degrade("some users have more memories than their quota"):
                await self.maintenance.quotas.settle()
        await self.kernel.close()
