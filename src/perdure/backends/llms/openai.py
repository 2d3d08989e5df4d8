"""OpenAI's chat models, and those of every service with the same API."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.http.service import RefusedError, ServiceSettings
from perdure.backends.llms._requests import ServiceLLM, chat_messages, check_offered, naming_json
from perdure.backends.llms.base import LLMRequest, ToolAnswer, ToolCall
from perdure.backends.shared.metering import generated
from perdure.backends.shared.openai_service import OpenAIService, OpenAISettings, is_openai, openai_service
from perdure.domain.errors import LLMError

if TYPE_CHECKING:
    import openai

_UNSUPPORTED = re.compile(
    r"unsupported|not support|unrecognized|unknown|not permitted|extra inputs|must be 'json_schema'", re.IGNORECASE
)
_OPTIONAL = ("max_completion_tokens", "max_tokens", "temperature", "stream_options", "response_format")
"""Parameters that some models refuse: reasoning models take no temperature and no max_tokens, older services know no
max_completion_tokens and do not count the tokens of a stream, and some (LM Studio) have no JSON mode."""
_JSON_MODE: Mapping[str, Any] = {"type": "json_object"}
_SCHEMA_MODE = "json_schema"
_ABOUT_SCHEMA = re.compile(r"response_format|schema", re.IGNORECASE)


class _Received(BaseModel):
    """Parts of an answer, read from JSON or from the client's objects; other fields are ignored."""

    model_config = ConfigDict(from_attributes=True)


class _Function(_Received):
    name: str
    arguments: str


class _Call(_Received):
    function: _Function


class _Message(_Received):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(_Received):
    message: _Message
    finish_reason: str | None = None


class _Cached(_Received):
    cached_tokens: int | None = None


class _Tokens(_Received):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Cached | None = None


class _Completion(_Received):
    choices: list[_Choice]
    usage: _Tokens | None = None


class _Delta(_Received):
    content: str | None = None
    refusal: str | None = None


class _Part(_Received):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(_Received):
    choices: list[_Part] | None = None
    usage: _Tokens | None = None


