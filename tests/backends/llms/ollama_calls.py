"""What the tests of Ollama's language models share: calls of a provider at a wire server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from perdure.backends.llms.ollama import OllamaLLM
from perdure.backends.registry import build
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from tests.backends.wire.ollama import OllamaWire

T = TypeVar("T")
Work = Callable[[OllamaLLM], Awaitable[T]]

JSON = {"content-type": "application/json"}
REMEMBER = {
    "name": "remember",
    "description": "Keep a fact.",
    "parameters": {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]},
}
GOOD = {"role": "assistant", "content": "hello"}


def make(address: str, **config: Any) -> OllamaLLM:
    config = {"base_url": address, "retry_delay": 0, "retries": 2, "timeout": 30, **config}
    return build("llms", "ollama", config)


def at(wire: OllamaWire, work: Work[T], **config: Any) -> T:
    """What the work gives with a provider at the server, which is closed again."""

    async def whole() -> T:
        llm = make(wire.address, **config)
        try:
            return await work(llm)
        finally:
            await llm.close()

    return asyncio.run(whole())


async def hello(llm: OllamaLLM) -> str:
    return await llm.generate("Be brief.", "hello")


async def streamed(llm: OllamaLLM) -> list[str]:
    return [piece async for piece in llm.stream("Be brief.", [Message("user", "hello")])]


def fails(wire: OllamaWire, work: Work[Any] = hello, **config: Any) -> LLMError:
    with pytest.raises(LLMError) as caught:
        at(wire, work, **config)
    assert caught.value.__cause__ is None
    return caught.value
