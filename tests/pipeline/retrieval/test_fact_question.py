"""Which questions are of general knowledge: those that no memory answers, and in doubt none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.search_gate import LONGEST, is_general, should_search

pytestmark = pytest.mark.covers("V82")

GENERAL = [
    "What is the capital of France?",
    "what's the population of Canada",
    "Who invented the telephone?",
    "When did World War II end?",
    "What is the boiling point of water?",
    "How many continents are there?",
    "Define the word 'ephemeral'",
    "Explain the theory of relativity",
    "What does NASA stand for?",
    "What is the tallest mountain in the world?",
    "What is 17 * 23?",
    "(12.5 + 3)*4 - 1 = ?",
    "2 + 2 =",
    "Is 91 a prime number?",
    "How far is the moon?",
]
PERSONAL = [
    "What's my budget for the trip?",
    "What is the budget for the Hawaii trip?",
    "Where does Anne live?",
    "What is Max allergic to?",
    "Who wrote the report?",
    "When is the dentist appointment?",
    "How do we deploy payment-service?",
    "What did I say the capital of our game's kingdom is?",
    "What is the capital of our fantasy world?",
    "Which definition of done did the team agree on?",
    "How much?",
    "And that one?",
    "Tell me about yourself",
    "Recommend a restaurant",
    "Where was that photo taken yesterday, and who invented the pose?",
    "The capital of France is where Anne lives",
    "???",
    "",
    "5551234567",
    "What is 555-123-4567?",
    "2024-03-15",
    "Who painted the fence?",
    "Who discovered the bug?",
    "How far is the office?",
    "Where on earth is Anne?",
    "🎉",
    "מה התקציב?",
]


@pytest.mark.parametrize("query", GENERAL)
def test_general_knowledge_is_not_searched_for_v11_v82(query: str) -> None:
    assert is_general(query)
    assert not should_search(query, is_fact=is_general(query))


@pytest.mark.parametrize("query", PERSONAL)
def test_in_doubt_a_question_is_personal_v16_v82(query: str) -> None:
    assert not is_general(query)


@pytest.mark.parametrize("pronoun", ["my", "I", "me", "Mine", "I'm", "I've", "I'll"])
def test_a_pronoun_makes_any_question_personal_v12(pronoun: str) -> None:
    assert should_search(f"What is the capital of France {pronoun}?", is_fact=True)
    assert not is_general(f"What is the capital of France {pronoun}?")


def test_what_is_told_at_length_is_no_plain_question() -> None:
    question = "What is the capital of France?"
    assert not is_general(question + " She moved house." * (LONGEST // 16))


@given(st.text(max_size=200))
def test_any_text_has_an_answer(text: str) -> None:
    assert is_general(text) in (True, False)
