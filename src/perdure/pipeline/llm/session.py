"""A session told by a model, as an event (001 §6 step 5, V65)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from perdure.backends.llms.base import LLM
from perdure.domain.message import Message, transcript
from perdure.pipeline.llm.thoughts import without_thoughts
from perdure.pipeline.prompts import load

MOST_TOKENS: Final = 160
_LONGEST: Final = 1_200
_LONGEST_TRANSCRIPT: Final = 24_000
"""Characters of a session that a model is given: its end, where it came to something."""


async def told_by(llm: LLM, messages: Sequence[Message], facts: Sequence[str], day: str) -> str | None:
    """The memory as a model tells it, of a day such as "29 December 2024"; None where it finds nothing worth one.

    LLMError where it fails.
    """
    learned = "\n".join(f"- {fact}" for fact in facts) or "(nothing)"
    said = transcript(messages)[-_LONGEST_TRANSCRIPT:]
    material = f"Date: {day}\n\nWhat was learned of the user:\n{learned}\n\nThe conversation:\n{said}"
    answer = await llm.generate(load("session"), material, temperature=0.1, max_tokens=MOST_TOKENS)
    text = " ".join(without_thoughts(answer).split())[:_LONGEST]
    if not text or not any(letter.isalpha() for letter in text):
        return None
    return text if day in text else f"On {day}: {text}"
