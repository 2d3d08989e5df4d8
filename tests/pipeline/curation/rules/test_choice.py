"""What is kept of a message where the judge is known: facts, whole sentences, notes, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import notes, read_messages
from perdure.pipeline.curation.rules.extraction.choice import FACT, FACT_ALONE, NOTED, NOTED_ASKING, WHOLE

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
CELLO = "My cello teacher is moving her studio to the old mill."
Judge = Callable[[str, str, str, Mapping[str, float]], float]


def judging(*, sentence: float = 0.0, fact: float = 0.0, whole: float = 0.0) -> Judge:
    """A judge whose models always say the same."""
    said = {"sentence": sentence, "fact": fact, "whole": whole}
    return lambda model, text, beside, features: said[model]


def kept(content: str, judge: Judge) -> tuple[list[str], list[str]]:
    """The texts of the facts and of the notes of one message."""
    found = read_messages([Message(role="user", content=content)], now=NOW, judge=judge)
    return [fact.text for fact in found.facts], [note.text for note in found.notes]


@pytest.mark.parametrize(("sure", "is_kept"), [(FACT, True), (FACT - 0.01, False)])
def test_a_fact_is_kept_from_its_threshold_on(sure: float, is_kept: bool) -> None:
    facts, noted = kept(CELLO, judging(fact=sure))
    assert bool(facts) is is_kept
    assert noted == []


@pytest.mark.parametrize(("sure", "is_noted"), [(NOTED, True), (NOTED - 0.01, False)])
def test_a_sentence_without_a_fact_is_noted_from_its_threshold_on(sure: float, is_noted: bool) -> None:
    assert kept(CELLO, judging(sentence=sure)) == ([], [CELLO] if is_noted else [])


def test_what_a_fact_says_is_not_noted_beside_it() -> None:
    facts, noted = kept(CELLO, judging(sentence=1.0, fact=1.0))
    assert len(facts) == 1
    assert noted == []


@pytest.mark.parametrize(("sure", "is_kept"), [(WHOLE, True), (WHOLE - 0.01, False)])
def test_a_whole_sentence_is_a_fact_from_its_threshold_on(sure: float, is_kept: bool) -> None:
    facts, _ = kept(CELLO, judging(whole=sure))
    assert facts == (["User's cello teacher is moving her studio to the old mill"] if is_kept else [])


def test_two_clauses_of_the_speaker_are_not_one_whole_fact() -> None:
    facts, _ = kept("I sold the van to Piet because I moved into the harbour office.", judging(whole=1.0))
    assert facts == []


def test_what_lasts_and_nothing_else_is_kept_whatever_the_judge_says() -> None:
    assert kept("I'm vegan.", judging()) == (["User is vegan"], [])


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("I quit my job.", "User quit their job"),
        ("I was laid off last week.", "User was laid off last week"),
        ("I'm not allergic to peanuts.", "User is not allergic to peanuts"),
        ("I broke up with Tom.", "User broke up with Tom"),
    ],
)
def test_what_is_over_and_nothing_else_is_kept_whatever_the_judge_says(said: str, fact: str) -> None:
    assert kept(said, judging()) == ([fact], [])


@pytest.mark.parametrize(("sure", "is_kept"), [(FACT_ALONE, True), (FACT_ALONE - 0.01, False)])
def test_a_sentence_about_the_speaker_alone_is_a_fact_from_a_lower_threshold_on(sure: float, is_kept: bool) -> None:
    assert kept("I adopted a cat.", judging(fact=sure))[0] == (["User adopted a cat"] if is_kept else [])
    assert kept(f"I adopted a cat. {CELLO}", judging(fact=FACT_ALONE))[0] == []


@pytest.mark.parametrize(("sure", "is_noted"), [(NOTED_ASKING, True), (NOTED_ASKING - 0.01, False)])
def test_a_question_is_noted_from_a_higher_threshold_on(sure: float, is_noted: bool) -> None:
    asked = "And what about the weather in Hawaii on day 21?"
    assert kept(asked, judging(sentence=sure)) == ([], [asked] if is_noted else [])


def test_an_instruction_is_kept_whatever_the_judge_says() -> None:
    facts, _ = kept("Always answer me in metric units.", judging())
    assert len(facts) == 1


def test_sentences_that_follow_one_another_are_one_note() -> None:
    second = "The harbour office has no lift."
    assert kept(f"{CELLO} {second}", judging(sentence=1.0)) == ([], [f"{CELLO} {second}"])
    assert kept(f"{CELLO}\n{second}", judging(sentence=1.0)) == ([], [CELLO, second])


def test_a_question_is_no_whole_fact() -> None:
    assert kept("Is my cello teacher moving her studio to the old mill?", judging(whole=1.0, fact=1.0))[0] == []


def test_a_passage_is_the_sentence_of_a_fact_with_those_beside_it() -> None:
    content = "The bank said no. So Leeds it is! My cat sends her regards."
    assert notes.passage_of("User goes to Leeds", content) == content
    assert notes.passage_of("so leeds it is", "So Leeds it is!") == "", "nothing more than the text itself"
    assert notes.passage_of("User goes to Leeds", "") == ""
    assert notes.passage_of("User goes to Leeds", "```\nmake leeds\n```") == "", "code is not said"


def test_a_long_message_gives_the_passage_around_a_fact_alone() -> None:
    filler = [
        f"Sentence {number} tells of the weather in town {number} and of nothing else at all." for number in range(30)
    ]
    content = " ".join([*filler[:15], "We are off to Leeds in May.", *filler[15:]])
    passage = notes.passage_of("User is off to Leeds in May", content)
    assert "We are off to Leeds in May." in passage
    assert "Sentence 14" in passage
    assert "Sentence 15" in passage
    assert len(passage.split()) <= notes.LONGEST_PASSAGE


def test_facts_and_notes_know_the_passage_that_they_are_from() -> None:
    content = "The bank said no. I live in Leeds now."
    found = read_messages([Message(role="user", content=content)], now=NOW)
    assert {fact.text: fact.passage for fact in [*found.facts, *found.notes]}["User lives in Leeds now"] == content
