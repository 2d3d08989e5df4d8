"""Verdicts for callers without an event loop."""

from __future__ import annotations

from perdure.domain.memory import MemoryItem
from perdure.frontends.library.closing import Closing
from perdure.frontends.library.portal import PORTAL
from perdure.frontends.library.verdicts import DISTRUSTED, Verdicts


class SyncVerdicts(Closing):
    """The part of Memory that takes memories out of quarantine, and puts them there."""

    _memory: Verdicts

    def trust(self, id: str) -> MemoryItem:
        """Let a quarantined memory enter prompts from now on; `undo` takes it back, NotFoundError where it is none."""
        return PORTAL.call(self._memory.trust(id))

    def distrust(self, id: str, reason: str = DISTRUSTED) -> MemoryItem:
        """Keep a memory out of prompts from now on, for a reason of at most 200 characters; it is still found."""
        return PORTAL.call(self._memory.distrust(id, reason))
