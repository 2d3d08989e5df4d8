"""Turns that say nothing, and what is made of text before it is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.curation.chat import is_chatter, is_empty_turn, is_refusal
from perdure.pipeline.prompting.quoting import CUT, LONGEST, said_aloud, sanitised

pytestmark = pytest.mark.covers("B3", "B4", "B5")


@pytest.mark.covers("B4")
@pytest.mark.parametrize(
    "text",
    ["Hi", "hello there!", "Good morning", "Thanks a lot!", "thank you so much", "bye", "See you later", "ok", "Yes.",
     "no", "Got it, thanks", "cool", "Great!", "Perfect, thank you!", "", "  ", "How are you?", "Hey, how are you?"],
)  # fmt: skip
def test_chatter_is_nothing(text: str) -> None:
    assert is_chatter(text)
    assert is_empty_turn(text, "A long answer that goes on and on about the weather in Lisbon.")


@pytest.mark.covers("B4")
@pytest.mark.parametrize(
    "text",
    ["My wife is Anne", "Hi, I'm Anne", "Thanks, I moved to Porto", "yes, I still work at Nokia", "cool, my dog is Rex",
     "What is my budget?", "No, it is in May", "Good morning from Oslo", "你好，我叫李雷"],
)  # fmt: skip
def test_what_tells_something_is_not_chatter(text: str) -> None:
    assert not is_chatter(text)
    assert not is_empty_turn(text, "Thank you for telling me, I will keep that in mind.")


@pytest.mark.covers("B4")
def test_short_turns_and_refusals_are_empty() -> None:
    assert is_empty_turn("What is it?", "A cat.")
    assert not is_empty_turn("What is it?", "A cat of the kind that sleeps.")
    for answer in (
        "I'm sorry, I can't do that for you, whatever you say.",
        "As an AI, I have no opinions on such things.",
        "I don't have access to that.",
        "I cannot help with that request.",
        "I’m unable to open the file.",
    ):
        assert is_refusal(answer)
        assert is_empty_turn("Please open the file that I sent you", answer)
    assert not is_refusal("I can help with that: open the file in an editor.")
    assert not is_refusal("As an airline pilot you will know this.")


@pytest.mark.covers("B3")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("<think>hm</think>Paris", "Paris"),
        ("Paris <THINKING>really?\n</THINKING>it is", "Paris it is"),
        ("<think>and then", ""),
        ("It is <think>never closed", "It is"),
        ("begun in the template</think>\nParis", "Paris"),
        ("Paris", "Paris"),
        ("<think>a</think> <think>b</think>", ""),
        ("I think < you", "I think < you"),
    ],
)
def test_thoughts_are_not_said(answer: str, said: str) -> None:
    assert said_aloud(answer) == said


@pytest.mark.covers("B5")
@pytest.mark.parametrize("text", ["", "   \n", "a\x00b", "\ud800"])
def test_what_cannot_be_kept_is_nothing(text: str) -> None:
    assert sanitised(text) is None


@pytest.mark.covers("B5")
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1), st.integers(1, 20_000))
def test_text_is_cut_between_characters(piece: str, times: int) -> None:
    text = piece * (times // len(piece) + 1)
    kept = sanitised(text)
    if not text.strip():
        assert kept is None
        return
    assert kept is not None
    assert len(kept.encode()) <= LONGEST
    whole = len(text.strip().encode()) <= LONGEST
    assert kept == text.strip() if whole else kept.endswith(CUT)
    assert text.strip().startswith(kept.removesuffix(CUT) if not whole else kept)


def test_an_answer_that_was_broken_off_is_marked() -> None:
    assert sanitised("Paris is", whole=False) == f"Paris is{CUT}"
