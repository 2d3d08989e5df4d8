"""The port of language models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from perdure.domain.message import transcript

if TYPE_CHECKING:
    from perdure.domain.message import Message


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model asked for."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A model's answer when it was given tools: text, calls, or both."""

    content: str | None
    tool_calls: list[ToolCall] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMRequest:
    """One call of a language model."""

    system_prompt: str
    user_message: str = ""
    """The one message to answer; empty for a conversation."""
    messages: Sequence[Message] = ()
    """The conversation to answer, for a stream."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The tools that the model may call, each `{name, description, parameters}` (JSON Schema)."""
    temperature: float | None = None
    """None: the configured value."""
    max_tokens: int | None = None
    """Tokens of the answer at most; None: the configured value."""
    response_format: Literal["json", "text"] = "text"
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer, for `response_format="json"`; a service that refuses it is asked for any JSON."""


class LLM(ABC):
    """Generates text; failures are LLMError. Subclasses of `RequestLLM` get each call as one value."""

    name: ClassVar[str]
    """The provider's name."""
    takes_schema: bool = False
    """Whether `generate` has the argument `schema`, a JSON Schema of the answer; a class of one's own need not."""

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
        """Answer one message; None means the configured value."""

    @abstractmethod
    async def generate_with_tool_calls(
        self,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> ToolAnswer:
        """Answer with the option to call tools, each `{name, description, parameters}` (JSON Schema)."""

    async def stream(
        self,
        system_prompt: str,
        messages: Sequence[Message],
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """Yield the answer to a conversation as it arrives, or in one piece if the provider cannot stream."""
        yield await self.generate(system_prompt, transcript(messages), temperature=temperature, max_tokens=max_tokens)

    async def close(self) -> None:
        """Release all resources."""


class RequestLLM(LLM):
    """An LLM that takes each call as one `LLMRequest`."""

    @abstractmethod
    async def _generate(self, request: LLMRequest) -> str:
        """Answer `request.user_message`; as JSON it fails if it was cut off, because half an object is useless."""

    @abstractmethod
    async def _generate_with_tool_calls(self, request: LLMRequest) -> ToolAnswer:
        """Answer `request.user_message`, with calls of `request.tools` allowed; LLMError for a call of another tool."""

    def _stream(self, request: LLMRequest) -> AsyncGenerator[str, None]:
        """Answer `request.messages` in pieces; a provider that cannot stream gives one piece."""
        return super().stream(
            request.system_prompt, request.messages, temperature=request.temperature, max_tokens=request.max_tokens
        )

    async def generate(self, system_prompt: str, user_message: str, **options: Any) -> str:
        return await self._generate(LLMRequest(system_prompt=system_prompt, user_message=user_message, **options))

    async def generate_with_tool_calls(
        self, system_prompt: str, user_message: str, tools: Sequence[Mapping[str, Any]], **options: Any
    ) -> ToolAnswer:
        return await self._generate_with_tool_calls(
            LLMRequest(system_prompt=system_prompt, user_message=user_message, tools=tools, **options)
        )

    def stream(self, system_prompt: str, messages: Sequence[Message], **options: Any) -> AsyncGenerator[str, None]:
        return self._stream(LLMRequest(system_prompt=system_prompt, messages=messages, **options))
