"""Questions that the recall benchmark derives from a store's own messages and memories, and duplicates in it."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import query_words, runs, split_words
from perdure.domain.text.terms import words as stems
from perdure.pipeline.lexicon import pairs, words

Kind = Literal["told", "slots", "messages"]  # the source of a probe
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_TERMS = 8
"""Topic words of a message in a question: as many as a full question has. All words of a long message would find
everything that came from it, by its length alone."""
USER = "user"  # the subject of facts about the speaker
OTHER_FORM = "What is {subject}'s {attribute}?"  # the question for an attribute without a form of its own
LEAST_TERMS = 2  # topic words beside its value that a sentence must have: one word alone asks for too much
SAME_MATTER = 0.5
"""Share of a question's words that a text must have to answer it, if it does not come from the message itself."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, and the expected memories."""

    kind: Kind
    question: str
    scope: Scope  # the scope of these memories
    gold: tuple[str, ...]  # ids of the expected memories, each as good as the others
    stale: frozenset[str] = frozenset()  # their earlier texts, which must not be found
    message: str | None = None  # the id of its source message
    value: str | None = None
    """What a result must say; of `told` only, whose `gold` is a message."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a message that does not ask, with its topic words and its names, each in order."""

    text: str
    terms: Sequence[str]
    names: Sequence[str]


def told_probe(
    message: str, scope: Scope, statements: Iterable[Statement], ended: Iterable[str] = (), current: Iterable[str] = ()
) -> Probe | None:
    """Return a question for one value that a message tells, made of the other topic words of its sentence, or None.

    A value is a number, a date with a number, or a name. `ended` are the texts read out of the message that no longer
    hold, `current` those that do: a value of the first alone has changed, and is not asked for. Which of several values
    is asked for depends on the words alone.
    """
    past, present = list(ended), list(current)
    found: list[tuple[str, str]] = []
    for statement in statements:
        for value in _values(statement):
            own = set(runs(value))
            others = [term for term in statement.terms if own.isdisjoint(runs(term))]
            changed = any(_holds(text, value) for text in past) and not any(_holds(text, value) for text in present)
            if len(others) >= LEAST_TERMS and not changed:
                found.append((" ".join(_spread(others, MOST_TERMS)), value))
    if not found:
        return None
    asked, value = min(found, key=lambda each: hashlib.sha256("\n".join(each).encode()).digest())
    return Probe("told", asked, scope, (message,), value=value)


def tells(probe: Probe, text: str, sources: Collection[str]) -> bool:
    """Whether a text says the value of a `told` probe, and comes from its message or has enough of its other words."""
    if probe.value is None or not _holds(text, probe.value):
        return False
    asked, held = query_words(probe.question), set(stems(text))
    return probe.gold[0] in sources or sum(word in held for word in asked) >= SAME_MATTER * len(asked)


_NUMBER = Pattern(r"(?<![\w.,:/-])\d[^\W_]*(?:[.,:/-]\d[^\W_]*)*")
_MONTH_BEFORE = Pattern(r"([^\W\d_]+)\.?\s+\Z")
_MONTH_AFTER = Pattern(r"\.?\s+(?:(?:of|de)\s+)?([^\W\d_]+)")


def _values(statement: Statement) -> list[str]:
    """Return the names of a sentence and its numbers, these with the month beside them ("3 May")."""
    months, text = pairs("recall_months.tsv"), statement.text
    values = dict.fromkeys(statement.names)
    for number in _NUMBER.finditer(text):
        start, end = number.span()
        before, after = _MONTH_BEFORE.search(text[:start]), _MONTH_AFTER.match(text, end)
        if after is not None and after[1].casefold() in months:
            end = after.end()
        elif before is not None and before[1].casefold() in months:
            start = before.start()
        values[text[start:end]] = None
    return list(values)


def _holds(text: str, value: str) -> bool:
    """Whether a text has the words of a value side by side, without regard to case and accents."""
    return f" {' '.join(runs(value))} " in f" {' '.join(runs(text))} "


def slot_probes(items: Iterable[MemoryItem], earlier: Mapping[str, Collection[str]]) -> list[Probe]:
    """Return a question for each single-valued attribute of a subject in the memories.

    If several give it, the latest is expected. `earlier` has the replaced texts by the id of the memory. Negated
    statements are left out.
    """
    single = words("profile_attributes.txt")
    latest: dict[tuple[Scope, str, str], MemoryItem] = {}
    for item in sorted(items, key=lambda item: (item.told_at, item.created_at, item.id)):
        slots = item.slots
        if slots is not None and slots.polarity and slots.attribute in single:
            latest[item.scope, slots.subject.casefold(), slots.attribute] = item
    return [
        Probe("slots", question(subject, attribute), scope, (item.id,), frozenset(earlier.get(item.id, ())))
        for (scope, subject, attribute), item in latest.items()
    ]


def question(subject: str, attribute: str) -> str:
    """Return the question for a subject's attribute: "Where does the user live?"."""
    form = pairs("probe_questions.tsv").get(attribute, OTHER_FORM)
    return form.format(subject="the user" if subject == USER else subject, attribute=attribute)


