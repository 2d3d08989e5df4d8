"""Check whether store, history and messages agree; only reads, a page at a time.

The store is the truth for a memory's text, the ledger for its changes. Others may write meanwhile, so every suspicion
is checked again before it is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from perdure.backends.ledgers.base import Ledger
from perdure.backends.markdown.base import FileStore
from perdure.domain.memory import LIVE, MemoryItem
from perdure.engine.core.kernel import Kernel
from perdure.engine.maintenance import last_events

PAGE = 500  # rows and records read at a time
LOOKS = (0.0, 0.1, 0.3)
"""Seconds to wait before each further check: a change is in the store a moment before it is in history."""

Rift = Literal["unrecorded", "text", "revived", "lost", "version", "source", "episode"]
"""The ways in which store and ledger can disagree."""

SENTENCES: dict[Rift, str] = {
    "unrecorded": "the store holds it, but its history is empty",
    "text": "the store holds another text than its history ends with",
    "revived": "the store holds it, but its history says that it was deleted",
    "lost": "its history says that it exists, but the store does not hold it",
    "version": "the store holds earlier texts of it, but its history is empty",
    "source": "it names messages as its sources that are not kept any more",
    "episode": "the store holds it as a message, but the ledger has no such message",
}

FROM_FILES = "file"  # the actor of a change that was found in the files
Progress = Callable[[int], None]  # called now and then with the number of rows and records checked so far


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One memory about which store and ledger disagree."""

    id: str
    rift: Rift

    @property
    def sentence(self) -> str:
        """The problem, for people."""
        return f"memory {self.id}: {SENTENCES[self.rift]}"


@dataclass(slots=True)
class Comparison:
    """The result of comparing store and ledger."""

    disagreements: list[Disagreement] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Memories that came as files, as from a clone: their earlier history, or messages, may be on another machine."""
    memories: int = 0
    versions: int = 0
    messages: int = 0
    history: int = 0


def rift_between(text: str | None, says: bytes | None, *, replaced: bool = False) -> Rift | None:
    """Return how the store's text (None: no such row) disagrees with the last history record, or None."""
    if text is None:
        return "lost" if says not in (None, last_events.DELETED, last_events.UNREADABLE) and not replaced else None
    if says is None:
        return "unrecorded"
    if says == last_events.DELETED:
        return "revived"
    return "text" if says not in (last_events.UNREADABLE, last_events.digest(text)) else None


async def compare(kernel: Kernel, ledger: Ledger, progress: Progress | None = None) -> Comparison:
    """Read history and store once, and return every memory on which they disagree."""
    walk = _Walk(kernel, ledger, progress)
    await walk.read_history()
    await walk.read_store()
    await walk.look_again()
    return walk.found


