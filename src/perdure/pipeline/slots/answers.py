"""Answers: the questions that a statement answers, in one of several shapes ("the clay comes from Leiria": whence)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from perdure.pipeline.lexicon import lines
from perdure.pipeline.slots.lexis import concept_of, fold_set, is_kind_of, stem_set
from perdure.pipeline.slots.phrases import join_phrases
from perdure.pipeline.slots.rewrite import NAME, SINCE
from perdure.pipeline.slots.scan import scan
from perdure.pipeline.slots.stems import fold, stem
from perdure.pipeline.slots.typed import type_values

_PARTS = {
    "{THEC}": r"(?:[Tt]he|User's) ",
    "{THE}": r"(?:the |User's |their )",
    "{WHO}": r"(?P<v>(?!User (?!'))(?!(?:It|He|She|They|This|That|There)\b)[^\W\d_a-z][^,;:]{1,50}?)",
    "{WHO2}": r"(?!User )(?!(?:It|He|She|They|This|That|There)\b)[^\W\d_a-z][^,;:]{1,50}?",
    "{MATTER}": r"(?P<m>[\w][\w' -]{1,35}?)",
    "{END}": rf"(?: for User| for (?:the|their) [a-z]+|,? now| already|{SINCE})*",
    "{NAME}": NAME,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One question that a statement answers: its kind, what it is asked of, the answer's words, and its names."""

    kind: str
    matter: tuple[str, ...]
    words: frozenset[str]
    names: frozenset[str]
    named: bool = False
    """Whether a name says what it is asked of ("Bea walks Waffle")."""


@lru_cache(maxsize=8192)
def answers(text: str) -> tuple[Answer, ...]:
    """The questions that a statement in its plain shape (see `rewrite`) answers, in the order of the table."""
    found: list[Answer] = []
    for kind, pattern in _shapes():
        match = pattern.match(text)
        if match is None:
            continue
        parts = match.groupdict()
        asked = kind + stem(fold(parts["k"].split()[0])) if parts.get("k") else kind
        said = _content(parts["v"])
        names = frozenset(concept for concept, name in said if name)
        asked_of = _content(parts.get("m") or "")
        matter = tuple(concept for concept, _ in asked_of)
        words = frozenset(concept for concept, _ in said if _answers(kind, concept))
        if words and (matter or not parts.get("m")):
            found.append(Answer(asked, matter, words, names, bool(asked_of) and all(name for _, name in asked_of)))
    return tuple(found)


def _answers(kind: str, concept: str) -> bool:
    """Whether a word can answer a kind of question: a rate is a number, a colour one of the colours."""
    if kind == "colour":
        return is_kind_of(concept, concept_of("colour"))
    return kind == "rate" or not concept[0].isdigit()


def _content(phrase: str) -> list[tuple[str, bool]]:
    """The concepts and values of a phrase in order, each with whether it is a name."""
    light, leads = stem_set("reconcile_light.txt"), fold_set("reconcile_leads.txt")
    found: list[tuple[str, bool]] = []
    tokens = join_phrases(type_values(scan(phrase)))
    for place, token in enumerate(tokens):
        if token.low == "'s" and place + 1 < len(tokens) and not tokens[place + 1].name:
            found.clear()  # "Isla's brother Fergus" is not Isla
        elif token.value is not None:
            found.append((token.low, False))
        elif token.stem and not token.stop and token.stem not in light and token.low not in (*leads, "user", "'s"):
            found.append((token.stem, token.name))
    return found


@cache
def _shapes() -> tuple[tuple[str, re.Pattern[str]], ...]:
    table = []
    for line in lines("reconcile_answers.tsv"):
        kind, _, pattern = line.partition("\t")
        for name, part in _PARTS.items():
            pattern = pattern.replace(name, part)
        table.append((kind, re.compile(pattern)))
    return tuple(table)
