"""What was said before a message tells who and what it speaks of; what was computed from texts can be dropped."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.domain.message import Message
from perdure.pipeline.curation.rules import slots
from perdure.pipeline.curation.rules.extraction import (
    CONTEXT_CHARACTERS,
    LONGEST_ANSWER,
    LONGEST_CONTEXT,
    extract,
    recent,
)
from perdure.pipeline.curation.rules.memo import forget_texts

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def test_only_the_last_messages_of_a_context_are_read() -> None:
    sister = Message("user", "My sister Ana lives in Oslo.")
    others = [Message("user", f"I own {number} books.") for number in range(LONGEST_CONTEXT)]
    fresh = [Message("user", "Ana plays the cello.")]
    assert [fact.text for fact in extract(fresh, now=NOW, context=[sister])] == ["User's sister Ana plays the cello"]
    far = extract(fresh, now=NOW, context=[sister, *others])
    assert [fact.text for fact in far] == ["Ana plays the cello"]
    assert far == extract(fresh, now=NOW, context=others)


FILL = "Prices rose again, it was said. "


def test_only_the_end_of_a_huge_context_is_read() -> None:
    sister = "My sister Ana lives in Oslo. "
    fresh = [Message("user", "Ana plays the cello.")]
    some, much = FILL * 100, FILL * (CONTEXT_CHARACTERS // len(FILL) + 1)
    for content, told in (
        (sister + some, "User's sister Ana plays the cello"),
        (much + sister + some, "User's sister Ana plays the cello"),
        (sister + much, "Ana plays the cello"),
    ):
        (fact,) = extract(fresh, now=NOW, context=[Message("user", content)])
        assert fact.text == told


def test_a_cut_context_begins_with_a_sentence_and_its_messages_stay_in_place() -> None:
    old, long, new = Message("user", "I own a boat."), Message("user", FILL * 1_000), Message("user", "Fine.", "Ana")
    dropped, cut, whole = recent([old, long, new])
    assert dropped.content == "" and whole is new
    assert cut.content.startswith("Prices") and cut.content.endswith(FILL)
    assert CONTEXT_CHARACTERS - 100 < len(cut.content) + len(new.content) <= CONTEXT_CHARACTERS
    (nothing,) = recent([Message("user", "x" * 900_000)])
    assert len(nothing.content) <= CONTEXT_CHARACTERS


def test_of_an_answer_only_what_is_read_counts_in_a_context() -> None:
    answer = Message("assistant", "x" * (10 * CONTEXT_CHARACTERS))
    told = Message("user", FILL * ((CONTEXT_CHARACTERS - LONGEST_ANSWER) // len(FILL)))
    assert recent([told, answer]) == [told, answer]


def test_what_was_computed_from_texts_is_dropped() -> None:
    reading = slots.read("User lives in Oslo")
    assert slots.read("User lives in Oslo") is reading
    forget_texts()
    assert slots.read("User lives in Oslo") is not reading
