"""What made-up people tell and ask: forms and values of `data/answers`, combined the same way every time."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

FOLDER = Path(__file__).with_name("data") / "answers"
HALVES = ("seen", "unread")
PEOPLE, FACTS, PAIRS, CHANGES = 100, 15, 500, 100
"""How much each half has: people, facts of a person, pairs, changes."""
_SLOT = re.compile(r"\{([a-z_]+)(\d*)\}")
_BEFORE_VOWEL = re.compile(r"\b([Aa])(?= [aeioAEIO])")
"""An article that needs an n: a value may begin with any sound."""
_SMALL = {"a", "an", "the", "at"}
_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Words:
    """The words that a text must hold to be right: all of them, whole, in any case; of some, one of several."""

    all_of: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, text: str) -> Words:
        """Words with spaces between them, `a|b` for either; articles, "at" and marks at the ends count for nothing."""
        found = (tuple(each.strip(".,;:!?").casefold() for each in word.split("|")) for word in text.split())
        return cls(tuple(word for word in found if word[0] and word[0] not in _SMALL))

    def are_in(self, text: str) -> bool:
        told = text.casefold()
        return all(any(_holds(told, word) for word in either) for either in self.all_of)


@dataclass(frozen=True, slots=True)
class Fact:
    """A thing that a person tells, and what is asked about it."""

    about: str
    tell: str
    ask: str
    right: Words


@dataclass(frozen=True, slots=True)
class Pair:
    """Two things told one after the other that both stand, and the words that show each."""

    form: str
    first: str
    second: str
    left: Words
    right: Words


@dataclass(frozen=True, slots=True)
class Change:
    """A thing told, what has become of it, and the words of the newer one."""

    form: str
    first: str
    second: str
    ask: str
    right: Words


@dataclass(frozen=True, slots=True)
class Half:
    """Everything that one half asks of a memory."""

    name: str
    people: tuple[tuple[Fact, ...], ...]
    pairs: tuple[Pair, ...]
    changes: tuple[Change, ...]


class Forms:
    """The authored forms of a half and the values that fill them."""

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        written = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
        self.name = name
        self.values: Mapping[str, list[str]] = written["values"]
        self.facts: list[dict[str, str]] = written["fact"]
        self.pairs: list[dict[str, str]] = written["pair"]
        self.changes: list[dict[str, str]] = written["change"]

    def half(self, people: int = PEOPLE, pairs: int = PAIRS, changes: int = CHANGES) -> Half:
        """So much of the half; a smaller number gives the first of the same people, pairs and changes."""
        return Half(
            self.name,
            tuple(self._people(people)),
            tuple(self._pairs(pairs)),
            tuple(self._changes(changes)),
        )

    def _people(self, count: int) -> Iterator[tuple[Fact, ...]]:
        random = Random(f"people of {self.name}")
        line = _dealt(range(len(self.facts)), random)
        waiting: list[int] = []
        for _ in range(count):
            forms: list[dict[str, str]] = []
            later: list[int] = []
            while len(forms) < FACTS:
                number = waiting.pop(0) if waiting else next(line)
                if self.facts[number]["about"] in {form["about"] for form in forms}:
                    later.append(number)
                else:
                    forms.append(self.facts[number])
            waiting = later + waiting
            yield self._person(forms, random)

    def _person(self, forms: Sequence[dict[str, str]], random: Random) -> tuple[Fact, ...]:
        """The forms filled so that no value is used twice and no fact holds the answer to another's question."""
        for _ in range(_TRIES):
            used: set[str] = set()
            facts = [
                Fact(form["about"], tell, ask, Words.read(right))
                for form in forms
                for tell, ask, right in (self._filled((form["tell"], form["ask"], form["right"]), random, used),)
            ]
            if not any(one.right.are_in(other.tell) for one in facts for other in facts if one is not other):
                return tuple(facts)
        raise ValueError(f"{self.name}: no values keep these apart: {[form['about'] for form in forms]}")

    def _pairs(self, count: int) -> Iterator[Pair]:
        random = Random(f"pairs of {self.name}")
        for form, (first, second, left, right) in self._different(
            self.pairs, ("first", "second", "left", "right"), count, random
        ):
            pair = Pair(form["first"], first, second, Words.read(left), Words.read(right))
            if pair.left.are_in(second) or pair.right.are_in(first):
                raise ValueError(f"{self.name}: each of these has the other's words: {first!r}, {second!r}")
            yield pair

    def _changes(self, count: int) -> Iterator[Change]:
        random = Random(f"changes of {self.name}")
        for form, (first, second, ask, right) in self._different(
            self.changes, ("first", "second", "ask", "right"), count, random
        ):
            yield Change(form["first"], first, second, ask, Words.read(right))

    def _different(
        self, forms: Sequence[dict[str, str]], fields: Sequence[str], count: int, random: Random
    ) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
        """Forms in turn, each filled differently every time."""
        seen: set[tuple[str, ...]] = set()
        for number in range(count):
            form = forms[number % len(forms)]
            for _ in range(_TRIES):
                filled = self._filled([form[field] for field in fields], random, set())
                if filled not in seen:
                    break
            else:
                raise ValueError(f"{self.name}: too few values for {count // len(forms) + 1} of {form['first']!r}")
            seen.add(filled)
            yield form, filled

    def _filled(self, texts: Sequence[str], random: Random, used: set[str]) -> tuple[str, ...]:
        """The texts with one value for each slot that they share, none that is used; adds what it uses."""
        slots = dict.fromkeys((match[1], match[2]) for text in texts for match in _SLOT.finditer(text))
        chosen: dict[str, str] = {}
        for kind, number in slots:
            free = [value for value in self.values[kind] if value.casefold() not in used]
            chosen[kind + number] = random.choice(free)
            used.add(chosen[kind + number].casefold())
        filled = [_SLOT.sub(lambda match: chosen[match[1] + match[2]], text) for text in texts]
        begun = (
            text[:1].upper() + text[1:] if form[:1] == "{" else text for form, text in zip(texts, filled, strict=True)
        )
        return tuple(_BEFORE_VOWEL.sub(r"\1n", text) for text in begun)


def _dealt(numbers: Iterable[int], random: Random) -> Iterator[int]:
    """The numbers again and again, in a new order each time, so that all come equally often."""
    deck = list(numbers)
    while True:
        random.shuffle(deck)
        yield from deck


def _holds(told: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", told) is not None
