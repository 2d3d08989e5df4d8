"""Language models run by an Ollama server, with POST /api/chat."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from perdure.backends.llms._requests import ServiceLLM, chat_messages, check_offered, naming_json
from perdure.backends.llms.base import LLMRequest, ToolAnswer, ToolCall
from perdure.backends.shared.metering import generated
from perdure.backends.shared.ollama_service import OllamaService, OllamaSettings
from perdure.domain.errors import LLMError

if TYPE_CHECKING:
    import ollama

# What a reasoning model says to itself before it answers, kept out of the answer.

_OPEN, _CLOSE = "<think>", "</think>"


class Answer:
    """Removes the `<think>...</think>` at the beginning of an answer, however it is cut into pieces.

    Later tags stay, because the answer may be about them.
    """

    def __init__(self) -> None:
        self._held = ""
        self._step = self._beginning

    def add(self, piece: str) -> str:
        """Add a piece; return the text that now surely belongs to the answer."""
        self._held += piece
        return self._step()

    def end(self) -> str:
        """Return the remaining text after the last piece; unfinished thinking is dropped."""
        return self._taken() if self._step == self._beginning else ""

    def _beginning(self) -> str:
        text = self._held.lstrip()
        if text.startswith(_OPEN):
            self._held = text.removeprefix(_OPEN)
            self._step = self._thinking
            return self._step()
        if _OPEN.startswith(text):
            return ""
        self._step = self._taken
        return self._taken()

    def _thinking(self) -> str:
        _, closed, rest = self._held.partition(_CLOSE)
        if not closed:
            self._held = self._held[-len(_CLOSE) :]  # the tag may come in two pieces
            return ""
        self._held = rest
        self._step = self._between
        return self._step()

    def _between(self) -> str:
        self._held = self._held.lstrip()
        if self._held:
            self._step = self._taken
        return self._taken()

    def _taken(self) -> str:
        held, self._held = self._held, ""
        return held


def answer_of(text: str) -> str:
    answer = Answer()
    return answer.add(text) + answer.end()


_ABOUT_SCHEMA = re.compile(r"\bformat\b|schema|grammar", re.IGNORECASE)
_CARRIED = {"type", "description", "items", "enum"}  # what Ollama's client sends of a parameter's schema
_CARRIED_BY_ALL = {"type", "properties", "required", "items", "$defs", "additionalProperties", "title", "$schema"}
"""What it sends of the schema as a whole, or what tells a model nothing."""


class OllamaLLM(ServiceLLM):
    """Models of an Ollama server, by default on this machine.

    Construction sends nothing. Failures are LLMError with the code rate_limit, timeout, server, connection,
    authentication or length, after retries; `length` also for a prompt that did not fit into `num_ctx`.
    """

    name: ClassVar[str] = "ollama"
    _service: OllamaService
    _refuses_schemas = False

    class Settings(OllamaSettings):
        """The model, its address, and its parameters."""

        model: str = Field(default="llama3.1", min_length=1)
        """The model's name, as `ollama list` shows it."""
        temperature: float = Field(default=0.0, ge=0.0, le=2.0)
        """Temperature if a call gives none."""
        max_tokens: int = Field(default=2000, ge=1)
        """Maximum tokens of an answer if a call gives none."""
        num_ctx: int = Field(default=8192, ge=256)
        """Tokens of prompt and answer together. Ollama's own default (4096 without a large GPU) is too short for a
        long conversation, and Ollama silently cuts what does not fit; memory use grows with the number."""
        think: bool | Literal["low", "medium", "high"] = False
        """Whether a reasoning model reasons before it answers; its thoughts are never part of the answer."""

        @model_validator(mode="after")
        def _leaves_room(self) -> OllamaLLM.Settings:
            if self.max_tokens >= self.num_ctx:
                raise ValueError(f"num_ctx ({self.num_ctx}) holds the prompt too: more than max_tokens is needed")
            return self

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._service = OllamaService(self.name, settings, settings.model, "llm", LLMError)

    async def _generate(self, request: LLMRequest) -> str:
        json_wanted = request.response_format == "json"
        if json_wanted:
            # A model that is not told may fill the answer with spaces (Ollama's API reference, "JSON mode").
            request = naming_json(request)
        response = await self._formatted(request) if json_wanted else await self._ask(self._body(request))
        text = answer_of(response.message.content or "")
        if response.done_reason == "length" and (json_wanted or not text):
            raise self._cut_off()
        if not text:
            raise self._service.broken("the answer holds no text")
        return text

    async def _formatted(self, request: LLMRequest) -> ollama.ChatResponse:
        """Ask for the schema, or for any JSON where there is none or the server takes none (before 0.5)."""
        body = self._body(request)
        if request.schema is not None and not self._refuses_schemas:
            try:
                return await self._ask(body | {"format": dict(request.schema)})
            except LLMError as error:
                if not _ABOUT_SCHEMA.search(str(error)):
                    raise
                self._refuses_schemas = True
        return await self._ask(body | {"format": "json"})

    async def _generate_with_tool_calls(self, request: LLMRequest) -> ToolAnswer:
        response = await self._ask(self._body(request) | {"tools": [_offered(tool) for tool in request.tools]})
        calls = [
            ToolCall(call.function.name, dict(call.function.arguments)) for call in response.message.tool_calls or []
        ]
        check_offered((call.name for call in calls), request.tools, self._service.broken)
        text = answer_of(response.message.content or "") or None
        if text is None and not calls:
            cut = response.done_reason == "length"
            raise self._service.broken("the answer holds neither text nor a call", "length" if cut else None)
        return ToolAnswer(text, calls)

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[str, None]:
        body = self._body(request)
        answer = Answer()
        empty = True
        last: ollama.ChatResponse | None = None
        async with aclosing(self._service.stream(lambda client: _begun(client, body))) as parts:
            async for last in parts:
                if text := answer.add(last.message.content or ""):
                    empty = False
                    yield text
        if last is None or not last.done:
            raise self._broke_off()
        if text := answer.end():
            empty = False
            yield text
        self._count(last)
        if empty:
            cut = last.done_reason == "length"
            raise self._service.broken("the answer holds no text", "length" if cut else None)

    def _body(self, request: LLMRequest) -> dict[str, Any]:
        settings = self._settings
        options = {
            "temperature": settings.temperature if request.temperature is None else request.temperature,
            "num_predict": request.max_tokens or settings.max_tokens,
            "num_ctx": settings.num_ctx,
        }
        return {
            "model": settings.model, "messages": chat_messages(request), "options": options, "think": settings.think
        }  # fmt: skip

    async def _ask(self, body: Mapping[str, Any]) -> ollama.ChatResponse:
        response = await self._service.ask(lambda client: client.chat(**body, stream=False))
        self._count(response)
        return response

    def _count(self, response: ollama.ChatResponse) -> None:
        """Report the usage; LLMError if the prompt filled the context, so that its beginning was not read."""
        read, room = response.prompt_eval_count or 0, self._settings.num_ctx
        generated(self.name, self._settings.model, read, response.eval_count or 0)
        if read >= room:
            raise self._service.broken(f"the prompt was cut: it is longer than num_ctx ({room}); raise it", "length")


