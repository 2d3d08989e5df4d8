"""Dialogues with the facts that a memory should keep of them, and the rule by which a text counts as such a fact."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from perdure.domain.message import Message


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a user, what was said before it, and what should be kept of it."""

    dialogue: str
    session: int
    message: Message
    before: Message | None
    """The assistant's message just before."""
    context: tuple[Message, ...]
    gold: tuple[dict[str, Any], ...]
    """Facts of this message, optional ones too."""
    known: tuple[dict[str, Any], ...]
    """Facts of the whole dialogue."""
    is_item: bool
    """Whether it is of a short item, not of a dialogue."""


def read_dialogues(path: Path) -> Iterator[list[Turn]]:
    """Yield the turns of each dialogue; a line without sessions is one message list (`extraction` items)."""
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        is_item = "messages" in item
        yield list(_turns(_as_dialogue(item) if is_item else item, is_item))


def _as_dialogue(item: dict[str, Any]) -> dict[str, Any]:
    messages = [dict(message) for message in item["messages"]]
    last = max((place for place, each in enumerate(messages) if each["role"] == "user"), default=None)
    if last is not None:  # the facts of an item may come from any of its messages
        messages[last] |= {"facts": item["facts"], "optional": item.get("optional", [])}
    return {"id": item["id"], "dates": ["2026-03-02"], "sessions": [messages]}


def _turns(item: dict[str, Any], is_item: bool) -> Iterator[Turn]:
    said = [message for session in item["sessions"] for message in session if message["role"] == "user"]
    known = tuple(fact for message in said for fact in _facts(message))
    context: list[Message] = []
    for number, (date, session) in enumerate(zip(item["dates"], item["sessions"], strict=True)):
        start = datetime.fromisoformat(f"{date}T10:00:00+00:00")
        for place, each in enumerate(session):
            message = Message(each["role"], each["content"], each.get("name"), start + timedelta(minutes=2 * place))
            if each["role"] == "user":
                before = context[-1] if place and context[-1].role == "assistant" else None
                earlier = tuple(context[:-1] if before is not None else context)
                yield Turn(item["id"], number, message, before, earlier, tuple(_facts(each)), known, is_item)
            context.append(message)


def _facts(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [*message.get("facts", ()), *message.get("optional", ())]


def says(text: str, fact: dict[str, Any]) -> bool:
    """Whether a text holds all keywords of a fact; `a|b` is either, case and accents do not count.

    A keyword begins at the start of a word; a number, or a word of up to three letters, also ends there.
    """
    plain = _plain(text)
    return bool(fact["keywords"]) and all(
        any(_keyword(each.strip()).search(plain) for each in keyword.split("|") if each.strip())
        for keyword in fact["keywords"]
    )


def says_any(text: str, facts: Sequence[dict[str, Any]]) -> bool:
    """Whether a text says one of the facts."""
    return any(says(text, fact) for fact in facts)


@cache
def _keyword(keyword: str) -> re.Pattern[str]:
    plain = _plain(keyword)
    left = r"(?<![1-9])(?<![0-9]0)" if plain[:1].isdigit() else r"(?<![^\W\d_])" if plain[:1].isalnum() else ""
    is_short = len(plain) <= 3 and plain[-1:].isalpha()
    right = r"(?![0-9])" if plain[-1:].isdigit() else r"(?![^\W\d_])" if is_short else ""
    return re.compile(left + re.escape(plain) + right)


@cache
def _plain(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(char for char in parts if not unicodedata.combining(char))
    return re.sub(r"\s+", " ", re.sub("[‘’ʼ`]", "'", re.sub("[‐-―−]", "-", plain)))
