"""What becomes a fact: subjects, person, clauses, references (000 T1, T4, T14 to T17; K39 to K43)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

pytestmark = pytest.mark.covers("K39", "K40", "K41", "K42", "K43", "T1", "T4", "T14", "T15", "T16", "T17")

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def facts(*texts: str, **options) -> list[str]:
    messages = []
    for text in texts:
        role, content = ("assistant", text[3:]) if text.startswith("A: ") else ("user", text)
        messages.append(Message(role, content))
    return [fact.text for fact in extract(messages, now=NOW, **options)]


@pytest.mark.covers("T1")
def test_a_name_is_one_fact():
    assert facts("My name is Bob") == ["User's name is Bob"]


@pytest.mark.covers("T3")
def test_a_greeting_is_none():
    assert facts("hello") == []
    assert facts("Hi") == []  # K43
    assert facts("") == []


@pytest.mark.covers("K42")
def test_a_relative_is_named_in_the_third_person():
    (fact,) = facts("My wife is Anne")
    assert fact.startswith("User's wife is") and "Anne" in fact


@pytest.mark.covers("T4", "T14", "T15", "T16", "T17")
@pytest.mark.parametrize(
    "text",
    [
        "User likes Python",
        "User lives in NYC",
        "User moved to San Francisco",
        "User works at Google as a senior engineer",
        "User is vegetarian",
        "User started eating meat again",
    ],
)
def test_a_ready_fact_passes_as_it_is(text):
    assert facts(text) == [text]


def test_ready_facts_on_lines_are_one_each():
    assert facts("User likes Python\nUser lives in NYC") == ["User likes Python", "User lives in NYC"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I just moved to Lisbon", "User moved to Lisbon"),
        ("im vegan", "User is vegan"),
        ("lost my passport in Marrakech", "User lost their passport in Marrakech"),
        ("sparky in Geelong here", "User is a sparky in Geelong"),
        ("never been to Peru", "User has never been to Peru"),
        ("my husbands allergic to cashews", "User's husband is allergic to cashews"),
        ("i dont eat meat", "User doesn't eat meat"),
        ("it's Kofi who signs my timesheets", "Kofi signs User's timesheets"),
        ("The staging password is glacier-42.", "The staging password is glacier-42"),
    ],
)
def test_a_statement_in_lazy_or_telegraphic_style(said, expected):
    assert expected in facts(said)


def test_clauses_are_told_apart_and_keep_their_subject():
    assert facts("my sister Ana works at Siemens and lives in Munich") == [
        "User's sister Ana works at Siemens",
        "User's sister Ana lives in Munich",
    ]


def test_a_pronoun_is_the_person_spoken_of():
    assert "User's sister Ana is 40" in facts("my sister Ana lives in Rome. she's 40")


def test_a_pronoun_is_resolved_from_the_context_which_is_not_extracted_again():
    context = [Message("user", "my sister Ana is a nurse")]
    assert facts("she moved to Lyon", context=context) == ["User's sister Ana moved to Lyon"]


def test_a_list_shares_its_verb():
    assert facts("i use Zotero, Obsidian, Helix") == ["User uses Zotero", "User uses Obsidian", "User uses Helix"]


def test_a_label_owns_its_values():
    found = facts("allergies: penicillin, latex")
    assert len(found) == 2 and "penicillin" in found[0] and "allergies" in found[0] and "latex" in found[1]


def test_steps_in_order_stay_one_fact():
    (fact,) = extract(
        [Message("user", "To close the shop: count the till, set the alarm, then lock the side door")], now=NOW
    )
    assert "till" in fact.text and "alarm" in fact.text and fact.type == "procedural"


def test_quotations_are_left_as_they_are():
    assert facts('my band is called "I Was Here"') == ['User\'s band is called "I Was Here"']


def test_a_named_speaker_stands_for_user():
    message = Message("user", "I went to a support group yesterday", name="Caroline")
    (fact,) = extract([message], now=NOW)
    assert fact.text == "Caroline went to a support group yesterday"


def test_max_facts_keeps_the_first():
    texts = ["I live in Leeds", "I have two cats", "I play the cello", "I work at Acme"]
    assert facts(*texts, max_facts=3) == ["User lives in Leeds", "User has two cats", "User plays the cello"]  # K40
    assert facts(*texts, max_facts=0) == []


def test_sources_are_positions():
    messages = [Message("user", "hi"), Message("assistant", "Hello!"), Message("user", "I live in Leeds")]
    (fact,) = extract(messages, now=NOW)
    assert fact.sources == (2,) and fact.rule and 0 <= fact.confidence <= 1


def test_repeats_are_told_once():
    assert facts("I live in Leeds", "I live in Leeds.") == ["User lives in Leeds"]


@pytest.mark.parametrize(
    ("said", "needed"),
    [
        ("Vivo en Zaragoza desde 2019", ["lives in Zaragoza", "2019"]),
        ("minha filha Bia é alérgica a amendoim", ["daughter Bia", "allergic", "peanuts"]),
        ("lavoro come infermiera a Torino", ["works as a nurse", "Torino"]),
        ("Je suis allergique aux arachides", ["User is allergic to", "peanuts"]),
        ("Ich wohne seit 2020 in Leipzig", ["User lives", "2020", "Leipzig"]),
        ("我住在成都", ["User lives in Chengdu"]),
    ],
)
def test_other_languages_are_glossed(said, needed):
    text = " ".join(facts(said))
    assert all(word in text for word in needed), text


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("My blood type is AB-.", "User's blood type is AB-"),
        ("I look after the new intern, Zofia.", "User looks after the new intern named Zofia"),
    ],
)
def test_what_belongs_to_the_words_before_it_stays_there(text: str, fact: str) -> None:
    told = facts("I live in Lisbon.", text)
    assert fact in told
    assert not any(each.endswith(("type is AB", "User is a pharmacist")) for each in told)
