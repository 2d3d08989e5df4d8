"""Presets: the steps and constants of each way in, as the specs have them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from perdure.pipeline.retrieval.presets import BEST, PLAIN, PRESETS, PROXY, ROUTER, Preset
from perdure.pipeline.retrieval.reflection import Reflection
from perdure.pipeline.retrieval.rescoring import recency
from perdure.pipeline.retrieval.weights import FADING, SHARES, Ranking, Weights

pytestmark = pytest.mark.covers("U12", "U13")


@pytest.mark.covers("U12")
def test_there_are_four_by_their_names() -> None:
    assert list(PRESETS) == ["plain", "router", "proxy", "best"]
    assert all(PRESETS[name].name == name for name in PRESETS)


@pytest.mark.covers("U13")
@pytest.mark.parametrize(("preset", "limit"), [(PLAIN, 100), (ROUTER, 5), (PROXY, 5), (BEST, 100)])
def test_each_way_in_has_its_limit(preset: Preset, limit: int) -> None:
    assert preset.limit == limit


@pytest.mark.covers("U12")
def test_plain_is_cosine_and_nothing_else() -> None:
    assert Preset(name="plain", ranking="similarity", limit=100) == PLAIN


@pytest.mark.covers("B11", "V14", "V25", "V74")
def test_router_gates_fetches_five_from_ten_above_six_tenths_and_looks_once_more() -> None:
    assert (ROUTER.gate, ROUTER.threshold, ROUTER.candidates) == (True, 0.6, 2)
    assert ROUTER.reflection == Reflection()
    assert ROUTER.procedures_first
    assert (ROUTER.hybrid, ROUTER.adaptive, ROUTER.rerank) == (None, False, False), "B9, B10: off by default"
    assert (ROUTER.recency_weight, ROUTER.diversity, ROUTER.relative) == (0, None, False)


@pytest.mark.covers("K26", "K29", "K32", "K33")
def test_proxy_fetches_three_times_and_blends_and_spreads() -> None:
    assert (PROXY.candidates, PROXY.recency_weight, PROXY.diversity) == (3, 0.2, 0.7)
    assert PROXY.rerank and PROXY.relative
    assert (PROXY.gate, PROXY.reflection, PROXY.procedures_first) == (False, None, False)


@pytest.mark.covers("K30")
def test_proxy_keeps_all_where_no_threshold_is_given() -> None:
    assert PROXY.threshold is PLAIN.threshold is BEST.threshold is None


@pytest.mark.covers("K31")
def test_recency_is_an_e_fold_of_thirty_days() -> None:
    assert recency(0) == 1
    assert recency(30) == pytest.approx(0.3679, abs=5e-5)


@pytest.mark.covers("U12")
def test_best_ranks_by_words_meaning_and_cues() -> None:
    assert Preset(name="best", ranking="fused", limit=100) == BEST


def test_what_is_shared_cannot_be_changed() -> None:
    for value, name in ((PROXY, "limit"), (Ranking(), "talk"), (Weights(), "dense"), (SHARES, "before")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 1)


def test_the_arms_weigh_as_much_together_whoever_speaks() -> None:
    ranking = Ranking()
    assert sum(
        getattr(ranking.alone, name) - getattr(ranking.talk, name) for name in ("lexical", "dense", "likeness")
    ) == pytest.approx(0, abs=0.02)


def test_nearer_turns_lend_more_and_earlier_ones_more_than_later_ones() -> None:
    for window in (SHARES, FADING):
        for side in (window.before, window.after):
            assert list(side) == sorted(side, reverse=True)
            assert all(0 < share < 1 for share in side)
        assert all(before > after for before, after in zip(window.before, window.after, strict=True))
