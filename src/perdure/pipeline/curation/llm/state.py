"""The state of a conversation by a model: one flat object (001 §14, V83, V85)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from perdure.pipeline.curation.llm.parsing import find_json, without_thoughts
from perdure.pipeline.curation.llm.summary import NOTHING, junk
from perdure.pipeline.prompts import load

MOST_TOKENS: Final = 256
"""Tokens of an answer: a state of 100, in JSON, and some prose around it."""
_LONGEST: Final = 24_000
"""Characters of messages that a model is given: the newest."""
_LONGEST_MESSAGE: Final = 2_000
_LONGEST_VALUE: Final = 1_000
"""Characters of a value; one that goes on for longer is no value."""
_ASKED_FOR: Final = frozenset({"topic", "budget", "decisions", "open"})


async def told_state(
    llm: LLM, messages: Sequence[Message], facts: Sequence[str], previous: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The state as a model tells it, as it came; None where its answer holds no object.

    LLMError where it fails, or what it answers is none, with the reason.
    """
    said: list[dict[str, str]] = []
    left = _LONGEST
    for message in reversed(messages):
        text = message.content[:_LONGEST_MESSAGE]
        left -= len(text)
        if left < 0:
            break
        said.append({"role": message.role, "content": text})
    material = {"state": dict(previous), "facts": list(facts), "messages": said[::-1]}
    answer = await llm.generate(
        load("state"),
        json.dumps(material, ensure_ascii=False),
        temperature=0,
        max_tokens=MOST_TOKENS,
        response_format="json",
    )
    groups = find_json(without_thoughts(answer)).groups
    objects = [value for group in groups for value in group if isinstance(value, dict) and value]
    told: dict[str, Any] | None = objects[0] if objects else None
    reason = None if told is None else _junk_in(told)
    if reason is not None:
        raise LLMError(f"the model's answer is no state: {reason}", code="unreadable")
    return told


def _junk_in(told: Mapping[str, Any]) -> str | None:
    """Why an object is no state: it is the material again, tells of nothing that was asked for, or of junk."""
    if "messages" in told or not _ASKED_FOR & told.keys():
        return "it has other keys"
    texts = [text for value in told.values() for text in (value if isinstance(value, list) else [value])]
    reasons = (junk(text, longest=_LONGEST_VALUE, prompt=load("state")) for text in texts if _says(text))
    return next(filter(None, reasons), None)


def _says(text: object) -> bool:
    return isinstance(text, str) and any(letter.isalpha() for letter in text) and text.strip().lower() not in NOTHING
