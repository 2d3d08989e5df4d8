"""Standing instructions and preferences: what is marked, what is not, and how much of it (see directive_samples)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.directives import directive, preference
from tests.pipeline.curation.rules import directive_samples as samples

Find = Callable[[str], str | None]


@pytest.mark.parametrize("message", samples.SEEN_INSTRUCTIONS)
def test_an_instruction_is_found(message: str) -> None:
    assert directive(message) is not None


@pytest.mark.parametrize("message", samples.SEEN_PLAIN)
def test_anything_else_is_none(message: str) -> None:
    assert directive(message) is None


@pytest.mark.parametrize("message", samples.SEEN_PREFERENCES)
def test_a_preference_is_found(message: str) -> None:
    assert preference(message) is not None


@pytest.mark.parametrize("message", samples.SEEN_NO_PREFERENCES)
def test_no_preference_is_none(message: str) -> None:
    assert preference(message) is None


@pytest.mark.parametrize(
    ("find", "positive", "negative", "missed", "wrong"),
    [
        (directive, samples.HELD_INSTRUCTIONS, samples.HELD_PLAIN, 3, 1),
        (preference, samples.HELD_PREFERENCES, samples.HELD_NO_PREFERENCES, 1, 0),
    ],
    ids=["instructions", "preferences"],
)
def test_sentences_that_were_held_back_are_told_apart(
    find: Find, positive: Sequence[str], negative: Sequence[str], missed: int, wrong: int
) -> None:
    assert sum(find(message) is None for message in positive) <= missed
    assert sum(find(message) is not None for message in negative) <= wrong


def test_the_sentences_that_hold_it_are_given_as_they_were_written() -> None:
    message = "Thanks, that works!  Always sign with “Cheers. Sam”.\nNow the next step? Never use tabs. And I'm off."
    assert directive(message) == "Always sign with “Cheers. Sam”. Never use tabs."
    assert preference("I went home. I prefer Tea, can you order some?") == "I prefer Tea, can you order some?"


def test_what_follows_a_quoted_text_is_not_the_authors() -> None:
    assert directive("Always use tabs. She said: never use spaces. Always indent.") == "Always use tabs."
    assert directive("These are my rules:\n1. Always use tabs.\n2. Never use spaces.") is not None


def test_a_bare_wish_beside_a_task_belongs_to_the_task() -> None:
    assert directive("No bullet points.") is not None
    assert directive("Write a short story about a lighthouse. No bullet points.") is None


CHARACTERS = st.text(alphabet=st.characters(exclude_characters="`~“”„«»\"'>:", exclude_categories=["Cs"]), max_size=60)


@given(st.text(max_size=200))
def test_any_text_is_read_and_nothing_is_made_up(text: str) -> None:
    for find in (directive, preference):
        found = find(text)
        assert found is None or (found and found[:20] in text)


@given(CHARACTERS)
def test_an_instruction_is_found_after_any_other_line(before: str) -> None:
    found = directive(f"{before}\nAlways answer in German.")
    assert found is not None and found.endswith("Always answer in German.")


@given(st.sampled_from([*samples.SEEN_INSTRUCTIONS, *samples.SEEN_PREFERENCES]), st.sampled_from(['"', "```", "`"]))
def test_inside_quotes_and_code_nothing_is_found(message: str, mark: str) -> None:
    quoted = f"{mark}{message}{mark}"
    assert directive(quoted) is None
    assert preference(quoted) is None
