"""Passages of a message, word for word: notes for what no fact says, and the sentences around a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import words
from perdure.pipeline.curation.rules.extraction import cleaning
from perdure.pipeline.curation.rules.memo import per_text

SAID = 0.66
"""Share of a sentence's topic words from which its facts are taken to say it, so that it is no note."""
LONGEST = 60
"""Words of a note: sentences that follow one another are one note up to this length."""
MOST = 12
"""Notes of one message."""
LONGEST_PASSAGE = 45
"""Words of the passage around a fact: about the 62 tokens that the learned judge reads of a text."""
LONGEST_SENTENCE = 700
"""Characters; the rest of a longer sentence is not noted."""

_END = Pattern(r"(?<=[.!?\u2026])[\"')\]\u201d\u2019]*\s+(?=\S)|\n+|(?<=[\u3002\uff01\uff1f])")
_ABBREVIATED = Pattern(r"(?:^|\s)(?:[A-Z]|e\.g|i\.e|ca|[Dd]r|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|[Nn]o|[Nn]r|vs|etc)\.\s+$")
_BULLET = Pattern(r"^\s*(?:[-*+\u2022]|\d{1,2}[.)])\s+")
_FENCE = Pattern(r"```[\s\S]*?(?:```|\Z)")


@dataclass(frozen=True, slots=True)
class TypedSentence:
    """A sentence as it was typed, with its end mark, and whether it follows the one before on the same line."""

    text: str
    follows: bool


def sentences(content: str) -> list[TypedSentence]:
    """Return the sentences of a message as they were typed, without code, log lines and quoted lines."""
    found: list[TypedSentence] = []
    for line in _FENCE.sub("\n", content).splitlines():
        if not line.strip() or cleaning.is_code(line):
            continue
        body, start, follows = _BULLET.sub("", line).strip(), 0, False
        for end in (*_END.finditer(body), None):
            stop = len(body) if end is None else end.end()
            if end is not None and _ABBREVIATED.search(body[max(0, stop - 8) : stop]):
                continue
            if text := body[start:stop].strip()[:LONGEST_SENTENCE]:
                found.append(TypedSentence(text, follows))
            start, follows = stop, True
    return found


def joined(notes: Sequence[str], sentence: TypedSentence, *, is_next: bool) -> list[str]:
    """Return the notes with a further sentence: within the last one if it comes next and there is room."""
    if is_next and len(f"{notes[-1]} {sentence.text}".split()) <= LONGEST:
        return [*notes[:-1], f"{notes[-1]} {sentence.text}"]
    return [*notes, sentence.text]


def passage_of(text: str, content: str) -> str:
    """Return the sentence of a message that a text is most likely from, and its neighbours, in LONGEST_PASSAGE words.

    Empty if no sentence shares a word with the text, or the passage says no more than the text.
    """
    typed, topics = _with_topics(content)
    mine = frozenset(words(text))
    shared = [len(mine & topic) for topic in topics]
    if not any(shared):
        return ""
    first = last = shared.index(max(shared))
    left = LONGEST_PASSAGE - len(typed[first].split())
    while True:
        before = len(typed[first - 1].split()) if first else left + 1
        after = len(typed[last + 1].split()) if last + 1 < len(typed) else left + 1
        if min(before, after) > left:
            break
        if before <= left:
            first, left = first - 1, left - before
        if after <= left:
            last, left = last + 1, left - after
    passage = " ".join(typed[first : last + 1])
    return "" if frozenset(words(passage)) <= mine else passage


@per_text(64)
def _with_topics(content: str) -> tuple[tuple[str, ...], tuple[frozenset[str], ...]]:
    typed = tuple(sentence.text for sentence in sentences(content))
    return typed, tuple(frozenset(words(text)) for text in typed)
