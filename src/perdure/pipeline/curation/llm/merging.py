"""Several memories made one by a language model, whose answer is checked and never trusted (V69)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from perdure.backends.llms.base import LLM
from perdure.domain.text.readable import is_unicode
from perdure.pipeline.curation.llm.parsing import UnreadableAnswer, find_json, invented, without_thoughts
from perdure.pipeline.prompts import load

SPARE: Final = 80
"""Characters that a merged text may have beyond all of its sources together: room for "(updated from initial ...)"."""


async def merge_texts(llm: LLM, texts: Sequence[str]) -> str:
    """The one text that a model makes of several, oldest first, in one call at temperature 0.

    A failed call is LLMError. So is (UnreadableAnswer) an answer that says nothing, that is longer than what it was
    made of, or that has a number which none of the texts has.
    """
    answer = await llm.generate(
        load("consolidate"), json.dumps(list(texts), ensure_ascii=False), temperature=0, response_format="json"
    )
    merged = _read(without_thoughts(answer))
    if not merged:
        raise UnreadableAnswer("the model merged the memories into nothing")
    if len(merged) > sum(map(len, texts)) + SPARE:
        raise UnreadableAnswer("the model wrote more than the memories say")
    if invented(merged, texts):
        raise UnreadableAnswer("the model wrote a number that none of the memories has")
    return merged


def _read(answer: str) -> str:
    for group in find_json(answer).groups:
        for value in group:
            text = value.get("memory", value.get("text")) if isinstance(value, dict) else None
            if isinstance(text, str) and text.strip() and is_unicode(text):
                return text.strip()
    return ""
