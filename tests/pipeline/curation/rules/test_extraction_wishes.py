"""Wishes about answers, and requests about one matter, which are none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract
from perdure.pipeline.retrieval.directives import directive
from perdure.pipeline.retrieval.standing_facts import is_standing, keeps_secret

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@pytest.mark.parametrize(
    "text",
    [
        "dont tell anyone haha",
        "don't tell my mum",
        "please don't mention it to Ana",
        "don't say anything to the kids",
        "never tell anyone about this",
        "don't share this with anyone from now on",
        "keep it between us",
        "this stays between us, ok",
        "can you keep it to yourself",
        "not a word to Tom",
    ],
)
def test_to_keep_a_matter_secret_is_no_instruction_on_how_to_answer(text: str) -> None:
    assert facts(text) == [] and directive(text) is None
    assert facts(f"I quit my job. {text}") == ["User quit their job"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't tell me the ending of films", "User does not want the assistant to tell User the ending of films"),
        ("don't tell jokes", "User does not want the assistant to tell jokes"),
        ("don't mention my weight", "User does not want the assistant to mention User's weight"),
        ("never suggest I meditate", "User does not want the assistant to ever suggest User meditates"),
    ],
)
def test_what_the_assistant_is_not_to_say_still_is_one(text: str, expected: str) -> None:
    assert facts(text) == [expected]


@pytest.mark.parametrize("text", ["keep secret keys out of the code", "keep your answers short", "it is quiet here"])
def test_what_only_looks_like_a_secret_is_none(text: str) -> None:
    assert not keeps_secret(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("can you stop with the bullet points", "User does not want bullet points in answers"),
        ("can you stop with the bullet points?", "User does not want bullet points in answers"),
        ("could you please stop with the emojis", "User does not want emojis in answers"),
        ("no more emojis please", "User does not want emojis in answers"),
        ("enough with the pep talks", "User does not want pep talks in answers"),
        ("please cut out the disclaimers", "User does not want disclaimers in answers"),
        ("no more long answers please", "User does not want long answers"),
        ("go easy on the exclamation marks", "User wants the assistant to go easy on exclamation marks"),
        ("easy on the jargon pls", "User wants the assistant to go easy on jargon"),
        ("fewer emojis please", "User wants the assistant to go easy on emojis"),
        ("can you cut down on the small talk", "User wants the assistant to go easy on small talk"),
    ],
)
def test_less_of_a_manner_of_answering_is_a_wish(text: str, expected: str) -> None:
    assert facts(text) == [expected]
    assert is_standing(expected)


@pytest.mark.parametrize(
    "text",
    [
        "can you stop with the sleeping pills",
        "go easy on the salt",
        "no more sugar for the kids",
        "can you stop the timer?",
        "less jargon in the second paragraph please",
        "go easy on the jargon in this",
    ],
)
def test_less_of_anything_else_is_none(text: str) -> None:
    assert not any(is_standing(fact) for fact in facts(text))


def test_what_one_text_is_to_be_without_is_no_wish_about_answers() -> None:
    for text in ("write a tweet for the new date, no exclamation marks", "2 lines, no table", "no answer required"):
        assert not any(is_standing(fact) for fact in facts(text))


@pytest.mark.parametrize(
    "text", ["can you stop with the bullet points?", "go easy on the exclamation marks", "enough with the emojis"]
)
def test_a_wish_for_less_is_found_in_a_message_that_is_kept_whole(text: str) -> None:
    assert directive(text) == text
