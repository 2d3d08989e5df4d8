"""What the arms need of one scope, in memory: kept up to date row by row, never made anew by a search.

Rows are units: a short memory is one, a long one has a unit for each passage. Unit 0 stands for "no neighbour" and is
empty. A turn knows the turns next to it in time on its own track (the same scope values) within an hour.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdure.domain.stem import stem
from perdure.pipeline.recall.features import Features, Unit
from perdure.pipeline.recall.growing import Growing
from perdure.pipeline.recall.weights import SESSION_GAP, SHARES

Vector = NDArray[np.float32]
Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
_Track = tuple[str | None, ...]
_Place = tuple[float, str, int, int]

USER = 1
"""Bit of `cues`: the user said it, to an assistant."""
ASKS, DIRECTIVE, PREFERENCE, LONG, TURN, NAMED = 2, 4, 8, 16, 32, 64


_COUNTED = 16
"""Bits of a posting that say how often; the others say where."""
_POSTING = 10
"""Bytes of a posting, with room for more."""
_MEMORY, _STEM, _WORD, _EMPTY = 900, 250, 200, 5_000
"""Bytes that a memory, a stem, a word and an index take beside the arrays' own, as measured."""
_AT_A_TIME = 4_096
"""Windows measured together: six megabytes of vectors."""


@dataclass(frozen=True, slots=True)
class Cues:
    """What signals ask of a memory, read out of its text when it is written."""

    temporal: int = 0
    """Words of time, of a turn whose speaker has a name."""
    proper: int = 0
    """Proper nouns, likewise."""
    directive: bool = False
    """It tells an assistant how to answer from now on."""
    preference: bool = False
    """It tells how something is liked to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A memory as recall sees it."""

    id: str
    stamp: str
    """Changes whenever the memory does."""
    track: tuple[str | None, ...]
    """The scope values; neighbours share them."""
    place: tuple[float, str, int]
    """When it was told, in days since 1970, then when it was made and its place in its call: the order of turns."""
    turn: bool
    """A message as it was said, and no fact."""
    role: str
    speaker: str | None
    """The name of who said it, where it was given."""
    features: Features
    cues: Cues
    vector: Vector | None
    passages: NDArray[np.float32]
    """Shape (passages, dimension); (0, dimension) for a short memory or where they were not embedded."""


