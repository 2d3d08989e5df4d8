"""Removing what upkeep has chosen: the engine's delete, with history that `undo` takes back (U4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.domain.filter import Filter, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, Answer, MemoryItem
from perdure.domain.scope import Scope, shared_walls
from perdure.engine.aio.tasks import shielded
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lineage import cut_from
from perdure.engine.team.member import Member
from perdure.engine.team.records import audit_entry, ledger_of

PAGE = 200
"""Memories removed at a time, so that no writer waits long."""
WALKED = 500
"""Memories looked at at a time."""
SWEEPER = "perdure"
"""Who a team's audit says did it."""


@dataclass(slots=True)
class Removal(Answer):
    """What a task of upkeep removed, or, dry, would remove."""

    task: str
    removed: list[MemoryItem] = field(default_factory=list)
    """A document is one of them, and what was cut from it goes with it (U4)."""
    turns: int = 0
    """Messages that are no memories themselves and were taken out of a conversation."""
    looked_at: int = 0
    dry_run: bool = False

    @property
    def count(self) -> int:
        """How many went."""
        return len(self.removed) + self.turns

    def model_dump(self) -> dict[str, Any]:
        """The removal as plain values."""
        return {
            "task": self.task,
            "count": self.count,
            "looked_at": self.looked_at,
            "dry_run": self.dry_run,
            **({"turns": self.turns} if self.turns else {}),
            "results": [item.model_dump() for item in self.removed],
        }


async def walk(kernel: Kernel, scope: Scope, *more: Filter) -> AsyncIterator[list[MemoryItem]]:
    """The memories that stand now inside of a scope, some at a time, oldest first."""
    cursor: str | None = None
    within = all_of(scope_filter(scope), eq("state", LIVE), *more)
    while True:
        page = await kernel.store.list(kernel.collection, within, WALKED, cursor)
        if page.points:
            yield [MemoryItem.from_payload(point.payload) for point in page.points]
        cursor = page.next_cursor
        if cursor is None:
            return


async def remove(
    kernel: Kernel,
    items: Sequence[MemoryItem],
    still: Callable[[MemoryItem], bool],
    *,
    actor: str,
    reason: str,
    with_messages: bool = False,
) -> list[MemoryItem]:
    """Remove those of the memories that still are to go once nobody else writes; a team's go on record.

    `with_messages` hides the message of a memory that is one, word for word; `undo` shows it again.
    """
    by_scope: dict[Scope, list[str]] = {}
    for item in items:
        by_scope.setdefault(item.scope, []).append(item.id)
    gone: list[MemoryItem] = []
    documents = [item for item in items if item.meta_type == "document"]
    for scope, ids in by_scope.items():
        team = Scope(team_id=scope.team_id)
        cut = await cut_from(kernel, [item for item in documents if item.scope == scope], team)
        walls = shared_walls([scope, *(MemoryItem.from_payload(row.payload).scope for row in cut)])
        for page in pages(ids):
            async with kernel.lock(walls):
                work = remove_held(kernel, page, still, actor=actor, reason=reason, with_messages=with_messages)
                gone += await shielded(work)
    return gone


def pages(ids: Iterable[str]) -> Iterator[list[str]]:
    """The ids, as many at a time as are removed at a time."""
    rest = list(ids)
    for start in range(0, len(rest), PAGE):
        yield rest[start : start + PAGE]


async def remove_held(
    kernel: Kernel,
    ids: Sequence[str],
    still: Callable[[MemoryItem], bool],
    *,
    actor: str,
    reason: str,
    with_messages: bool = False,
) -> list[MemoryItem]:
    """The same for memories, of one team at most, whose lock the caller holds.

    What was cut from documents among them goes with them.
    """
    batch, gone = Batch(kernel.clock), list[MemoryItem]()
    for point in await kernel.store.get_many(kernel.collection, ids):
        item = MemoryItem.from_payload(point.payload)
        if item.state == LIVE and still(item):
            hides = item.sources if with_messages and item.role != "memory" else ()
            batch.remove(item, point.vector, actor=actor, reason=reason, hides=hides)
            gone.append(item)
    team = gone[0].scope.team_id if gone else None
    known = {item.id for item in gone}
    for row in await cut_from(kernel, gone, Scope(team_id=team)):
        if row.id not in known:
            batch.remove(MemoryItem.from_payload(row.payload), row.vector, actor=actor, reason="derived")
    if gone:
        await kernel.commit(batch.changes, batch.vectors)
    if team is not None:
        sweeper = Member(team=team, name=SWEEPER, role="service", walls=Scope(team_id=team))
        lines = [audit_entry(kernel, sweeper, actor, change.memory_id, event_id=change.id) for change in batch.changes]
        await ledger_of(kernel).audit.add(lines)
    return gone
