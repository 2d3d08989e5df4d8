"""Questions and duplicates that the recall benchmark derives from a store's own memories."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text.terms import split_words
from perdure.pipeline.lexicon import pairs, words

Kind = Literal["slots", "messages"]  # the source of a probe
MOST_TERMS = 8
"""Topic words of a message in a question: as many as a full question has. All words of a long message would find
everything that came from it, by its length alone."""
USER = "user"  # the subject of facts about the speaker
OTHER_FORM = "What is {subject}'s {attribute}?"  # the question for an attribute without a form of its own
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
    """Return at most so many probes, balanced over scopes and kinds; the same for the same store."""
    lanes: dict[Scope, dict[Kind, list[Probe]]] = {}
    for probe in sorted(probes, key=_digest):
        lanes.setdefault(probe.scope, {"slots": [], "messages": []})[probe.kind].append(probe)
    in_order = [_in_turns(list(lanes[scope].values())) for scope in sorted(lanes, key=_scope_key)]
    return sorted(_in_turns(in_order)[:most], key=lambda probe: _scope_key(probe.scope))


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
