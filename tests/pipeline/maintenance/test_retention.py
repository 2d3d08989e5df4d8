"""Retention: Ebbinghaus' curve with recalls, importance and feedback."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.clock import iso
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.pipeline.maintenance.retention import FEEDBACK, THRESHOLD, is_new, retained, retention, strength, weighed

pytestmark = pytest.mark.covers("B8", "V72")

NOW = datetime(2026, 11, 1, tzinfo=UTC)
days = st.floats(0, 10_000)
counts = st.integers(0, 1_000)
shares = st.floats(0, 1)


def item(age: float, **more: object) -> MemoryItem:
    at = iso(NOW - timedelta(days=age))
    base = MemoryItem(id="1", memory="m", hash="", scope=Scope(user_id="ana"), created_at=at, updated_at=at, told_at=at)
    return base.with_(**more)


@pytest.mark.covers("B8")
@pytest.mark.parametrize("count", [0, 1, 20])
def test_the_strength_is_thirty_days_and_one_for_each_recall(count: int) -> None:
    assert strength(count) == 30 + count
    assert retention(30 + count, strength(count)) == pytest.approx(math.exp(-1))


@pytest.mark.covers("B8")
def test_what_nobody_recalled_falls_below_the_threshold_after_57_days() -> None:
    assert retained(item(56.9), NOW) > THRESHOLD > retained(item(57), NOW)


@pytest.mark.covers("B8", "V72")
@given(days, counts, shares)
def test_r_is_a_share_that_only_falls_with_age(idle: float, count: int, importance: float) -> None:
    held = strength(count, importance)
    assert 0 <= retention(idle + 1, held) <= retention(idle, held) <= 1
    assert retention(-idle, held) == 1


@pytest.mark.covers("V72")
@given(counts, shares, shares)
def test_recalls_and_importance_make_it_stronger_within_half_and_double(count: int, one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert strength(count, low) <= strength(count, high) < strength(count + 1, high)
    assert (30 + count) / 2 <= strength(count, one) <= 2 * (30 + count)


@pytest.mark.covers("V72")
def test_a_recall_and_a_correction_begin_the_curve_anew() -> None:
    assert retained(item(300, last_accessed_at=iso(NOW)), NOW) == 1
    assert retained(item(300, updated_at=iso(NOW)), NOW) == 1
    assert retained(item(300), NOW) < 0.001


@pytest.mark.covers("B8")
def test_a_fact_is_new_by_any_of_its_times_and_so_is_one_that_lies_ahead() -> None:
    assert is_new(item(6.9), NOW) and not is_new(item(7.1), NOW)
    assert is_new(item(300, valid_from=iso(NOW + timedelta(days=200))), NOW)
    assert not is_new(item(0), NOW, grace_days=0)


@pytest.mark.covers("V72")
@given(shares, st.lists(st.sampled_from([*FEEDBACK, None]), max_size=8))
def test_feedback_is_bounded_idempotent_and_can_be_taken_back(importance: float, verdicts: list[str | None]) -> None:
    now, before = importance, None
    for verdict in verdicts:
        now, before = weighed(now, before, verdict)
        assert 0 <= now <= 1
        assert weighed(now, before, verdict) == (now, before)
    last = verdicts[-1] if verdicts else None
    assert now == weighed(importance, None, last)[0]
    assert weighed(now, before, None) == (importance, None)


@pytest.mark.covers("V72")
@given(st.floats(0.01, 0.99))
def test_the_verdicts_are_in_order(importance: float) -> None:
    very_bad, bad, good = (weighed(importance, None, name)[0] for name in ("very_negative", "negative", "positive"))
    assert very_bad <= bad < importance < good
