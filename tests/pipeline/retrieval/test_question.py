"""A question as the arms ask it: names out, topic words in, and something left of whatever is asked."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.question import read_question, wants_doing
from perdure.pipeline.retrieval.time_window import Window

SPEAKERS = ("ann", "bob lee", "zoë", "张伟", "user", "assistant")
NOW = datetime(2026, 3, 10, tzinfo=UTC)


def test_topic_words_by_their_stems() -> None:
    question = read_question("When did the trains leave for Lisbon?")
    assert question.stems == {"train": "trains", "leav": "leave", "lisbon": "lisbon"}
    assert question.words == ("trains", "leave", "lisbon")
    assert question.text == "When did the trains leave for Lisbon?"
    assert (question.named, question.window, question.wants_doing) == (frozenset(), None, False)


@pytest.mark.parametrize(
    ("asked", "names", "text"),
    [
        ("What does Ann drink?", {"ann"}, "What does drink?"),
        ("What is ann's tea?", {"ann"}, "What is tea?"),
        ("What is Ann’s tea?", {"ann"}, "What is tea?"),
        ("Did Ann meet Bob Lee?", {"ann", "bob lee"}, "Did meet ?"),
        ("Is ZOË here with tea?", {"zoë"}, "Is here with tea?"),
        ("What does Annabel like?", set(), "What does Annabel like?"),
        ("Which user likes tea?", set(), "Which user likes tea?"),
    ],
)
def test_speakers_names_are_taken_out(asked: str, names: set[str], text: str) -> None:
    question = read_question(asked, SPEAKERS)
    assert question.named == names
    assert question.text == text
    for name in names:
        assert name not in question.words
        assert name not in question.stems


@pytest.mark.xfail(strict=True, reason="a name inside a run without spaces is found, but not taken out")
def test_names_are_taken_out_of_text_without_spaces() -> None:
    question = read_question("张伟喜欢什么茶", SPEAKERS)
    assert question.named == {"张伟"}
    assert "张伟" not in question.stems


def test_the_first_of_several_names_is_no_topic_word() -> None:
    question = read_question("What does Bob drink?", SPEAKERS)
    assert question.named == {"bob lee"}
    assert question.words == ("drink",)


def test_the_first_of_several_names_is_taken_out_of_the_text() -> None:
    assert read_question("What does Bob drink?", SPEAKERS).text == "What does drink?"


def test_roles_are_no_names() -> None:
    assert read_question("What did the assistant say to the user?", SPEAKERS).named == frozenset()


@pytest.mark.parametrize("asked", ["Ann?", "Ann", "ann and bob lee", "Who is Ann?"])
def test_of_nothing_but_names_the_names_stay(asked: str) -> None:
    question = read_question(asked, SPEAKERS)
    assert question.text == asked
    assert "ann" in question.words
    assert "ann" in question.named


@pytest.mark.parametrize(("asked", "words"), [("who are you", ("who", "are", "you")), ("The?", ("the",))])
def test_of_stop_words_alone_they_stay(asked: str, words: tuple[str, ...]) -> None:
    question = read_question(asked)
    assert question.words == words
    assert question.stems


@pytest.mark.parametrize("asked", ["?", "", "🎈", "..."])
def test_without_a_word_nothing_is_asked_and_nothing_breaks(asked: str) -> None:
    question = read_question(asked, SPEAKERS)
    assert (question.words, question.stems, question.text) == ((), {}, asked)


def test_scripts_without_spaces_are_asked_by_pairs() -> None:
    question = read_question("北京烤鸭 and tea")
    assert set(question.stems) == {"北京", "京烤", "烤鸭", "tea"}
    assert question.words == ("tea",), "pairs have no vectors of their own"
    assert set(read_question("茶").stems) == {"茶"}


def test_a_question_of_ten_thousand_characters_is_read_in_moments() -> None:
    long = ("what did Ann say about tea in Lisbon, and why? " * 300)[:10_000]
    before = time.perf_counter()
    question = read_question(long, [f"name{number}" for number in range(50)] + ["ann"])
    assert time.perf_counter() - before < 5, "no pattern runs away"
    assert question.words[:2] == ("tea", "lisbon")
    assert question.named == {"ann"}
    assert "Ann" not in question.text


@given(st.text(max_size=120), st.lists(st.text(min_size=1, max_size=8), max_size=3))
def test_any_text_and_any_names_can_be_asked(text: str, speakers: list[str]) -> None:
    question = read_question(text, [name.casefold() for name in speakers], reference=NOW)
    assert set(question.named) <= {name.casefold() for name in speakers}
    assert len(set(question.words)) == len(question.words)
    assert all(stem and word for stem, word in question.stems.items())


# ------------------------------------------------------------------ cues


def test_the_time_that_is_asked_about_goes_by_the_reference() -> None:
    window = read_question("What did we drink last year?", reference=NOW).window
    assert window is not None and window.start is not None
    assert window.start.year == 2025
    assert read_question("What did we drink?", reference=NOW).window is None


def test_a_given_time_stands_in_place_of_what_the_question_says() -> None:
    given = Window(datetime(2020, 1, 1, tzinfo=UTC), None, "span")
    assert read_question("What did we drink last year?", reference=NOW, window=given).window == given


@pytest.mark.parametrize(
    ("asked", "doing"),
    [
        ("Can you write a letter?", True),
        ("show me the tea list", True),
        ("Please EXPLAIN tea", True),
        ("What is my budget?", False),
        ("Who redesigned the harbour?", False),
        ("When did we describes", False),
        ("How many words does my final draft contain?", False),
        ("What time should I plan to be there?", False),
        ("What should I cook?", True),
    ],
)
def test_what_is_to_be_done_is_told_from_what_is_to_be_known(asked: str, doing: bool) -> None:
    assert wants_doing(asked) is doing
    assert read_question(asked).wants_doing is doing


@pytest.mark.parametrize(
    ("asked", "of_now"),
    [
        ("What is my budget?", True),
        ("What was my budget before May?", False),
        ("Can you write of my budget?", False),
        ("What is the deadline of the first sprint?", True),
        ("How many words does my draft contain?", True),
        ("What time is my visit next Saturday?", True),
        ("What time is my visit on Saturdays since last week?", False),
        ("What is my budget of last year?", False),
    ],
)
def test_how_things_stand_now_is_told_from_how_they_stood(asked: str, of_now: bool) -> None:
    assert read_question(asked, reference=NOW).of_now is of_now
