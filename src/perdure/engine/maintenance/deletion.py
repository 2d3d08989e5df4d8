"""Delete memories that maintenance has chosen, with history, and evict the oldest entries of conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.domain.filter import Condition, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, NOTES, Answer, MemoryItem
from perdure.domain.scope import Scope, shared_walls
from perdure.engine.aio.calls import shielded
from perdure.engine.core.batch import Batch, hide_messages, messages_of
from perdure.engine.core.lookup import cut_from, scan, scan_episodes

if TYPE_CHECKING:
    from perdure.domain.event import Episode
    from perdure.domain.filter import Filter
    from perdure.engine.core.kernel import Kernel

PAGE = 200  # memories deleted at a time, so that no writer waits long
SWEEPER = "perdure"  # the actor in a team's audit


@dataclass(slots=True)
class Removal(Answer):
    """The memories that a maintenance task deleted or, in a dry run, would delete."""

    task: str
    removed: list[MemoryItem] = field(default_factory=list)
    """A document counts as one; its fragments are deleted with it."""
    turns: int = 0  # number of messages that are not memories themselves and were removed from a conversation
    looked_at: int = 0
    dry_run: bool = False

    @property
    def count(self) -> int:
        """The number of deleted entries."""
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
    """Yield the current memories of a scope in pages, oldest first."""
    async for points in scan(kernel, all_of(scope_filter(scope), eq("state", LIVE), *more)):
        yield [MemoryItem.from_payload(point.payload) for point in points]


async def remove(
    kernel: Kernel,
    items: Sequence[MemoryItem],
    still: Callable[[MemoryItem], bool],
    *,
    actor: str,
    reason: str,
    with_messages: bool = False,
) -> list[MemoryItem]:
    """Delete memories that still qualify under the lock, `with_messages` also their messages, until an `undo`."""
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
    """Yield the ids in batches."""
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
    audited_as: str | None = None,
) -> list[MemoryItem]:
    """Delete memories, of one team at most, whose lock the caller holds.

    Fragments of documents among them are deleted too. `audited_as` is the action in a team's audit, by default the
    actor.
    """
    batch, gone = Batch(kernel.clock), list[MemoryItem]()
    for point in await kernel.store.get_many(kernel.collection, ids):
        item = MemoryItem.from_payload(point.payload)
        if item.state == LIVE and still(item):
            as_said = with_messages and item.role != "memory"
            hides = item.sources if as_said else await messages_of(kernel, item, point.vector)
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
        from perdure.engine.team.items import Member, audit_entry, ledger_of

        sweeper = Member(team=team, name=SWEEPER, role="service", walls=Scope(team_id=team))
        action = audited_as or actor
        lines = [audit_entry(kernel, sweeper, action, change.memory_id, event_id=change.id) for change in batch.changes]
        await ledger_of(kernel).audit.add(lines)
    return gone


@dataclass(frozen=True, slots=True)
class _Entry:
    """A fact or a turn of a conversation, and its time."""

    at: tuple[str, str, str]
    item: MemoryItem | None = None  # the memory; None for a message that is not a memory
    episode: Episode | None = None


async def evict(kernel: Kernel, scope: Scope, max_entries: int, *, dry_run: bool = False) -> Removal:
    """Delete the oldest facts and turns of a conversation until `max_entries` are left; 0 is unlimited.

    A turn is a stored message: if it is itself a memory (`infer=False`), the memory is deleted; any other message is
    hidden from all reads. Summaries are neither counted nor deleted. `scope` names the conversation (its run); the
    actor is `evict`.
    """
    removal = Removal("evict", dry_run=dry_run)
    if max_entries < 1:
        return removal
    with kernel.lifecycle.in_flight():
        await kernel.open()
        entries = await _entries(kernel, scope)
        removal.looked_at = len(entries)
        chosen = sorted(entries, key=lambda entry: entry.at)[: max(0, len(entries) - max_entries)]
        items = [entry.item for entry in chosen if entry.item is not None]
        turns = [entry.episode for entry in chosen if entry.episode is not None]
        if removal.dry_run:
            removal.removed, removal.turns = items, len(turns)
            return removal
        removal.removed = await remove(
            kernel, items, lambda item: item.state == LIVE, actor="evict", reason="max_entries", with_messages=True
        )
        if turns:
            async with kernel.lock(scope):
                await shielded(hide_messages(kernel, [turn.id for turn in turns]))
        removal.turns = len(turns)
        return removal


async def _entries(kernel: Kernel, scope: Scope) -> list[_Entry]:
    entries: list[_Entry] = []
    as_said: set[str] = set()
    async for items in walk(kernel, scope, Condition("kind", "in", ("facts", NOTES, "messages"))):
        for item in items:
            if item.role == "summary" or item.scope != scope or item.id in item.sources:
                continue  # a row whose message is in the ledger
            entries.append(_Entry((item.told_at, item.created_at, item.id), item=item))
            if item.role != "memory":
                as_said.update(item.sources)
    async for episodes in scan_episodes(kernel.ledger, scope):
        for episode in episodes:
            if episode.scope == scope.given() and episode.id not in as_said:
                entries.append(_Entry((episode.told_at, episode.created_at, episode.id), episode=episode))
    return entries
