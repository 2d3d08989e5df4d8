"""Standing facts: which of the facts that a curator wrote down tell how an assistant is to answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.lexicon import lines
from perdure.pipeline.retrieval.standing_facts import LONGEST_SUBJECT, is_standing

STANDING = [
    "User wants the assistant to always answer in German",
    "User wants the assistant to keep the assistant's answers short from now on",
    "User wants answers with code samples",
    "User prefers short answers",
    "User likes explanations with examples",
    "User would like replies in French",
    "User wants to be called Sam",
    "User asked to be addressed formally",
    'User told the assistant: "no emojis please"',
    "Maria expects the assistant to use metric units",
    "Dr. Ann-Sofie Ø. requires code samples in Rust",
    "The user instructed the assistant never to apologise",
    "USER WANTS THE ASSISTANT TO SHOUT",
    "User wants, whenever cooking is asked about,\nthe assistant to give grams",
]
PLAIN = [
    "User prefers tea to coffee",
    "User likes the sea",
    "User wants a dog",
    "User would like to move to Oslo",
    "User told the doctor about the pain",
    "User works as an office manager",
    "User answers letters on Sundays",
    "User's flat is near the station",
    "User has a cat called Assistant",
    "",
    "wants",
    "answers",
]


@pytest.mark.parametrize("fact", STANDING)
def test_a_wish_about_answers_stands(fact: str) -> None:
    assert is_standing(fact)


@pytest.mark.parametrize("fact", PLAIN)
def test_anything_else_does_not(fact: str) -> None:
    assert not is_standing(fact)


def test_every_word_of_the_list_counts() -> None:
    entries = lines("standing_facts.txt")
    wishes = [entry[1:] for entry in entries if entry.startswith("+")]
    matters = [entry for entry in entries if entry[0] not in "+="]
    assert wishes and matters
    for wish in wishes:
        for matter in matters:
            assert is_standing(f"User {wish} {matter} so")
            assert not is_standing(f"User {matter} so"), "a matter without a wish"


def test_the_subject_is_a_name_and_no_clause() -> None:
    assert is_standing("A" * LONGEST_SUBJECT + " wants short answers")
    assert not is_standing("A" * (LONGEST_SUBJECT + 2) + " wants short answers")


@pytest.mark.parametrize(
    "fact", ["User does not want the assistant to apologise", "User doesn't want emojis in answers"]
)
def test_what_is_not_wanted_of_answers_stands_too(fact: str) -> None:
    assert is_standing(fact)


@pytest.mark.parametrize(
    "fact", ["User's boss told the team that the assistant manager left", "User wants an assistant"]
)
def test_an_assistant_who_is_a_person_is_not_meant(fact: str) -> None:
    assert not is_standing(fact)


@given(text=st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    assert isinstance(is_standing(text), bool)
    assert is_standing(f"User wants the assistant to say {text}")
