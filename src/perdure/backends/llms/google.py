"""Google's Gemini models, by the Gemini interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from perdure.backends.http.service import RefusedError, ServiceSettings, readable, secret_from
from perdure.backends.llms._requests import ServiceLLM, Turn, check_offered, turns
from perdure.backends.llms.base import LLMRequest, ToolAnswer, ToolCall
from perdure.backends.shared.google_service import KEY_VARIABLES, GoogleClient, GoogleService, google_client, google_key
from perdure.backends.shared.metering import generated
from perdure.domain.errors import LLMError

_CUT_OFF = ("MAX_TOKENS", "CONTINUATION")
_REFUSALS = ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR")
"""Reasons to end an answer that a filter gives (the reference of generateContent, FinishReason)."""


class _Received(BaseModel):
    """Parts of an answer; other fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel)


class _Call(_Received):
    name: str
    args: dict[str, Any] | None = None


class _Part(_Received):
    text: str | None = None
    thought: bool = False
    function_call: _Call | None = None


class _Content(_Received):
    parts: list[_Part] = []


class _Candidate(_Received):
    content: _Content = _Content()
    finish_reason: str | None = None


class _Feedback(_Received):
    block_reason: str | None = None


class _Tokens(_Received):
    """`prompt_token_count` includes cached tokens; thoughts are not part of the candidates' count."""

    prompt_token_count: int = 0
    cached_content_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0


class _Answer(_Received):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Tokens | None = None

    @property
    def reason(self) -> str | None:
        return self.candidates[0].finish_reason if self.candidates else None

    @property
    def parts(self) -> list[_Part]:
        return [part for part in self.candidates[0].content.parts if not part.thought] if self.candidates else []

    @property
    def text(self) -> str:
        return "".join(part.text or "" for part in self.parts)


_SCHEMA = "response_json_schema"


