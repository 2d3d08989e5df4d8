"""Language models that run on a machine of one's own, by Ollama's POST /api/chat (spec 000 §10.2)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from perdure.backends.llms._thoughts import Answer, answer_of
from perdure.backends.llms.base import LLM, ToolAnswer, ToolCall
from perdure.backends.metering import generated
from perdure.backends.ollama_service import OllamaService, OllamaSettings
from perdure.backends.service import readable
from perdure.domain.errors import LLMError
from perdure.domain.message import Message

if TYPE_CHECKING:
    import ollama

_ROLES = {"developer": "system", "tool": "user", "function": "user"}
"""Roles that Ollama's templates do not know, or leave out where no tool was called."""
_CARRIED = {"type", "description", "items", "enum"}
"""What Ollama's client sends of a parameter's schema."""
_CARRIED_BY_ALL = {"type", "properties", "required", "items", "$defs", "additionalProperties", "title", "$schema"}
"""What it sends of the schema as a whole, or what tells a model nothing."""


class OllamaLLM(LLM):
    """Models of an Ollama server, by default on this machine.

    Construction sends nothing. Failures are LLMError with the code rate_limit, timeout, server, connection,
    authentication or length, after retries; a prompt that did not fit into `num_ctx` is one too.
    """

    name: ClassVar[str] = "ollama"

    class Settings(OllamaSettings):
        """Which model, where, and how it is asked."""

        model: str = Field(default="llama3.1", min_length=1)
        """The model's name, as `ollama list` shows it."""
        temperature: float = Field(default=0.0, ge=0.0, le=2.0)
        """Where a call gives none."""
        max_tokens: int = Field(default=2000, ge=1)
        """Tokens of an answer at most, where a call gives no number."""
        num_ctx: int = Field(default=8192, ge=256)
        """Tokens of prompt and answer together. Ollama's own default (4096 without a large GPU) is too short for a
        long conversation, and it cuts what does not fit without a word; memory use grows with the number."""
        think: bool | Literal["low", "medium", "high"] = False
        """Whether a model that can reason does so before it answers; its thoughts are never part of the answer."""

        @model_validator(mode="after")
        def _leaves_room(self) -> OllamaLLM.Settings:
            if self.max_tokens >= self.num_ctx:
                raise ValueError(f"num_ctx ({self.num_ctx}) holds the prompt too: more than max_tokens is needed")
            return self

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._service = OllamaService(self.name, settings, settings.model, "llm", LLMError)

    async def generate(
        self,
        system_prompt: str,
        user_message: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: Literal["json", "text"] = "text",
    ) -> str:
        """The text of the answer; JSON mode fails if the answer was cut off, since half an object is none."""
        json_wanted = response_format == "json"
        if json_wanted and "json" not in f"{system_prompt}{user_message}".lower():
            # A model that is not told may fill the answer with spaces (Ollama's API reference, "JSON mode").
            system_prompt = f"{system_prompt}\nAnswer in JSON.".lstrip()
        body: dict[str, Any] = {"format": "json"} if json_wanted else {}
        turns = [{"role": "user", "content": readable(user_message)}]
        response = await self._ask(self._body(system_prompt, turns, temperature, max_tokens) | body)
        text = answer_of(response.message.content or "")
        if response.done_reason == "length" and (json_wanted or not text):
            raise self._service.broken("the answer was cut off at max_tokens; raise it", "length")
        if not text:
            raise self._service.broken("the answer holds no text")
        return text

    async def generate_with_tool_calls(
        self,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> ToolAnswer:
        """The answer's text and calls; LLMError for a tool that was not offered, or a model that knows no tools."""
        turns = [{"role": "user", "content": readable(user_message)}]
        body = self._body(system_prompt, turns, temperature, None)
        response = await self._ask(body | {"tools": [_offered(tool) for tool in tools]})
        names = {tool.get("name") for tool in tools}
        calls = [
            ToolCall(call.function.name, dict(call.function.arguments)) for call in response.message.tool_calls or []
        ]
        for call in calls:
            if call.name not in names:
                raise self._service.broken(f"the model called the tool {call.name!r}, which was not offered")
        text = answer_of(response.message.content or "") or None
        if text is None and not calls:
            cut = response.done_reason == "length"
            raise self._service.broken("the answer holds neither text nor a call", "length" if cut else None)
        return ToolAnswer(text, calls)

    async def stream(
        self,
        system_prompt: str,
        messages: Sequence[Message],
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """The answer in pieces; an answer that breaks off, or holds no text, is LLMError."""
        turns = [
            {"role": _ROLES.get(message.role, message.role), "content": readable(message.content)}
            for message in messages
        ]
        body = self._body(system_prompt, turns, temperature, max_tokens)
        answer = Answer()
        empty = True
        last: ollama.ChatResponse | None = None
        async with aclosing(self._service.stream(lambda client: _begun(client, body))) as parts:
            async for last in parts:
                if text := answer.add(last.message.content or ""):
                    empty = False
                    yield text
        if last is None or not last.done:
            raise self._service.broken("the answer broke off", "connection")
        if text := answer.end():
            empty = False
            yield text
        self._count(last)
        if empty:
            cut = last.done_reason == "length"
            raise self._service.broken("the answer holds no text", "length" if cut else None)

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    def _body(
        self, system: str, turns: Sequence[Mapping[str, str]], temperature: float | None, max_tokens: int | None
    ) -> dict[str, Any]:
        settings = self._settings
        leading = [{"role": "system", "content": readable(system)}] if system else []
        options = {
            "temperature": settings.temperature if temperature is None else temperature,
            "num_predict": max_tokens or settings.max_tokens,
            "num_ctx": settings.num_ctx,
        }
        return {
            "model": settings.model, "messages": [*leading, *turns], "options": options, "think": settings.think
        }  # fmt: skip

    async def _ask(self, body: Mapping[str, Any]) -> ollama.ChatResponse:
        response = await self._service.ask(lambda client: client.chat(**body, stream=False))
        self._count(response)
        return response

    def _count(self, response: ollama.ChatResponse) -> None:
        """Report what was used; LLMError if the prompt filled the context, so that its beginning was not read."""
        read, room = response.prompt_eval_count or 0, self._settings.num_ctx
        generated(self.name, self._settings.model, read, response.eval_count or 0)
        if read >= room:
            raise self._service.broken(f"the prompt was cut: it is longer than num_ctx ({room}); raise it", "length")


class _Parts(AsyncIterator["ollama.ChatResponse"]):
    """An answer whose first part has come."""

    def __init__(self, first: ollama.ChatResponse | None, rest: AsyncGenerator[ollama.ChatResponse, None]) -> None:
        self._first = first
        self._rest = rest

    async def __anext__(self) -> ollama.ChatResponse:
        first, self._first = self._first, None
        return await anext(self._rest) if first is None else first

    async def aclose(self) -> None:
        await self._rest.aclose()


async def _begun(client: ollama.AsyncClient, body: Mapping[str, Any]) -> _Parts:
    """The answer, once it has begun: the client sends the request no earlier than it is asked for the first part."""
    rest: Any = await client.chat(**body, stream=True)
    return _Parts(await anext(rest, None), rest)


def _offered(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The tool in Ollama's form. What its client would drop of the schema is told to the model in words."""
    schema = dict(tool.get("parameters") or {"type": "object", "properties": {}})
    properties = {name: _told(part) for name, part in (schema.get("properties") or {}).items()}
    lost = {key: part for key, part in schema.items() if key not in _CARRIED_BY_ALL}
    function = {**tool, "parameters": {**schema, "properties": properties}}
    if lost:
        function["description"] = f"{tool.get('description') or ''} (JSON Schema: {json.dumps(lost)})".lstrip()
    return {"type": "function", "function": function}


def _told(part: Any) -> dict[str, Any]:
    """A parameter's schema, with the whole of it in the description if a part would be lost."""
    if not isinstance(part, Mapping):  # true: anything goes
        return {}
    if set(part) <= _CARRIED:
        return dict(part)
    rest = {key: value for key, value in part.items() if key != "description"}
    return {**part, "description": f"{part.get('description') or ''} (JSON Schema: {json.dumps(rest)})".lstrip()}
