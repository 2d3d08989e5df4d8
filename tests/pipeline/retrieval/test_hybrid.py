"""Hybrid score of 001."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.errors import InvalidInputError
from perdure.pipeline.retrieval.rescoring import bm25, gram_likeness, hybrid

pytestmark = pytest.mark.covers("B9")

TEXTS = ["User lives in Porto", "User's budget for Hawaii is 10,000 dollars", "User has a cat", ""]
WORDS = st.sampled_from(["hawaii", "budget", "cat", "Porto", "x", "东京", "10,000"])
PHRASES = st.lists(WORDS, max_size=6).map(" ".join)
CANDIDATES = st.lists(st.tuples(PHRASES, st.floats(-1, 1)), max_size=8)


@pytest.mark.covers("B9")
def test_weighted_by_hand() -> None:
    """One of two texts holds the only word: its BM25 is the whole .2; `cat` and `cats` share one of two grams."""
    assert hybrid("cat", ["cat", "cats"], [0.5, 0.9]) == pytest.approx([0.35 + 0.2 + 0.1, 0.63 + 0.1 / 2])


@pytest.mark.covers("B9")
def test_bm25_by_hand() -> None:
    found = bm25("hawaii", ["Hawaii, hawaii!", "no such word here"])
    idf = math.log((2 - 1 + 0.5) / (1 + 0.5) + 1)
    assert found == pytest.approx([idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 2 / 3)), 0.0])


@pytest.mark.covers("B9")
def test_a_word_asked_twice_counts_once() -> None:
    assert bm25("Cat, cat!", TEXTS) == bm25("cat", TEXTS)


@pytest.mark.covers("B9")
def test_bm25_is_scaled_over_those_that_hold_a_word() -> None:
    texts = ["cat cat", "cat and many other words beside it", "dog"]
    with_words = hybrid("cat", texts, [0.0, 0.0, 0.0])
    letters = [0.1 * gram_likeness("cat", text) for text in texts]
    assert with_words == pytest.approx([0.2 + letters[0], letters[1], letters[2]])


@pytest.mark.covers("B9")
def test_a_word_of_the_query_lifts_what_holds_it() -> None:
    scores = hybrid("what is the Hawaii budget", TEXTS, [0.5] * 4)
    assert max(range(4), key=lambda place: scores[place]) == 1


@pytest.mark.covers("B9")
@given(PHRASES, CANDIDATES, st.sampled_from(["rerank", "", "RRF", "weighted"]))
def test_an_unknown_mode_is_weighted(query: str, candidates: list[tuple[str, float]], mode: str) -> None:
    texts, cosines = [text for text, _ in candidates], [cosine for _, cosine in candidates]
    assert hybrid(query, texts, cosines, mode) == hybrid(query, texts, cosines)


@pytest.mark.covers("B9")
@given(PHRASES, CANDIDATES, st.sampled_from(["weighted", "rrf"]), st.randoms())
def test_scores_are_shares_whatever_the_order(
    query: str, candidates: list[tuple[str, float]], mode: str, random: Random
) -> None:
    order = list(range(len(candidates)))
    random.shuffle(order)
    scores = hybrid(query, [text for text, _ in candidates], [cosine for _, cosine in candidates], mode)
    assert all(0 <= score <= 1 for score in scores)
    moved = [candidates[place] for place in order]
    again = hybrid(query, [text for text, _ in moved], [cosine for _, cosine in moved], mode)
    assert again == pytest.approx([scores[place] for place in order])


@pytest.mark.covers("B9")
def test_rrf_is_comparable_with_a_threshold() -> None:
    """The reference's sum of at most .05 met a threshold of .7, so that nothing was ever found."""
    scores = hybrid("cat food", ["cat food", "dog walks", "tea"], [0.9, 0.4, 0.1], "rrf")
    assert scores[0] == pytest.approx(1.0)
    assert scores[1] == pytest.approx((1 / 62) / (3 / 61))
    assert scores == sorted(scores, reverse=True)


@pytest.mark.covers("B9")
def test_rrf_equals_share_a_rank() -> None:
    scores = hybrid("cat", ["cat", "cat", "dog"], [0.5, 0.5, 0.4], "rrf")
    assert scores[0] == scores[1] == pytest.approx(1.0)
    assert scores[2] == pytest.approx((1 / 63) / (3 / 61))


@pytest.mark.covers("B9")
@given(PHRASES, PHRASES)
def test_gram_likeness(left: str, right: str) -> None:
    assert 0 <= gram_likeness(left, right) <= 1
    assert gram_likeness(left, right) == gram_likeness(right, left)
    assert gram_likeness(left, left.upper()) == (1.0 if left.strip() else 0.0)


@pytest.mark.covers("B9")
def test_nothing_found_is_nothing() -> None:
    assert hybrid("cat", [], []) == []
    assert hybrid("", ["cat", ""], [0.5, 0.0]) == pytest.approx([0.35, 0.0])


def test_a_cosine_too_few_is_named() -> None:
    with pytest.raises(InvalidInputError, match="2 texts, not 1") as caught:
        hybrid("cat", ["a", "b"], [0.5])
    assert caught.value.field == "cosines"
