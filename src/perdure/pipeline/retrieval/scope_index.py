"""Index one scope in memory for the search arms, updated row by row and never rebuilt by a search.

Rows are units: a short memory is one, a long one has a unit for each passage. Unit 0 stands for "no neighbour" and is
empty. A turn knows the turns next to it in time on its own track (the same scope values) within an hour.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import is_unspaced, runs, stem, stems
from perdure.pipeline.lexicon import words
from perdure.pipeline.retrieval.weights import LONG_WORDS, PASSAGE_WORDS, SESSION_GAP, SHARES

# Passage vectors as text that stands in a row's payload: a byte for each number, which keeps a cosine to .005.

_STEPS = 127.0


def pack(vectors: NDArray[np.float32]) -> str:
    """Vectors of shape (n, dimension) as base64: of each its direction, as signed bytes."""
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return base64.b64encode(np.round(vectors / largest * _STEPS).astype(np.int8).tobytes()).decode()


def unpack(text: object, dimension: int) -> NDArray[np.float32]:
    """The vectors that `pack` made text of, each of length 1; of shape (0, dimension) for anything else."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    if not data or len(data) % dimension:
        return np.zeros((0, dimension), np.float32)
    steps = np.frombuffer(data, np.int8).reshape(-1, dimension).astype(np.float32)
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    return (steps / np.where(lengths > 0, lengths, 1)).astype(np.float32)


# Arrays that grow at their end at a cost that does not depend on how long they are.

_DOUBLED = 4_096
"""Rows up to which room is doubled; of more a quarter is added, as what is not used is held all the same."""


class Growing:
    """A NumPy array of known row shape that rows are added to; `view` is what it holds."""

    __slots__ = ("_array", "_size")

    def __init__(self, dtype: DTypeLike, *shape: int) -> None:
        self._array: NDArray[Any] = np.zeros((1, *shape), dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, value: Any) -> None:
        """Add one row."""
        if self._size == len(self._array):
            self._make_room(self._size + 1)
        self._array[self._size] = value
        self._size += 1

    def extend(self, values: NDArray[Any]) -> None:
        """Add rows."""
        end = self._size + len(values)
        if end > len(self._array):
            self._make_room(end)
        self._array[self._size : end] = values
        self._size = end

    def _make_room(self, needed: int) -> None:
        room = len(self._array)
        room = max(needed, 2 * room if room < _DOUBLED else room + room // 4)
        grown = np.zeros((room, *self._array.shape[1:]), self._array.dtype)
        grown[: self._size] = self._array[: self._size]
        self._array = grown

    @property
    def room(self) -> int:
        """Bytes that it takes, with those that are not used yet."""
        return self._array.nbytes

    @property
    def view(self) -> NDArray[Any]:
        """The rows that were added, to be read and changed in place."""
        return self._array[: self._size]


# What recall reads out of a text once, when it is written: words, stems, and the cues that signals ask for.

_SENTENCE_END = Pattern(r"(?<=[.!?。！？])\s+|\n+")
_CODE = Pattern(r"```.*?(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of text that is ranked by itself: its stems with their counts, and its topic words as they stand."""

    stems: dict[str, int]
    words: tuple[str, ...]
    length: int
    """Stems in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What signals ask of a memory as a whole."""

    units: tuple[Unit, ...]
    """One for a short memory; one for each passage of a long one."""
    asks: bool

    @property
    def is_long(self) -> bool:
        """Whether the memory is ranked by its passages."""
        return len(self.units) > 1


@cache
def stop_runs() -> frozenset[str]:
    """Words without a topic, as `runs` gives them ("don't" is "don" and "t")."""
    return frozenset(run for entry in words("recall_stopwords.txt") for run in runs(entry))


def read(text: str) -> Features:
    """The features of a memory's text."""
    return Features(
        units=tuple(read_unit(passage) for passage in passages(text)),
        asks=text.rstrip().endswith(("?", "？")),
    )


def read_unit(text: str) -> Unit:
    """Stems and topic words of a stretch of text."""
    stop = stop_runs()
    counted: Counter[str] = Counter()
    topic: dict[str, None] = {}
    for run in runs(text):
        if run in stop:
            continue
        counted.update(stems(run))
        if not is_unspaced(run):
            topic[run] = None
    return Unit(dict(counted), tuple(topic), counted.total())


def passages(text: str) -> list[str]:
    """The text in passages of whole sentences, of up to PASSAGE_WORDS words each; code blocks are left out.

    A short text is one passage, itself. A sentence longer than a passage is cut by words.
    """
    if _count(text) <= LONG_WORDS:
        return [text]
    found: list[str] = []
    held: list[str] = []
    size = 0
    for piece in _pieces(_CODE.sub("\n", text)):
        count = _count(piece)
        if held and size + count > PASSAGE_WORDS:
            found.append(" ".join(held))
            held, size = [], 0
        held.append(piece)
        size += count
    if held:
        found.append(" ".join(held))
    return found or [text]


def _pieces(text: str) -> list[str]:
    """The sentences of a text, long ones cut by words; text without spaces by characters."""
    pieces: list[str] = []
    for sentence in _SENTENCE_END.split(text):
        tokens = sentence.split()
        for start in range(0, len(tokens), PASSAGE_WORDS):
            pieces.append(" ".join(tokens[start : start + PASSAGE_WORDS]))
    return pieces


def _count(text: str) -> int:
    return len(text.split())


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
