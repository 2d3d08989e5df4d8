"""Engine: the paths of one memory over one kernel; front ends hold one and add nothing of their own."""

from __future__ import annotations

from perdure.domain.bench import BenchReport
from perdure.domain.event import Absence
from perdure.domain.scope import Scope
from perdure.engine.bench import BenchRequest, Progress, bench
from perdure.engine.calls import call
from perdure.engine.finish import finish
from perdure.engine.forget import Forget
from perdure.engine.kernel import Kernel
from perdure.engine.queries import Query
from perdure.engine.read_path import ReadPath
from perdure.engine.revise import Revise
from perdure.engine.why_not import WhyNot
from perdure.engine.write_path import WritePath


class Engine:
    """Write, read, revise, forget."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = self._kernel = kernel
        self.write = WritePath(kernel)
        self.read = ReadPath(kernel)
        self.revise = Revise(kernel)
        self.forget = Forget(kernel, self.read)
        self._why_not = WhyNot(kernel, self.read)

    @call
    async def reset(self) -> None:
        """Clear memories, history, episodes and journal of this engine (U26); keys and settings stay."""
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
        self.read.forget_copies()
        await self.kernel.store.reset()
        if self.kernel.ledger is not None:
            await self.kernel.store.sync()  # before the journal lets go of what power loss could bring back
            await self.kernel.ledger.reset()

    async def close(self) -> None:
        """Let calls under way finish, and let go of everything; further calls are ClosedError."""
        await self.kernel.close()
