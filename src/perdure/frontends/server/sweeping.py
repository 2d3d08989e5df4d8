"""Sweeping: as long as a server runs, it does what is due of upkeep (U20): expiry, pruning, quotas, backups, ..."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from perdure.engine.upkeep.schedule import upkeeping
from perdure.frontends.library.async_memory import AsyncMemory


def sweeping(memory: AsyncMemory) -> AbstractAsyncContextManager[None]:
    """Do what is due at once, and again whenever something is, until the block ends."""
    return upkeeping(memory._engine)
