"""Wordings: orders to an assistant, found as classes of words that stand close to each other."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from perdure.pipeline.firewall.folding import fold, tokens
from perdure.pipeline.lexicon import lines

SHORTEST_STEM = 3
BEFORE = 3
"""Words before a wording in which a class that it must be without counts too."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A word or phrase of the vocabulary, tokenised; a stem ends with `*`."""

    words: tuple[str, ...]
    name: str

    def matches(self, said: Sequence[str], at: int) -> bool:
        """Whether it stands in the words from a position on; its first word is known to."""
        if at + len(self.words) > len(said):
            return False
        return all(_fits(word, said[at + place]) for place, word in enumerate(self.words) if place)


@dataclass(frozen=True, slots=True)
class _Rule:
    classes: tuple[str, ...]
    gaps: tuple[int, ...]
    without: tuple[str, ...]


@dataclass(slots=True)
class _Places:
    """Where a class stands: beginnings and ends of its entries, in the order of their beginnings."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def ordered(said: Sequence[str]) -> bool:
    """Whether folded words hold an order to an assistant, by one of the wordings in the lexicon."""
    found = _found(said)
    return any(_holds(rule, found) for rule in _rules())


def _holds(rule: _Rule, found: dict[str, _Places]) -> bool:
    if any(name not in found for name in rule.classes):
        return False
    first = found[rule.classes[0]]
    # Where what was matched so far ends, in order, and where the nearest such match began.
    chains = sorted({end: start for start, end in zip(first.starts, first.ends, strict=True)}.items())
    for name, gap in zip(rule.classes[1:], rule.gaps, strict=True):
        ends = [end for end, _ in chains]
        longer: dict[int, int] = {}
        for start, end in zip(found[name].starts, found[name].ends, strict=True):
            nearest = bisect_right(ends, start) - 1
            if nearest >= 0 and start - ends[nearest] <= gap:
                longer[end] = max(chains[nearest][1], longer.get(end, 0))
        chains = sorted(longer.items())
    return any(not _stands(rule.without, found, begin - BEFORE, end) for end, begin in chains)


def _stands(names: Sequence[str], found: dict[str, _Places], begin: int, end: int) -> bool:
    for name in names:
        starts = found[name].starts if name in found else []
        place = bisect_left(starts, begin)
        if place < len(starts) and starts[place] < end:
            return True
    return False


def _found(said: Sequence[str]) -> dict[str, _Places]:
    """The classes that stand in the words, and where."""
    whole, stems = _vocabulary()
    found: dict[str, _Places] = {}
    for at, word in enumerate(said):
        entries = list(whole.get(word, ()))
        for length in range(SHORTEST_STEM, min(len(word), _longest_stem()) + 1):
            entries += stems.get(word[:length], ())
        for entry in entries:
            if entry.matches(said, at):
                places = found.setdefault(entry.name, _Places())
                places.starts.append(at)
                places.ends.append(at + len(entry.words))
    return found


def _fits(pattern: str, word: str) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else word == pattern


@cache
def _vocabulary() -> tuple[dict[str, list[_Entry]], dict[str, list[_Entry]]]:
    """The entries by their first word, and by their first stem."""
    whole: dict[str, list[_Entry]] = {}
    stems: dict[str, list[_Entry]] = {}
    for line in lines("firewall_words.tsv"):
        name, _, entries = line.partition("\t")
        for text in entries.split("; "):
            stem = text.endswith("*")
            words = tokens(fold(text.rstrip("*")))
            if stem:
                words[-1] += "*"
            entry = _Entry(tuple(words), name.strip())
            first = words[0]
            table = stems if first.endswith("*") else whole
            table.setdefault(first.rstrip("*"), []).append(entry)
    return whole, stems


@cache
def _longest_stem() -> int:
    return max(map(len, _vocabulary()[1]))


@cache
def _rules() -> tuple[_Rule, ...]:
    rules = []
    for line in lines("firewall_rules.txt"):
        wording, _, without = line.partition(" without ")
        classes = tuple(re.findall(r"<([a-z]+)>", wording))
        gaps = tuple(int(gap) for gap in re.findall(r"> (\d+) <", wording))
        rules.append(_Rule(classes, gaps, tuple(re.findall(r"<([a-z]+)>", without))))
    return tuple(rules)
