"""Words alone: a score for memories found without an embedder, and topic words of queries in other languages."""

from __future__ import annotations

from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import split_words, without_accents
from perdure.pipeline.lexicon import pairs, words
from perdure.pipeline.retrieval.features import SENTENCE_END, stop_runs

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


def shares_topic(query: str, text: str, language: str) -> bool:
    """Whether a text has a topic word of a query in another language than English (es, pt, it, fr or de).

    A query without a topic word ("vergiss das bitte") shares one with no text.
    """
    stop = _foreign_stopwords(language)
    held = set(tokens(text))
    return any(_held(token, held) > 0 for token in tokens(query) if token not in stop)


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


@cache
def _foreign_stopwords(language: str) -> frozenset[str]:
    return frozenset(pairs("foreign_stopwords.tsv")[language].split())


def _held(token: str, held: set[str]) -> float:
    if token in held:
        return 1.0
    stem = token[: max(SHARED_PREFIX, len(token) - 3)]
    return 0.8 if len(token) >= SHARED_PREFIX and any(other.startswith(stem) for other in held) else 0.0
