"""One scope's index in memory: read from packed features, and kept up to date row by row.

Rows are units: one for a short memory, one for each passage of a long one. Unit 0 is empty and stands for "no
neighbour". A turn knows the turns next to it in time with the same scope values, within an hour. What does not depend
on the question is computed on first use after a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perdure.domain.text.terms import key_of
from perdure.pipeline.retrieval.features import (
    LONG,
    TURN,
    Batch,
    Entry,
    Keys,
    pack_entry,
    unpack_entries,
    unpack_vectors,
)
from perdure.pipeline.retrieval.growing import Growing
from perdure.pipeline.retrieval.weights import SESSION_GAP, SHARES
from perdure.pipeline.retrieval.word_table import WordTable

T = TypeVar("T")
Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
_MEMORY, _UNIT, _EMPTY = 420, 120, 8_000
"""Bytes that a memory, a unit and an index take beside the columns, as measured."""
_AT_A_TIME = 256  # Windows measured together: 400 kB of vectors, which stay in the processor's cache
_SEGMENTS = 8  # postings are folded into one segment when there are more


@dataclass(frozen=True, slots=True)
class _Segment:
    """Postings of units added together: for each stem, in ascending order, its units."""

    stems: Keys
    starts: NDArray[np.int64]  # where each stem's postings begin; one more than there are stems
    rows: NDArray[np.int32]
    counts: NDArray[np.uint16]

    @classmethod
    def of(cls, stems: Keys, rows: NDArray[np.int32], counts: NDArray[np.uint16]) -> _Segment:
        """Build from postings whose units ascend within each stem."""
        order = np.argsort(stems, kind="stable")
        ordered = stems[order]
        firsts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
        return cls(ordered[firsts], np.r_[firsts, len(ordered)], rows[order], counts[order])

    def find(self, stem: int) -> slice | None:
        """Return where a stem's postings are."""
        place = int(np.searchsorted(self.stems, stem))
        if place == len(self.stems) or self.stems[place] != stem:
            return None
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arrays."""
        return self.stems.nbytes + self.starts.nbytes + self.rows.nbytes + self.counts.nbytes

    @property
    def every_stem(self) -> Keys:
        """Return the stem of each posting."""
        return np.repeat(self.stems, np.diff(self.starts))


class ScopeIndex:
    """Postings, vectors, words and neighbours of the memories of one scope."""

    def __init__(self, dimension: int, words: WordTable | None = None) -> None:
        self.dimension = dimension
        self.words = WordTable(dimension) if words is None else words
        self.ids: list[str] = [""]
        self.stamps: dict[str, str] = {}
        self.speakers: dict[str, int] = {}  # names of speakers, folded, with their numbers from 1
        self.alive_entries = 0
        self.dead_units = 0
        self._units: dict[str, tuple[int, int]] = {}
        self._segments: list[_Segment] = []
        self._alive, self._owner = Growing(np.bool_), Growing(np.int32)
        self._vectors, self._norms = Growing(np.float32, dimension), Growing(np.float32)
        self._wholes, self._whole_of = Growing(np.float32, dimension), Growing(np.int64)
        self._lengths, self._days = Growing(np.float32), Growing(np.float64)
        self._cues, self._temporal, self._proper = Growing(np.uint8), Growing(np.uint8), Growing(np.uint8)
        self._speaker = Growing(np.int32)
        self._track, self._made, self._position = Growing(np.int64), Growing(np.int64), Growing(np.int32)
        self._word_starts, self._words = Growing(np.int64), Growing(np.int32)
        self._columns = (
            self._alive, self._owner, self._vectors, self._norms, self._wholes, self._whole_of, self._lengths,
            self._days, self._cues, self._temporal, self._proper, self._speaker, self._track, self._made,
            self._position, self._word_starts, self._words,
        )  # fmt: skip
        for column in self._columns:
            if column not in (self._wholes, self._whole_of):
                column.append(1 if column is self._norms else 0)
        self._previous = self._next = np.zeros(1, np.int32)
        self._linked = True  # whether `_previous` and `_next` are those of the units that are alive now
        self._neighbours: list[Rows] | None = None
        self._prepared: dict[object, object] = {}

    # ------------------------------------------------------------------ changing
    def put(self, entry: Entry) -> None:
        """Add a memory, replacing the one with its id."""
        self.words.learn(entry.words)
        vectors = np.zeros((1, self.dimension), np.float32)
        if entry.vector is not None:
            vectors[0] = entry.vector
        kept = pack_entry(entry)
        self.extend([entry.id], unpack_entries([kept.data], [kept.keys]), vectors)
        first, count = self._units[entry.id]
        exact = entry.passages[:count]
        if count > 1 and len(exact):  # as they were given, not as they were packed
            self._vectors.view[first : first + len(exact)] = exact

    def extend(self, ids: Sequence[str], batch: Batch, vectors: NDArray[np.float32]) -> None:
        """Add memories, replacing those with their ids; `words` has all of their words.

        `vectors` are those of the whole texts, of length 1 or zeros, shape (memories, dimension).
        """
        for id in ids:
            if id in self._units:
                self.remove(id)
        heads, counts = batch.heads, batch.heads["units"].astype(np.int64)
        number, first = len(self.ids), len(self._alive)
        total = int(counts.sum())
        owners = np.repeat(np.arange(len(ids)), counts)
        firsts = first + np.cumsum(counts) - counts
        self._add_vectors(batch, vectors, owners, firsts - first)
        self._alive.extend(np.ones(total, np.bool_))
        self._owner.extend(owners + number)
        self._norms.extend(np.ones(total, np.float32))
        alone = np.zeros(total, np.int32)
        self._previous, self._next = np.r_[self._previous, alone], np.r_[self._next, alone]
        self._lengths.extend(batch.units["length"])
        for column, name in (
            (self._days, "days"),
            (self._cues, "cues"),
            (self._temporal, "temporal"),
            (self._proper, "proper"),
            (self._track, "track"),
            (self._made, "made"),
            (self._position, "position"),
        ):
            column.extend(heads[name][owners])
        speakers = self.speakers
        named = [speakers.setdefault(name, len(speakers) + 1) if name else 0 for name in batch.speakers]
        self._speaker.extend(np.array(named, np.int32)[owners])
        self._add_words(batch)
        rows = np.repeat(np.arange(first, first + total, dtype=np.int32), batch.units["stems"])
        self._segments.append(_Segment.of(batch.stems, rows, batch.counts))
        if len(self._segments) > _SEGMENTS:
            self._fold()
        self.ids.extend(ids)
        self._units.update(zip(ids, zip(firsts.tolist(), counts.tolist(), strict=True), strict=True))
        self.stamps.update(zip(ids, batch.stamps, strict=True))
        self.alive_entries += len(ids)
        self._changed(links=bool((heads["cues"] & TURN).any()))

    def remove(self, id: str) -> None:
        """Remove a memory; an unknown id is no error."""
        held = self._units.pop(id, None)
        if held is None:
            return
        first, count = held
        del self.stamps[id]
        self.alive_entries -= 1
        self.dead_units += count
        self._alive.view[first : first + count] = False
        self._changed(links=bool(self._cues.view[first] & TURN))

    # ------------------------------------------------------------------ reading
    @property
    def size(self) -> int:
        """Return roughly its size in bytes, without the words, which indexes share."""
        arrays = sum(each.room for each in self._columns) + sum(each.nbytes for each in self._segments)
        beside = 0 if self._neighbours is None else sum(each.nbytes for each in self._neighbours)
        return _EMPTY + arrays + beside + _UNIT * len(self._alive) + _MEMORY * len(self.ids)

    def __contains__(self, id: str) -> bool:
        return id in self._units

    @property
    def unvectored(self) -> list[str]:
        """Return the scope's words without a vector."""
        return self.words.without_vector(self._words.view)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Return which units belong to a current memory."""
        return self._alive.view

    @property
    def owner(self) -> NDArray[np.int32]:
        """Return the place in `ids` of each unit's memory; ascending."""
        return self._owner.view

    @property
    def days(self) -> NDArray[np.float64]:
        """Return when each unit was said, in days since 1970."""
        return self._days.view

    @property
    def cues(self) -> NDArray[np.uint8]:
        """Return the bits of each unit's memory."""
        return self._cues.view

    @property
    def temporal(self) -> NDArray[np.uint8]:
        """Return the number of time words in each unit's memory."""
        return self._temporal.view

    @property
    def proper(self) -> NDArray[np.uint8]:
        """Return the number of proper nouns in each unit's memory."""
        return self._proper.view

    @property
    def speaker(self) -> NDArray[np.int32]:
        """Return the number of each unit's speaker, 0 for none."""
        return self._speaker.view

    @property
    def lengths(self) -> Floats:
        """Return the number of stems in each unit."""
        return self._lengths.view

    @property
    def vectors(self) -> Floats:
        """Return each unit's vector, zeros if missing."""
        return self._vectors.view

    @property
    def norms(self) -> Floats:
        """Return the length of each unit's window vector."""
        self._link()
        return self._norms.view

    @property
    def wholes(self) -> tuple[Floats, Rows]:
        """Return the vectors of long memories' whole texts, and the first units of these."""
        return self._wholes.view, self._whole_of.view

    @property
    def occurrences(self) -> tuple[NDArray[np.int32], Rows]:
        """Return the word numbers of all units one after another, and where each unit's begin."""
        return self._words.view, self._word_starts.view

    def neighbours(self) -> list[Rows]:
        """Return the units before and after each unit: one, two and three before, then one, two and three after.

        Empty if no unit has a neighbour, as among facts.
        """
        if self._neighbours is None:
            self._link()
            self._neighbours = []
            if self._previous.any():
                for links in (self._previous.astype(np.int64), self._next.astype(np.int64)):
                    second = links[links]
                    self._neighbours += [links, second, links[second]]
        return self._neighbours

    def postings(self, stem: str) -> tuple[Rows, Floats]:
        """Return the units with a stem, dead ones included, and its counts."""
        key = key_of(stem)
        found = [(each, place) for each in self._segments if (place := each.find(key)) is not None]
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows = np.concatenate([each.rows[place] for each, place in found]).astype(np.int64)
        return rows, np.concatenate([each.counts[place] for each, place in found]).astype(np.float32)

    def prepared(self, name: object, compute: Callable[[], T]) -> T:
        """Return what `compute` makes of the index alone, cached under a name until the index changes."""
        if name not in self._prepared:
            self._prepared[name] = compute()
        return self._prepared[name]  # type: ignore[return-value]

    # ------------------------------------------------------------------ pieces
    def _changed(self, *, links: bool) -> None:
        self._prepared.clear()
        self._neighbours = None
        if links:
            self._linked = False

    def _add_vectors(self, batch: Batch, vectors: NDArray[np.float32], owners: Rows, firsts: Rows) -> None:
        """Add the units' vectors: a short memory's own, a long one's passages'."""
        counts = batch.heads["units"]
        if not (counts > 1).any():
            self._vectors.extend(vectors)
            return
        start = len(self._vectors)
        of_units = vectors[owners]
        for place in np.flatnonzero(counts > 1).tolist():
            first, count = int(firsts[place]), int(counts[place])
            of_units[first : first + count] = 0
            known = unpack_vectors(batch.passages[place], self.dimension)[:count]
            of_units[first : first + len(known)] = known
            if vectors[place].any():
                self._wholes.append(vectors[place])
                self._whole_of.append(start + first)
        self._vectors.extend(of_units)

    def _add_words(self, batch: Batch) -> None:
        counts = batch.units["words"].astype(np.int64)
        numbers = self.words.numbers_of(batch.words)[batch.word_places]
        bare = np.flatnonzero(counts == 0)
        if len(bare):  # a unit without words has the one that stands for none
            numbers = np.insert(numbers, np.cumsum(counts)[bare], 0)
            counts[bare] = 1
        self._word_starts.extend(len(self._words) + np.cumsum(counts) - counts)
        self._words.extend(numbers)

    def _fold(self) -> None:
        """Merge the segments after the largest one, and that one too if they are at least half as large."""
        largest, *rest = sorted(self._segments, key=lambda each: -len(each.rows))
        if 2 * sum(len(each.rows) for each in rest) > len(largest.rows):
            self._segments = [_folded(self._segments)]
        else:
            self._segments = [largest, _folded([each for each in self._segments if each is not largest])]

    def _link(self) -> None:
        """Update the neighbours of turns, and the window lengths that this changes."""
        if self._linked:
            return
        units = len(self._alive)
        owner = self.owner
        is_first = np.r_[True, owner[1:] != owner[:-1]]
        turns = np.flatnonzero(self.alive & is_first & (self.cues & TURN > 0))
        keys = (turns, self._position.view[turns], self._made.view[turns], self.days[turns], self._track.view[turns])
        order = turns[np.lexsort(keys)]
        left, right = order[:-1], order[1:]
        near = (
            (self._track.view[left] == self._track.view[right])
            & (self.days[right] - self.days[left] <= SESSION_GAP)
            & ((self.cues[left] | self.cues[right]) & LONG == 0)
        )
        previous, following = np.zeros(units, np.int32), np.zeros(units, np.int32)
        previous[right[near]], following[left[near]] = left[near], right[near]
        changed = (previous != self._previous) | (following != self._next)
        self._previous, self._next = previous, following
        self._linked, self._neighbours = True, None
        for _ in range(2):  # whose neighbour, or whose neighbour's neighbour, has another one now
            changed |= changed[previous] | changed[following]
        self._measure(np.flatnonzero(changed))

    def _measure(self, units: Rows) -> None:
        """Compute the window lengths of units."""
        for start in range(0, len(units), _AT_A_TIME):
            rows = units[start : start + _AT_A_TIME]
            total = self._vectors.view[rows]
            for links, shares in ((self._previous, SHARES.before), (self._next, SHARES.after)):
                beside: NDArray[Any] = rows
                for share in shares:
                    beside = links[beside]
                    total += np.float32(share) * self._vectors.view[beside]
            lengths = np.sqrt(np.einsum("ij,ij->i", total, total))
            self._norms.view[rows] = np.where(lengths > 0, lengths, 1)


def _folded(segments: Sequence[_Segment]) -> _Segment:
    return _Segment.of(
        np.concatenate([each.every_stem for each in segments]),
        np.concatenate([each.rows for each in segments]),
        np.concatenate([each.counts for each in segments]),
    )
