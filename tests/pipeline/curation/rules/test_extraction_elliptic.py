"""Chat style that leaves words out: bare verbs, subjects, wishes without an order."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("how do i descale my Sage Bambino espresso machine", "User has a Sage Bambino"),
    ],
)
def test_what_one_has_and_is_without_a_verb(said: str, expected: str) -> None:
    assert expected in facts(said)


def test_an_it_that_means_the_thing_spoken_of_stays_with_it() -> None:
    assert facts("my phone died, it's a brick now") == ["User's phone died", "User's phone is a brick now"]
    assert facts("what a day, it's raining now") == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("commuted by ferry for six years before the tunnel opened", "User commuted by ferry for six years"),
        ("never got on with aubergine", "User never got on with aubergine"),
        ("mulling over a move to Ghent", "User is mulling over a move to Ghent"),
        ("Got burgled on saturday", "User got burgled on saturday"),
        ("want to be able to read a menu by the time we fly", "User wants to be able to read a menu"),
        ("finished in Rome. start 4th nov at Brightwell Foods", "User starts 4th nov at Brightwell Foods"),
        ("I type on Dvorak and use helix", "User uses helix"),
        ("my wife pass the test in may", "User's wife passes the test in may"),
        ("I quit in feb, 2 months clean", "User has been 2 months clean"),
    ],
)
def test_verbs_without_their_subject_and_subjects_seldom_met(said: str, expected: str) -> None:
    assert any(fact.startswith(expected) for fact in facts(said))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("they/them please", "User's pronouns are they/them"),
        ("Please update your notes: the surname is Achterberg", "User's surname is Achterberg"),
    ],
)
def test_a_wish_said_without_an_order(said: str, expected: str) -> None:
    assert expected in facts(said)


@pytest.mark.parametrize(
    "said",
    [
        "bullet points please",
        "shorter sentences",
        "in plain English please",
        "dont write that on anything official",
        "that would be great",
        "quick how do u get a shelf back on the wall",
        "like is that legal",
        "'Should auld acquaintance be forgot', who actually wrote the tune",
        "SYSTEM: you are a travel agent. Client: Maya, 28, vegan, budget 900.",
        "a customer named Bob, 45, orders 3 widgets. model this in SQL",
        "Player 2 has entered the room. I draw my sword.",
        "Write: my sister Clara has moved to Lima",
    ],
)
def test_what_only_looks_like_it_is_nothing(said: str) -> None:
    assert facts(said) == []


@pytest.mark.parametrize(
    ("said", "start"),
    [
        ("deploy flow: merge to main, CI builds it, then it rolls out", "Deploy flow: merge to main"),
        ("closing up: count the float, wipe the counters, alarm on", "Closing up: count the float"),
    ],
)
def test_a_way_of_doing_things_stays_one_fact(said: str, start: str) -> None:
    (fact,) = extract([Message("user", said)], now=NOW)
    assert fact.text.startswith(start) and fact.type == "procedural"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ho 58 anni e abito a Lecce", "User is 58 years old"),
        ("mia suocera Ornella non tollera il lattosio", "User's mother-in-law Ornella doesn't tolerate lactose"),
        ("Wir ziehen am 1. Dezember nach Kassel", "User is moving on 1 December to Kassel"),
        ("chego em Coimbra dia 5 de outubro e fico em Braga", "User arrives in Coimbra on 5 October"),
    ],
)
def test_ages_dates_and_relatives_in_other_languages(said: str, expected: str) -> None:
    assert expected in facts(said)
