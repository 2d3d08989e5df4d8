"""The rolling summary by a model: the one before, and what was learned since (002 §4.4, §5.3; K53, K57)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure.backends.llms.base import LLM
from perdure.domain.errors import LLMError
from perdure.pipeline.llm.thoughts import without_thoughts
from perdure.pipeline.prompts import load

MOST_TOKENS: Final = 256
"""Tokens that a summary may take (A21)."""
TEMPERATURE: Final = 0.2
_LONGEST: Final = 4 * 4 * MOST_TOKENS
"""Characters of a model's summary; a model that goes on for longer was not summing up."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned since the last summary, in the order in which it was learned."""

    new: tuple[str, ...] = ()
    """Facts that stand, also those that took the place of others."""
    gone: tuple[str, ...] = ()
    """Facts that no longer stand."""

    @property
    def is_nothing(self) -> bool:
        """Whether the last summary still says it all (A21)."""
        return not self.new and not self.gone


async def summarised(llm: LLM, previous: str | None, learned: Learned) -> str:
    """The new summary by a model; LLMError where it fails, or says nothing."""
    parts = [f"Summary so far:\n{previous or '(none)'}"]
    if learned.gone:
        parts.append("No longer true:\n" + "\n".join(f"- {_line(text)}" for text in learned.gone))
    if learned.new:
        parts.append("Learned since:\n" + "\n".join(f"- {_line(text)}" for text in learned.new))
    answer = await llm.generate(
        load("summary"), "\n\n".join(parts), temperature=TEMPERATURE, max_tokens=MOST_TOKENS, response_format="text"
    )
    text = " ".join(without_thoughts(answer).split())
    if not text:
        raise LLMError("the model's summary is empty", code="unreadable")
    return text[:_LONGEST]


def _line(text: str) -> str:
    return " ".join(text.split())
