"""What a question is searched as: with key words, as a model puts it, or by a made-up answer."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Memory
from perdure.domain.errors import ConfigError
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED

pytestmark = pytest.mark.covers("V18", "V19", "V20", "V21", "V22", "V23", "V24")

HISTORY = [
    {"role": "user", "content": "I am planning a trip to Hawaii"},
    {"role": "assistant", "content": "Lovely. When?"},
]


def opened(open_memory: Open, rewrite: str, *answers: Any) -> Memory:
    llm = {"provider": "scripted", "config": {"answers": list(answers)}}
    memory = open_memory(embedder=HASHED, llm=llm, curator="rules", rewrite=rewrite)
    memory.add("The Hawaii trip has a budget of 10,000 dollars", infer=False, **ANA)
    memory.add("Red wine with the fish on Friday", infer=False, **ANA)
    return memory


def asked_as(memory: Memory, query: str, **more: Any) -> tuple[str, list[str]]:
    found = memory.search(query, explain=True, preset="plain", **more, **ANA)
    return found.results[0].explanation["query"], found.warnings


@pytest.mark.covers("V20")
def test_without_a_model_key_words_are_borrowed(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    memory.add("The Hawaii trip has a budget", infer=False, **ANA)
    assert asked_as(memory, "How much?", history=HISTORY)[0] == "How much? planning trip Hawaii"


@pytest.mark.covers("V22")
def test_a_model_puts_a_vague_question_into_words_that_stand_alone(open_memory: Open) -> None:
    memory = opened(open_memory, "llm", "What is the budget of the Hawaii trip?")
    assert asked_as(memory, "How much?", history=HISTORY) == ("What is the budget of the Hawaii trip?", [])


@pytest.mark.covers("V19")
def test_a_question_that_stands_alone_is_left_alone(open_memory: Open) -> None:
    memory = opened(open_memory, "llm", {"error": "server"})  # it is not asked
    question = "Which wine do we have with the fish?"
    assert asked_as(memory, question, history=HISTORY) == (question, [])
    assert asked_as(memory, "How much?") == ("How much?", [])


@pytest.mark.covers("V23")
@pytest.mark.parametrize("preset", ["best", "plain"])
def test_a_made_up_answer_is_what_is_embedded(open_memory: Open, preset: str) -> None:
    answer = "Red wine with the fish on Friday"
    memory = opened(open_memory, "hypothetical", answer)
    found = memory.search("zzz qqq", preset=preset, **ANA).results
    assert found[0].memory == answer and found[0].similarity == pytest.approx(1, abs=1e-4)


@pytest.mark.covers("V88")
@pytest.mark.parametrize("rewrite", ["llm", "hypothetical"])
def test_where_the_model_fails_the_question_is_searched_as_it_was_asked(open_memory: Open, rewrite: str) -> None:
    memory = opened(open_memory, rewrite, {"error": "server"})
    text, warnings = asked_as(memory, "How much?", history=HISTORY)
    assert text == "How much? planning trip Hawaii"
    assert len(warnings) == 1 and "searched as it was asked" in warnings[0]


def test_a_rewriting_without_a_model_is_refused(open_memory: Open) -> None:
    with pytest.raises(ConfigError, match="no llm is configured") as refused:
        open_memory(embedder=HASHED, rewrite="llm")
    assert refused.value.field == "rewrite"
