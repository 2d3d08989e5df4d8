"""What recall reads out of a text once, when it is written: words, stems, and the cues that signals ask for."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.domain.terms import is_unspaced, runs, stems
from perdure.pipeline.lexicon import words
from perdure.pipeline.recall.weights import LONG_WORDS, PASSAGE_WORDS

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
