"""What a sentence points back at: corrections naming their matter, and what "it" and "she" mean."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def facts(text: str, *before: str) -> list[str]:
    context = [Message("user", line) for line in before]
    return [fact.text for fact in extract([Message("user", text)], now=NOW, context=context)]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("I had it wrong, the choir meets on Wednesdays", "The choir meets on Wednesdays"),
        ("Small correction: my flight is at 6", "User's flight is at 6"),
    ],
)
def test_a_correction_that_names_its_matter_says_it_of_that(text: str, fact: str) -> None:
    assert facts(text) == [fact]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("My launderette is big. I run it. It has eight washers", "User's launderette has eight washers"),
    ],
)
def test_it_is_the_thing_that_was_spoken_of(text: str, fact: str) -> None:
    assert fact in facts(text)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("My shed delivery has moved to 16 May", "User's shed delivery has moved to 16 May"),
        ("Watch is a Garmin 255.", "User's watch is a Garmin 255"),
        ("Found a gardener, my hedge is safe", "User found a gardener"),
    ],
)
def test_words_that_look_like_others_keep_their_subject(text: str, fact: str) -> None:
    assert fact in facts(text)
    assert facts("IM moving to Leeds in May") == ["User is moving to Leeds in May"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "I broke my arm in March. The surgery is in April.",
            ["User broke their arm in March", "The surgery is in April"],
        ),
        (
            "I failed the bar exam in February. The retake is in July.",
            ["User failed the bar exam in February", "The retake is in July"],
        ),
        (
            "I broke my arm on Monday. The party is on Friday.",
            ["User broke their arm on Monday", "The party is on Friday"],
        ),
        (
            "The meeting with Ana is on Monday. Sorry, the meeting is on Tuesday.",
            ["The meeting with Ana is on Tuesday"],
        ),
        ("The party is at 6pm. The 12th. No, actually 7pm.", ["The party is at 7pm"]),
        ("My number is 555-0142. Sorry, it's 555-0199.", ["User's number is 555-0199"]),
    ],
)
def test_a_value_corrects_what_it_speaks_of_and_nothing_else(text: str, told: list[str]) -> None:
    assert facts(text) == told


@pytest.mark.parametrize("having", ["I have a", "We adopted a", "I also got a", "We've had a", "I recently rescued a"])
@pytest.mark.parametrize(("noun", "he"), [("dog", "His"), ("cat", "Her"), ("young sister", "Her"), ("boss", "His")])
@pytest.mark.parametrize("told", ["name is Bo", "birthday is on 3 May", "brother lives in Rome"])
def test_whom_the_speaker_has_is_who_is_meant_next(having: str, noun: str, he: str, told: str) -> None:
    found = facts(f"{having} {noun}. {he} {told}.")
    owner = f"User's {noun.rsplit(maxsplit=1)[-1]}'s"
    assert f"{owner} {told}" in found, found


@pytest.mark.parametrize(
    "text",
    [
        "I have a friend who has a dog. His name is Bo.",  # the friend's or the dog's
        "I met a doctor. Her name is Olga.",  # not the speaker's
        "I don't have a dog. His name is Bo.",
    ],
)
def test_whom_the_speaker_does_not_have_is_nobody_known(text: str) -> None:
    assert not any("name" in fact for fact in facts(text))


@pytest.mark.parametrize("ones", ["the good ones are expensive", "the old one is loud", "those new ones are heavy"])
def test_one_of_what_is_not_named_is_no_fact(ones: str) -> None:
    assert facts(f"My budget for the desk is 450 euros, because {ones}.") == ["User's budget for the desk is 450 euros"]


@pytest.mark.parametrize(
    ("text", "before", "guess"),
    [
        ("Yesterday it was 1600 again.", "I can't use anything with barium.", "anything"),
        ("It's the Westerwald clay.", "We settled on 1700 in the end.", "1700"),
        ("He was up at five.", "My cousin Blessing drives a van.", "Blessing"),
        ("They charge half a night.", "My parrot Lorcan lives in Tbilisi.", "Lorcan"),
    ],
)
def test_what_a_pronoun_may_mean_of_an_earlier_message_is_not_guessed(text: str, before: str, guess: str) -> None:
    assert not any(guess in fact for fact in facts(text, before))


def test_she_is_the_woman_of_the_message_before_and_of_none_earlier() -> None:
    sister, rain = "My sister Ana lives in Porto.", "I repaired the roof."
    assert facts("She works as a nurse.", sister) == ["User's sister Ana works as a nurse"]
    assert not any("Ana" in fact for fact in facts("She works as a nurse.", sister, rain))


def test_it_is_a_thing_that_the_message_has_introduced() -> None:
    assert "User's flat is in Ghent" in facts("I bought a flat. It's in Ghent.")


@pytest.mark.parametrize("text", ["we switched supplier", "I changed dentist"])
def test_whom_somebody_changes_is_not_what_they_are(text: str) -> None:
    assert not any(fact.startswith("User is") for fact in facts(text))
