"""Merging two lines of a memory's files, memory by memory: what comes out is files, and never a conflict's markers.

Where one side alone changed a file, that is what it becomes. Where both changed one memory, the text that was updated
last stands, and the other is kept as a tombstone. What either side erased is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.vault import layout
from perdure.backends.vault.memory_file import render
from perdure.backends.vault.versions.base import Contradiction, Replaced, Settle
from perdure.backends.vault.versions.reading import State, item_of, place_in
from perdure.backends.vault.versions.repository import FileChange
from perdure.domain.memory import LIVE, VERSION, MemoryItem

Files = Mapping[str, bytes | None]


@dataclass(slots=True)
class Merged:
    """What a merge makes of our files."""

    files: dict[str, bytes | None] = field(default_factory=dict)
    """What is to be written over ours, or removed."""
    conflicts: list[Replaced] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)


def merge(ours: list[FileChange], theirs: list[FileChange], settle: Settle) -> Merged:
    """Both sides' changes since the branches parted, as one."""
    return _Merging(ours, theirs)(settle)


class _Merging:
    def __init__(self, ours: list[FileChange], theirs: list[FileChange]) -> None:
        self._base: dict[str, bytes | None] = {each.path: each.before for each in (*ours, *theirs)}
        self._ours: dict[str, bytes | None] = {**self._base, **{each.path: each.after for each in ours}}
        self._theirs: dict[str, bytes | None] = {**self._base, **{each.path: each.after for each in theirs}}
        self._before, self._mine, self._other = map(_state, (self._base, self._ours, self._theirs))
        self._result = dict(self._ours)
        self._merged = Merged()

    def __call__(self, settle: Settle) -> Merged:
        by_both: list[str] = []
        for path, base in self._base.items():
            ours, theirs = self._ours[path], self._theirs[path]
            if ours == base:
                self._result[path] = theirs
            elif theirs not in (base, ours):
                by_both.append(path)
        for path in by_both:  # last: a tombstone of theirs must not be written over
            self._both(path, self._ours[path], self._theirs[path])
        self._drop_erased()
        self._contradict(settle)
        self._merged.files = {path: data for path, data in self._result.items() if data != self._ours.get(path)}
        return self._merged

    # ------------------------------------------------------------------ one file that both sides changed
    def _both(self, path: str, ours: bytes | None, theirs: bytes | None) -> None:
        mine, other = item_of(path, ours), item_of(path, theirs)
        if ours is None or theirs is None:
            self._one_removed(path, mine or other, mine is not None)
        elif mine is None or other is None:
            self._result[path] = ours if mine is not None or other is None else theirs
        elif mine.state == LIVE and other.state == LIVE:
            later, earlier = (mine, other) if _rank(mine) >= _rank(other) else (other, mine)
            self._result[path] = ours if later is mine else theirs
            if later.memory != earlier.memory:
                self._bury(path, earlier, later, replaced_by=None)
                self._merged.conflicts.append(Replaced(earlier, later))
        elif mine.id != other.id:
            self._result[self._free(path)] = theirs  # each side's tombstone of one memory

    def _one_removed(self, path: str, left: MemoryItem | None, is_ours: bool) -> None:
        """One side changed what the other took away."""
        gone = self._other if is_ours else self._mine
        tombstone = None if left is None else gone.last_of(left.id, self._before.versions)
        if left is None or left.state != LIVE or tombstone is None:
            self._result[path] = None
        elif left.updated_at > (tombstone.untold_at or ""):
            self._result[path] = self._ours[path] if is_ours else self._theirs[path]
            self._merged.conflicts.append(Replaced(tombstone, left))
        else:
            self._result[path] = None
            if left.memory != tombstone.memory:
                self._bury(path, left, tombstone, replaced_by=tombstone.replaced_by)
                self._merged.conflicts.append(Replaced(left, tombstone))

    # ------------------------------------------------------------------ between files
    def _drop_erased(self) -> None:
        """Keep nothing of a memory that either side erased, not even as a tombstone."""
        erased = {
            id
            for side in (self._mine, self._other)
            for id in self._before.live
            if id not in side.live and id not in side.tombstones
        }
        for path, data in list(self._result.items()):
            item = item_of(path, data)
            if item is not None and (item.version_of or item.id) in erased:
                self._result[path] = None

    def _contradict(self, settle: Settle) -> None:
        """Let what came from both sides about one matter meet."""
        mine = self._new(self._ours)
        other: dict[tuple[object, ...], list[tuple[str, MemoryItem]]] = {}
        for path, item in self._new(self._theirs):
            other.setdefault(_matter(item), []).append((path, item))
        for path, ours in mine:
            for their_path, theirs in other.get(_matter(ours), ()):
                standing = (self._result.get(path) is not None, self._result.get(their_path) is not None)
                stands = settle(ours, theirs) if ours.id != theirs.id and all(standing) else None
                if stands is None:
                    continue
                self._merged.contradictions.append(Contradiction(ours, theirs, stands))
                if stands == "ours":
                    self._bury(their_path, theirs, ours, replaced_by=ours.id)
                    self._result[their_path] = None
                elif stands == "theirs":
                    self._bury(path, ours, theirs, replaced_by=theirs.id)
                    self._result[path] = None

    def _new(self, side: Files) -> list[tuple[str, MemoryItem]]:
        """Facts with a subject and an attribute that a side added or changed, and that stand."""
        found: list[tuple[str, MemoryItem]] = []
        for path, data in side.items():
            item = None if data == self._base[path] or self._result.get(path) != data else item_of(path, data)
            if item is not None and item.state == LIVE and item.kind == "facts" and item.slots is not None:
                found.append((path, item))
        return found

    # ------------------------------------------------------------------ tombstones
    def _bury(self, path: str, item: MemoryItem, later: MemoryItem, *, replaced_by: str | None) -> None:
        """Keep a text that gives way beside the others that were replaced; made alike wherever the two lines meet."""
        tombstone = item.with_(
            id=str(uuid5(NAMESPACE_URL, f"perdure:merge:{item.id}:{item.hash}:{item.updated_at}")),
            state=VERSION,
            version_of=item.id,
            untold_at=max(later.told_at, item.told_at),
            replaced_by=replaced_by,
        )
        place = place_in(path)
        assert place is not None, "a memory lies below entries"
        folder, _, rest = place.partition("/")
        buried = f"{path.removesuffix(place)}{folder}/{layout.DELETED}/{rest}"
        self._result[self._free(buried)] = render(tombstone.id, tombstone.to_payload()).encode()

    def _free(self, path: str) -> str:
        number = 1
        while self._result.get(layout.numbered(path, number)) is not None:
            number += 1
        return layout.numbered(path, number)


def _state(files: Files) -> State:
    items = (item_of(path, data) for path, data in files.items())
    return State.of(item for item in items if item is not None)


def _rank(item: MemoryItem) -> tuple[str, str]:
    """Later is higher; of two of one moment always the same, whichever side is asked."""
    return item.updated_at, item.hash


def _matter(item: MemoryItem) -> tuple[object, ...]:
    assert item.slots is not None, "only such were taken"
    return item.scope, item.slots.subject, item.slots.attribute
