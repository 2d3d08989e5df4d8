"""Expiry: EPHEMERAL memories that nobody promoted in time are deleted like any other (X38, U20)."""

from __future__ import annotations

from perdure.backends.vector_stores.base import Point
from perdure.domain.access import AuditEntry
from perdure.domain.clock import iso
from perdure.domain.filter import Condition, Filter, Moment, all_of, eq, matches, scope_filter
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.batch import Batch
from perdure.engine.calls import call
from perdure.engine.finish import finish
from perdure.engine.kernel import Kernel
from perdure.engine.team.member import Member
from perdure.engine.team.records import ledger_of, line

PAGE = 200
"""Memories removed at a time, so that no writer waits long."""
SWEEPER = "perdure"
"""Who the audit says did it."""


class TeamExpiry:
    """Removes what has run out."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @call
    async def sweep(self, team: str | None = None) -> int:
        """Delete the EPHEMERAL memories of a team, or of all, whose time is over; how many that were."""
        kernel = self._kernel
        ledger_of(kernel)
        count = 0
        while True:
            page = await kernel.store.list(kernel.collection, self._over(team), PAGE)
            by_team: dict[str, list[str]] = {}
            for point in page.points:
                by_team.setdefault(str(point.payload.get("team_id")), []).append(point.id)
            removed = sum([await self._remove(each, ids) for each, ids in by_team.items()])
            count += removed
            if len(page.points) < PAGE or not removed:
                return count

    def _over(self, team: str | None) -> Filter:
        moment = Moment(iso(self._kernel.ticker.now()))
        return all_of(
            scope_filter(Scope(team_id=team)),
            eq("state", LIVE),
            eq("truth_level", "EPHEMERAL"),
            Condition("expires_at", "lte", moment),
        )

    async def _remove(self, team: str, ids: list[str]) -> int:
        """Remove those of the memories whose time is over still, now that nobody else writes."""
        kernel = self._kernel
        async with kernel.lock(Scope(team_id=team)):
            over = self._over(team)
            points: list[Point] = await kernel.store.get_many(kernel.collection, ids)
            points = [point for point in points if matches(over, point.payload)]
            batch = Batch(kernel.ticker)
            for point in points:
                item = MemoryItem.from_payload(point.payload)
                batch.remove(item, point.vector, actor="expiry", reason="expired")
            if points:
                await finish(self._carry_out(batch, team))
        return len(points)

    async def _carry_out(self, batch: Batch, team: str) -> None:
        kernel = self._kernel
        await kernel.commit(batch.changes, batch.vectors)
        sweeper = Member(team=team, name=SWEEPER, role="service", walls=Scope(team_id=team))
        entries: list[AuditEntry] = [
            line(kernel, sweeper, "expire", change.memory_id, event_id=change.id) for change in batch.changes
        ]
        await ledger_of(kernel).audit.add(entries)
