"""Tidying for callers without an event loop."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.derived import Consolidation, Reflected
from perdure.frontends.library.closing import Closing
from perdure.frontends.library.portal import PORTAL
from perdure.frontends.library.tidying import Tidying


class SyncTidying(Closing):
    """The part of Memory that consolidates and reflects."""

    _memory: Tidying

    def consolidate(
        self,
        memory_ids: Sequence[str] | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        at_least: int = 2,
        dry_run: bool = False,
    ) -> list[Consolidation]:
        """Merge the named memories, which must be of one scope and one type, or what belongs together in a scope."""
        return PORTAL.call(
            self._memory.consolidate(
                memory_ids, user_id=user_id, agent_id=agent_id, run_id=run_id, at_least=at_least, dry_run=dry_run
            )
        )

    def reflect(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        about: str | None = None,
        dry_run: bool = False,
    ) -> Reflected:
        """What a scope's memories show together, in `insights`: counts, common issues, approaches, styles, lessons."""
        return PORTAL.call(
            self._memory.reflect(user_id=user_id, agent_id=agent_id, run_id=run_id, about=about, dry_run=dry_run)
        )