class GoogleLLM(ServiceLLM):
    """Gemini models of Google, or of any compatible service at `base_url`.

    Construction sends nothing; ConfigError without a key, unless `base_url` is set. Failures are LLMError with the code
    rate_limit, quota, timeout, server, connection or authentication, after retries.
    """

    name: ClassVar[str] = "google"
    optional: ClassVar[tuple[str, ...]] = ("temperature",)

    class Settings(ServiceSettings):
        """The model, its address, and its parameters."""

        model: str = Field(default="gemini-3.5-flash-lite", min_length=1)
        """The model's name."""
        api_key: SecretStr | None = Field(default_factory=partial(secret_from, *KEY_VARIABLES))
        """API key; falls back to GOOGLE_API_KEY, then to GEMINI_API_KEY; not needed with your own `base_url`."""
        base_url: str | None = None
        """Address of the service, without its version; None: Google's own."""
        temperature: float = Field(default=0.0, ge=0.0, le=2.0)
        """Temperature if a call gives none; not sent to a model that rejects it."""
        max_tokens: int = Field(default=2000, ge=1)
        """Maximum tokens of an answer if a call gives none; includes the model's thoughts."""

    def __init__(self, settings: Settings) -> None:
        key = google_key(settings.api_key, settings.base_url, "llm")
        make = partial(google_client, key=key, base_url=settings.base_url)
        self._settings = settings
        self._service = GoogleService(self.name, settings, make, LLMError, key)

    async def _generate(self, request: LLMRequest) -> str:
        config: dict[str, Any] = {}
        if request.response_format == "json":
            config["response_mime_type"] = "application/json"
            if request.schema is not None:
                config[_SCHEMA] = dict(request.schema)
        answer = await self._ask(request, config)
        text = answer.text
        if answer.reason in _CUT_OFF and (request.response_format == "json" or not text):
            raise self._cut_off()
        if not text:
            raise self._service.broken(f"the answer holds no text ({answer.reason})")
        return text

    async def _generate_with_tool_calls(self, request: LLMRequest) -> ToolAnswer:
        tools = request.tools
        config: dict[str, Any] = {"tools": [{"function_declarations": [_declared(tool) for tool in tools]}]}
        answer = await self._ask(request, config if tools else {})
        calls = [part.function_call for part in answer.parts if part.function_call]
        check_offered((call.name for call in calls), tools, self._service.broken)
        if answer.reason in _CUT_OFF and (calls or not answer.text):
            raise self._cut_off()
        if not calls and not answer.text:
            raise self._service.broken(f"the answer holds neither text nor a call ({answer.reason})")
        return ToolAnswer(answer.text or None, [ToolCall(call.name, call.args or {}) for call in calls])

    def _stream(self, request: LLMRequest) -> AsyncGenerator[str, None]:
        system, said = turns(request.system_prompt, request.messages)
        return self._streamed(partial(self._arguments, request, system, said, {}), self._pieces)

    async def _pieces(self, sent: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        tokens: _Tokens | None = None
        reason: str | None = None
        empty = True
        try:
            async with aclosing(self._service.stream(partial(_streamed, request=sent), asks_otherwise=True)) as bodies:
                async for body in bodies:
                    answer = self._read(_Answer.model_validate_json, body)
                    tokens = answer.usage_metadata or tokens or _Tokens()  # each counts all that came so far
                    reason = answer.reason or reason
                    self._check_refusal(answer)
                    if answer.text:
                        empty = False
                        yield answer.text
        finally:
            if tokens is not None:  # what came is paid, also of an answer that nobody reads to its end
                self._count(tokens)
        if reason is None:
            raise self._broke_off()
        if empty:
            cut = reason in _CUT_OFF
            raise self._service.broken(f"the answer holds no text ({reason})", "length" if cut else None)

    async def _ask(self, request: LLMRequest, config: Mapping[str, Any]) -> _Answer:
        said = [Turn(False, readable(request.user_message))]
        arguments = partial(self._arguments, request, readable(request.system_prompt), said, config)
        body = await self._asked(arguments, _body)
        answer = self._read(_Answer.model_validate_json, body)
        self._count(answer.usage_metadata or _Tokens())
        self._check_refusal(answer)
        if not answer.candidates:
            raise self._service.broken("the answer is empty: it holds no candidates")
        return answer

    def _arguments(
        self, request: LLMRequest, system: str, said: Sequence[Turn], config: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments for the client, without its own tool calls and retries."""
        settings = self._settings
        full: dict[str, Any] = {
            "max_output_tokens": request.max_tokens or settings.max_tokens,
            "automatic_function_calling": {"disable": True},
            "automatic_continuation": False,
            **{name: value for name, value in config.items() if name not in self._refused},
        }
        if system:
            full["system_instruction"] = system
        if "temperature" not in self._refused:
            full["temperature"] = settings.temperature if request.temperature is None else request.temperature
        contents = [{"role": "model" if turn.by_model else "user", "parts": [{"text": turn.text}]} for turn in said]
        return {"model": settings.model, "contents": contents, "config": full}

    def _learn(self, refused: RefusedError, sent: Mapping[str, Any]) -> Exception | None:
        return super()._learn(refused, sent["config"])

    def _parameter(self, refused: RefusedError, sent: Mapping[str, Any]) -> str | None:
        """The schema if the service speaks of one, else as for all services."""
        if _SCHEMA in sent and "schema" in refused.said.lower():
            return _SCHEMA
        return super()._parameter(refused, sent)

    def _check_refusal(self, answer: _Answer) -> None:
        blocked = answer.prompt_feedback.block_reason if answer.prompt_feedback else None
        reason = blocked or (answer.reason if answer.reason in _REFUSALS else None)
        if reason:
            raise self._service.broken(f"the model refused to answer: {reason}", "refused")

    def _count(self, tokens: _Tokens) -> None:
        said = tokens.candidates_token_count + tokens.thoughts_token_count
        cached = tokens.cached_content_token_count
        generated(self.name, self._settings.model, tokens.prompt_token_count, said, cached)


async def _body(client: GoogleClient, request: Mapping[str, Any]) -> str:
    config = {**request["config"], "should_return_http_response": True}
    answer: Any = await client.genai.aio.models.generate_content(**{**request, "config": config})
    body: str = answer.sdk_http_response.body
    return body


async def _streamed(client: GoogleClient, request: Mapping[str, Any]) -> AsyncGenerator[str, None]:
    """Yield the pieces as answers; the first is requested here, because the client sends nothing before."""
    pieces: Any = await client.genai.aio.models.generate_content_stream(**request)
    return _bodies(await anext(pieces, None), pieces)


async def _bodies(first: Any, others: Any) -> AsyncGenerator[str, None]:
    async with aclosing(others):
        if first is not None:
            yield _as_it_came(first)
        async for piece in others:
            yield _as_it_came(piece)


def _as_it_came(piece: Any) -> str:
    body: str = piece.model_dump_json(by_alias=True, exclude_none=True, exclude={"sdk_http_response"})
    return body


def _declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool in the client's form, with its schema unchanged."""
    known = {key: tool[key] for key in ("name", "description") if key in tool}
    parameters = tool.get("parameters")
    # The service refuses an object without properties.
    return {**known, "parameters_json_schema": parameters} if parameters and parameters.get("properties") else known
