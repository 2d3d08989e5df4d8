"""The reflection gate: filters memories once more before they enter a prompt.

A filter takes candidates, best first, and returns those that may enter. `heuristic` is the built-in one, `noop` lets
everything pass, and a caller may name filters of their own.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from perdure.domain.errors import ConfigError
from perdure.domain.text.terms import split_words
from perdure.pipeline.prompting.quoting import TOKENS_PER_WORD, fit
from perdure.pipeline.retrieval.rescoring import HALF_LIFE_DAYS, half_life_decay

logger = logging.getLogger("perdure")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that was found: its place, text, score and age in days."""

    place: int
    text: str
    score: float
    age_days: float = 0.0


ReflectionFilter = Callable[[Sequence[Candidate]], list[Candidate]]
"""Takes candidates, best first; returns those that may enter a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """The settings of the gate; an invalid one is a ConfigError."""

    enabled: bool = True
    algorithm: str = "heuristic"  # `heuristic`, `noop` or a caller's filter; an unknown name is `heuristic`
    block_patterns: tuple[str, ...] = ()  # regular expressions; a text that matches one is dropped. None by default.
    recency_decay_days: float = HALF_LIFE_DAYS  # half-life of a score
    dedup_threshold: float = 0.9  # word Jaccard to a better candidate from which a text counts as its repeat
    max_inject_tokens: int = 2048
    """Estimated tokens that may enter a prompt; the best candidate enters however long it is."""

    def __post_init__(self) -> None:
        patterns = self.block_patterns
        if isinstance(patterns, str) or not all(isinstance(each, str) for each in patterns):
            raise _wrong("block_patterns", patterns, "a list of regular expressions")
        object.__setattr__(self, "block_patterns", tuple(patterns))
        if not (_is_number(self.recency_decay_days) and self.recency_decay_days > 0):
            raise _wrong("recency_decay_days", self.recency_decay_days, "a number above 0")
        if not (_is_number(self.dedup_threshold) and 0 < self.dedup_threshold <= 1):
            raise _wrong("dedup_threshold", self.dedup_threshold, "a number above 0 and at most 1")
        if not (_is_number(self.max_inject_tokens) and self.max_inject_tokens >= 0):
            raise _wrong("max_inject_tokens", self.max_inject_tokens, "a number of tokens, 0 or more")

    def overridden(self, values: Mapping[str, Any]) -> Reflection:
        """Return these settings with one route's own values; None leaves a field as it is."""
        known = [field.name for field in fields(self)]
        for name in values:
            if name not in known:
                raise ConfigError(
                    f"reflection has no setting {name!r}, only {', '.join(known)}", field=name, value=values[name]
                )
        return replace(self, **{name: value for name, value in values.items() if value is not None})


def choose(settings: Reflection, own: Mapping[str, ReflectionFilter] | None = None) -> ReflectionFilter:
    """Return the filter that the settings name: one of `own`, `noop`, else `heuristic`; switched off, it is `noop`."""
    if not settings.enabled:
        return noop
    if own and settings.algorithm in own:
        return own[settings.algorithm]
    if settings.algorithm == "noop":
        return noop
    return heuristic(settings)


def noop(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return all candidates."""
    return list(candidates)


def heuristic(settings: Reflection) -> ReflectionFilter:
    """Return the built-in filter: block patterns, decay by age, order by score, repeats, token budget.

    The returned scores are decayed ones, ties in the given order. A text counts as a repeat of a better one that was
    kept from `dedup_threshold` on. A text that does not fit into the budget is skipped, a later one may fit.
    """

    def reflect(candidates: Sequence[Candidate]) -> list[Candidate]:
        patterns = [pattern for each in settings.block_patterns if (pattern := _compiled(each)) is not None]
        allowed = [each for each in candidates if not any(pattern.search(each.text) for pattern in patterns)]
        aged = [
            replace(each, score=half_life_decay(each.score, each.age_days, settings.recency_decay_days))
            for each in allowed
        ]
        aged.sort(key=lambda each: -each.score)
        return _within_budget(list(_without_repeats(aged, settings.dedup_threshold)), settings.max_inject_tokens)

    return reflect


def chain(*filters: ReflectionFilter | None) -> ReflectionFilter:
    """Combine filters in order; a None is skipped, and the rest is not called once no candidate is left."""

    def chained(candidates: Sequence[Candidate]) -> list[Candidate]:
        left = list(candidates)
        for each in filters:
            if not left:
                break
            if each is not None:
                left = each(left)
        return left

    return chained


def word_jaccard(left: str, right: str) -> float:
    """Return the shared words as a share of all words of two texts, in any case; without words: 1 if they are equal."""
    return _jaccard(_words(left), _words(right))


def estimated_tokens(text: str) -> int:
    """Return ceil(1.3 x words), where white space separates words."""
    return math.ceil(TOKENS_PER_WORD * len(text.split()))


def _within_budget(ranked: Sequence[Candidate], budget: int) -> list[Candidate]:
    """Return the first, and of the rest what fits beside it."""
    if not ranked:
        return []
    first, *rest = ranked
    costs = [estimated_tokens(each.text) for each in rest]
    return [first, *(rest[place] for place in fit(costs, budget - estimated_tokens(first.text)))]


def _without_repeats(ranked: Sequence[Candidate], threshold: float) -> Iterator[Candidate]:
    kept: list[frozenset[str]] = []
    for each in ranked:
        words = _words(each.text)
        if all(_jaccard(words, other) < threshold for other in kept):
            kept.append(words)
            yield each


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right)


def _words(text: str) -> frozenset[str]:
    """Return the words of a text; one without any, such as a row of pictures, counts as a word."""
    return frozenset(split_words(text.lower(), underscore=True)) or frozenset((text.strip(),))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return the expression, or None for an invalid one, which is logged once while it is cached here."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        logger.warning("reflection: the block pattern %r is ignored: %s", pattern, error)
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _wrong(field: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"reflection.{field} must be {wanted}, not {value!r}", field=field, value=value)
