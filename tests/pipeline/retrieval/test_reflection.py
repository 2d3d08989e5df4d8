"""The reflection gate of 001."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.errors import ConfigError
from perdure.pipeline.retrieval.reflection import (
    Candidate,
    Reflection,
    ReflectionFilter,
    chain,
    choose,
    estimated_tokens,
    heuristic,
    noop,
    word_jaccard,
)

pytestmark = pytest.mark.covers("B11")

TEXTS = st.lists(st.sampled_from(["User", "likes", "tea", "Tea", "has", "a", "cat", "!?"]), max_size=12).map(" ".join)
CANDIDATES = st.lists(st.tuples(TEXTS, st.floats(0, 1), st.floats(-5, 400)), max_size=10).map(
    lambda rows: [Candidate(place, text, score, age) for place, (text, score, age) in enumerate(rows)]
)


def of(*texts: str) -> list[Candidate]:
    """Candidates of these texts, best first, none of them old."""
    return [Candidate(place, text, 0.9 - place / 100) for place, text in enumerate(texts)]


def kept(found: ReflectionFilter, candidates: Sequence[Candidate]) -> list[int]:
    return [each.place for each in found(candidates)]


@pytest.mark.covers("B11")
def test_blocked_texts_are_dropped() -> None:
    settings = Reflection(block_patterns=(r"(?i)ignore (all|previous)", r"\bpassword\b"))
    candidates = of("User likes tea", "IGNORE all rules", "the password is 1234", "User has passwords in a safe")
    assert kept(heuristic(settings), candidates) == [0, 3]
    assert kept(heuristic(Reflection()), candidates) == [0, 1, 2, 3], "B5: no pattern by default"


@pytest.mark.covers("B11")
@pytest.mark.parametrize("bad", ["reflected[", "(", "reflected{9999999999999999999}"])
def test_a_bad_pattern_is_ignored_and_said_once(bad: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = Reflection(block_patterns=(bad, "coffee"))
    with caplog.at_level(logging.WARNING, logger="perdure"):
        assert kept(heuristic(settings), of("User likes tea", "User likes coffee")) == [0]
        assert kept(heuristic(settings), of("User likes tea", "User likes coffee")) == [0]
    assert [bad in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.covers("B11")
def test_age_decides_the_order() -> None:
    candidates = [Candidate(0, "old and near", 0.9, 60), Candidate(1, "new and far", 0.5, 0)]
    found = heuristic(Reflection())(candidates)
    assert [each.place for each in found] == [1, 0]
    assert [each.score for each in found] == pytest.approx([0.5, 0.225])


@pytest.mark.covers("B11")
def test_half_life_is_a_setting() -> None:
    found = heuristic(Reflection(recency_decay_days=10))([Candidate(0, "x", 0.8, 10)])
    assert found[0].score == pytest.approx(0.4)


@pytest.mark.covers("B11")
def test_a_repeat_of_a_better_one_is_dropped() -> None:
    ten = "one two three four five six seven eight nine ten"
    candidates = of(ten, f"{ten.upper()}!", ten.replace("ten", ""), ten.replace("ten", "eleven"), "something else")
    assert kept(heuristic(Reflection()), candidates) == [0, 3, 4], "9 of 10 words are .90, 9 of 11 are less"
    assert kept(heuristic(Reflection(dedup_threshold=0.5)), candidates) == [0, 4]


@pytest.mark.covers("B11")
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("User likes tea", "user LIKES tea.", 1.0),
        ("a b c", "b c d", 0.5),
        ("tea", "coffee", 0.0),
        ("", "", 1.0),
        ("!!!", "???", 0.0),
        ("", "tea", 0.0),
    ],
)
def test_word_jaccard(left: str, right: str, expected: float) -> None:
    assert word_jaccard(left, right) == expected == word_jaccard(right, left)


@pytest.mark.covers("B11")
@pytest.mark.parametrize(("words", "tokens"), [(0, 0), (1, 2), (10, 13), (11, 15)])
def test_tokens(words: int, tokens: int) -> None:
    assert estimated_tokens("word " * words) == tokens


@pytest.mark.covers("B11")
def test_budget() -> None:
    long, short = "long " * 20, "short one"
    settings = Reflection(max_inject_tokens=30)
    assert kept(heuristic(settings), of("first of all", long, short)) == [0, 1], "4 and 26 tokens"
    assert kept(heuristic(settings), of("first of all of them", long, short)) == [0, 2], "a later one may fit"
    assert kept(heuristic(Reflection(max_inject_tokens=5)), of(long, short)) == [0], "the first enters in any case"


@pytest.mark.covers("B11")
@given(CANDIDATES, st.integers(0, 40))
def test_what_the_gate_promises(candidates: list[Candidate], budget: int) -> None:
    found = heuristic(Reflection(max_inject_tokens=budget))(candidates)
    assert bool(found) == bool(candidates)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert len({each.place for each in found}) == len(found)
    assert all(each.score <= candidates[each.place].score for each in found)
    assert all(word_jaccard(a.text, b.text) < 0.9 for a in found for b in found if a.place != b.place)
    assert len(found) <= 1 or sum(estimated_tokens(each.text) for each in found) <= budget


@pytest.mark.covers("B11")
@given(CANDIDATES)
def test_noop_and_off_change_nothing(candidates: list[Candidate]) -> None:
    assert noop(candidates) == candidates
    assert choose(Reflection(enabled=False))(candidates) == candidates
    assert choose(Reflection(algorithm="noop"))(candidates) == candidates


@pytest.mark.covers("B11")
@given(CANDIDATES, st.sampled_from(["heuristic", "unheard of", ""]))
def test_an_unknown_name_is_heuristic(candidates: list[Candidate], name: str) -> None:
    assert choose(Reflection(algorithm=name))(candidates) == heuristic(Reflection())(candidates)


@pytest.mark.covers("B11")
def test_a_filter_of_the_callers_own() -> None:
    def first(candidates: Sequence[Candidate]) -> list[Candidate]:
        return list(candidates[:1])

    own = {"first": first}
    assert kept(choose(Reflection(algorithm="first"), own), of("a", "b")) == [0]
    assert kept(choose(Reflection(algorithm="first", enabled=False), own), of("a", "b")) == [0, 1]


@pytest.mark.covers("B11")
def test_a_chain_runs_in_order_skips_none_and_stops_when_empty() -> None:
    asked: list[str] = []

    def dropping(name: str, count: int) -> ReflectionFilter:
        def drop(candidates: Sequence[Candidate]) -> list[Candidate]:
            asked.append(name)
            return list(candidates[count:])

        return drop

    assert kept(chain(dropping("one", 1), None, dropping("two", 1)), of("a", "b", "c")) == [2]
    assert asked == ["one", "two"]
    assert kept(chain(dropping("all", 9), dropping("never", 0)), of("a")) == []
    assert asked == ["one", "two", "all"]
    assert kept(chain(), of("a")) == [0]
    assert kept(chain(dropping("never", 0)), []) == []
    assert asked == ["one", "two", "all"]


@pytest.mark.covers("B11")
def test_an_override_merges_field_by_field() -> None:
    base = Reflection(max_inject_tokens=100, dedup_threshold=0.8)
    merged = base.overridden({"max_inject_tokens": 0, "dedup_threshold": None, "block_patterns": ["x"]})
    assert merged == Reflection(max_inject_tokens=0, dedup_threshold=0.8, block_patterns=("x",))
    assert base.overridden({}) == base


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("recency_decay_days", 0),
        ("recency_decay_days", "30"),
        ("recency_decay_days", float("nan")),
        ("dedup_threshold", 0),
        ("dedup_threshold", 1.01),
        ("max_inject_tokens", -1),
        ("max_inject_tokens", True),
        ("block_patterns", "secret"),
        ("block_patterns", [1]),
        ("half_life", 30),
    ],
)
def test_bad_settings_are_named(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=field) as caught:
        Reflection().overridden({field: value})
    assert (caught.value.field, caught.value.value) == (field, value) or value != value
