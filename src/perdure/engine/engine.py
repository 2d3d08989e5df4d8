"""Engine: the paths of one memory over one kernel; front ends hold one and add nothing of their own."""

from __future__ import annotations

from perdure.domain.scope import Scope
from perdure.engine.forget import Forget
from perdure.engine.kernel import Kernel
from perdure.engine.read_path import ReadPath
from perdure.engine.revise import Revise
from perdure.engine.write_path import WritePath


class Engine:
    """Write, read, revise, forget."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.write = WritePath(kernel)
        self.read = ReadPath(kernel)
        self.revise = Revise(kernel)
        self.forget = Forget(kernel, self.read)

    async def reset(self) -> None:
        """Clear memories, history, episodes and journal of this engine (U26); keys and settings stay."""
        kernel = self.kernel
        await kernel.ready()
        async with kernel.lock(Scope()):
            await kernel.store.reset()
            if kernel.ledger is not None:
                await kernel.ledger.reset()

    async def close(self) -> None:
        """Let go of everything; further calls are ClosedError."""
        await self.kernel.close()
