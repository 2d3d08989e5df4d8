"""Compare two states of the files: memories learned, replaced, deleted and erased between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perdure.backends.git.base import BOOKKEEPING, Replaced, Step
from perdure.backends.git.repository import FileChange
from perdure.backends.markdown import layout
from perdure.backends.markdown.front_matter import NoFrontMatter
from perdure.backends.markdown.memory_file import as_item, read
from perdure.domain.clock import EARLIEST, iso
from perdure.domain.memory import LIVE, MemoryItem

# Where memories lie among the files of a version.


def place_in(path: str) -> str | None:
    """The place of a memory's file below its `entries`; None for a path that is no memory's."""
    _, found, place = f"/{path}".partition(f"/{layout.ENTRIES}/")
    return place if found and place.endswith(layout.SUFFIX) else None


UNDATED = iso(EARLIEST)


def item_of(path: str, data: bytes | None) -> MemoryItem | None:
    """The memory, or the earlier version of one, that a file holds; None where it holds none."""
    place = place_in(path)
    if data is None or place is None:
        return None
    try:
        return as_item(read(data.decode("utf-8"), place, UNDATED).payload)
    except (NoFrontMatter, UnicodeError):
        return None


@dataclass(slots=True)
class State:
    """The memories of one state: those that stand by id, and the tombstones of each by the id of the memory."""

    live: dict[str, MemoryItem]
    tombstones: dict[str, list[MemoryItem]]
    versions: set[str]
    """Ids of the tombstones themselves."""

    @classmethod
    def of(cls, items: Iterable[MemoryItem]) -> State:
        """The state that holds these."""
        state = cls({}, {}, set())
        for item in items:
            if item.state == LIVE:
                state.live[item.id] = item
            elif item.version_of is not None:
                state.versions.add(item.id)
                state.tombstones.setdefault(item.version_of, []).append(item)
        return state

    def last_of(self, id: str, known: set[str]) -> MemoryItem | None:
        """The latest tombstone of a memory, of those that were not known before."""
        new = [item for item in self.tombstones.get(id, ()) if item.id not in known]
        return max(new, key=lambda item: item.untold_at or "", default=None)


def step_of(changes: Sequence[FileChange]) -> Step:
    """What the changed files tell."""
    step = Step()
    before, after = [], []
    slips, mended = dict[str, MemoryItem](), set[str]()
    for change in changes:
        one, two = item_of(change.path, change.before), item_of(change.path, change.after)
        before += [one] if one else []
        after += [two] if two and not change.is_slip else []
        step.others += one is None and two is None
        if two is not None and two.state == LIVE:
            if change.is_slip:
                slips[two.id] = two
            elif change.was_slip:
                mended.add(two.id)
    old, new = State.of(before), State.of(after)
    for id, item in slips.items():
        if id not in new.live and new.last_of(id, old.versions) is None:
            new.live[id] = item
            step.unread.append(item)
    taken: set[str] = set()
    for id, item in old.live.items():
        if id in new.live:
            _note_kept(step, item, new.live[id])
            if id in mended and item.memory == new.live[id].memory:
                step.mended.append(new.live[id])
        else:
            _note_gone(step, item, old, new, taken)
    for id, item in new.live.items():
        if id not in old.live and id not in taken:
            {"messages": step.said, "summaries": step.summaries}.get(item.kind, step.learned).append(item)
    step.cleared = sum(version not in new.versions for version in old.versions)
    for items in (step.learned, step.dropped, step.said, step.summaries, step.unread, step.mended):
        items.sort(key=lambda item: (item.created_at, item.id))
    step.replaced.sort(key=lambda pair: (pair.after.updated_at, pair.after.id))
    return step


def _note_kept(step: Step, before: MemoryItem, after: MemoryItem) -> None:
    if after.kind == "summaries":
        if before.memory != after.memory:
            step.summaries.append(after)
    elif before.memory != after.memory:
        step.replaced.append(Replaced(before, after))
    elif before.with_(**{name: getattr(after, name) for name in BOOKKEEPING}) != after:
        step.marked.append(Replaced(before, after))


def _note_gone(step: Step, item: MemoryItem, old: State, new: State, taken: set[str]) -> None:
    tombstone = new.last_of(item.id, old.versions)
    if tombstone is None:
        if item.kind == "messages":
            step.unsaid += 1
        else:
            step.erased.append(item.id)
        return
    seen: set[str] = {item.id}
    last: MemoryItem | None = tombstone
    while last is not None and last.replaced_by is not None and last.replaced_by not in seen:
        id = last.replaced_by
        seen.add(id)
        if id in new.live:
            if id not in old.live:
                taken.add(id)
                step.replaced.append(Replaced(item, new.live[id]))
                return
            break
        last = new.last_of(id, old.versions)
    if item.kind == "messages":
        step.unsaid += 1
    elif item.kind != "summaries":
        step.dropped.append(item)