class _Parts(AsyncIterator["ollama.ChatResponse"]):
    """An answer whose first piece has arrived."""

    def __init__(self, first: ollama.ChatResponse | None, rest: AsyncGenerator[ollama.ChatResponse, None]) -> None:
        self._first = first
        self._rest = rest

    async def __anext__(self) -> ollama.ChatResponse:
        first, self._first = self._first, None
        return await anext(self._rest) if first is None else first

    async def aclose(self) -> None:
        await self._rest.aclose()


async def _begun(client: ollama.AsyncClient, body: Mapping[str, Any]) -> _Parts:
    """Return the answer once its first piece has arrived: the client sends the request only when asked for it."""
    rest: Any = await client.chat(**body, stream=True)
    return _Parts(await anext(rest, None), rest)


def _offered(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool in Ollama's form; schema parts that its client would drop go into the description."""
    schema = dict(tool.get("parameters") or {"type": "object", "properties": {}})
    properties = {name: _described(part) for name, part in (schema.get("properties") or {}).items()}
    lost = {key: part for key, part in schema.items() if key not in _CARRIED_BY_ALL}
    function = {**tool, "parameters": {**schema, "properties": properties}}
    if lost:
        function["description"] = f"{tool.get('description') or ''} (JSON Schema: {json.dumps(lost)})".lstrip()
    return {"type": "function", "function": function}


def _described(part: Any) -> dict[str, Any]:
    """Return a parameter's schema, with the whole of it in the description if a part would be lost."""
    if not isinstance(part, Mapping):  # true: anything goes
        return {}
    if set(part) <= _CARRIED:
        return dict(part)
    rest = {key: value for key, value in part.items() if key != "description"}
    return {**part, "description": f"{part.get('description') or ''} (JSON Schema: {json.dumps(rest)})".lstrip()}
