"""Facts in messages that seem to hold none: beside a text asked for, in questions, in lists, in reasons for asking."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Test me on the periodic table, my chemistry final is on 3 June", ["User's chemistry final is on 3 June"]),
        (
            "Draft a cover letter to a bakery, I have worked at Greggs for 6 years",
            ["User has worked at Greggs for 6 years"],
        ),
    ],
)
def test_what_stands_around_a_task_is_told(text: str, told: list[str]):
    found = facts(text)
    assert [fact for fact in told if fact not in found] == []


@pytest.mark.parametrize(
    "text",
    [
        "translate this to French: my sister Ana turns 40 in May",
        "proofread: For my wife Ines, she turns 40 in May",
        "Write a story about a girl called Mira, she lives in Oslo with her cat",
        "Write a scene where my hero Tom, who is 40, sells the farm",
        "if a tenant rented the cottage, which they bought in 2011, who pays",
    ],
)
def test_what_belongs_to_the_task_is_not(text: str):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Which of these can I eat with my sesame allergy: hummus, falafel?", "User is allergic to sesame"),
    ],
)
def test_a_mention_in_a_question_is_a_fact(text: str, fact: str):
    assert fact in facts(text)


@pytest.mark.parametrize(
    "text", ["is running bad for a child with asthma", "what foods trigger a nut allergy?", "who are my ancestors"]
)
def test_a_general_question_mentions_nothing(text: str):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I only ask because we live in Ghent", ["User lives in Ghent"]),
        ("Is Leeds safe? asking as someone who works nights in Bradford", ["User works nights in Bradford"]),
        ("gave up coffee in May. it's just green tea these days", ["User has only green tea these days"]),
    ],
)
def test_short_forms_are_read_whole(text: str, told: list[str]):
    found = facts(text)
    assert [fact for fact in told if fact not in found] == [] and len(found) <= len(told) + 1
