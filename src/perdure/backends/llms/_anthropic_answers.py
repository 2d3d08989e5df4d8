"""What Anthropic's Messages interface answers, as far as it is read."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel


class Received(BaseModel):
    """Parts of an answer; what else it holds is not read."""


class Block(Received):
    """A part of what the model said: text, a call of a tool, or thinking."""

    type: str
    text: str = ""
    name: str = ""
    input: dict[str, Any] = {}


class Tokens(Received):
    """`input_tokens` are those beside the cache, which the two others count."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class Details(Received):
    """Why a model refused."""

    category: str | None = None
    explanation: str | None = None


class Ending(Received):
    """Why an answer ended."""

    stop_reason: str | None = None
    stop_details: Details | None = None


class Answer(Ending):
    """A whole answer."""

    content: list[Block]
    usage: Tokens | None = None

    @property
    def text(self) -> str:
        """What the model said, without its thinking and its calls."""
        return "".join(block.text for block in self.content if block.type == "text")

    @property
    def calls(self) -> list[Block]:
        """The calls of tools, in order."""
        return [block for block in self.content if block.type == "tool_use"]


class Delta(Ending):
    """What an event adds to a part, or to the whole answer."""

    type: str = ""
    text: str = ""


class Start(Received):
    """How a stream begins."""

    usage: Tokens | None = None


class Event(Received):
    """A piece of a stream."""

    type: str
    message: Start | None = None
    delta: Delta | None = None
    usage: Tokens | None = None


def latest(tokens: Tokens | None, more: Tokens | None) -> Tokens:
    """The counts of a stream so far: those of an event replace earlier ones."""
    known = tokens or Tokens()
    return known.model_copy(update=more.model_dump(exclude_none=True)) if more else known


def bare_json(text: str) -> str:
    """The JSON object in a text, without the fence or the words around it; the text if there is none."""
    found = text[text.find("{") : text.rfind("}") + 1]
    try:
        json.loads(found)
    except ValueError:
        return text
    return found
