"""What a person tells of himself before he asks for something to be done with a text is no part of that text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ARTICLE = (
    "The European Central Bank raised its rates on Thursday for the third time this year. My analysts had expected a "
    "smaller step, he said. I have never seen such a market, a trader told us. "
)


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@pytest.mark.parametrize("length", [1, 4, 30])
@pytest.mark.parametrize(
    "asked",
    [
        "Please summarise this article:\n\n",
        "Can you summarise the text below?\n\n",
        "Please proofread this:\n",
        "Translate this: ",
    ],
)
@pytest.mark.parametrize(
    ("told", "known"),
    [
        ("I'm allergic to nuts.", ["User is allergic to nuts"]),
        ("My sister Clara lives in Porto.", ["User's sister Clara lives in Porto"]),
        ("I live in Leeds. My dog is called Rex.", ["User lives in Leeds", "User's dog is called Rex"]),
    ],
)
def test_the_head_is_read_and_the_text_is_not(told: str, known: list[str], asked: str, length: int) -> None:
    found = facts(f"{told} {asked}{ARTICLE * length}")
    assert found == known


@pytest.mark.parametrize("asked", ["Please summarise this article:\n\n", "Translate this: "])
def test_without_a_head_nothing_is_read(asked: str) -> None:
    assert facts(asked + ARTICLE * 30) == []
