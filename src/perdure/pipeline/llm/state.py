"""The state of a conversation by a model: one flat object (001 §14, V83, V85)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.message import Message
from perdure.pipeline.llm.lenient_json import find_json
from perdure.pipeline.llm.thoughts import without_thoughts
from perdure.pipeline.prompts import load

MOST_TOKENS: Final = 256
"""Tokens of an answer: a state of 100, in JSON, and some prose around it."""
_LONGEST: Final = 24_000
"""Characters of messages that a model is given: the newest."""
_LONGEST_MESSAGE: Final = 2_000


async def told_state(
    llm: LLM, messages: Sequence[Message], facts: Sequence[str], previous: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The state as a model tells it, as it came; None where its answer holds no object. LLMError where it fails."""
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
    return objects[0] if objects else None
