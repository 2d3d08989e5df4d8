"""What the tests of OpenAI's language models share: calls of a provider at a wire server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from perdure.backends.llms.base import LLM
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from tests.backends.wire.held import build, let_go  # noqa: F401
from tests.backends.wire.openai import KEY, OpenAIWire

TOOLS = [
    {
        "name": "remember",
        "description": "Keep a fact.",
        "parameters": {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]},
    }
]
TALK = [Message("user", "hello")]


def llm_at(wire: OpenAIWire, **settings: Any) -> LLM:
    config = {"base_url": wire.base_url, "api_key": KEY, "retry_delay": 0.0, **settings}
    llm: LLM = build("llms", "openai", config)
    return llm


@asynccontextmanager
async def opened(wire: OpenAIWire, **settings: Any) -> AsyncIterator[LLM]:
    llm = llm_at(wire, **settings)
    try:
        yield llm
    finally:
        await llm.close()


async def ask(wire: OpenAIWire, **settings: Any) -> str:
    async with opened(wire, **settings) as llm:
        return await llm.generate("Be brief.", "hello")


async def pieces(llm: LLM, messages: Sequence[Message] = TALK, **options: Any) -> list[str]:
    async with aclosing(llm.stream("Be brief.", messages, **options)) as stream:
        return [piece async for piece in stream]


def failing(wire: OpenAIWire, **settings: Any) -> LLMError:
    """The error of one call."""
    with pytest.raises(LLMError) as caught:
        asyncio.run(ask(wire, **settings))
    return caught.value
