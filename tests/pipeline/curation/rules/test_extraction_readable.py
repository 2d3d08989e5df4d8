"""Facts that a person could read, corrections in a conversation, whole procedures, and pretence that tells nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract, filters

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def told(*said: str) -> list[str]:
    """What is kept of turns that alternate, the user speaking last."""
    roles = ["user", "assistant"] if len(said) % 2 else ["assistant", "user"]
    return [fact.text for fact in extract([Message(roles[at % 2], text) for at, text in enumerate(said)], now=NOW)]


@pytest.mark.parametrize(
    "text",
    [
        "Sure and User am the king of norway",
        "The are lessons At the music school",
        "Sorcha: Sorcha",
        "Plastic Heron is called Plastic Heron now",
        "User's turns out its chicken she is allergic to",
        "She hates slides",
        "User's goat cheese is",
        "User lives in a house of the",
    ],
)
def test_a_broken_sentence_is_refused(text):
    assert not filters.readable(text, "User", "first")


@pytest.mark.parametrize(
    "text", ["User lives in Leeds", "Priya and User are in act 2", "The boiler is in the loft", "Ana's dog bites"]
)
def test_a_plain_sentence_is_not(text):
    assert filters.readable(text, "User", "first")


@pytest.mark.parametrize(
    "said",
    [
        ("let's write a pirate story in turns", "The sea was calm.", "I was the captain's son and I stole his map"),
        ("You meet a troll. What do you do?", "I hit it with my brother's axe"),
        ("sure, and i'm the queen of spain",),
        ("oh great, another meeting. i just LOVE meetings, my favourite",),
        ("Tom has 4 times as many marbles as Una. Together they have 60. explain",),
        ("how many letters is this: My aunt Petra sells boats in Hull.",),
        ("The answer is 12 litres.", "nope, try again"),
        ("Done, here is the sentence.", "now in the future"),
    ],
)
def test_pretence_and_borrowed_words_tell_nothing(said):
    assert told(*said) == []


@pytest.mark.parametrize(
    ("said", "right", "wrong"),
    [
        (("my budget for paint is 60 a month", "Noted.", "ah no hang on 75"), "75", "60"),
    ],
)
def test_a_correction_leaves_no_old_value(said, right, wrong):
    facts = told(*said)
    assert any(right in fact for fact in facts) and not any(wrong in fact for fact in facts)


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        (
            ("To restart the kiln: press F2, wait for the click, then hold reset",),
            "To restart the kiln: press F2, wait for the click, then hold reset",
        ),
    ],
)
def test_a_procedure_stays_whole(said, fact):
    assert told(*said) == [fact]


def test_letters_of_a_code_are_no_pronoun():
    assert told("my node is an m6i.large") == ["User's node is an m6i.large"]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("I'm on Mondays no", []),
        ("I'm on nights this week", ["User is on nights this week"]),
        ("\u6211\u4f4f\u5728\u5317\u4eac\uff0c\u505a\u533b\u751f\u3002", []),
        (
            "\u6211\u4f4f\u5728\u5317\u4eac\uff0c\u6211\u5bf9\u82b1\u751f\u8fc7\u654f",
            ["User lives in Beijing", "User is allergic to peanuts"],
        ),
        ("my: tea, cake", []),
        ("\u6211\u7684\u59b9\u59b9\u5728\u4e0a\u6d77\u8bfb\u5927\u5b66", []),
        ("\u6211\u5bf9\u82b1\u751f\u8fc7\u654f", ["User is allergic to peanuts"]),
    ],
)
def test_a_time_is_no_place_and_half_a_translation_no_fact(text: str, facts: list[str]) -> None:
    found = extract([Message("user", text)], now=datetime(2026, 3, 2, 9, tzinfo=UTC))
    assert [fact.text for fact in found] == facts
