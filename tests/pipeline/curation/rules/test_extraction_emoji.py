"""An emoji that stands for a word is kept as it was typed; one that adorns a whole sentence says nothing of its own."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Memory
from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)
PICTURES = [
    "🍕",
    "☕",
    "⚽",
    "🇩🇪",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "👩🏽\u200d🚀",
    "🐕\u200d🦺",
    "🧑🏿\u200d🍳",
    "❤️\u200d🔥",
    "🍣🍜",
]


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@given(
    st.sampled_from(PICTURES),
    st.sampled_from(
        [
            ("my favourite thing is {}", "User's favourite thing is {}"),
            ("I have two {}", "User has two {}"),
            ("I dream of {}.", "User dreams of {}"),
        ]
    ),
)
def test_an_emoji_in_a_words_place_is_a_word(picture: str, told: tuple[str, str]) -> None:
    said, known = told
    assert facts(said.format(picture)) == [known.format(picture)]


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("I love 🍕", "User loves 🍕"),
        ("I love 🍕 and 🍣.", "User loves 🍕 and 🍣"),
        ("I love 🍕!", "User loves 🍕"),
        ("I live in 🇩🇪", "User lives in 🇩🇪"),
        ("I hate 🐍s", "User hates 🐍s"),
        ("I drink ☕ every morning", "User drinks ☕ every morning"),
        ("My lucky number is 7️⃣", "User's lucky number is 7️⃣"),
        ("🍕 is my favourite food", "🍕 is User's favourite food"),
    ],
)
def test_it_is_kept_as_it_was_typed(said: str, known: str) -> None:
    assert facts(said) == [known]


@pytest.mark.parametrize("face", ["😀", "🎉🎉", "❤️", "👍🏽", "👩‍⚕️"])
def test_one_that_adorns_a_sentence_changes_nothing(face: str) -> None:
    whole = ["User moved to Berlin", "User works as a nurse"]
    assert facts(f"I moved to Berlin {face} and I work as a nurse {face}") == whole
    assert facts(f"{face} I moved to Berlin! {face} I work as a nurse.") == whole


def test_a_memory_keeps_both_of_two_loves() -> None:
    with Memory({"vector_store": {"provider": "memory"}, "embedder": {"provider": "hashed"}}) as memory:
        memory.add("I love 🍕", user_id="ana")
        assert memory.add("I love 🍣", user_id="ana").warnings == []
        assert {item.memory for item in memory.get_all(user_id="ana").results} == {"User loves 🍕", "User loves 🍣"}
