"""Messages that say nothing take no room in a prompt."""

from __future__ import annotations

import pytest

from perdure import Memory
from perdure.pipeline.retrieval.rescoring import says_nothing
from tests.conftest import Open

ANA = {"user_id": "ana"}


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    return open_memory(embedder={"provider": "hashed"})


@pytest.mark.parametrize(
    "text",
    ["thx", "lol ok", "haha nice one", "Ok cool, thanks!", "k", "hmmm", "yesss", "omg \U0001f602", "\U0001f44d",
     "nice one", "What do you call a fish with no eyes? A fsh haha",
     "What did one wall say to the other? Meet you at the corner \U0001f602", "danke", "..."],
)  # fmt: skip
def test_a_message_that_says_nothing(text: str) -> None:
    assert says_nothing(text)


@pytest.mark.parametrize(
    "text",
    ["Lisbon", "ok, Lisbon", "4 pm", "it works", "he died", "in the morning", "no sugar", "I have a problem at work",
     "Did you see my keys? I found them lol", "thanks, the code is 4411", "\u8c22\u8c22\u4f60"],
)  # fmt: skip
def test_a_short_message_that_says_something(text: str) -> None:
    assert not says_nothing(text)


def test_a_prompt_has_no_messages_that_say_nothing(memory: Memory) -> None:
    for text in (
        "thx",
        "lol ok",
        "good morning!",
        "Why did the kiln cross the road? To fire up",
        "The kiln broke at firing, half the bowls cracked",
        "haha nice one",
        "k",
    ):
        memory.add(text, **ANA)
    block = memory.context("what happened with the kiln, lol? thx", **ANA)
    assert "half the bowls cracked" in block
    assert not any(f'"{text}"' in block for text in ("thx", "lol ok", "haha nice one", "k", "good morning!"))
    assert "cross the road" not in block
    found = [item.memory for item in memory.search("lol ok", **ANA).results]
    assert "lol ok" in found, "a search still finds what was said"


def test_they_are_there_if_nothing_else_is(memory: Memory) -> None:
    memory.add("lol ok", **ANA)
    assert "lol ok" in memory.context("lol ok", **ANA)
    memory.add("I live in Lisbon.", **ANA)
    block = memory.context("lol ok", **ANA)
    assert "Lisbon" in block and "lol" not in block
