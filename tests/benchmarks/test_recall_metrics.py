"""The figures of recall, by hand-made rankings and by what must hold of every ranking."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.benchmarks import recall_data, recall_metrics

Question, Conversation, Turn = recall_data.Question, recall_data.Conversation, recall_data.Turn
FOUND = [{"a"}, {"x"}, {"b", "c"}, set(), {"d"}]
"""Five results: one turn, another, a fact of two turns, one of unknown origin, a turn."""

ids = st.sampled_from("abcdefgh")
rankings = st.lists(st.sets(ids, max_size=3), max_size=8)
golds = st.sets(ids, min_size=1, max_size=4)
cuts = st.integers(1, 9)


def test_a_fact_reaches_every_turn_that_it_came_from() -> None:
    assert recall_metrics.reached(FOUND, 3) == {"a", "x", "b", "c"}


@pytest.mark.parametrize(
    ("k", "fraction", "any", "all"), [(1, 0.25, 1.0, 0.0), (3, 0.75, 1.0, 0.0), (5, 1.0, 1.0, 1.0)]
)
def test_any_fraction_and_all_are_three_figures(k: int, fraction: float, any: float, all: float) -> None:
    gold = ("a", "b", "c", "d")
    assert recall_metrics.fraction_at(FOUND, gold, k) == fraction
    assert recall_metrics.any_at(FOUND, gold, k) == any
    assert recall_metrics.all_at(FOUND, gold, k) == all


@given(rankings, golds, cuts)
def test_all_is_at_most_the_fraction_and_the_fraction_at_most_any(
    ranking: list[set[str]], gold: set[str], k: int
) -> None:
    figures = [measure(ranking, gold, k) for measure in (recall_metrics.all_at, recall_metrics.fraction_at)]
    assert 0 <= figures[0] <= figures[1] <= recall_metrics.any_at(ranking, gold, k) <= 1


@given(rankings, golds, cuts, st.data())
def test_what_stands_behind_the_cut_changes_nothing(
    ranking: list[set[str]], gold: set[str], k: int, data: st.DataObject
) -> None:
    other = ranking[:k] + data.draw(st.permutations(ranking[k:]))
    for measure in (recall_metrics.any_at, recall_metrics.fraction_at, recall_metrics.all_at, recall_metrics.ndcg_at):
        assert measure(ranking, gold, k) == measure(other, gold, k)


def test_ndcg_by_hand() -> None:
    gold = ("a", "b", "c")
    # gains at ranks 1 and 3 (the fact brings two turns and gains once); the best would be ranks 1, 2 and 3
    expected = (1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3) + 1 / math.log2(4))
    assert recall_metrics.ndcg_at(FOUND, gold, 10) == pytest.approx(expected)


def test_a_turn_that_comes_again_gains_nothing() -> None:
    assert recall_metrics.ndcg_at([{"a"}, {"a"}, {"b"}], ("a", "b"), 10) < recall_metrics.ndcg_at(
        [{"a"}, {"b"}, {"a"}], ("a", "b"), 10
    )


@given(st.lists(ids, unique=True, max_size=8), golds, cuts)
def test_ndcg_is_a_share_and_1_only_with_the_right_turns_on_top(ranking: list[str], gold: set[str], k: int) -> None:
    results = [{id} for id in ranking]
    found = recall_metrics.ndcg_at(results, gold, k)
    on_top = set(ranking[: min(k, len(gold))]) <= gold and len(ranking) >= min(k, len(gold))
    assert 0 <= found <= 1 + 1e-9
    assert (found > 1 - 1e-9) == on_top


def test_reciprocal_rank_is_of_the_first_right_result() -> None:
    assert recall_metrics.reciprocal_rank(FOUND, ("c", "d")) == pytest.approx(1 / 3)
    assert recall_metrics.reciprocal_rank(FOUND, ("nobody",)) == 0


def test_a_budget_skips_what_does_not_fit_and_goes_on() -> None:
    assert recall_metrics.fill([400, 700, 600, 1], 1000) == [0, 2]
    assert recall_metrics.fraction_within([{"a"}, {"b"}, {"c"}], [400, 700, 600], ("b", "c"), 1000) == 0.5


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 100))
def test_a_budget_is_kept_and_nothing_left_out_would_have_fit_in_its_place(costs: list[int], budget: int) -> None:
    taken = recall_metrics.fill(costs, budget)
    assert sum(costs[place] for place in taken) <= budget
    for place in set(range(len(costs))) - set(taken):
        before = sum(costs[other] for other in taken if other < place)
        assert before + costs[place] > budget


def test_tokens_are_estimated_in_two_ways() -> None:
    text = "one two three four five six seven eight nine ten"
    assert recall_metrics.tokens_by_words(text) == 13
    assert recall_metrics.tokens_by_characters(text) == math.ceil(len(text) / 4)


@pytest.mark.parametrize(
    ("ranking", "fresher", "current"),
    [
        ([{"new"}, {"old"}], 1.0, 0.0),
        ([{"old"}, {"new"}], 0.0, 0.0),
        ([{"new"}], 1.0, 1.0),
        ([{"old"}], 0.0, 0.0),
        ([], 0.0, 0.0),
        ([{"old", "new"}], 0.0, 0.0),  # one result for both tells neither
        ([{"new"}, {"x"}, {"old"}], 1.0, 1.0),  # the old one behind the cut
    ],
)
def test_freshness_and_current_only(ranking: list[set[str]], fresher: float, current: float) -> None:
    assert recall_metrics.fresher(ranking, ("old",), ("new",)) == fresher
    assert recall_metrics.current_only(ranking, ("old",), ("new",), 2) == current


@given(rankings, golds, golds)
def test_of_two_values_at_most_one_is_the_fresher(ranking: list[set[str]], one: set[str], other: set[str]) -> None:
    assert recall_metrics.fresher(ranking, one, other) + recall_metrics.fresher(ranking, other, one) <= 1


def test_a_pair_is_covered_by_both_sides_only() -> None:
    pair = (("a", "nobody"), ("d",))
    assert recall_metrics.covers_both(FOUND, pair, 5) == 1.0
    assert recall_metrics.covers_both(FOUND, pair, 4) == 0.0


def test_events_are_covered_by_any_of_their_turns() -> None:
    groups = (("a", "b"), ("d",), ("nobody",), ("x",))
    assert recall_metrics.group_coverage(FOUND, groups, 3) == 0.5
    assert recall_metrics.group_coverage(FOUND, groups, 5) == 0.75


@pytest.mark.parametrize(
    ("order", "tau"), [("abc", 1.0), ("cba", -1.0), ("bac", 1 / 3), ("ab", 1 / 3), ("c", 0.0), ("", 0.0)]
)
def test_kendalls_tau_over_all_pairs(order: str, tau: float) -> None:
    ranking = [{id} for id in order]
    assert recall_metrics.kendall_tau(ranking, (("a",), ("b",), ("c",)), 20) == pytest.approx(tau)


@given(st.permutations("abcde"))
def test_kendalls_tau_of_the_reverse_is_the_opposite(order: list[str]) -> None:
    groups = [(id,) for id in "abcde"]
    forward, back = [{id} for id in order], [{id} for id in reversed(order)]
    assert recall_metrics.kendall_tau(forward, groups, 9) == pytest.approx(-recall_metrics.kendall_tau(back, groups, 9))


def test_auroc_by_hand() -> None:
    assert recall_metrics.auroc([3, 4], [1, 2]) == 1.0
    assert recall_metrics.auroc([1, 3], [2]) == 0.5
    assert recall_metrics.auroc([1, 1], [1]) == 0.5
    assert math.isnan(recall_metrics.auroc([], [1]))


@given(st.lists(st.integers(0, 9), min_size=1), st.lists(st.integers(0, 9), min_size=1))
def test_auroc_of_the_other_way_round_is_the_rest(one: list[int], other: list[int]) -> None:
    assert recall_metrics.auroc(one, other) + recall_metrics.auroc(other, one) == pytest.approx(1)


@given(st.lists(st.integers(0, 99), min_size=1), st.floats(0.01, 1))
def test_a_percentile_has_that_share_at_or_below_it(values: list[int], share: float) -> None:
    found = recall_metrics.percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_the_interval_is_the_same_every_time_and_holds_the_mean() -> None:
    values = [0.0] * 30 + [1.0] * 70
    low, high = recall_metrics.interval(recall_metrics.mean, values)
    assert (low, high) == recall_metrics.interval(recall_metrics.mean, values)
    # the normal approximation: 0.7 -+ 1.96 x sqrt(0.7 x 0.3 / 100)
    assert low == pytest.approx(0.61, abs=0.02) and high == pytest.approx(0.79, abs=0.02)
    assert recall_metrics.interval(recall_metrics.mean, [0.5] * 9) == (0.5, 0.5)
    assert recall_metrics.interval(recall_metrics.auroc, [3, 4], [1, 2], resamples=9) == (1.0, 1.0)
    assert all(map(math.isnan, recall_metrics.interval(recall_metrics.auroc, [3, 4], [])))


@given(rankings, st.lists(st.integers(1, 3), min_size=8, max_size=8))
def test_a_session_counts_once_at_its_first_turn(ranking: list[set[str]], numbers: list[int]) -> None:
    session_of = {id: str(number) for id, number in zip("abcdefgh", numbers, strict=True)}
    sessions = recall_metrics.session_ranking(ranking, session_of)
    assert all(len(each) == 1 for each in sessions)
    assert len(set().union(*sessions)) == len(sessions)
    assume(sessions)
    first = next(result for result in ranking if result)
    assert sessions[0] <= {session_of[id] for id in first}


# ---------------------------------------------------------------------- a question whole
TALK = Conversation(
    "c",
    tuple(Turn(id, None, "user", f"{id} " * words, None, session) for id, words, session in [
        ("a", 10, "1"), ("b", 1600, "1"), ("c", 10, "2"), ("d", 10, "3")]),
    (),
)  # fmt: skip


def answer(order: str, coverage: float = 0.5) -> Any:
    texts = {turn.id: turn.text for turn in TALK.turns}
    results = [recall_metrics.Result(texts[id], frozenset(id), line=f"[day] {texts[id]}") for id in order]
    return recall_metrics.Answer(results, coverage)


def scored(category: str, gold: str, order: str, coverage: float = 0.5) -> Any:
    question = Question(text="?", category=category, gold=tuple(gold))
    return recall_metrics.score(TALK, question, answer(order, coverage), answer(order))


def test_a_question_is_scored_by_ranks_by_budget_and_by_session() -> None:
    one = scored("k", "cb", "abc")
    assert one.figures["r@5"] == 1.0 and one.figures["all@5"] == 1.0 and one.figures["MRR"] == 0.5
    assert one.figures["r@2k"] == 0.5  # the long turn, 2,080 tokens, does not fit; the one behind it does
    assert one.figures["r@4k"] == 1.0
    assert one.figures["r@1kc"] == 1.0  # its words are short: by characters it has 800
    assert one.session_figures["r@5"] == 1.0 and one.session_figures["MRR"] == 1.0
    assert len(one.prompt) == 2


def test_a_question_without_evidence_has_no_figures_and_is_not_averaged() -> None:
    none, one = scored("k", "", "ab"), scored("k", "a", "ab")
    assert recall_metrics.means([none, one]) == recall_metrics.means([one])
    assert recall_metrics.means([none]) == {"n": 0}
    assert recall_metrics.values([none, one], "r@5") == [1.0]


def test_the_table_has_a_line_for_each_group_that_has_figures() -> None:
    groups = {"kind": [scored("kind", "a", "a")], "empty": [scored("empty", "", "a")]}
    head, line = recall_metrics.table(groups).splitlines()
    assert head.split()[:2] == ["n", "r@5"] and line.split()[:3] == ["kind", "1", "1.000"]
    sessions = recall_metrics.table({"kind": [each.as_sessions() for each in groups["kind"]]})
    assert "r@2k" in head and "r@2k" not in sessions


def test_coverage_tells_what_can_be_answered_from_what_cannot() -> None:
    high, low = [scored("k", "a", "a", 0.9)], [scored("k", "", "a", 0.2)]
    target = recall_metrics.apart_target(high, low, 0.65, 0.7)
    assert (target.value, target.n, target.reached) == (1.0, 2, "strong")
    assert recall_metrics.apart_target(low, high, 0.65, 0.7).value == 0.0


@pytest.mark.parametrize(("value", "reached"), [(0.9, "strong"), (0.85, "floor"), (0.5, "neither")])
def test_a_target_says_what_was_reached(value: float, reached: str) -> None:
    target = recall_metrics.mean_target("r@10", [value] * 4, 0.8, 0.9)
    assert target.told()["reached"] == reached
    assert target.line().endswith(f"reached: {reached}")
    assert recall_metrics.mean_target("r@10", [], 0.8, 0.9).n == 0
