"""Engine: the paths of one memory over one kernel; front ends hold one and add nothing of their own."""

from __future__ import annotations

from collections.abc import Callable

from perdure.backends.graphs.base import GraphStore
from perdure.backends.vault.base import FileStore
from perdure.domain.bench import BenchReport
from perdure.domain.event import Absence
from perdure.domain.scope import Scope
from perdure.engine.accesses import Accesses
from perdure.engine.bench import BenchRequest, Progress, bench
from perdure.engine.calls import call
from perdure.engine.explicit import Explicit
from perdure.engine.finish import finish
from perdure.engine.forget import Forget
from perdure.engine.graph.checking import Checking
from perdure.engine.graph.erasing import Erasing, every_memory
from perdure.engine.graph.keeper import Keeper
from perdure.engine.graph.reads import GraphReads
from perdure.engine.graph.related import Related
from perdure.engine.kernel import Kernel
from perdure.engine.queries import Query
from perdure.engine.read_path import ReadPath
from perdure.engine.revise import Revise
from perdure.engine.soft import given_up
from perdure.engine.trusting import Trusting
from perdure.engine.upkeep.chores import Chores
from perdure.engine.upkeep.consolidating import Consolidate
from perdure.engine.upkeep.reflecting import Reflect
from perdure.engine.vault.chronicle import FileVersions
from perdure.engine.vault.keeping import FileKeeper
from perdure.engine.why_not import WhyNot
from perdure.engine.write_path import WritePath


class Engine:
    """Write, read, revise, forget."""

    def __init__(self, kernel: Kernel, fresh_graph: Callable[[], GraphStore] | None = None) -> None:
        self.kernel = self._kernel = kernel
        keeper = None if fresh_graph is None else Keeper(kernel, fresh_graph)
        kernel.follower = keeper
        files: FileKeeper | None = None
        if isinstance(kernel.store, FileStore):
            kernel.vault = files = FileKeeper(kernel, watch=kernel.store.watched)
        self.versions = FileVersions(kernel, None if files is None else files.versioning)
        self.graph = GraphReads(kernel, keeper)
        self.graph_check = None if keeper is None else Checking(kernel, keeper)
        self._erasing = None if keeper is None else Erasing(keeper)
        self.write = WritePath(kernel)
        self.read = ReadPath(kernel, None if keeper is None else Related(kernel, keeper))
        self.revise = Revise(kernel)
        self.forget = Forget(kernel, self.read, self._erasing)
        self.explicit = Explicit(kernel)
        self.trusting = Trusting(kernel)
        self.accesses = Accesses(kernel)
        self.consolidate = Consolidate(kernel)
        self.reflect = Reflect(kernel)
        self.chores = Chores(kernel, self.accesses)
        self._why_not = WhyNot(kernel, self.read)

    @call
    async def reset(self) -> None:
        """Clear memories, history, episodes, journal, jobs and graph of this engine (U26); keys and settings stay.

        A graph that cannot be reached is cleared of what there was by jobs, when it is back.
        """
        async with self.kernel.lock(Scope()):
            await finish(self._clear())

    @call
    async def why_not(self, id: str, query: Query) -> Absence:
        """Why a search does not give a memory."""
        return await self._why_not(id, query)

    @call
    async def bench(self, request: BenchRequest, progress: Progress | None = None) -> BenchReport:
        """Recall measured on what the store holds."""
        return await bench(self.kernel, request, progress)

    async def _clear(self) -> None:
        kernel, graph = self.kernel, self._erasing
        self.read.forget_copies()
        left: list[str] = []
        if graph is not None and not await graph.reset() and kernel.ledger is not None:
            left = await every_memory(kernel.ledger)
        await kernel.store.reset()
        if kernel.ledger is not None:
            await kernel.store.sync()  # before the journal lets go of what power loss could bring back
            await kernel.ledger.reset()
        if graph is not None and left:
            await graph.later(left, Scope())

    async def close(self) -> None:
        """Let calls under way finish, and let go of everything; further calls are ClosedError."""
        if self.accesses.waiting:
            with given_up("how often some memories were recalled is lost"):
                await self.accesses.write()
        if self.chores.quotas.waiting:
            with given_up("some users have more memories than their quota"):
                await self.chores.quotas.settle()
        await self.kernel.close()
