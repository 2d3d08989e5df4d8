"""Merge memories and read insights with a language model, whose answers are checked against their sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

from perdure.backends.llms.base import LLM
from perdure.domain.maintenance import Experience, Insight, Pattern
from perdure.domain.text.readable import is_unicode
from perdure.pipeline.curation.llm.parsing import UnreadableAnswer, find_json, invented, numbers, without_thoughts
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
    values = [value for group in find_json(without_thoughts(answer)).groups for value in group]
    given = (value.get("memory", value.get("text")) for value in values if isinstance(value, dict))
    merged = next((text.strip() for text in given if isinstance(text, str) and text.strip() and is_unicode(text)), "")
    if not merged:
        raise UnreadableAnswer("the model merged the memories into nothing")
    if len(merged) > sum(map(len, texts)) + SPARE:
        raise UnreadableAnswer("the model wrote more than the memories say")
    if invented(merged, texts):
        raise UnreadableAnswer("the model wrote a number that none of the memories has")
    return merged


MOST: Final = 200  # memories that one question holds, the newest ones
LONGEST: Final = 300  # characters of an insight
_REPEATED: Final = frozenset({"count", "issue", "approach"})  # what takes more than one telling to be seen


async def read_insights(llm: LLM, memories: Sequence[Experience]) -> list[Insight]:
    """The insights of memories, oldest first, in one call at temperature 0; no memories, no call.

    One is dropped that names no memory, that has a number which is neither in its memories nor how often they were
    told, or that tells a pattern of one telling. A failed call is LLMError; so is (UnreadableAnswer) an answer without
    a list, or one of which nothing is left.
    """
    shown = list(memories)[-MOST:]
    if not shown:
        return []
    question = [
        {"number": place, "text": memory.text, "times": max(len(memory.tellings), 1)}
        for place, memory in enumerate(shown)
    ]
    answer = await llm.generate(
        load("reflect"), json.dumps(question, ensure_ascii=False), temperature=0, response_format="json"
    )
    given = _list(without_thoughts(answer))
    if given is None:
        raise UnreadableAnswer("the model gave no list of insights")
    found: dict[str, Insight] = {}
    for each in given:
        insight = _insight(each, shown) if isinstance(each, Mapping) else None
        if insight is not None:
            found.setdefault(insight.content.casefold(), insight)
    if given and not found:
        raise UnreadableAnswer("none of the model's insights stands in the memories that it names")
    return list(found.values())


def _list(answer: str) -> list[Any] | None:
    for group in find_json(answer).groups:
        for value in group:
            inner = value.get("insights") if isinstance(value, dict) else value
            if isinstance(inner, list):
                return inner
    return None


def _insight(given: Mapping[str, Any], shown: Sequence[Experience]) -> Insight | None:
    text, kind, places = given.get("text"), given.get("kind"), given.get("from")
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or not is_unicode(text):
        return None
    if kind not in get_args(Pattern) or not isinstance(places, list):
        return None
    if not all(type(place) is int and 0 <= place < len(shown) for place in places) or not places:
        return None
    members = [shown[place] for place in dict.fromkeys(places)]
    tellings = frozenset[str]().union(*(member.tellings for member in members))
    count = max(len(tellings), 1)
    allowed = frozenset({str(count), str(len(members))}).union(*(numbers(member.text) for member in members))
    if numbers(text) - allowed or (kind in _REPEATED and count < 2):
        return None
    ids = tuple(member.id for member in members)
    return Insight(content=" ".join(text.split()), pattern=cast(Pattern, kind), count=count, memory_ids=ids)
