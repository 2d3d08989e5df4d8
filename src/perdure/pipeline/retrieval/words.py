"""Words alone: a score for memories found without an embedder, what a query to forget names, and other languages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import query_words, runs, split_words, stem, uninflected, without_accents
from perdure.domain.text.terms import words as stems_of
from perdure.pipeline.lexicon import pairs, word_set, words
from perdure.pipeline.retrieval.features import SENTENCE_END, stop_runs
from perdure.pipeline.retrieval.names import names_other, owners_in

SHARED_PREFIX = 4
"""Letters that two words must share at their start to count as one: "training" and "trains", not "train" and "tree"."""

_WORD = Pattern(r"\w+")


def tokens(text: str) -> list[str]:
    """Return lower-case words and numbers without diacritics, in order."""
    return split_words(without_accents(text.casefold()))


def word_score(query: str, text: str) -> float:
    """Return the share in [0, 1] of the query's topic words that the text contains, as written or by stem."""
    stop = words("recall_stopwords.txt")
    asked = [token for token in dict.fromkeys(tokens(query)) if token not in stop] or tokens(query)
    held = set(tokens(text))
    if not asked:
        return 0.0
    return sum(_held(token, held) for token in asked) / len(asked)


def may_be_foreign(text: str) -> bool:
    """Whether a text has a function word of Spanish, Portuguese, Italian, French or German that English has not."""
    return not _foreign_only().isdisjoint(tokens(text))


@cache
def _foreign_only() -> frozenset[str]:
    english = words("recall_stopwords.txt") | stop_runs()  # "who's" is "who" and "s"
    return frozenset().union(*map(_foreign_stopwords, pairs("foreign_stopwords.tsv"))) - english


_POSSESSOR = Pattern(r"\w['’]s\b", re.IGNORECASE)


def has_possessor(text: str) -> bool:
    """Whether a text has an English possessor ("Linus's"), which shows its language whatever its other words are."""
    return _POSSESSOR.search(text) is not None


def shares_topic(query: str, text: str, language: str) -> bool:
    """Whether a text has a topic word of a query in another language than English (es, pt, it, fr or de).

    A query without a topic word ("vergiss das bitte") shares one with no text.
    """
    stop = _foreign_stopwords(language)
    held = set(tokens(text))
    asked = (token for token in tokens(query) if token not in stop and (len(token) > 1 or not token.isascii()))
    return any(_held(token, held) > 0 for token in asked)


def topic_words(text: str, language: str) -> tuple[str, ...]:
    """Return the words of a text in another language that carry a topic, as they are written."""
    stop = _foreign_stopwords(language)
    return tuple(word for word in _WORD.findall(text) if not stop.issuperset(tokens(word)))


def holds_topic(query: str, text: str, language: str) -> bool:
    """Whether a text has every topic word of a query in another language; a query without one is held by no text."""
    held = set(tokens(text))
    asked = tokens(" ".join(topic_words(query, language)))
    return bool(asked) and all(_held(token, held) > 0 for token in asked)


def is_told_of(fact: str, query: str, message: str, language: str) -> bool:
    """Whether an English fact was read out of those sentences of a message that share a topic with a query.

    Names and numbers stay as they are said. A fact without a word of any sentence may be of each.
    """
    sentences = SENTENCE_END.split(message)
    asked = [sentence for sentence in sentences if shares_topic(query, sentence, language)]
    others = [sentence for sentence in sentences if sentence not in asked]
    told = set(tokens(fact))
    near, far = (told.intersection(tokens(" ".join(each))) for each in (asked, others))
    return bool(near) or not far


# What a query to forget names.

NEARER = 0.08
"""Least amount by which "Lena's allergy" is nearer in meaning to what tells of the allergy than "Lena" alone is.

On `benchmarks/data/forget/tune.txt` what tells of another matter gains at most .05, what tells of this one .09 and
more, but for one."""


@dataclass(frozen=True, slots=True)
class Matter:
    """What a query names: its topic words by stem, as they are written, and which of them say who or whose it is."""

    words: dict[str, str]
    owners: frozenset[str]

    @classmethod
    def of(cls, query: str, language: str) -> Matter:
        """Return what a query names, its owners unknown yet; `language` is that of its function words."""
        foreign = pairs("foreign_stopwords.tsv").get(language)
        stop = stop_runs() | word_set("forget.light") if foreign is None else frozenset(foreign.split())
        return cls({stem: word for stem, word in query_words(query).items() if word not in stop}, frozenset())

    def owned(self, query: str, texts: Iterable[str]) -> Matter:
        """Return the same matter with its owners, which are known by how the texts write its words."""
        found = {stem(run) for word in owners_in(query, texts) for run in runs(word)}
        return Matter(self.words, frozenset(found & self.words.keys()))

    @property
    def owner(self) -> str:
        """Return the words that say who or whose it is."""
        return " ".join(word for stem, word in self.words.items() if stem in self.owners)

    @property
    def topic(self) -> dict[str, str]:
        """Return the words that say what it is, by stem."""
        return {stem: word for stem, word in self.words.items() if stem not in self.owners}

    def stands_in(self, text: str) -> bool:
        """Whether a text has every topic word, in a sentence or in two that follow each other."""
        wanted = self.words.keys()
        if not wanted or not wanted <= set(stems_of(text)):
            return False
        held = {uninflected(run) for run in runs(text)}
        if any(word.isascii() and uninflected(word) not in held for word in self.words.values()):
            return False  # "university" is no "universe", whose stem is the same
        if len(wanted) == 1:
            return True
        told = [set(stems_of(sentence)) for sentence in SENTENCE_END.split(text)]
        return len(told) < 3 or any(wanted <= one | other for one, other in pairwise(told))

    def is_of_owner(self, text: str) -> bool:
        """Whether a text tells of the owner: it has the name, or a part of it that is not part of another name."""
        held = self.owners.intersection(stems_of(text))
        return bool(held) and (held == self.owners or not names_other(text, (self.words[stem] for stem in self.owners)))

    def names_nobody_else(self, text: str) -> bool:
        """Whether a text has no name but the owner's."""
        return not names_other(text, (self.words[stem] for stem in self.owners))

    def has_topic(self, text: str) -> bool:
        """Whether a text has every word of the topic, or one with the same beginning ("allergic" for "allergy")."""
        stems, held = set(stems_of(text)), set(tokens(text))
        return all(stem in stems or _held(word, held) > 0 for stem, word in self.topic.items())


@cache
def _foreign_stopwords(language: str) -> frozenset[str]:
    return frozenset(pairs("foreign_stopwords.tsv")[language].split())


def _held(token: str, held: set[str]) -> float:
    if token in held:
        return 1.0
    stem = token[: max(SHARED_PREFIX, len(token) - 3)]
    return 0.8 if len(token) >= SHARED_PREFIX and any(other.startswith(stem) for other in held) else 0.0