class _Walk:
    def __init__(self, kernel: Kernel, ledger: Ledger, progress: Progress | None) -> None:
        self._kernel = kernel
        self._ledger = ledger
        self._progress = progress
        self._last: dict[str, last_events.Last] = {}
        self._standing: set[str] = set()
        self._replaced: set[str] = set()  # memories replaced under a new id: their history ends without a deletion
        self._suspects: dict[tuple[str, Rift], None] = {}
        self._has_files = isinstance(kernel.store, FileStore)
        self._came: set[str] = set()  # memories that came from a file, at least in part
        self._elsewhere: dict[str, None] = {}
        self.found = Comparison()

    async def read_history(self) -> None:
        """Note the last record of every memory."""
        async for records in last_events.history_pages(self._ledger):
            for record in records:
                is_brought_back = record.actor == "rollback" and record.memory_id not in self._last
                if record.actor == FROM_FILES or is_brought_back:  # the latter from the versions of the files
                    self._came.add(record.memory_id)
                last_events.note_last(self._last, record)
            self.found.history += len(records)
            self._tell()

    async def read_store(self) -> None:
        """Compare every row with the last record, and then every record with the rows."""
        async for points in self._kernel.store.stream(self._kernel.collection):
            items = [MemoryItem.from_payload(point.payload) for point in points]
            await self._check_sources(items)
            for item in items:
                self._check_row(item)
            self._tell()
        lost = [
            id
            for id, last in self._last.items()
            if id not in self._standing and rift_between(None, last.says, replaced=id in self._replaced)
        ]
        # A replaced memory leaves a row that says so, unless that is lost as well.
        replaced = await last_events.replaced_at(self._ledger) if lost else {}
        self._replaced.update(id for id in lost if replaced.get(id, ("", 0)) > self._last[id].moment)
        self._suspects.update(((id, "lost"), None) for id in lost if id not in self._replaced)

    def _check_row(self, item: MemoryItem) -> None:
        if item.state != LIVE:
            self.found.versions += 1
            if item.version_of is not None:
                if item.replaced_by is not None:
                    self._replaced.add(item.version_of)
                if item.version_of not in self._last and item.version_of not in item.sources:  # no message has history
                    self._suspect(item.version_of, "version")
        elif item.is_said:
            self.found.messages += 1
        else:
            self.found.memories += 1
            self._standing.add(item.id)
            last = self._last.get(item.id)
            rift = rift_between(item.memory, last.says if last else None)
            if rift is not None:
                self._suspects[item.id, rift] = None

    async def _check_sources(self, items: Sequence[MemoryItem]) -> None:
        if self._kernel.config.episodes == "off":
            return
        missing = await missing_episodes(self._kernel, self._ledger, items)
        for item in items if missing else ():
            if item.is_said and item.state == LIVE:
                if item.id in missing:
                    self._suspects[item.id, "episode"] = None
            elif missing.intersection(item.sources) and item.version_of not in item.sources:  # or a message's tombstone
                self._suspect(item.version_of or item.id, "source")

    def _suspect(self, id: str, rift: Rift) -> None:
        """Suspect a memory, unless it came as a file: the machine that made it knows what is missing here."""
        if self._has_files and (id in self._came or id not in self._last):
            self._elsewhere[id] = None
        else:
            self._suspects[id, rift] = None

    async def look_again(self) -> None:
        """Keep only suspicions that persist: others may be in the middle of a change."""
        held = list(self._suspects)
        for pause in LOOKS:
            if held:
                await asyncio.sleep(pause)
            lost = await self._still_lost([id for id, rift in held if rift == "lost"])
            held = [(id, rift) for id, rift in held if id in lost or (rift != "lost" and await self._still(id, rift))]
        self.found.disagreements += [Disagreement(id, rift) for id, rift in held]
        self.found.elsewhere += self._elsewhere

    async def _still(self, id: str, rift: Rift) -> bool:
        point = await self._kernel.store.get(self._kernel.collection, id)
        item = None if point is None else MemoryItem.from_payload(point.payload)
        if rift == "source":  # a version may name them, and a message cannot be restored
            return True
        if rift == "episode":
            return item is not None and not await self._ledger.get_episodes([id])
        says = last_events.last_word(record for record in await self._ledger.history(id) if record.memory_id == id)
        if rift == "version":
            return says is None and (id, "unrecorded") not in self._suspects
        text = item.memory if item is not None and item.state == LIVE else None
        return rift_between(text, says, replaced=id in self._replaced) == rift

    async def _still_lost(self, ids: Sequence[str]) -> set[str]:
        """Return the ids that history says to exist and that no collection of the store contains."""
        store = self._kernel.store
        left = set(ids)
        for name in await store.list_collections() if ids else ():
            for start in range(0, len(ids), PAGE):
                for point in await store.get_many(name, ids[start : start + PAGE]):
                    if name != self._kernel.collection or point.payload.get("state", LIVE) == LIVE:
                        left.discard(point.id)
        words = await last_events.last_words(self._ledger) if left else {}
        return {id for id in left if rift_between(None, words.get(id), replaced=id in self._replaced) == "lost"}

    def _tell(self) -> None:
        if self._progress is not None:
            found = self.found
            self._progress(found.history + found.memories + found.versions + found.messages)


async def missing_episodes(kernel: Kernel, ledger: Ledger, items: Sequence[MemoryItem]) -> set[str]:
    """Return the messages that items name as sources and that are not stored; a message's file counts as stored."""
    named = {source for item in items for source in item.sources}
    kept = await ledger.get_episodes(sorted(named)) if named else []
    missing = named - {episode.id for episode in kept}
    if missing and isinstance(kernel.store, FileStore):
        missing -= {point.id for point in await kernel.store.get_many(kernel.collection, sorted(missing))}
    return missing
