"""Where memory stands in a request of the Responses API (U14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.engine.gateway.recalling import Recalled
from perdure.engine.gateway.settings import Injection
from perdure.frontends.gateway.responses.items import Item, kind_of, read_input
from perdure.pipeline.injection import ahead, before_words, system_block, user_and_team_block


def placed(body: Mapping[str, Any], recalled: Recalled, injection: Injection, max_tokens: int) -> dict[str, Any]:
    """The body with what is remembered in it; the same gives the same.

    `system` is into the instructions: these are of one request alone, so that nothing piles up in a chain that the
    model's server keeps. The client's own come first, word for word, so that what a server has cached of them holds.
    The two others are with or before the user's last message, where a request has one; what a team holds for CANONICAL
    stands in the instructions always (X56). No other field and no other item is touched.
    """
    remembered: dict[str, Any] = {
        "directives": recalled.directives,
        "canonical": recalled.canonical,
        "summary": recalled.summary,
        "max_tokens": max_tokens,
    }
    if injection == "system":
        return _instructed(body, system_block(recalled.hits, **remembered))
    block, team = user_and_team_block(recalled.hits, **remembered)
    return _instructed(_told(body, block, injection) if block else body, team)


def can_be_placed(body: Mapping[str, Any]) -> bool:
    """Whether memory has a place in a body: not where its instructions or input are of no known shape."""
    instructions, given = body.get("instructions"), body.get("input")
    if instructions is not None and not isinstance(instructions, str):
        return False
    return isinstance(given, str) or (isinstance(given, list) and all(isinstance(item, dict) for item in given))


def _instructed(body: Mapping[str, Any], block: str) -> dict[str, Any]:
    if not block:
        return dict(body)
    own = body.get("instructions")
    return {**body, "instructions": f"{own}\n\n{block}" if own else block}


def _told(body: Mapping[str, Any], block: str, injection: Injection) -> dict[str, Any]:
    given = body["input"]
    if isinstance(given, str) and injection == "prepend_user":
        return {**body, "input": before_words(block, given)}
    items = read_input(given)
    at = _last_of_user(items)
    if at is None:
        return dict(body)
    if injection == "user_message":
        return {**body, "input": [*items[:at], _message(block), *items[at:]]}
    return {**body, "input": [*items[:at], _before(items[at], block), *items[at + 1 :]]}


def _last_of_user(items: list[Item]) -> int | None:
    for at in reversed(range(len(items))):
        if kind_of(items[at]) == "message" and items[at].get("role") == "user":
            return at
    return None


def _message(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _before(item: Item, block: str) -> Item:
    content = item.get("content")
    if isinstance(content, str):
        return {**item, "content": before_words(block, content)}
    if not isinstance(content, list):
        return item
    return {**item, "content": [{"type": "input_text", "text": ahead(block)}, *content]}
