"""What recall reads from a memory when it is written, and its packed form, which a store keeps beside the row.

A memory is ranked in units: one for a short memory, one for each passage of a long one. Stems and words are 64-bit
hashes, so that packing needs no shared numbering, and a thousand memories are read with a few array operations. The
bytes depend on the row alone: whoever lacks them makes them again.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import Kept
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import is_unspaced, key_of, runs, stems
from perdure.pipeline.lexicon import words
from perdure.pipeline.retrieval.weights import LONG_WORDS, PASSAGE_WORDS

Vector = NDArray[np.float32]
Keys = NDArray[np.int64]
USER = 1  # bit of `cues`: said by the user to an assistant
ASKS, DIRECTIVE, PREFERENCE, LONG, TURN, NAMED, NOTE = 2, 4, 8, 16, 32, 64, 128
QUESTION_MARKS = ("?", "？")
SENTENCE_END = Pattern(r"(?<=[.!?。！？])\s+|\n+")
_CODE = Pattern(r"```.*?(?:```|\Z)", re.DOTALL)
MOST_WORDS = 2_000
"""Different topic words of one memory, to the end of a passage: each takes a millisecond to embed. No ordinary
text of 12,000 characters has as many. Later words are still found by keyword."""
_STEPS = 127.0  # steps of a passage vector's number on each side of zero: a signed byte, which keeps a cosine to .005


# ------------------------------------------------------------------ words of a text


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of text that is ranked by itself: its stems with counts, and its topic words."""

    stems: dict[str, int]
    words: tuple[str, ...]
    length: int  # number of stems


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """A memory's text, prepared for the signals."""

    units: tuple[Unit, ...]  # one for a short memory; one for each passage of a long one
    asks: bool

    @property
    def is_long(self) -> bool:
        """Whether the memory is ranked by its passages."""
        return len(self.units) > 1


@cache
def stop_runs() -> frozenset[str]:
    """Return words without a topic, as `runs` splits them ("don't" is "don" and "t")."""
    return frozenset(run for entry in words("recall_stopwords.txt") for run in runs(entry))


def read(text: str) -> Features:
    """Return the features of a memory's text."""
    return Features(units=tuple(_units(text)), asks=text.rstrip().endswith(QUESTION_MARKS))


def _units(text: str) -> Iterator[Unit]:
    """Yield a unit for each passage, those behind MOST_WORDS different topic words without any."""
    named: set[str] = set()
    for passage in passages(text):
        unit = read_unit(passage)
        yield unit if len(named) < MOST_WORDS else replace(unit, words=())
        named.update(unit.words)


def read_unit(text: str) -> Unit:
    """Return stems and topic words of a piece of text."""
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
    """Split a text into passages of whole sentences of up to PASSAGE_WORDS words, without code blocks.

    A short text is one passage. A sentence longer than a passage is cut by words.
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
    """Return the sentences of a text, long ones cut by words; text without spaces by characters."""
    pieces: list[str] = []
    for sentence in SENTENCE_END.split(text):
        tokens = sentence.split()
        for start in range(0, len(tokens), PASSAGE_WORDS):
            pieces.append(" ".join(tokens[start : start + PASSAGE_WORDS]))
    return pieces


def _count(text: str) -> int:
    return len(text.split())


# ------------------------------------------------------------------ vectors of passages


def pack_vectors(vectors: NDArray[np.float32]) -> bytes:
    """Pack vectors of shape (n, dimension) as a signed byte for each number: only their directions."""
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return bytes(np.round(vectors / largest * _STEPS).astype(np.int8))


def unpack_vectors(data: bytes, dimension: int) -> NDArray[np.float32]:
    """Return the vectors of `pack_vectors`, each of length 1; shape (0, dimension) for anything else."""
    if not data or len(data) % dimension:
        return np.zeros((0, dimension), np.float32)
    steps = np.frombuffer(data, np.int8).reshape(-1, dimension).astype(np.float32)
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    return (steps / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def pack(vectors: NDArray[np.float32]) -> str:
    """Return the same as base64 text for a row's payload."""
    return base64.b64encode(pack_vectors(vectors)).decode()


def unpack(text: object, dimension: int) -> NDArray[np.float32]:
    """Return the vectors of `pack`; shape (0, dimension) for anything else."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    return unpack_vectors(data, dimension)


# ------------------------------------------------------------------ a memory as recall sees it


@dataclass(frozen=True, slots=True)
class Cues:
    """Signals of a memory, computed from its text when it is written."""

    temporal: int = 0  # time words, in a turn of a named speaker
    proper: int = 0  # proper nouns, likewise
    directive: bool = False  # it tells an assistant how to answer from now on
    preference: bool = False  # it says how something is liked to be done


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A memory in the recall index."""

    id: str
    stamp: str  # changes whenever the memory does: its `updated_at`, a slash, its version
    track: tuple[str | None, ...]  # the scope values; neighbours share them
    place: tuple[float, int, int]
    """When it was said, in days since 1970, then its creation and its place in its call: the order of turns."""
    turn: bool  # a message, not a fact
    note: bool = False  # a sentence that was kept as the user said it
    role: str
    speaker: str | None  # the speaker's name, if it was given
    features: Features
    cues: Cues
    vector: Vector | None
    passages: NDArray[np.float32]
    """Shape (passages, dimension); (0, dimension) for a short memory or where they were not embedded."""

    @property
    def bits(self) -> int:
        """Return the memory's `cues` as bits."""
        return (
            (USER if self.turn and self.role == "user" and self.speaker is None else 0)
            | (ASKS if self.features.asks else 0)
            | (DIRECTIVE if self.cues.directive else 0)
            | (PREFERENCE if self.cues.preference else 0)
            | (LONG if self.features.is_long else 0)
            | (TURN if self.turn else 0)
            | (NAMED if self.turn and self.speaker is not None else 0)
            | (NOTE if self.note else 0)
        )

    @property
    def words(self) -> tuple[str, ...]:
        """Return the topic words of all units in order."""
        return tuple(word for unit in self.features.units for word in unit.words)


