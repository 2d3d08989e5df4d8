"""The scripted model: rules before answers, every call kept, failures and delays on request."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from perdure.backends.llms.base import ToolCall
from perdure.backends.llms.scripted import RecordedCall, ScriptedLLM
from perdure.backends.registry import build
from perdure.domain.errors import ConfigError, LLMError

TOOLS = [{"name": "remember", "description": "Keep a fact.", "parameters": {"type": "object"}}]


def make(**config: Any) -> ScriptedLLM:
    llm = build("llms", "scripted", config)
    assert isinstance(llm, ScriptedLLM)
    return llm


def ask(llm: ScriptedLLM, message: str = "hello", system: str = "be kind", **options: Any) -> str:
    return asyncio.run(llm.generate(system, message, **options))


def test_a_dictionary_is_answered_as_json_text() -> None:
    assert ask(make(answers=[{"facts": ["Käse"]}])) == '{"facts": ["Käse"]}'
    assert ask(make(answers=[{}])) == "{}"
    assert ask(make(answers=[{"text": "plain", "reason": "more keys than an answer has"}])).startswith("{")


def test_an_answer_in_full_gives_its_text() -> None:
    assert ask(make(answers=[{"text": "plain"}])) == "plain"


def test_when_the_answers_run_out_the_error_says_so() -> None:
    llm = make(answers=["only one"])
    ask(llm)
    with pytest.raises(LLMError, match=r"call 2 has no answer left: 1 answers were given"):
        ask(llm)
    assert len(llm.calls) == 2


def test_rules_answer_before_answers_do_and_as_often_as_they_fit() -> None:
    llm = make(rules=[{"match": "weather", "answer": "sunny"}], answers=["first", "second"])
    assert [ask(llm, text) for text in ("hi", "the WEATHER?", "weather again", "hi")] == [
        "first", "sunny", "sunny", "second",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("match", "message", "fits"),
    [
        ("$10,000", "my budget is $10,000", True),
        ("C++ (", "I write C++ (mostly)", True),
        (r"^I (like|love) \w+$", "I love cheese", True),
        (r"^I (like|love) \w+$", "do I love cheese", False),
        ("tea", "TEA please", True),
        ("tea", "coffee", False),
    ],
)
def test_a_rule_is_text_or_a_regular_expression(match: str, message: str, fits: bool) -> None:
    assert ask(make(rules=[{"match": match, "answer": "rule"}], answers=["answer"]), message) == (
        "rule" if fits else "answer"
    )


def test_the_first_rule_that_fits_wins_also_by_the_system_prompt() -> None:
    llm = make(rules=[{"match": "extract", "answer": {"facts": []}}, {"match": "hello", "answer": "hi"}])
    assert ask(llm, "hello", "Extract the facts") == '{"facts": []}'
    assert ask(llm, "hello") == "hi"
    with pytest.raises(LLMError, match="none of 2 rules fits"):
        ask(llm, "bye")


def test_every_call_is_kept_with_its_options() -> None:
    llm = make(answers=["a", {"error": "server"}, {"tool_calls": [{"name": "remember"}]}])
    ask(llm, "m1", "s1", temperature=0.5, max_tokens=7, response_format="json")
    with pytest.raises(LLMError):
        ask(llm, "m2", "s2")
    asyncio.run(llm.generate_with_tool_calls("s3", "m3", TOOLS, temperature=0.1))
    assert llm.calls == [
        RecordedCall("s1", "m1", {"temperature": 0.5, "max_tokens": 7, "response_format": "json"}),
        RecordedCall("s2", "m2", {"temperature": None, "max_tokens": None, "response_format": "text"}),
        RecordedCall("s3", "m3", {"temperature": 0.1, "tools": TOOLS}),
    ]


@pytest.mark.parametrize("failure", ["rate_limit", "timeout", "server", "connection", "authentication"])
def test_a_failure_carries_its_code(failure: str) -> None:
    with pytest.raises(LLMError, match=failure) as caught:
        ask(make(answers=[{"error": failure}]))
    assert caught.value.code == failure


def test_text_and_tool_calls_come_together() -> None:
    llm = make(answers=[{"text": "noted", "tool_calls": [{"name": "remember", "arguments": {"fact": "x"}}]}])
    answer = asyncio.run(llm.generate_with_tool_calls("s", "m", TOOLS))
    assert (answer.content, answer.tool_calls) == ("noted", [ToolCall("remember", {"fact": "x"})])


def test_a_tool_that_was_not_offered_is_an_error() -> None:
    llm = make(answers=[{"tool_calls": [{"name": "explode"}]}])
    with pytest.raises(LLMError, match=r"'explode' was not offered, only remember"):
        asyncio.run(llm.generate_with_tool_calls("s", "m", TOOLS))


def test_a_tool_call_without_tools_is_an_error() -> None:
    with pytest.raises(LLMError, match="no tools"):
        ask(make(answers=[{"tool_calls": [{"name": "remember"}]}]))


def test_it_waits_as_long_as_it_is_told_and_can_be_cancelled() -> None:
    llm = make(delay=0.05, answers=[{"text": "late", "delay": 0.05}, {"error": "timeout", "delay": 60}])
    start = time.monotonic()
    assert ask(llm) == "late"
    assert time.monotonic() - start >= 0.1

    async def give_up() -> None:
        await asyncio.wait_for(llm.generate("s", "m"), 0.05 + 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "needs `answers` or `rules`"),
        ({"answers": [3]}, r"llm\.config\.answers\.0"),
        ({"answers": [{"error": "boredom"}]}, "rate_limit"),
        ({"answers": ["x"], "rules": [{"match": "x"}]}, r"llm\.config\.rules\.0\.answer is required"),
        ({"rules": [{"match": "", "answer": "x"}]}, r"llm\.config\.rules\.0\.match"),
        ({"answer": ["x"]}, "did you mean 'answers'"),
        ({"answers": ["x"], "delay": -1}, "delay"),
    ],
)
def test_a_wrong_script_is_a_config_error(config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make(**config)
