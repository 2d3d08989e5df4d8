"""Expiry: what is past its `expires_at` is deleted, a person's memories and a team's (V68, X38, U20)."""

from __future__ import annotations

from perdure.domain.clock import iso
from perdure.domain.filter import Condition, Moment
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.calls import call
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.engine.team.expiry import TeamExpiry
from perdure.engine.upkeep.removing import Removal, remove, walk


class Expiry:
    """Deletes what has run out; no read shows it before."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._of_teams = TeamExpiry(kernel)

    @call
    async def __call__(self, scope: Scope, *, dry_run: bool = False) -> Removal:
        """Delete the personal memories of a scope, or of all, whose time is over; actor `expiry`."""
        kernel, now = self._kernel, iso(self._kernel.ticker.now())
        removal = Removal("expire", dry_run=dry_run)
        found: list[MemoryItem] = []
        async for items in walk(kernel, scope, Condition("expires_at", "lte", Moment(now))):
            found += [item for item in items if item.scope.team_id is None]
        removal.looked_at = len(found)

        def is_over(item: MemoryItem) -> bool:
            return item.expires_at is not None and item.expires_at <= now

        removal.removed = found if dry_run else await remove(kernel, found, is_over, actor="expiry", reason="expired")
        return removal

    async def everywhere(self) -> int:
        """Delete all that has expired, of persons and of teams; how many that were."""
        count = (await self(Scope())).count
        with given_up("what has expired of teams is deleted by the next sweep"):
            count += await self._of_teams.sweep()
        return count