# ------------------------------------------------------------------ packed

_FORMAT = 1  # version of the packed form; bytes of another version are recomputed
_MOST = 65_535  # maximum count of a stem in a unit
_HEAD = np.dtype(
    [
        ("format", "<u1"), ("temporal", "<u1"), ("proper", "<u1"), ("cues", "<u1"),
        ("position", "<i4"), ("days", "<f8"), ("made", "<i8"), ("track", "<i8"),
        ("units", "<u4"), ("stems", "<u4"), ("words", "<u4"), ("passages", "<u4"),
        ("speaker", "<u2"), ("stamp", "<u2"), ("spare", "<u4"),
    ]
)  # fmt: skip
"""The fixed part; from `units` on the sizes of what follows, but for the words, which a store keeps by themselves."""
_UNIT = np.dtype([("length", "<u4"), ("stems", "<u4"), ("words", "<u4")])


def pack_entry(entry: Entry) -> Kept:
    """Return the data that a store keeps beside the memory's row, without id and vector."""
    units = entry.features.units
    speaker = (entry.speaker or (entry.role if entry.turn else "")).casefold().encode("utf-8", "surrogatepass")[:_MOST]
    stamp = entry.stamp.encode("utf-8", "surrogatepass")
    vectors = pack_vectors(entry.passages) if len(entry.passages) else b""
    sizes = np.array([(unit.length, len(unit.stems), len(unit.words)) for unit in units], _UNIT)
    head = np.zeros((), _HEAD)
    track = "\x1f".join("\x00" if value is None else value for value in entry.track)
    for name, value in (
        ("format", _FORMAT),
        ("temporal", min(entry.cues.temporal, 255)),
        ("proper", min(entry.cues.proper, 255)),
        ("cues", entry.bits),
        ("days", entry.place[0]),
        ("made", entry.place[1]),
        ("position", entry.place[2]),
        ("track", key_of(track)),
        ("units", len(units)),
        ("stems", int(sizes["stems"].sum())),
        ("words", int(sizes["words"].sum())),
        ("passages", len(vectors)),
        ("speaker", len(speaker)),
        ("stamp", len(stamp)),
    ):
        head[name] = value
    data = b"".join(
        (
            head.tobytes(),
            sizes.tobytes(),
            np.array([key_of(stem) for unit in units for stem in unit.stems], "<i8").tobytes(),
            np.array([min(n, _MOST) for unit in units for n in unit.stems.values()], "<u2").tobytes(),
            vectors,
            speaker,
            stamp,
        )
    )
    return Kept(data, entry.words)


def outdated(packed: Sequence[bytes | None], updated_at: Sequence[str]) -> list[int]:
    """Return the places of missing or outdated bytes, which an earlier perdure that has the file open may leave."""
    least, version = _HEAD.itemsize, _FORMAT
    return [
        place
        for place, (data, moment) in enumerate(zip(packed, updated_at, strict=True))
        if data is None
        or len(data) < least
        or data[0] != version
        or not data.endswith(moment.encode("utf-8", "surrogatepass"), 0, data.rfind(b"/"))
    ]


@dataclass(frozen=True, slots=True)
class Batch:
    """Many packed memories as columns."""

    heads: NDArray[np.void]  # one structured element for each memory
    units: NDArray[np.void]  # one for each unit, in the order of memories: length, stems, words
    stems: Keys
    counts: NDArray[np.uint16]  # the count of each of `stems` in its unit
    words: Keys  # the topic words of the units in order, by their keys
    word_places: NDArray[np.int64]  # the topic words of the units, one unit after another, by their places in `words`
    passages: list[bytes]  # packed vectors of each memory's passages
    speakers: list[str]
    stamps: list[str]


def unpack_entries(packed: Sequence[bytes], words: Sequence[bytes]) -> Batch:
    """Return the columns of packed memories of the current version; `words` has the keys of each one's words."""
    heads = np.frombuffer(b"".join([each[: _HEAD.itemsize] for each in packed]), _HEAD)
    sizes = np.stack(
        (
            heads["units"] * np.uint32(_UNIT.itemsize),
            heads["stems"] * np.uint32(8),
            heads["stems"] * np.uint32(2),
            heads["passages"],
            heads["speaker"].astype(np.uint32),
            heads["stamp"].astype(np.uint32),
        ),
        axis=1,
    )
    ends = (np.cumsum(sizes, axis=1) + _HEAD.itemsize).T.tolist()
    starts = [[_HEAD.itemsize] * len(packed), *ends]
    units, stemmed, counts, passages, speakers, stamps = (
        [data[start:end] for data, start, end in zip(packed, starts[part], ends[part], strict=True)]
        for part in range(len(ends))
    )
    names = {each: each.decode("utf-8", "surrogatepass") for each in set(speakers)}
    distinct, places = np.unique(np.frombuffer(b"".join(words), "<i8"), return_inverse=True)
    return Batch(
        heads,
        np.frombuffer(b"".join(units), _UNIT),
        np.frombuffer(b"".join(stemmed), "<i8"),
        np.frombuffer(b"".join(counts), "<u2"),
        distinct,
        places.reshape(-1),
        passages,
        [names[each] for each in speakers],
        [each.decode("utf-8", "surrogatepass") for each in stamps],
    )
