"""Is the first answer right, and does what was told stand? People's facts, pairs and changes, told line by line.

    python benchmarks/answers.py [--half seen|unread|both] [--people 100] [--pairs 500] [--changes 100]
                                 [--embedder minilm|hashed] [--verbatim] [--show seen] [--json]

Each person tells 15 things about 15 different things, one message each, in any order, and then asks plainly about each
with the default limit. A result is right if it holds all words of the answer. `first by own score` is what would be
right first if results stood in the order of the scores that their own explanations give; `another's score` counts
results whose score isn't that. `pairs` are about different things, and stand if both are live afterwards; `of
what is kept alone` leaves out those of which a sentence is not kept even where nothing else was told. In `changes` the
newer takes the older one's place: it is live, and the older text isn't. `data/answers/README.md` tells of the data; the
items of the unread half are never printed. With `--verbatim` nothing is read for facts.
Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from random import Random
from typing import Any

from answers_data import CHANGES, HALVES, PAIRS, PEOPLE, Change, Fact, Forms, Half, Pair, Words
from perdure import Memory

SAME = 1e-9
"""How far two scores may be apart and still be one number."""
EVERY = 5.0
"""Seconds between two lines of progress."""


@dataclass(slots=True)
class Share:
    """How many of how many, with what an observer would call sure."""

    hits: int = 0
    of: int = 0

    def count(self, hit: bool) -> None:
        self.hits += hit
        self.of += 1

    @property
    def value(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        if not self.of:
            return 0.0, 1.0
        z, n, p = 1.959964, self.of, self.value
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))


SHARES = {
    "first result right": "people",
    "first right, of what is kept": "people",
    "first by own score": "people",
    "found within the limit": "people",
    "kept": "people",
    "kept, then lost to another": "people",
    "another's score": "people",
    "pairs stand": "pairs",
    "pairs stand, of what is kept alone": "pairs",
    "a pair's first lost to its second": "pairs",
    "changes: newer live, older gone": "changes",
    "changes: newer live": "changes",
    "changes: first result newer": "changes",
}
"""What is measured, and of what."""


@dataclass(slots=True)
class Figures:
    """What was measured of one half."""

    half: str
    infer: bool = True
    shares: dict[str, Share] = field(default_factory=lambda: {name: Share() for name in SHARES})
    wrong: dict[str, Counter[str]] = field(default_factory=lambda: {part: Counter() for part in SHARES.values()})
    asked: dict[str, Counter[str]] = field(default_factory=lambda: {part: Counter() for part in SHARES.values()})
    misses: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def form(self, part: str, name: str, right: bool) -> None:
        """One item of an authored form came out so."""
        self.asked[part][name] += 1
        self.wrong[part][name] += not right

    def forms(self, part: str) -> Share:
        """Forms of which no item came out wrong."""
        return Share(sum(not self.wrong[part][name] for name in self.asked[part]), len(self.asked[part]))


def measure(memory: Memory, half: Half, progress: Callable[[str], None], *, infer: bool = True) -> Figures:
    """Everything that a half asks of a memory that knows none of its people; `infer` as `add` has it."""
    figures = Figures(half.name, infer)
    parts: tuple[tuple[str, Sequence[Any], Callable[[Figures, Memory, str, Any], None]], ...] = (
        ("people", half.people, person),
        ("pairs", half.pairs, pair),
        ("changes", half.changes, change),
    )
    for part, items, run in parts:
        started = time.perf_counter()
        for number, item in enumerate(watched(items, f"{half.name} {part}", progress)):
            run(figures, memory, f"{half.name} {part} {number}", item)
        figures.seconds[part] = time.perf_counter() - started
    return figures


def person(figures: Figures, memory: Memory, user: str, facts: Sequence[Fact]) -> None:
    random = Random(user)
    kept: set[str] = set()
    for fact in random.sample(facts, len(facts)):
        memory.add(fact.tell, user_id=user, infer=figures.infer)
        if holds(texts(memory, user), fact.right):
            kept.add(fact.about)
    live = texts(memory, user)
    for fact in random.sample(facts, len(facts)):
        results = memory.search(fact.ask, user_id=user, explain=True).results
        found = [item.memory for item in results]
        own = [(item.explanation or {}).get("score") for item in results]
        by_own = sorted(range(len(found)), key=lambda place: -(own[place] or 0.0))
        right = fact.right.are_in(found[0]) if found else False
        figures.shares["first result right"].count(right)
        figures.shares["first by own score"].count(bool(found) and fact.right.are_in(found[by_own[0]]))
        figures.shares["found within the limit"].count(holds(found, fact.right))
        stands = holds(live, fact.right)
        figures.shares["kept"].count(stands)
        if stands:
            figures.shares["first right, of what is kept"].count(right)
        figures.shares["kept, then lost to another"].count(fact.about in kept and not stands)
        for item, score in zip(results, own, strict=True):
            others = item.score is None or score is None or abs(item.score - score) > SAME
            figures.shares["another's score"].count(others)
        figures.form("people", fact.about, right)
        if not right:
            fate = "" if stands else " (lost)" if fact.about in kept else " (not kept)"
            figures.misses.append(f"{fact.tell!r}, {fact.ask!r}: {found[:1]}{fate}")


def pair(figures: Figures, memory: Memory, user: str, told: Pair) -> None:
    alone = f"{user} alone"
    memory.add(told.second, user_id=alone, infer=figures.infer)
    memory.add(told.first, user_id=user, infer=figures.infer)
    before = holds(texts(memory, user), told.left)
    memory.add(told.second, user_id=user, infer=figures.infer)
    live = texts(memory, user)
    left, right = holds(live, told.left), holds(live, told.right)
    figures.shares["pairs stand"].count(left and right)
    if before and holds(texts(memory, alone), told.right):
        figures.shares["pairs stand, of what is kept alone"].count(left and right)
    figures.shares["a pair's first lost to its second"].count(before and not left)
    figures.form("pairs", told.form, left and right)
    if not (left and right):
        figures.misses.append(f"{told.first!r}, {told.second!r}: {live}")


def change(figures: Figures, memory: Memory, user: str, told: Change) -> None:
    memory.add(told.first, user_id=user, infer=figures.infer)
    before = texts(memory, user)
    memory.add(told.second, user_id=user, infer=figures.infer)
    live = texts(memory, user)
    newer = holds(live, told.right)
    gone = bool(before) and not set(before) & set(live)
    results = memory.search(told.ask, user_id=user).results
    figures.shares["changes: newer live, older gone"].count(newer and gone)
    figures.shares["changes: newer live"].count(newer)
    figures.shares["changes: first result newer"].count(bool(results) and told.right.are_in(results[0].memory))
    figures.form("changes", told.form, newer and gone)
    if not (newer and gone):
        figures.misses.append(f"{told.first!r} -> {told.second!r}: {live}")


def texts(memory: Memory, user: str) -> list[str]:
    """All that is live."""
    return [item.memory for item in memory.get_all(user_id=user, limit=1000).results]


def holds(found: Iterable[str], words: Words) -> bool:
    return any(words.are_in(text) for text in found)


def watched(items: Sequence[Any], name: str, progress: Callable[[str], None]) -> Iterator[Any]:
    """The items, with word of how far they are now and then."""
    last = time.perf_counter()
    for number, item in enumerate(items):
        yield item
        if time.perf_counter() - last > EVERY:
            last = time.perf_counter()
            progress(f"{name}: {number + 1} of {len(items)}")


def table(figures: Figures) -> str:
    lines = [f"{figures.half:<36}{'share':>8}   {'95 %':<14}{'n':>7}"]
    for name, share in figures.shares.items():
        low, high = share.interval
        lines.append(f"{name:<36}{share.value:>8.3f}   {f'{low:.3f} - {high:.3f}':<14}{share.of:>7}")
    for part in figures.asked:
        share = figures.forms(part)
        lines.append(f"{f'forms never wrong, {part}':<36}{share.value:>8.3f}   {'':<14}{share.of:>7}")
    told = ", ".join(f"{part} {seconds:.1f}" for part, seconds in figures.seconds.items())
    return "\n".join([*lines, f"seconds: {told}"])


def as_json(figures: Figures) -> dict[str, Any]:
    return {
        "half": figures.half,
        "seconds": figures.seconds,
        "shares": {
            name: {"share": share.value, "interval": share.interval, "hits": share.hits, "n": share.of}
            for name, share in figures.shares.items()
        },
        "forms_never_wrong": {
            part: {"forms": share.of, "right": share.hits} for part in figures.asked for share in (figures.forms(part),)
        },
    }


def shown(figures: Figures) -> str:
    """What was wrong, item by item, and the forms that were wrong most often."""
    worst = [
        f"  {part:<8}{wrong:>3} of {figures.asked[part][form]:<3} {form}"
        for part, counts in figures.wrong.items()
        for form, wrong in counts.most_common()
        if wrong
    ]
    return "\n".join([*(f"  {miss}" for miss in figures.misses), *worst])


def opened(folder: str, embedder: str) -> Memory:
    """The embedded set as everybody gets it, with this embedder."""
    return Memory({"path": folder, "embedder": {"provider": embedder}})


def on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=[*HALVES, "both"], default="both")
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--changes", type=int, default=CHANGES)
    parser.add_argument("--embedder", choices=["minilm", "hashed"], default="minilm")
    parser.add_argument("--verbatim", action="store_true", help="keep messages as they are: what search alone can do")
    parser.add_argument("--show", choices=["seen"], help="print what was wrong in the half that may be looked at")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object for each half in place of the tables"
    )
    arguments = parser.parse_args()
    for name in HALVES if arguments.half == "both" else [arguments.half]:
        half = Forms(name).half(arguments.people, arguments.pairs, arguments.changes)
        with tempfile.TemporaryDirectory() as folder, opened(folder, arguments.embedder) as memory:
            figures = measure(memory, half, on_stderr, infer=not arguments.verbatim)
        print(json.dumps(as_json(figures)) if arguments.json else table(figures) + "\n", flush=True)
        if arguments.show == name:
            print(shown(figures), flush=True)


if __name__ == "__main__":
    main()
