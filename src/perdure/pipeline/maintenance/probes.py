"""Probes: questions to which a store's own contents are the answer, made without a language model.

Two kinds. What stands in slots is asked for: of "User moved to Lisbon" where the user lives. And the topic words of a
message are asked for the facts that were drawn from it, which says it in other words than theirs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeVar

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.pipeline.lexicon import pairs, words

Kind = Literal["slots", "messages"]
"""What a probe was made from."""

MOST_TERMS = 8
"""Topic words of a message that are asked: as many as a full question has. All of a long message would find anything
that came from it, by its length alone."""
USER = "user"
"""The subject of facts about the one who speaks."""
OTHER_FORM = "What is {subject}'s {attribute}?"
"""How one asks for an attribute that has no form of its own."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, and the memories that it is after."""

    kind: Kind
    question: str
    scope: Scope
    """The walls of these memories."""
    gold: tuple[str, ...]
    """Ids of the memories that answer it, each as good as the others."""
    stale: frozenset[str] = frozenset()
    """Earlier texts of theirs, which must not come."""
    message: str | None = None
    """The id of the message that it was made from."""


def slot_probes(items: Iterable[MemoryItem], earlier: Mapping[str, Collection[str]]) -> list[Probe]:
    """A question for each single-valued attribute of a subject that the memories tell of.

    Where several tell of one, the latest told is what the question is after. `earlier` has the texts that later ones
    have replaced, by the id of the memory. Statements of what is not so are not asked for.
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
    """How one asks for a subject's attribute: "Where does the user live?"."""
    form = pairs("probe_questions.tsv").get(attribute, OTHER_FORM)
    return form.format(subject="the user" if subject == USER else subject, attribute=attribute)


def message_probes(
    items: Iterable[MemoryItem],
    sources: Mapping[str, Collection[str]],
    terms: Mapping[str, Sequence[str]],
    earlier: Mapping[str, Collection[str]],
) -> list[Probe]:
    """The topic words of each message, spread over it, as a question for the facts that came from it.

    `sources` has the messages behind the text that a memory now has, by its id; `terms` the topic words of the messages
    that are kept. A fact that says just these words is not asked for: whatever finds words would find it.
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
    """At most so many of the probes, as many from each scope and each kind as there are, by scope.

    Which ones is decided by a digest of the ids alone: the same store gives the same probes.
    """
    lanes: dict[Scope, dict[Kind, list[Probe]]] = {}
    for probe in sorted(probes, key=_digest):
        lanes.setdefault(probe.scope, {"slots": [], "messages": []})[probe.kind].append(probe)
    in_order = [_in_turns(list(lanes[scope].values())) for scope in sorted(lanes, key=_scope_key)]
    return sorted(_in_turns(in_order)[:most], key=lambda probe: _scope_key(probe.scope))


def _in_turns(lanes: Sequence[Sequence[T]]) -> list[T]:
    """One of each lane after the other, until all are empty."""
    rounds = zip_longest(*([(each,) for each in lane] for lane in lanes), fillvalue=())
    return [each for turn in rounds for taken in turn for each in taken]


def _spread(terms: Sequence[str], most: int) -> list[str]:
    """At most so many of the terms, in order and from all parts of the text."""
    if len(terms) <= most:
        return list(terms)
    return [terms[place * len(terms) // most] for place in range(most)]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _digest(probe: Probe) -> bytes:
    parts = (probe.kind, probe.message or "", *probe.gold)
    return hashlib.sha256("\n".join(parts).encode()).digest()


def _scope_key(scope: Scope) -> tuple[str, ...]:
    return tuple(getattr(scope, name) or "" for name in SCOPE_FIELDS)
