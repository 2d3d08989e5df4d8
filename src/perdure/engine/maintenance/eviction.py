"""Eviction: a conversation that holds more than its entries loses the oldest facts and turns (K54)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perdure.backends.ledgers.base import Ledger
from perdure.backends.markdown.base import FileStore
from perdure.backends.vector_stores.base import Point
from perdure.domain.event import Episode
from perdure.domain.filter import Condition
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.tasks import shielded
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.rows import version_of
from perdure.engine.maintenance.deletion import WALKED, Removal, remove, walk


@dataclass(frozen=True, slots=True)
class _Entry:
    """A fact or a turn of a conversation, and when it came."""

    at: tuple[str, str, str]
    item: MemoryItem | None = None
    """The memory; None for a message that is none itself."""
    episode: Episode | None = None


class Opened(Protocol):
    """An engine, as far as an eviction needs one."""

    @property
    def kernel(self) -> Kernel:
        """What it works through."""


async def evict(engine: Opened, scope: Scope, max_entries: int, *, dry_run: bool = False) -> Removal:
    """Remove the oldest facts and turns of a conversation until `max_entries` are left; 0 is any number.

    A turn is a message that is kept: of one that is a memory itself (`infer=False`) the memory goes, of any other the
    message is hidden, so that nothing reads it any more. Summaries are neither counted nor removed. Exactly
    `max_entries` lose none. `scope` names the conversation (its run); actor `evict`.
    """
    removal, kernel = Removal("evict", dry_run=dry_run), engine.kernel
    if max_entries < 1:
        return removal
    with kernel.lifecycle.in_flight():
        await kernel.open()
        return await _evict(kernel, scope, max_entries, removal)


async def _evict(kernel: Kernel, scope: Scope, max_entries: int, removal: Removal) -> Removal:
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
            await shielded(_hide(kernel, [turn.id for turn in turns], kernel.clock.tick()))
    removal.turns = len(turns)
    return removal


async def _entries(kernel: Kernel, scope: Scope) -> list[_Entry]:
    entries: list[_Entry] = []
    as_said: set[str] = set()
    async for items in walk(kernel, scope, Condition("kind", "in", ("facts", "messages"))):
        for item in items:
            if item.role == "summary" or item.scope != scope or item.id in item.sources:
                continue  # a row of which the message itself is in the ledger
            entries.append(_Entry((item.told_at, item.created_at, item.id), item=item))
            if item.role != "memory":
                as_said.update(item.sources)
    if kernel.ledger is not None:
        for episode in await _turns(kernel.ledger, scope):
            if episode.id not in as_said:
                entries.append(_Entry((episode.told_at, episode.created_at, episode.id), episode=episode))
    return entries


async def _turns(ledger: Ledger, scope: Scope) -> list[Episode]:
    found: list[Episode] = []
    cursor: str | None = None
    while True:
        page = await ledger.list_episodes(scope, WALKED, cursor)
        found += [episode for episode in page.episodes if episode.scope == scope.given()]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def _hide(kernel: Kernel, ids: list[str], moment: str) -> None:
    """Take messages out of every read; where they are searched too, their rows go, and of files a tombstone stays."""
    assert kernel.ledger is not None, "they were read from it"
    await kernel.ledger.hide_episodes(ids)
    if kernel.config.episodes != "search":
        return
    kept: list[Point] = []
    if isinstance(kernel.store, FileStore):
        for point in await kernel.store.get_many(kernel.collection, ids):
            keep = version_of(MemoryItem.from_payload(point.payload), untold_at=moment)
            kept.append(Point(keep.id, point.vector, keep.to_payload()))
    await kernel.store.apply(kernel.collection, kept, ids)
    if kernel.file_observer is not None:
        kernel.file_observer.note(())
