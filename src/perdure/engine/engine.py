"""The services of one memory over one kernel; every front end holds an `Engine`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, guarded, shielded
from perdure.engine.core.lookup import Lookup
from perdure.engine.maintenance.tasks import MaintenanceTasks, Quotas
from perdure.pipeline.curation.rules.memo import forget_texts

if TYPE_CHECKING:
    from perdure.domain.event import Absence
    from perdure.domain.maintenance import BenchReport
    from perdure.engine.core.kernel import Kernel
    from perdure.engine.graph.erase import GraphCheck, GraphErasure
    from perdure.engine.graph.queries import GraphReads
    from perdure.engine.graph.related import Related
    from perdure.engine.graph.sync import GraphSync
    from perdure.engine.maintenance.consolidation import Consolidate
    from perdure.engine.maintenance.recall_benchmark import BenchRequest, Progress
    from perdure.engine.maintenance.reflection import Reflect
    from perdure.engine.markdown.file_sync import FileSync
    from perdure.engine.markdown.versions_api import FileVersions
    from perdure.engine.read.search import ReadPath
    from perdure.engine.requests import Query
    from perdure.engine.write.add import WritePath
    from perdure.engine.write.explicit import Explicit, QuarantineReview
    from perdure.engine.write.forget import Forget
    from perdure.engine.write.revise import Revise


class Engine:
    """All services of a memory; rarely used ones are imported and created on first use."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = self._kernel = kernel
        quotas = kernel.quota if isinstance(kernel.quota, Quotas) else Quotas(kernel)
        self.access_counts = quotas.access_counts
        self.maintenance = MaintenanceTasks(kernel, quotas)
        self.lookup = Lookup(kernel, self.access_counts)

    @cached_property
    def read(self) -> ReadPath:
        """Searches."""
        from perdure.engine.read.search import ReadPath

        return ReadPath(self._kernel, self._related(), self.access_counts)

    @cached_property
    def write(self) -> WritePath:
        """Adds messages and facts."""
        from perdure.engine.write.add import WritePath

        return WritePath(self._kernel)

    @cached_property
    def revise(self) -> Revise:
        """Changes and deletes single memories, and reverts changes."""
        from perdure.engine.write.revise import Revise

        return Revise(self._kernel)

    @cached_property
    def forget(self) -> Forget:
        """Erases memories."""
        from perdure.engine.write.forget import Forget

        return Forget(self._kernel, self.read, self._erasing)

    @cached_property
    def explicit(self) -> Explicit:
        """Stores memories as they are given."""
        from perdure.engine.write.explicit import Explicit

        return Explicit(self._kernel)

    @cached_property
    def quarantine(self) -> QuarantineReview:
        """Decides what may enter prompts."""
        from perdure.engine.write.explicit import QuarantineReview

        return QuarantineReview(self._kernel)

    @cached_property
    def consolidate(self) -> Consolidate:
        """Merges related memories."""
        from perdure.engine.maintenance.consolidation import Consolidate

        return Consolidate(self._kernel)

    @cached_property
    def reflect(self) -> Reflect:
        """Finds patterns across memories."""
        from perdure.engine.maintenance.reflection import Reflect

        return Reflect(self._kernel)

    @cached_property
    def versions(self) -> FileVersions:
        """The versions of memories in files."""
        from perdure.engine.markdown.versions_api import FileVersions

        files = self._file_sync
        return FileVersions(self._kernel, None if files is None else files.versioning)

    @cached_property
    def graph(self) -> GraphReads:
        """Reads the graph of entities."""
        from perdure.engine.graph.queries import GraphReads

        return GraphReads(self._kernel, self._graph_sync)

    @cached_property
    def graph_check(self) -> GraphCheck | None:
        """Compares the graph with the memories; None without a graph."""
        from perdure.engine.graph.erase import GraphCheck

        graph = self._graph_sync
        return None if graph is None else GraphCheck(self._kernel, graph)

    @cached_property
    def _erasing(self) -> GraphErasure | None:
        if self._graph_sync is None:
            return None
        from perdure.engine.graph.erase import GraphErasure

        return GraphErasure(self._graph_sync)

    @cached_property
    def _graph_sync(self) -> GraphSync | None:
        observer = self._kernel.change_observer
        if observer is None:
            return None
        from perdure.engine.graph.sync import GraphSync

        return observer if isinstance(observer, GraphSync) else None

    @cached_property
    def _file_sync(self) -> FileSync | None:
        observer = self._kernel.file_observer
        if observer is None:
            return None
        from perdure.engine.markdown.file_sync import FileSync

        return observer if isinstance(observer, FileSync) else None

    def _related(self) -> Related | None:
        graph = self._graph_sync
        if graph is None:
            return None
        from perdure.engine.graph.related import Related

        return Related(self._kernel, graph)

    @guarded
    async def reset(self) -> None:
        """Clear memories, history, episodes, journal, jobs and graph of this engine; keys and settings stay.

        If the graph cannot be reached, jobs clear it when it is back.
        """
        async with self.kernel.lock(Scope()):
            await shielded(self._clear())

    @guarded
    async def why_not(self, id: str, query: Query) -> Absence:
        """Explain why a search does not return a memory."""
        from perdure.engine.read.why_not import WhyNot

        return await WhyNot(self._kernel, self.read)(id, query)

    @guarded
    async def bench(self, request: BenchRequest, progress: Progress | None = None) -> BenchReport:
        """Measure recall on the memories in the store."""
        from perdure.engine.maintenance.recall_benchmark import bench

        return await bench(self.kernel, request, progress)

    async def _clear(self) -> None:
        kernel, graph = self.kernel, self._erasing
        self.read.forget_copies()
        forget_texts()
        left: list[str] = []
        if graph is not None and not await graph.reset() and kernel.ledger is not None:
            from perdure.engine.graph.erase import all_memory_ids

            left = await all_memory_ids(kernel.ledger)
        await kernel.store.reset()
        if kernel.ledger is not None:
            await kernel.store.sync()  # before the journal drops what a power loss could bring back
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