class ChatSettings(ServiceSettings):
    """The model, and its parameters."""

    model: str = Field(default="gpt-4o-mini", min_length=1)
    """The model's name."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """Temperature if a call gives none; not sent to a model that rejects it."""
    max_tokens: int = Field(default=2000, ge=1)
    """Maximum tokens of an answer if a call gives none."""


class OpenAILLM(ServiceLLM):
    """Chat models of OpenAI, or of any service at `base_url` with POST /chat/completions.

    Construction sends nothing; ConfigError without a key, unless `base_url` is set. Failures are LLMError with the code
    rate_limit, quota, timeout, server, connection or authentication, after retries, length (cut off) or refused (by the
    model or a filter). A parameter that the model refuses is left out from then on.
    """

    name: ClassVar[str] = "openai"

    class Settings(OpenAISettings, ChatSettings):
        """The model, its address, and its parameters."""

    def __init__(self, settings: Settings) -> None:
        # OpenAI's newer name for the length is unknown to many services of one's own.
        limit = "max_completion_tokens" if is_openai(settings.base_url) else "max_tokens"
        self._prepare(settings, openai_service(self.name, settings, LLMError, "llm"), settings.model, limit)

    def _prepare(self, settings: ChatSettings, service: OpenAIService, model: str, limit: str) -> None:
        """Store the settings; `model` is the name in requests, `limit` the parameter for the answer's length."""
        self._settings = settings
        self._service = service
        self._model = model
        other = "max_completion_tokens" if limit == "max_tokens" else "max_tokens"
        self._limits = (limit, other)

    async def _generate(self, request: LLMRequest) -> str:
        body: dict[str, Any] = {}
        if request.response_format == "json":
            body["response_format"] = _JSON_MODE if request.schema is None else _schema_mode(request.schema)
            request = naming_json(request)  # the service demands the word
        choice = await self._choice(request, body)
        text = choice.message.content
        if not text or (request.response_format == "json" and choice.finish_reason == "length"):
            raise self._no_text(choice.finish_reason)
        return text

    async def _generate_with_tool_calls(self, request: LLMRequest) -> ToolAnswer:
        offered = [{"type": "function", "function": dict(tool)} for tool in request.tools]
        body = {"tools": offered} if offered else {}  # the service refuses an empty list
        choice = await self._choice(request, body)
        called = [call.function for call in choice.message.tool_calls or []]
        check_offered((function.name for function in called), request.tools, self._service.broken)
        calls = [self._call(function) for function in called]
        text, ended = choice.message.content, choice.finish_reason
        if not calls and (text is None or (not text and ended == "length")):  # "" says that there is nothing to do
            raise self._no_text(ended)
        return ToolAnswer(text, calls)

    def _stream(self, request: LLMRequest) -> AsyncGenerator[str, None]:
        body = self._body(request, {"stream": True, "stream_options": {"include_usage": True}})
        return self._streamed(partial(self._taken, body), self._pieces)

    async def _pieces(self, sent: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        tokens: _Tokens | None = None
        ended: str | None = None
        empty = True
        chunks = self._service.stream(lambda client: client.chat.completions.create(**sent), asks_otherwise=True)
        async with aclosing(chunks):
            async for chunk in chunks:
                received = self._read(_Chunk.model_validate, chunk)
                tokens = received.usage or tokens
                for choice in received.choices or []:
                    ended = choice.finish_reason or ended
                    delta = choice.delta or _Delta()
                    self._check_refusal(delta.refusal, choice.finish_reason)
                    if delta.content:
                        empty = False
                        yield delta.content
        self._count(tokens or _Tokens())
        if ended is None:
            raise self._broke_off()
        if empty:
            raise self._no_text(ended)

    def _no_text(self, finish_reason: str | None) -> Exception:
        if finish_reason == "length":
            return self._cut_off()
        return self._service.broken("the answer holds no text")

    def _call(self, function: _Function) -> ToolCall:
        try:
            arguments = json.loads(function.arguments or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise self._service.broken(f"the arguments of the call of {function.name!r} are no JSON object")
        return ToolCall(function.name, arguments)

    async def _choice(self, request: LLMRequest, body: dict[str, Any]) -> _Choice:
        content = await self._asked(partial(self._taken, self._body(request, body)), _content)
        completion = self._read(_Completion.model_validate_json, content)
        self._count(completion.usage or _Tokens())
        if not completion.choices:
            raise self._service.broken("the answer is empty: it holds no choices")
        choice = completion.choices[0]
        self._check_refusal(choice.message.refusal, choice.finish_reason)
        return choice

    def _body(self, request: LLMRequest, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request with every parameter, including both names of the length, of which one is sent."""
        settings = self._settings
        heat = settings.temperature if request.temperature is None else request.temperature
        lengths = dict.fromkeys(self._limits, request.max_tokens or settings.max_tokens)
        return {"model": self._model, "messages": chat_messages(request), "temperature": heat, **lengths, **body}

    def _parameter(self, refused: RefusedError, sent: Mapping[str, Any]) -> str | None:
        if not _UNSUPPORTED.search(refused.said):
            return None
        if refused.parameter in _OPTIONAL:
            return refused.parameter
        found = re.search("|".join(_OPTIONAL), refused.said)  # the first one named is refused
        return found.group() if found else None

    def _taken(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body without refused parameters, and with one name for the length."""
        first, second = self._limits
        left_out = {*self._refused, second if first not in self._refused else first}
        taken = {key: value for key, value in body.items() if key not in left_out}
        if _SCHEMA_MODE in self._refused and _has_schema(taken):
            taken["response_format"] = _JSON_MODE
        return taken

    def _learn(self, refused: RefusedError, sent: Mapping[str, Any]) -> Exception | None:
        """Ask for any JSON from now on where a schema is refused, in whatever words; the rest as for all services."""
        if _has_schema(sent) and _ABOUT_SCHEMA.search(f"{refused.parameter} {refused.said}"):
            self._refused |= {_SCHEMA_MODE}
            return None
        return super()._learn(refused, sent)

    def _check_refusal(self, refusal: str | None, finish_reason: str | None) -> None:
        if refusal or finish_reason == "content_filter":
            raise self._service.broken(f"the model refused to answer: {refusal or 'content filter'}", "refused")

    def _count(self, tokens: _Tokens) -> None:
        cached = (tokens.prompt_tokens_details or _Cached()).cached_tokens or 0
        generated(self.name, self._settings.model, tokens.prompt_tokens, tokens.completion_tokens, cached)


def _schema_mode(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": _SCHEMA_MODE, _SCHEMA_MODE: {"name": "answer", "strict": True, "schema": dict(schema)}}


def _has_schema(body: Mapping[str, Any]) -> bool:
    return bool(body.get("response_format", _JSON_MODE)["type"] == _SCHEMA_MODE)


async def _content(client: openai.AsyncOpenAI, request: Mapping[str, Any]) -> bytes:
    answer: Any = await client.chat.completions.with_raw_response.create(**request)
    content: bytes = answer.content
    return content
