"""The verbs and ways of saying "is" that relations are read by, as patterns made from the data files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perdure.pipeline.relate.names import lines


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in one of its senses."""

    forms: tuple[str, str, str, str, str]
    """Present, base, past, participle, gerund."""
    after: tuple[str, ...]
    """Words one of which follows; empty text is none."""
    relation: str
    tells: str
    """holds, begins, ends or event."""


@cache
def verbs() -> tuple[Verb, ...]:
    """The verbs of verbs.tsv."""
    found = []
    for row in lines("verbs.tsv"):
        forms, after, relation, tells = (cell.strip() for cell in row.split("\t"))
        present, base, past, participle, gerund = forms.split("/")
        found.append(Verb((present, base, past, participle, gerund), tuple(after.split("|")), relation, tells.strip()))
    return tuple(found)


@cache
def copulas() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Ways to say that somebody is something, each with its tense, from the start of a predicate."""
    rows = [tuple(row.split("\t")) for row in lines("copulas.tsv")]
    return tuple((re.compile(rf"(?:{pattern})\s+(?P<role>.+)"), tense.strip()) for pattern, tense in rows)


def _either(words: set[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


@cache
def adverbs() -> re.Pattern[str]:
    """Words that change nothing, with the space after them."""
    return re.compile(rf"\b(?:{_either(set(lines('adverbs.txt')))})\b,? ?", re.IGNORECASE)


@cache
def begins_predicate() -> re.Pattern[str]:
    """What a predicate begins with."""
    forms = {form for verb in verbs() for form in verb.forms}
    ways = "|".join(row.split("\t")[0] for row in lines("copulas.tsv"))
    others = (
        r"no longer|does(?:n't| not)|do(?:n't| not)|is(?:n't| not)|has|have|had|will|used to|took|takes|replaced|"
        r"replaces|succeeded|succeeds|handed|hands|formerly|previously|stopped|co-leads?|co-led|employs|employed|stepped"
    )
    return re.compile(rf"(?:{adverbs().pattern})*(?:{others}|{ways}|{_either(forms)})\b")


@cache
def past_words() -> re.Pattern[str]:
    """Words by which a sentence speaks of the past."""
    forms = {verb.forms[2] for verb in verbs()} - {verb.forms[1] for verb in verbs()}
    more = "was|were|had|used to|became|took|stepped|handed|replaced|succeeded|formerly|previously|appointed|named"
    return re.compile(rf"\b(?:{_either(forms)}|{more}|elected|promoted|started|began|born)\b")


@cache
def unsure() -> re.Pattern[str]:
    """What makes a sentence no statement of what is so."""
    return re.compile("|".join(f"(?:{line})" for line in lines("unsure.txt")), re.IGNORECASE)
