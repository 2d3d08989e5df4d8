"""Summaries, accounts of sessions and drift, as steps of their own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.llms.scripted import ScriptedLLM
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from perdure.pipeline.curation.chat import day_of, has_drifted, session_text, tells_a_topic
from perdure.pipeline.curation.llm.summary import Learned, session_by_model, summary_by_model
from perdure.pipeline.prompting import compaction

pytestmark = pytest.mark.covers("K53", "K57", "V65", "V66")

DAY = datetime(2024, 12, 29, 18, tzinfo=UTC)


def says(*answers: object) -> ScriptedLLM:
    return ScriptedLLM(ScriptedLLM.Settings.model_validate({"answers": answers}))


@pytest.mark.covers("K57")
@given(st.lists(st.text("ab ", min_size=1, max_size=60), max_size=60), st.integers(1, 256))
def test_a_summary_keeps_within_its_budget_and_takes_the_newest_first(facts: list[str], budget: int) -> None:
    kept = compaction.summary_facts(facts, budget)
    assert kept == sorted(set(kept))
    costs = [-(-13 * len(facts[place].split()) // 10) for place in range(len(facts))]
    assert sum(costs[place] for place in kept) <= budget
    room = budget - sum(costs[place] for place in kept)
    later = [place for place in range(len(facts)) if place not in kept]
    assert all(costs[place] > room for place in later)


@pytest.mark.covers("K57")
def test_facts_of_one_subject_stand_together() -> None:
    facts = ["User lives in Porto", "Anne is a nurse", "User has a dog", "Anne likes tea."]
    assert compaction.summary_text(facts) == "User lives in Porto. User has a dog. Anne is a nurse. Anne likes tea."


@pytest.mark.covers("K53")
def test_a_model_gets_the_summary_before_and_what_was_learned() -> None:
    llm = says("<think>hm</think> User now lives in Porto.\n")
    learned = Learned(new=("User moved to Porto",), gone=("User lives in Lisbon",))
    assert asyncio.run(summary_by_model(llm, "User lives in Lisbon.", learned)) == "User now lives in Porto."
    (call,) = llm.calls
    assert "Summary so far:\nUser lives in Lisbon." in call.user_message
    assert "No longer true:\n- User lives in Lisbon" in call.user_message
    assert "Learned since:\n- User moved to Porto" in call.user_message
    assert call.options["temperature"] == 0.2
    assert call.options["max_tokens"] == compaction.SUMMARY_TOKENS


@pytest.mark.covers("K53")
def test_an_empty_summary_is_a_failure() -> None:
    with pytest.raises(LLMError):
        asyncio.run(summary_by_model(says("<think>nothing"), None, Learned(new=("a",))))


@pytest.mark.covers("A21")
def test_nothing_learned_is_nothing() -> None:
    assert Learned().is_nothing
    assert not Learned(gone=("a",)).is_nothing


@pytest.mark.covers("V65")
def test_a_session_is_told_with_its_day() -> None:
    facts = ["User plans a vacation in Hawaii", "User's budget for the trip is $10,000."]
    told = "On 29 December 2024, user told: user plans a vacation in Hawaii; and user's budget for the trip is $10,000."
    assert session_text(facts, DAY) == told
    assert session_text(facts[:1], DAY) == "On 29 December 2024, user told: user plans a vacation in Hawaii."
    assert session_text([], DAY) is None


@pytest.mark.covers("V65")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("On 29 December 2024, user planned a trip.", "On 29 December 2024, user planned a trip."),
        ("User planned a trip.", "On 29 December 2024: User planned a trip."),
        ("\n", None),
        ("...", None),
        ("<think>nothing here</think>", None),
    ],
)
def test_a_model_tells_of_a_session_or_not(answer: str, told: str | None) -> None:
    llm = says(answer)
    messages = [Message("user", "I want to go to Hawaii"), Message("assistant", "Nice")]
    assert asyncio.run(session_by_model(llm, messages, ["User wants to go to Hawaii"], day_of(DAY))) == told
    assert "Date: 29 December 2024" in llm.calls[0].user_message
    assert "- User wants to go to Hawaii" in llm.calls[0].user_message


@pytest.mark.covers("V66")
def test_drift_is_a_cosine_below_the_threshold() -> None:
    one, other = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    assert has_drifted(one, other, 0.1)
    assert not has_drifted(one, one, 0.1)
    assert not has_drifted(one, np.zeros(2, np.float32), 0.1)
    assert tells_a_topic("Which flights go to Hawaii in May?")
    assert not tells_a_topic("and in May?")