class ScopeIndex:
    """Postings, vectors, words and neighbours of the memories of one scope."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.ids: list[str] = [""]
        self.stamps: dict[str, str] = {}
        self.speakers: dict[str, int] = {}
        """Names of speakers, folded, with their numbers from 1."""
        self.vocabulary: dict[str, int] = {}
        self._words_by_stem: dict[str, list[int]] = {}
        self.unvectored: dict[str, int] = {}
        """Words that have no vector yet, with their numbers."""
        self._stale: set[int] = set()
        self.alive_entries = 0
        self.dead_units = 0
        self._units: dict[str, tuple[int, int]] = {}
        self._postings: dict[str, Growing] = {}
        self._posted = 0
        self._tracks: dict[_Track, tuple[_Track, list[_Place]]] = {}
        self._placed: dict[str, tuple[_Track, _Place]] = {}
        self._alive, self._owner = Growing(np.bool_), Growing(np.int64)
        self._previous, self._next = Growing(np.int64), Growing(np.int64)
        self._vectors, self._norms = Growing(np.float32, dimension), Growing(np.float32)
        self._wholes, self._whole_of = Growing(np.float32, dimension), Growing(np.int64)
        self._lengths, self._days = Growing(np.float32), Growing(np.float64)
        self._cues, self._temporal, self._proper = Growing(np.int64), Growing(np.int64), Growing(np.int64)
        self._speaker = Growing(np.int64)
        self._word_starts, self._words = Growing(np.int64), Growing(np.int64)
        self.word_vectors = Growing(np.float32, dimension)
        """By the words' numbers, as far as they were given; zeros for those before that were not."""
        self.word_vectors.append(np.zeros(dimension, np.float32))
        self._columns = (
            self._alive, self._owner, self._previous, self._next, self._vectors, self._norms, self._wholes,
            self._whole_of, self._lengths, self._days, self._cues, self._temporal, self._proper, self._speaker,
            self._word_starts, self._words,
        )  # fmt: skip
        self._add_unit(Unit({}, (), 0), None, owner=0, days=0.0, cues=0, speaker=0, temporal=0, proper=0, alive=False)

    # ------------------------------------------------------------------ changing
    def put(self, entry: Entry) -> None:
        """Take a memory in, in place of what is held under its id."""
        self.remove(entry.id)
        features = entry.features
        cues = (
            (USER if entry.turn and entry.role == "user" and entry.speaker is None else 0)
            | (ASKS if features.asks else 0)
            | (DIRECTIVE if entry.cues.directive else 0)
            | (PREFERENCE if entry.cues.preference else 0)
            | (LONG if features.is_long else 0)
            | (TURN if entry.turn else 0)
            | (NAMED if entry.turn and entry.speaker is not None else 0)
        )
        number, first = len(self.ids), len(self._alive)
        self.ids.append(entry.id)
        speaker = self._speaker_number(entry)
        for place, unit in enumerate(features.units):
            self._add_unit(
                unit,
                self._unit_vector(entry, place),
                owner=number,
                days=entry.place[0],
                cues=cues,
                speaker=speaker,
                temporal=entry.cues.temporal,
                proper=entry.cues.proper,
                alive=True,
            )
        if features.is_long and entry.vector is not None:
            self._wholes.append(entry.vector)
            self._whole_of.append(first)
        self._units[entry.id] = first, len(features.units)
        self.stamps[entry.id] = entry.stamp
        self.alive_entries += 1
        if entry.turn:
            self._link(entry, first)

    def remove(self, id: str) -> None:
        """Let go of a memory; one that is not held is no error."""
        held = self._units.pop(id, None)
        if held is None:
            return
        first, count = held
        del self.stamps[id]
        self.alive_entries -= 1
        self.dead_units += count
        self._alive.view[first : first + count] = False
        placed = self._placed.pop(id, None)
        if placed is not None:
            track, place = placed
            _, order = self._tracks[track]
            at = bisect_left(order, place)
            del order[at]
            self._relink(order, at)
            self._previous.view[first] = self._next.view[first] = 0

    def give_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Take in the vectors of words."""
        given = {number: word for word in vectors if (number := self.unvectored.pop(word, None)) is not None}
        if given:
            missing = max(given) + 1 - len(self.word_vectors)
            self.word_vectors.extend(np.zeros((max(missing, 0), self.dimension), np.float32))
        for number, word in given.items():
            self.word_vectors.view[number] = vectors[word]

    # ------------------------------------------------------------------ reading
    @property
    def size(self) -> int:
        """Bytes that it takes, roughly; at a cost that does not depend on how many."""
        arrays = sum(each.room for each in (*self._columns, self.word_vectors))
        named = _MEMORY * len(self.ids) + _STEM * len(self._postings) + _WORD * len(self.vocabulary)
        return _EMPTY + arrays + named + _POSTING * self._posted

    def __contains__(self, id: str) -> bool:
        return id in self._units

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which units are of a memory that is held."""
        return self._alive.view

    @property
    def owner(self) -> Rows:
        """The place in `ids` of each unit's memory; ascending."""
        return self._owner.view

    @property
    def days(self) -> NDArray[np.float64]:
        """When each unit was told, in days since 1970."""
        return self._days.view

    @property
    def cues(self) -> Rows:
        """The bits of each unit's memory."""
        return self._cues.view

    @property
    def temporal(self) -> Rows:
        """How many words of time each unit's memory has."""
        return self._temporal.view

    @property
    def proper(self) -> Rows:
        """How many proper nouns each unit's memory has."""
        return self._proper.view

    @property
    def speaker(self) -> Rows:
        """The number of each unit's speaker, 0 for none."""
        return self._speaker.view

    @property
    def lengths(self) -> Floats:
        """Stems of each unit."""
        return self._lengths.view

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The vector of each unit, zeros where there is none."""
        return self._vectors.view

    @property
    def norms(self) -> Floats:
        """The length of each unit's window vector; those whose window changed are measured now."""
        stale = sorted(self._stale)
        self._stale.clear()
        for start in range(0, len(stale), _AT_A_TIME):
            rows = np.array(stale[start : start + _AT_A_TIME], np.int64)
            total = self._vectors.view[rows]
            for links, shares in ((self._previous.view, SHARES.before), (self._next.view, SHARES.after)):
                beside = rows
                for share in shares:
                    beside = links[beside]
                    total += np.float32(share) * self._vectors.view[beside]
            lengths = np.linalg.norm(total, axis=1)
            self._norms.view[rows] = np.where(lengths > 0, lengths, 1)
        return self._norms.view

    @property
    def wholes(self) -> tuple[NDArray[np.float32], Rows]:
        """The vectors of long memories' whole texts, and the first units of these."""
        return self._wholes.view, self._whole_of.view

    @property
    def occurrences(self) -> tuple[Rows, Rows]:
        """The numbers of the words of all units, one after another, and where each unit's begin."""
        return self._words.view, self._word_starts.view

    def neighbours(self) -> list[Rows]:
        """The units before and after each unit: one, two and three before, then one, two and three after."""
        previous, following = self._previous.view, self._next.view
        before = [previous, previous[previous]]
        after = [following, following[following]]
        return [*before, previous[before[1]], *after, following[after[1]]]

    def words_of_stem(self, stem: str) -> list[int]:
        """The numbers of the words that have a stem."""
        return self._words_by_stem.get(stem, [])

    def postings(self, stem: str) -> tuple[Rows, Floats]:
        """The units that have a stem, and how often; dead ones among them."""
        found = self._postings.get(stem)
        if found is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return found.view >> _COUNTED, (found.view & (1 << _COUNTED) - 1).astype(np.float32)

    # ------------------------------------------------------------------ pieces
    def _speaker_number(self, entry: Entry) -> int:
        name = (entry.speaker or (entry.role if entry.turn else "")).casefold()
        return self.speakers.setdefault(name, len(self.speakers) + 1) if name else 0

    def _unit_vector(self, entry: Entry, place: int) -> Vector | None:
        if not entry.features.is_long:
            return entry.vector
        return entry.passages[place] if place < len(entry.passages) else None

    def _add_unit(
        self,
        unit: Unit,
        vector: Vector | None,
        *,
        owner: int,
        days: float,
        cues: int,
        speaker: int,
        temporal: int,
        proper: int,
        alive: bool,
    ) -> None:
        number = len(self._alive)
        self._alive.append(alive)
        self._owner.append(owner)
        self._previous.append(0)
        self._next.append(0)
        self._vectors.append(np.zeros(self.dimension, np.float32) if vector is None else vector)
        self._norms.append(1.0)
        self._lengths.append(unit.length)
        self._days.append(days)
        self._cues.append(cues)
        self._temporal.append(temporal)
        self._proper.append(proper)
        self._speaker.append(speaker)
        self._word_starts.append(len(self._words))
        self._words.extend(np.array([self._word_number(word) for word in unit.words] or [0], np.int64))
        for each, count in unit.stems.items():
            held = self._postings.get(each)
            if held is None:
                held = self._postings[each] = Growing(np.int64)
            held.append(number << _COUNTED | min(count, (1 << _COUNTED) - 1))
            self._posted += 1

    def _word_number(self, word: str) -> int:
        number = self.vocabulary.get(word)
        if number is None:
            number = self.vocabulary[word] = len(self.vocabulary) + 1
            self._words_by_stem.setdefault(stem(word), []).append(number)
            self.unvectored[word] = number
        return number

    def _link(self, entry: Entry, unit: int) -> None:
        track, order = self._tracks.setdefault(entry.track, (entry.track, []))
        place = (*entry.place, unit)
        insort(order, place)
        self._placed[entry.id] = track, place
        self._relink(order, bisect_left(order, place))

    def _relink(self, order: Sequence[_Place], at: int) -> None:
        """Set the neighbours around a place of a track, and the window vectors that this changes."""
        previous, following = self._previous.view, self._next.view
        for left, right in ((at - 1, at), (at, at + 1)):
            before = order[left] if 0 <= left < len(order) else None
            after = order[right] if 0 <= right < len(order) else None
            near = before is not None and after is not None and self._are_neighbours(before, after)
            if before is not None:
                following[before[3]] = after[3] if near and after is not None else 0
            if after is not None:
                previous[after[3]] = before[3] if near and before is not None else 0
        self._stale.update(place[3] for place in order[max(0, at - 3) : at + 4])

    def _are_neighbours(self, before: _Place, after: _Place) -> bool:
        """Whether two turns that follow one another lend each other their words: short ones of one session."""
        cues = self._cues.view
        return after[0] - before[0] <= SESSION_GAP and not (cues[before[3]] | cues[after[3]]) & LONG
