"""What stores nothing (questions, commands, stories, code, chatter), and what such messages hold all the same."""

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
        "what's the tallest building in Dubai",
        "is a tomato a fruit or a vegetable?",
        "write me a toast for a guy called Raymond who loves sailing",
        "give me 5 names for a bakery in Paris",
        "if I won the lottery I'd buy an island",
        "say i quit tomorrow, would i get unemployment?",
        "My protagonist Elena inherits a vineyard in Tuscany",
        "let's roleplay, you're a grumpy innkeeper",
        "translate to Dutch: my sister lives in Groningen and has two sons",
        'Proofread: "I have worked at Siemens for ten years."',
        "how do you say 'my wife is a doctor' in Korean?",
        "Sarah has 24 marbles and gives 9 to Tom. How many are left?",
        "```python\nname = 'Marta'\n```\nwhy does this fail",
        "SELECT name FROM customers WHERE city = 'Lyon';",
        "ok thanks, that makes sense",
        "im so tired today",
        "what a day lol",
        "sure, because i totally have time for a webinar",
    ],
)
def test_nothing_is_stored(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("why does my 2016 Subaru Outback shake at 60?", "User has a 2016 Subaru Outback"),
        ("show me how to hold chopsticks, im lefty", "User is lefty"),
        (
            "How do I attach a photo? My granddaughter Ffion says it's a paper clip",
            "User's granddaughter is named Ffion",
        ),
        ("I never said i was a doctor, im a paramedic", "User is a paramedic"),
        ("is it safe to fly pregnant? I'm 32 weeks along", "User is 32 weeks along"),
    ],
)
def test_a_statement_inside_counts(text, held):
    assert held in facts(text)


def test_the_tool_and_the_system_state_nothing():
    messages = [
        Message("system", "You live in Leeds."),
        Message("tool", "I live in Leeds"),
        Message("assistant", "I live in Leeds."),
    ]
    assert extract(messages, now=NOW) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("reply in French from now on", "User wants the assistant to reply in French from now on"),
        ("Call me Dez", "User wants to be called Dez"),
        ("pls stop using exclamation marks", "User wants the assistant to stop using exclamation marks"),
        ("never suggest I meditate", "User does not want the assistant to ever suggest User meditates"),
    ],
)
def test_standing_instructions_are_facts(text, wanted):
    assert wanted in facts(text)


@pytest.mark.parametrize("text", ["I might move to Oslo", "thinking of getting a dog", "I'll probably do the 10k"])
def test_a_hedge_is_kept_as_one(text):
    found = extract([Message("user", text)], now=NOW)
    assert found and all(fact.hedged for fact in found)


def test_a_plain_statement_is_not_hedged():
    assert not extract([Message("user", "I moved to Oslo in May")], now=NOW)[0].hedged


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Forget the staging password.", "User asked to forget the staging password"),
        ("please delete my address", "User asked to forget User's address"),
        ("forget that I moved to Oslo please", "User asked to forget that User moved to Oslo"),
        ("Forget what I said about selling the place.", "User asked to forget selling the place"),
        ("please forget the wifi name, my flatmate doesn't want it saved", "User asked to forget the wifi name"),
    ],
)
def test_forgetting_names_what_and_keeps_nothing_else(text, named):
    (fact,) = extract([Message("user", text)], now=NOW)
    assert fact.text == named and fact.forget


def test_forget_that_means_the_fact_told_last():
    context = [Message("user", "my door code is 1234")]
    (fact,) = extract([Message("user", "forget that")], now=NOW, context=context)
    assert fact.forget and "door code" in fact.text


def test_forgetting_keys_is_no_request():
    assert facts("I forgot my keys at work") == ["User forgot their keys at work"]
    for opening in ("don't forget", "don't let me forget that", "dont let me forget"):
        assert facts(f"{opening} I'm allergic to nuts") == ["User is allergic to nuts"]
