"""Engine: the paths of one memory over one kernel; front ends hold one and add nothing of their own."""

from __future__ import annotations

from collections.abc import Callable

from perdure.backends.graphs.base import GraphStore
from perdure.backends.markdown.base import FileStore
from perdure.domain.bench import BenchReport
from perdure.domain.event import Absence
from perdure.domain.scope import Scope
from perdure.engine.aio.degrade import degrade
from perdure.engine.aio.lifecycle import guarded
from perdure.engine.aio.tasks import shielded
from perdure.engine.core.kernel import Kernel
from perdure.engine.graph.check import GraphCheck
from perdure.engine.graph.erase import GraphErasure, all_memory_ids
from perdure.engine.graph.queries import GraphReads
from perdure.engine.graph.related import Related
from perdure.engine.graph.sync import GraphSync
from perdure.engine.maintenance.consolidation import Consolidate
from perdure.engine.maintenance.recall_benchmark import BenchRequest, Progress, bench
from perdure.engine.maintenance.reflection import Reflect
from perdure.engine.maintenance.tasks import MaintenanceTasks
from perdure.engine.markdown.file_sync import FileSync
from perdure.engine.markdown.versions_api import FileVersions
from perdure.engine.read.access_counts import AccessCounts
from perdure.engine.read.search import ReadPath
from perdure.engine.read.why_not import WhyNot
from perdure.engine.requests import Query
from perdure.engine.write.add import WritePath
from perdure.engine.write.explicit import Explicit
from perdure.engine.write.forget import Forget
from perdure.engine.write.quarantine import QuarantineReview
from perdure.engine.write.revise import Revise


class Engine:
    """Write, read, revise, forget."""

    def __init__(self, kernel: Kernel, fresh_graph: Callable[[], GraphStore] | None = None) -> None:
        self.kernel = self._kernel = kernel
        keeper = None if fresh_graph is None else GraphSync(kernel, fresh_graph)
        kernel.change_observer = keeper
        files: FileSync | None = None
        if isinstance(kernel.store, FileStore):
            kernel.file_observer = files = FileSync(kernel, watch=kernel.store.watched)
        self.versions = FileVersions(kernel, None if files is None else files.versioning)
        self.graph = GraphReads(kernel, keeper)
        self.graph_check = None if keeper is None else GraphCheck(kernel, keeper)
        self._erasing = None if keeper is None else GraphErasure(keeper)
        self.write = WritePath(kernel)
        self.access_counts = AccessCounts(kernel)
        self.read = ReadPath(kernel, None if keeper is None else Related(kernel, keeper), self.access_counts)
        self.revise = Revise(kernel)
        self.forget = Forget(kernel, self.read, self._erasing)
        self.explicit = Explicit(kernel)
        self.quarantine = QuarantineReview(kernel)
        self.consolidate = Consolidate(kernel)
        self.reflect = Reflect(kernel)
        self.maintenance = MaintenanceTasks(kernel, self.access_counts)
        self._why_not = WhyNot(kernel, self.read)

    @guarded
    async def reset(self) -> None:
        """Clear memories, history, episodes, journal, jobs and graph of this engine (U26); keys and settings stay.

        A graph that cannot be reached is cleared of what there was by jobs, when it is back.
        """
        async with self.kernel.lock(Scope()):
            await shielded(self._clear())

    @guarded
    async def why_not(self, id: str, query: Query) -> Absence:
        """Why a search does not give a memory."""
        return await self._why_not(id, query)

    @guarded
    async def bench(self, request: BenchRequest, progress: Progress | None = None) -> BenchReport:
        """Recall measured on what the store holds."""
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
        """Let calls under way finish, and let go of everything; further calls are ClosedError."""
        await self.access_counts.close()
        if self.maintenance.quotas.waiting:
            with degrade("some users have more memories than their quota"):
                await self.maintenance.quotas.settle()
        await self.kernel.close()
