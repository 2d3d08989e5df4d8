"""Feedback on memories moves their importance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import InvalidInputError, Memory, NotFoundError

pytestmark = pytest.mark.covers("V72")

VERDICTS = ["positive", "negative", "very_negative", None]


def said(memory: Memory, **more: Any) -> str:
    return str(memory.add("the kettle is blue", user_id="ana", infer=False, **more).results[0].id)


@pytest.mark.covers("V72")
def test_feedback_is_history_and_metadata_and_can_be_undone(quick: Memory) -> None:
    id = said(quick, metadata={"tag": "kitchen"})
    item = quick.feedback(id, "negative", reason="wrong")
    assert item.importance == 0.25 and item.memory == "the kettle is blue"
    assert item.metadata["feedback"] == "NEGATIVE" and item.metadata["feedback_reason"] == "wrong"
    records = quick.history(id)
    assert [(record.event, record.actor, record.reason) for record in records[1:]] == [
        ("UPDATE", "feedback", "negative")
    ]
    quick.feedback(id, "negative", reason="wrong")
    assert len(quick.history(id)) == 2, "the same again changes nothing"
    quick.undo(records[-1].id)
    found = quick.get(id)
    assert found is not None and (found.importance, found.metadata) == (0.5, {"tag": "kitchen"})


@pytest.mark.covers("V72")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=15)
@given(st.lists(st.sampled_from(VERDICTS), max_size=5))
def test_only_the_last_verdict_counts(quick: Memory, verdicts: list[str | None]) -> None:
    id = said(quick)
    for verdict in verdicts:
        assert 0 <= quick.feedback(id, verdict).importance <= 1
    last = verdicts[-1] if verdicts else None
    expected = {"positive": 0.75, "negative": 0.25, "very_negative": 0.0, None: 0.5}[last]
    found = quick.get(id)
    assert found is not None and found.importance == expected
    assert quick.feedback(id, None).metadata == {}


@pytest.mark.covers("V72")
@pytest.mark.parametrize("verdict", ["great", "", 1, True, ["positive"]])
def test_a_verdict_that_is_none_is_refused(quick: Memory, verdict: Any) -> None:
    id = said(quick)
    with pytest.raises(InvalidInputError, match="feedback must be one of positive, negative, very_negative"):
        quick.feedback(id, verdict)
    with pytest.raises(InvalidInputError, match="reason"):
        quick.feedback(id, "positive", reason=verdict if not isinstance(verdict, str) else "\ud800")
    assert len(quick.history(id)) == 1


@pytest.mark.covers("U22")
def test_feedback_stays_inside_of_the_walls(quick: Memory) -> None:
    id = said(quick)
    with pytest.raises(NotFoundError):
        quick.within(user_id="ben").feedback(id, "positive")
    assert quick.within(user_id="ana").feedback(id, "positive").importance == 0.75
    quick.delete(id)
    with pytest.raises(NotFoundError):
        quick.feedback(id, "positive")
