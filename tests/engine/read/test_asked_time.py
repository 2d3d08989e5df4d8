"""The time that a question asks about, for presets that rank by similarity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Memory
from perdure.domain.scope import Scope
from perdure.engine.read.search import SHARE, raised, time_filter
from perdure.engine.requests import Query
from perdure.pipeline.retrieval.presets import PLAIN, PRESETS, PROXY, ROUTER
from perdure.pipeline.retrieval.time_window import Window
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.team.teams import MovedClock

pytestmark = pytest.mark.covers("V77")

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday
SHARES = st.floats(0, 1, allow_nan=False)


def asked(text: str, **more: object) -> Window | None:
    query = Query(text=text, scope=Scope(user_id="ana"), **more)  # type: ignore[arg-type]
    found = time_filter(query, NOW)
    return None if found is None else found.window


@pytest.mark.covers("V77")
def test_only_presets_of_the_gateway_go_by_time() -> None:
    assert {preset.name for preset in PRESETS.values() if preset.timely} == {ROUTER.name, PROXY.name}
    assert not PLAIN.timely


@pytest.mark.covers("V77")
def test_a_stretch_that_is_over() -> None:
    window = asked("What did I do last week?")
    assert window is not None
    assert (window.start, window.end) == (datetime(2026, 6, 8, tzinfo=UTC), datetime(2026, 6, 15, tzinfo=UTC))
    then = asked("What did I do last week?", reference_time=NOW - timedelta(days=365))
    assert then is not None and then.start is not None and then.start.year == 2025, "it goes by the moment of asking"


@pytest.mark.covers("V77")
@pytest.mark.parametrize("text", ["What do I do today?", "What have I done since May?", "And next week?", "What now?"])
def test_time_that_goes_on_is_none(text: str) -> None:
    assert asked(text) is None


@pytest.mark.covers("V77")
def test_a_call_may_say_the_time_itself() -> None:
    window = Window(NOW - timedelta(days=9), NOW - timedelta(days=8), "day")
    assert asked("What did I do last week?", time_window=window) is window


@pytest.mark.covers("V77")
@given(SHARES, SHARES, SHARES)
def test_nearness_raises_a_score_never_above_one_and_keeps_the_order(a: float, b: float, near: float) -> None:
    low, high = sorted((a, b))
    assert low <= raised(low, near) <= raised(high, near) + 1e-12
    assert raised(high, near) <= 1 + 1e-12 and raised(low, 0.0) == low
    assert raised(0.0, 1.0) == SHARE


@pytest.mark.covers("V77")
@pytest.mark.parametrize("preset", ["router", "proxy"])
def test_age_is_not_held_against_what_was_told_then(open_memory: Open, preset: str) -> None:
    memory: Memory = open_memory(embedder=HASHED)
    clock = MovedClock()
    clock.of(memory)
    memory.add("the kettle was bought by me", infer=False, **ANA)
    clock.ahead = timedelta(days=300)
    memory.add("by me the kettle was bought, then sold", infer=False, **ANA)
    month = f"{datetime.now(UTC):%B}"
    found = memory.search(f"What was bought by me in {month}, the kettle?", preset=preset, threshold=0.0, **ANA).results
    assert found[0].memory == "the kettle was bought by me"
    found = memory.search("What was bought by me, the kettle?", preset=preset, threshold=0.0, **ANA).results
    if preset == "router":  # 001 halves a score every thirty days
        assert found[0].memory == "by me the kettle was bought, then sold"