def message_probes(
    items: Iterable[MemoryItem],
    sources: Mapping[str, Collection[str]],
    terms: Mapping[str, Sequence[str]],
    earlier: Mapping[str, Collection[str]],
) -> list[Probe]:
    """Return the topic words of each message, spread over it, as a question for its facts.

    `sources` has the source messages of a memory's current text, by its id; `terms` the topic words of the stored
    messages. A fact with exactly these words is left out, because any keyword search would find it.
    """
    drawn: dict[tuple[Scope, str], list[MemoryItem]] = {}
    for item in items:
        for message in sources.get(item.id, ()):
            if terms.get(message):
                drawn.setdefault((item.scope, message), []).append(item)
    probes = []
    for (scope, message), facts in drawn.items():
        text = " ".join(_spread(terms[message], MOST_TERMS))
        gold = sorted(item.id for item in facts if _words(item.memory) != _words(text))
        stale = {each for id in gold for each in earlier.get(id, ())} - {item.memory for item in facts}
        if gold:
            probes.append(Probe("messages", text, scope, tuple(gold), frozenset(stale), message))
    return probes


def sample(probes: Iterable[Probe], most: int) -> list[Probe]:
    """Return at most so many probes, balanced over scopes, half of them `told`; the same for the same store."""
    lanes: dict[Scope, dict[Kind, list[Probe]]] = {}
    for probe in sorted(probes, key=_digest):
        lanes.setdefault(probe.scope, {kind: [] for kind in KINDS})[probe.kind].append(probe)
    in_order = [_half_told(**lanes[scope]) for scope in sorted(lanes, key=_scope_key)]
    return sorted(_in_turns(in_order)[:most], key=lambda probe: _scope_key(probe.scope))


def _half_told(*, told: Sequence[Probe], slots: Sequence[Probe], messages: Sequence[Probe]) -> list[Probe]:
    return _in_turns([told, _in_turns([slots, messages])])


def _in_turns(lanes: Sequence[Sequence[T]]) -> list[T]:
    """Return one of each lane in turn, until all are empty."""
    rounds = zip_longest(*([(each,) for each in lane] for lane in lanes), fillvalue=())
    return [each for turn in rounds for taken in turn for each in taken]


def _spread(terms: Sequence[str], most: int) -> list[str]:
    """Return at most so many terms, in order and from all parts of the text."""
    if len(terms) <= most:
        return list(terms)
    return [terms[place * len(terms) // most] for place in range(most)]


def _words(text: str) -> list[str]:
    return split_words(text.casefold(), underscore=True)


def _digest(probe: Probe) -> bytes:
    parts = (probe.kind, probe.message or "", *probe.gold)
    return hashlib.sha256("\n".join(parts).encode()).digest()


def _scope_key(scope: Scope) -> tuple[str, ...]:
    return tuple(getattr(scope, name) or "" for name in SCOPE_FIELDS)


SAME_MEANING = 0.97
"""Cosine from which two texts count as saying the same. With `minilm`, facts that differ in a number ("weighs 70 kg",
"weighs 71 kg") reach 0.958, and rewordings of one fact 0.835 to 0.975: a reported pair is hardly ever wrong."""
AT_A_TIME = 1_024  # rows compared with all others at a time: 40 MB for 10,000 texts


def folded(text: str) -> str:
    """Return the text without differences of case, width, white space, and final punctuation."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .!")


def duplicate_pairs(
    texts: Sequence[str], vectors: Sequence[NDArray[np.float32] | None], shown: int
) -> tuple[int, list[tuple[int, int]]]:
    """Return how many pairs of texts say the same, and the indexes of the first `shown`, the lower one first.

    They are equal once `folded`, or their vectors have a cosine of at least `SAME_MEANING`; a vector may be None. Time
    grows with the square of the number of texts: 10,000 of them take three seconds on two cores.
    """
    units = _units(vectors)
    numbers: dict[str, int] = {}
    says = np.array([numbers.setdefault(folded(text), len(numbers)) for text in texts], dtype=np.int64)
    places = np.arange(len(texts))
    count, pairs = 0, list[tuple[int, int]]()
    for start in range(0, len(texts), AT_A_TIME):
        rows = slice(start, start + AT_A_TIME)
        same = (units[rows] @ units.T >= SAME_MEANING) | (says[rows, None] == says[None, :])
        same &= places[rows, None] < places[None, :]
        count += int(np.count_nonzero(same))
        if len(pairs) < shown:
            pairs += [(start + int(row), int(column)) for row, column in np.argwhere(same)[: shown - len(pairs)]]
    return count, pairs


def _units(vectors: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32]:
    """Return the vectors at length 1, of shape (texts, dimension); zeros for missing ones."""
    dimension = next((len(vector) for vector in vectors if vector is not None), 0)
    units = np.zeros((len(vectors), dimension), dtype=np.float32)
    for row, vector in enumerate(vectors):
        length = 0.0 if vector is None else float(np.linalg.norm(vector))
        if vector is not None and length > 0:
            units[row] = vector / length
    return units
