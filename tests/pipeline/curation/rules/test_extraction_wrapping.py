"""Text broken at a width reads as the same text unbroken; lists, letters, verse, headings and code keep their lines."""

from __future__ import annotations

import re
import textwrap
import time
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure import Memory
from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract
from perdure.pipeline.curation.rules.extraction.sentences import unwrapped

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TOLD = [
    "I recently moved to Berlin with my wife Anna and our two children. We live in a small flat near the river. My "
    "brother Tom works at a hospital in Leeds, and he has a dog called Rex. I am allergic to peanuts, so I never eat "
    "satay. On Fridays I play badminton with my colleague Priya at the sports hall on Hill Street.",
    "my name is nora and i work as a nurse in dublin. i have two cats, miso and pepper. i love hiking in the mountains "
    "on weekends. my boyfriend is vegetarian but i am not.",
    "Since last March I have been learning Portuguese because my mother-in-law comes from Porto. She moved there in "
    "1990 when she was 20. My daughter Lily starts school in September and she wants to learn the violin. I drive a "
    "2016 Subaru Outback, which I bought from Dr. Smith for 9000 euros.",
    "I'm planning a trip to Japan in October with my sister Clara. We will stay in Kyoto for a week and then go to "
    "Tokyo. My budget is 3000 euros. I don't like flying, but there is no other way. My passport expires in May 2027.",
    "Ich wohne seit zwei Jahren in Hamburg und arbeite als Lehrerin an einer Grundschule. Mein Mann heißt Jonas und "
    "wir haben eine Tochter.",
]
LINES = [
    "i moved to berlin\nmy dog is rex\nmy name is anna",
    "My dog is Rex\nI live in Berlin\nMy wife is Anna",
    "I love pizza\nMy favourite colour is blue",
    "just moved in\nmy dog is rex",
    "Hi Bob,\nI moved to Berlin.\nBest regards,\nAnna",
    "My hobbies:\nrunning\nswimming\nlong walks",
    "- I live in Berlin\n- I have a dog\n- my wife is Anna",
    "1. I live in Berlin\n2. I have a dog",
    "I have two cats:\n- Tom\n- Kit",
    "Whose woods these are I think I know\nHis house is in the village though\nHe will not see me stopping here\nTo "
    "watch his woods fill up with snow",
    "Roses are red,\nviolets are blue,\nI love you.",
    "# About me\nI live in Berlin\n## Pets\nRex the dog",
    "About Me\nI live in Berlin.",
    "import os\nx = 1\nreturn x",
    "Before\n```\nI live in\nBerlin\n```\nAfter",
    "Name: Anna\nCity: Berlin\nDog: Rex",
    "| name | city |\n| ---- | ---- |\n| Anna | Berlin |",
    "User likes tea\nUser has a dog",
    "Anna: I live in Rome\nBob: I live in Oslo",
]


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@given(st.sampled_from(TOLD), st.integers(50, 120), st.sampled_from(["\n", "\r\n", "\n   ", " \n", "\u2028"]))
@example(TOLD[2], 60, "\n   ")  # only the lines after the first are indented
def test_a_paragraph_says_the_same_at_any_width(told: str, width: int, line_end: str) -> None:
    wrapped = textwrap.fill(told, width)
    assert facts(wrapped.replace("\n", line_end)) == facts(told)


@given(st.lists(st.sampled_from(TOLD), min_size=2, max_size=3, unique=True), st.integers(50, 90))
def test_paragraphs_stay_paragraphs(told: list[str], width: int) -> None:
    wrapped = "\n\n".join(textwrap.fill(each, width) for each in told)
    between_sentences = re.compile(r"(?<=[.!?])\n(?!\n)(?<!\n\n)")  # a break there says nothing either way
    assert between_sentences.sub(" ", unwrapped(wrapped)) == "\n\n".join(told)


@pytest.mark.parametrize("text", LINES)
def test_lines_that_were_meant_stay(text: str) -> None:
    assert unwrapped(text) == text
    assert unwrapped(text.replace("\n", "\r\n")) == text


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (
            "I recently moved to the north of Berlin with my\nwife Anna.",
            "I recently moved to the north of Berlin with my wife Anna.",
        ),
        (
            "- I moved to the north of Berlin last year with\n  my wife\n- I like tea",
            "- I moved to the north of Berlin last year with my wife\n- I like tea",
        ),
    ],
)
def test_a_break_inside_a_sentence_is_a_space(text: str, whole: str) -> None:
    assert unwrapped(text) == whole


@given(st.lists(st.sampled_from([*"Ia.,:-(\n\n\n>`#", "to", "my", "Rex", "1.", "- ", "\r\n", "```", " ", "in"])))
def test_no_text_raises_and_only_white_space_changes(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(unwrapped(text).split()) == "".join(text.split())
    assert "\r" not in unwrapped(text)


@pytest.mark.parametrize("unit", ["to\n", "I live in\nBerlin. ", "(\n", "a\n- b\n", "```\n", "x\r\n"])
def test_time_grows_with_length_only(unit: str) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        unwrapped(unit * count)
        return time.process_time() - started

    small = max(min(seconds(2_000) for _ in range(3)), 1e-3)
    assert seconds(8_000) < 16 * small


def test_a_memory_knows_what_a_wrapped_message_says() -> None:
    with Memory({"vector_store": {"provider": "memory"}, "embedder": {"provider": "hashed"}}) as memory:
        memory.add(textwrap.fill(TOLD[0], 64), user_id="wrapped")
        memory.add(TOLD[0], user_id="whole")
        wrapped, whole = (
            {item.memory for item in memory.get_all(user_id=name).results} for name in ("wrapped", "whole")
        )
        assert wrapped == whole and "User lives in a small flat near the river" in whole


@pytest.mark.parametrize("lead", ["mail from Pekka:", "this is his mail:", "got this email", "Pekka wrote:"])
@pytest.mark.parametrize("closing", ["Cheers\nPekka", "Best regards\nPekka", "Best,\nPekka"])
def test_a_pasted_mail_is_not_of_the_user(lead: str, closing: str) -> None:
    told = " ".join(facts(f"{lead}\n\nHi Elif,\n\nI live in Espoo. I prefer tea.\n\n{closing}"))
    assert "Espoo" not in told
    assert "tea" not in told
