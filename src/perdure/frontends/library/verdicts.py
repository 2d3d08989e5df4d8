"""Verdicts: whether a memory may enter prompts, said by a person over what the firewall made of it."""

from __future__ import annotations

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem
from perdure.engine import requests
from perdure.frontends.library.opened import Opened

DISTRUSTED = "distrusted"
"""The reason of a quarantine for which none is given."""
LONGEST_REASON = 200


class Verdicts(Opened):
    """The part of AsyncMemory that takes memories out of quarantine, and puts them there."""

    async def trust(self, id: str) -> MemoryItem:
        """Let a quarantined memory enter prompts from now on; `undo` takes it back, NotFoundError where it is none."""
        return await self._engine.trusting.trust(requests.read_memory_id(id), self._walls)

    async def distrust(self, id: str, reason: str = DISTRUSTED) -> MemoryItem:
        """Keep a memory out of prompts from now on, for a reason of at most 200 characters; it is still found."""
        why = requests.read_text(reason, "reason")
        if len(why) > LONGEST_REASON:
            raise InvalidInputError(
                f"reason may have {LONGEST_REASON} characters, not {len(why)}", field="reason", value=why
            )
        return await self._engine.trusting.distrust(requests.read_memory_id(id), why, self._walls)
