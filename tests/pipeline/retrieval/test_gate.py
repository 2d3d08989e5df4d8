"""The read gate of 001 §5: when a query is worth searching memory for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.search_gate import GREETING_LENGTH, is_greeting, should_search

pytestmark = pytest.mark.covers("V11", "V12", "V13", "V14", "V15", "V16")


@pytest.mark.covers("V11")
@pytest.mark.parametrize(
    "query", ["capital of France?", "who wrote Emma", "how deep is the mystic river", "iambic pentameter"]
)
def test_general_fact_question_is_skipped(query: str) -> None:
    assert not should_search(query, is_fact=True)
    assert should_search(query)


@pytest.mark.covers("V12")
@pytest.mark.parametrize(
    "query",
    [
        "what is my budget?",
        "WHERE DO I LIVE",
        "tell me a date",
        "is that mine",
        "I'm how old",
        "what I’ve paid",
        "when I'll be 40",
        "how old im i",
    ],
)
def test_personal_pronoun_overrides_the_fact_hint(query: str) -> None:
    assert should_search(query, is_fact=True)


@pytest.mark.covers("V13")
@pytest.mark.parametrize("query", ["what's the weather", "book my usual table"])
def test_tool_query_is_skipped_even_with_a_pronoun(query: str) -> None:
    assert not should_search(query, requires_tool=True)
    assert not should_search(query, is_fact=True, requires_tool=True)


@pytest.mark.covers("V14")
@pytest.mark.parametrize(
    "query",
    [
        "hi",
        "Hello!",
        "HEY",
        "howdy.",
        "hi there!!",
        "thanks",
        "thank you!",
        "thx",
        "bye",
        "Goodbye.",
        "see you",
        "ok",
        "okay!",
        "Sure",
        "yes",
        "no.",
        "  hi  ",
        "good morning!",
    ],
)
def test_greeting_alone_is_skipped(query: str) -> None:
    assert is_greeting(query)
    assert not should_search(query)


@pytest.mark.covers("V15")
@pytest.mark.parametrize(
    "query",
    [
        "Hi, what's my budget?",
        "hello what is the plan for tonight",
        "ok but cheaper",
        "see all",
        "no more",
        "hi 5",
        "thanks for nothing",
    ],
)
def test_greeting_with_more_is_searched(query: str) -> None:
    assert should_search(query)


@pytest.mark.covers("V15")
def test_longer_text_is_never_a_greeting() -> None:
    text = "hi hi hi hi hi hi hi hi hi"
    assert len(text) > GREETING_LENGTH
    assert should_search(text)


@pytest.mark.covers("V16")
@pytest.mark.parametrize("query", ["", "???", "🎉", "continue", "and the other one?", "שלום", "你好吗今天的计划是什么"])
def test_everything_else_is_searched(query: str) -> None:
    assert should_search(query)


@given(st.text(max_size=60), st.booleans(), st.booleans())
def test_gate_takes_any_text_and_skips_only_by_a_rule(query: str, is_fact: bool, requires_tool: bool) -> None:
    searched = should_search(query, is_fact=is_fact, requires_tool=requires_tool)
    if not is_fact and not requires_tool:
        assert searched != is_greeting(query)
    if requires_tool:
        assert not searched
