"""The vocabulary of the slots as compiled look-ups: phrases, kinds, relations and word classes."""

from __future__ import annotations

from functools import cache, lru_cache

from perdure.pipeline.curation.rules.slots.scan import fold, scan, stem
from perdure.pipeline.lexicon import lines, words

ARTICLES = frozenset({"a", "an", "the", "their", "his", "her"})
"""Words that phrases are compared without."""
MAX_PHRASE = 5
"""Words of the longest phrase that the synonym table may hold."""


@cache
def synonyms() -> dict[tuple[str, ...], str]:
    """Stems of each phrase of `reconcile_synonyms.txt` to the concept that it stands for ("" for none).

    A line is `concept: phrase, phrase`; the concept's own words belong to it too. `-` as concept drops its phrases.
    """
    table: dict[tuple[str, ...], str] = {}
    for line in lines("reconcile_synonyms.txt"):
        concept, _, phrases = line.partition(":")
        concept = concept.strip()
        target = "" if concept == "-" else stem(fold(concept))
        for phrase in [*([] if concept[0] in "-@" else [concept]), *phrases.split(",")]:
            key = stems(phrase)
            if key and len(key) <= MAX_PHRASE:
                table.setdefault(key, target)
    return table


@cache
def phrase_starts() -> dict[str, int]:
    """First stem of each phrase to the length of the longest phrase that begins with it."""
    longest: dict[str, int] = {}
    for key in synonyms():
        longest[key[0]] = max(longest.get(key[0], 0), len(key))
    return longest


@cache
def kinds() -> dict[str, frozenset[str]]:
    """Each concept to every more general one, from `reconcile_kinds.txt` (`general: special, special`)."""
    parents: dict[str, set[str]] = {}
    for line in lines("reconcile_kinds.txt"):
        general, _, specials = line.partition(":")
        above = concept_of(general)
        for special in specials.split(","):
            below = concept_of(special)
            if below and above and below != above:
                parents.setdefault(below, set()).add(above)
    return {below: frozenset(_ancestors(below, parents)) for below in parents}


def _ancestors(start: str, parents: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(parents.get(start, ()))
    while waiting:
        above = waiting.pop()
        if above not in found and above != start:
            found.add(above)
            waiting.extend(parents.get(above, ()))
    return found


def is_kind_of(special: str, general: str) -> bool:
    """Whether a concept is the other or one of its kinds ("beagle" of "dog")."""
    return special == general or general in kinds().get(special, frozenset())


@lru_cache(maxsize=8192)
def concept_of(phrase: str) -> str:
    """The concept of a word or phrase: its synonym class, else its stems joined by a hyphen."""
    key = stems(phrase)
    known = synonyms().get(key)
    return "-".join(key) if known is None else known


def stems(phrase: str) -> tuple[str, ...]:
    """The stems of a phrase's words."""
    tokens = [token for token in scan(phrase) if not token.stop]
    return tuple(token.stem or token.low for token in tokens if len(tokens) == 1 or token.low not in ARTICLES)


@cache
def stem_set(name: str) -> frozenset[str]:
    """The single-word entries of a word file as stems."""
    return frozenset(stem(fold(word)) for word in words(name))


@cache
def fold_set(name: str) -> frozenset[str]:
    """The entries of a word file, folded."""
    return frozenset(fold(word) for word in words(name))


@cache
def relations() -> dict[tuple[str, ...], str]:
    """Stems of each way to name a person (or pet) by what they are to someone, to the relation's name."""
    table: dict[tuple[str, ...], str] = {}
    for line in lines("reconcile_relations.txt"):
        relation, _, phrases = line.partition(":")
        relation = relation.strip()
        for phrase in (relation, *phrases.split(",")):
            if key := stems(phrase):
                table.setdefault(key, relation)
    return table
