"""Replies: what an assistant asked or claimed, and a short answer, a yes, a no or a correction."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def replied(assistant: str, user: str) -> list[str]:
    return [fact.text for fact in extract([Message("assistant", assistant), Message("user", user)], now=NOW)]


@pytest.mark.parametrize(
    ("asked", "answer", "fact"),
    [
        ("What's your dog's name?", "Pickle", "User's dog's name is Pickle"),
        ("Where do you live?", "Leeds", "User lives in Leeds"),
        ("How many children do you have?", "three", "User has three children"),
        ("Which language do you use?", "rust", "User uses rust as language"),
        (
            "How long have you been learning the cello?",
            "since january",
            "User has been learning the cello since january",
        ),
        ("Do you prefer the train or the plane?", "train", "User prefers train"),
        ("When do you plan to launch?", "the 3rd", "User plans to launch on the 3rd"),
    ],
)
def test_a_short_answer_completes_the_question(asked, answer, fact):
    assert fact in replied(asked, answer)


def test_a_confirmed_claim_has_both_sources():
    messages = [Message("assistant", "Do you still live in Leeds?"), Message("user", "yep, still do")]
    (fact,) = extract(messages, now=NOW)
    assert fact.text == "User still lives in Leeds" and fact.sources == (0, 1)


def test_an_unconfirmed_claim_is_not_stored():
    assert replied("I remember you have two dogs.", "what's a 15% tip on 84") == []
    assert replied("By the way, you have two dogs, right?", "wrong person lol") == []


def test_an_offer_that_is_accepted_is_no_fact():
    assert replied("Would you like me to add a chart?", "yes please") == []


def test_a_correction_replaces_the_fact_of_the_same_conversation():
    messages = [
        Message("user", "my flight to Lisbon leaves at 7:40"),
        Message("assistant", "Got it."),
        Message("user", "sorry 17:40"),
    ]
    (fact,) = extract(messages, now=NOW)
    assert "17:40" in fact.text and "Lisbon" in fact.text and fact.sources == (0, 2)


def test_a_correction_of_a_fact_in_the_context_is_a_fact():
    context = [Message("user", "the grant report is due on the 5th")]
    (fact,) = extract([Message("user", "its now the 12th")], now=NOW, context=context)
    assert fact.text == "The grant report is due on the 12th" and fact.sources == (0,)


def test_the_other_name_takes_the_wrong_ones_place():
    messages = [Message("user", "my cousin Layla made the squad"), Message("user", "its Leila not Layla")]
    text = " ".join(fact.text for fact in extract(messages, now=NOW))
    assert "Leila made the squad" in text and "Layla made" not in text


def test_a_quiz_stores_nothing():
    messages = [
        Message("user", "quiz me on capitals"),
        Message("assistant", "What is the capital of Peru?"),
        Message("user", "lima"),
    ]
    assert extract(messages, now=NOW) == []


@pytest.mark.parametrize(
    ("asked", "answer", "fact"),
    [
        ("Should I assume you still take the 7:40 train?", "8:05 these days", "User takes the 8:05 train"),
        ("Are you taking anything for the migraines?", "sumatriptan", "User is taking sumatriptan for the migraines"),
        ("Is the meeting at 3?", "3.30", "The meeting is at 3.30"),
        ("What should I call you?", "Rosa is fine", "User wants to be called Rosa"),
        ("What do you do for work?", "signalman", "User works as a signalman"),
        ("Will your husband be joining you?", "I'm not married.", "User is not married"),
        ("What are you allergic to?", "cats and birch pollen", "User is allergic to cats and birch pollen"),
        ("I have you down as left-handed.", "right-handed", "User is right-handed"),
    ],
)
def test_a_reply_goes_into_what_was_asked(asked: str, answer: str, fact: str) -> None:
    assert fact in replied(asked, answer)


def test_not_married_is_no_yes() -> None:
    assert "User is married" not in replied("Will your husband be joining you?", "I'm not married.")


def test_right_handed_is_no_right() -> None:
    assert "User is left-handed" not in replied("I have you down as left-handed.", "right-handed, always have been")
