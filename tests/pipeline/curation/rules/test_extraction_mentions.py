"""Messages about a text or a question hold no facts; a reason for asking does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


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
    "text", ["is running bad for a child with asthma", "what foods trigger a nut allergy?", "who are my ancestors"]
)
def test_a_general_question_mentions_nothing(text: str):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I only ask because we live in Ghent", ["User lives in Ghent"]),
    ],
)
def test_short_forms_are_read_whole(text: str, told: list[str]):
    found = facts(text)
    assert [fact for fact in told if fact not in found] == [] and len(found) <= len(told) + 1
