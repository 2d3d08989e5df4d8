"""The port of language models (spec 000 §10)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from perdure.domain.message import Message, transcript


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model asked for."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a model said when it was given tools: text, calls, or both."""

    content: str | None
    tool_calls: list[ToolCall] = field(default_factory=list)


class LLM(ABC):
    """Generates text; failures are LLMError."""

    name: ClassVar[str]
    """The provider's name."""

    @abstractmethod
    async def generate(
        self,
        system_prompt: str,
        user_message: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: Literal["json", "text"] = "text",
    ) -> str:
        """The model's answer to one message; None means the configured value."""

    @abstractmethod
    async def generate_with_tool_calls(
        self,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> ToolAnswer:
        """The model's answer when it may call the tools, each `{name, description, parameters}` (JSON Schema)."""

    async def stream(
        self,
        system_prompt: str,
        messages: Sequence[Message],
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """The answer to a conversation, in pieces as they come; a provider that cannot stream gives it in one piece."""
        yield await self.generate(system_prompt, transcript(messages), temperature=temperature, max_tokens=max_tokens)

    async def close(self) -> None:
        """Let go of every resource."""
