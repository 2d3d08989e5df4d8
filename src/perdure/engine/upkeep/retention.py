"""Decay and prune: what nobody asked for in a long time is deleted, unless it is of a kind that stays (B8, V72)."""

from __future__ import annotations

from datetime import datetime

from perdure.domain.filter import eq
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.domain.tags import level_of
from perdure.engine.accesses import Accesses
from perdure.engine.calls import call
from perdure.engine.kernel import Kernel
from perdure.engine.standing import is_directive
from perdure.engine.upkeep.removing import Removal, remove, walk
from perdure.pipeline.lexicon import words
from perdure.pipeline.retention import is_new, retained


def is_exempt(item: MemoryItem) -> bool:
    """Whether a memory stays whatever its age: VALIDATED or more, a summary, a directive, or a line of the profile."""
    if item.tags is not None and level_of(item.tags.truth_level) >= level_of("VALIDATED"):
        return True
    if item.kind == "summaries" or item.role == "summary" or is_directive(item):
        return True
    return item.slots is not None and item.slots.polarity and item.slots.attribute in words("profile_attributes.txt")


class Pruning:
    """Deletes what has decayed."""

    def __init__(self, kernel: Kernel, accesses: Accesses) -> None:
        self._kernel = kernel
        self._accesses = accesses
        self._settings = kernel.config.upkeep

    @call
    async def __call__(self, scope: Scope, *, dry_run: bool = False) -> Removal:
        """Delete the memories of a scope, or of all, whose R is below the threshold; actor `prune`."""
        kernel, now = self._kernel, self._kernel.ticker.now()
        removal = Removal("prune", dry_run=dry_run)

        def has_decayed(item: MemoryItem) -> bool:
            return self._has_decayed(self._accesses.counted(item), now)

        found: list[MemoryItem] = []
        async for items in walk(kernel, scope, eq("kind", "facts")):
            removal.looked_at += len(items)
            found += [item for item in items if has_decayed(item)]
        removal.removed = (
            found if dry_run else await remove(kernel, found, has_decayed, actor="prune", reason="decayed")
        )
        return removal

    def _has_decayed(self, item: MemoryItem, now: datetime) -> bool:
        settings = self._settings
        return (
            retained(item, now, settings.initial_strength_days) < settings.prune_threshold
            and not is_new(item, now, settings.grace_days)
            and not is_exempt(item)
        )
