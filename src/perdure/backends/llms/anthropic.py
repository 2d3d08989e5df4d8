"""Anthropic's Claude models, by the Messages interface."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, Field, SecretStr

from perdure.backends.http import service
from perdure.backends.llms._requests import ServiceLLM, check_offered, turns
from perdure.backends.llms.base import LLMRequest, ToolAnswer, ToolCall
from perdure.backends.shared.metering import generated
from perdure.domain.errors import LLMError

if TYPE_CHECKING:
    import anthropic


ANTHROPIC_HOST = "api.anthropic.com"
_CODES = {
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "billing_error": "quota",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "server",
    "api_error": "server",
    "timeout_error": "server",
}
"""Types of errors (Anthropic's reference, "Errors"); in the middle of a stream no status tells them."""
_SPENT = ("spend_limit_reached", "credit balance")
"""An empty purse: in the error's own code, with the status of a rate limit, or in the words of a wrong request."""


def is_anthropic(base_url: str | None) -> bool:
    """Whether the address is Anthropic's own, which is the default."""
    return base_url is None or service.host_of(base_url) == ANTHROPIC_HOST


class AnthropicService(service.Service["anthropic.AsyncAnthropic"]):
    """Sends requests by Anthropic's client."""

    sdk: ClassVar[str] = "anthropic"

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        import httpx2  # what the client is built on: a stream that breaks off gives its errors as they are

        if isinstance(error, sdk.APITimeoutError | httpx2.TimeoutException):
            return self._timed_out()
        if isinstance(error, sdk.APIConnectionError):
            return self._unreachable(service.host_of(str(error.request.url)), error)
        if isinstance(error, sdk.APIStatusError):
            return self._meaning(error)
        if isinstance(error, httpx2.TransportError):
            return self.broken(f"the answer broke off ({type(error).__name__})", "connection")
        if isinstance(error, json.JSONDecodeError):  # an event of a stream
            return self.broken("the answer is not what the service documents")
        if isinstance(error, sdk.AnthropicError):
            return self.broken(f"the client failed ({type(error).__name__})")
        return None

    def _meaning(self, error: anthropic.APIStatusError) -> Exception:
        said = self._clean(str(error.api_message or "").strip())
        status = error.status_code
        code = _CODES.get(str(error.type)) if status < 400 else service.code_of(status)
        if status == 402 or any(word in f"{error.error_code} {said}".lower() for word in _SPENT):
            code = "quota"  # no waiting fills an empty purse
        if status < 400:  # told in the middle of a stream
            return self.broken(said or "the answer broke off", code or "server")
        return self._of_status(status, said, code=code, after=service.retry_after(error.response.headers))

    async def _closed(self, client: anthropic.AsyncAnthropic) -> None:
        await client.close()


class Received(BaseModel):
    """Parts of an answer; other fields are ignored."""


class Block(Received):
    """A part of the answer: text, a tool call, or thinking."""

    type: str
    text: str = ""
    name: str = ""
    input: dict[str, Any] = {}


class Tokens(Received):
    """`input_tokens` do not include the cached tokens, which the two other fields count."""

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
        """Return the text, without thinking and tool calls."""
        return "".join(block.text for block in self.content if block.type == "text")

    @property
    def calls(self) -> list[Block]:
        return [block for block in self.content if block.type == "tool_use"]


class Delta(Ending):
    """What an event adds to a part, or to the answer."""

    type: str = ""
    text: str = ""


class Start(Received):
    """The beginning of a stream."""

    usage: Tokens | None = None


class Event(Received):
    """One event of a stream."""

    type: str
    message: Start | None = None
    delta: Delta | None = None
    usage: Tokens | None = None


def latest(tokens: Tokens | None, more: Tokens | None) -> Tokens:
    """Return the counts of a stream so far: later ones replace earlier ones."""
    known = tokens or Tokens()
    return known.model_copy(update=more.model_dump(exclude_none=True)) if more else known


def bare_json(text: str) -> str:
    """Return the JSON object in a text without the fence or words around it; the text if there is none."""
    found = text[text.find("{") : text.rfind("}") + 1]
    try:
        json.loads(found)
    except ValueError:
        return text
    return found


_VERSION_WITH_TEMPERATURE = "2023-06-01"
"""The version of the interface that takes a temperature; that of 2026-10-21, the client's own, refuses it."""
_TAKES_TEMPERATURE = re.compile(r"claude-(?:3|(?:haiku|sonnet)-4|opus-4(?!-[78]))")
"""Models before Claude Opus 4.7 (Anthropic's migration guides). Those since refuse a temperature, and most of them
think before they answer, within `max_tokens`, unless told not to."""
_LITTLE_THINKING = {"sonnet-5-5": "between_tools"}  # models whose least thinking has a name other than "disabled"
_CACHED = {"type": "ephemeral"}
_CUT_OFF = ("max_tokens", "model_context_window_exceeded")
ANSWER = "answer"
"""The tool by which a model answers in JSON mode.

Anthropic has no JSON mode without a closed schema (structured outputs), newer models refuse a prefilled "{", and a
forced tool with an open object is its documented way to keys that are not known beforehand (its cookbook, "Extracting
structured JSON"). Models that refuse to be forced are asked to call it, and may also answer with JSON as text.
"""
_ANSWER_TOOL = {
    "name": ANSWER,
    "description": "Gives your answer. Its input is the JSON object that the instructions ask for: exactly their keys, "
    "at the top, with nothing around them.",
    "input_schema": {"type": "object", "properties": {}, "additionalProperties": True},
}


class AnthropicLLM(ServiceLLM):
    """Claude models of Anthropic, or of any service at `base_url` with POST /v1/messages.

    Construction sends nothing; ConfigError without a key, unless `base_url` is set. Failures are LLMError with the code
    rate_limit, quota, timeout, server, connection or authentication, after retries.
    """

    name: ClassVar[str] = "anthropic"
    optional: ClassVar[tuple[str, ...]] = ("temperature", "tool_choice", "thinking")
    """Where a refusal names several, the first is to blame. Claude Sonnet 5.5, Opus 5.5 and Fable 5.1 take no forced
    tool, and some models always think."""

    class Settings(service.ServiceSettings):
        """The model, its address, and its parameters."""

        model: str = Field(default="claude-haiku-5-5", min_length=1)
        """The model's name."""
        api_key: SecretStr | None = Field(default_factory=partial(service.secret_from, "ANTHROPIC_API_KEY"))
        """API key; falls back to ANTHROPIC_API_KEY; not needed with your own `base_url`."""
        base_url: str | None = Field(default_factory=partial(service.text_from, "ANTHROPIC_BASE_URL"))
        """Address of the service, without /v1; falls back to ANTHROPIC_BASE_URL, then to Anthropic's own."""
        temperature: float = Field(default=0.0, ge=0.0, le=1.0)
        """Temperature if a call gives none; not sent to models that accept none, as all newer ones."""
        max_tokens: int = Field(default=2000, ge=1)
        """Maximum tokens of an answer if a call gives none; includes thinking that cannot be turned off."""

    def __init__(self, settings: Settings) -> None:
        own = not is_anthropic(settings.base_url)
        advice = ", or set base_url to a service of your own"
        key = service.key_or_fail(
            settings.api_key, needed=not own, section="llm", variable="ANTHROPIC_API_KEY", advice=advice
        )

        def make(sdk: Any) -> anthropic.AsyncAnthropic:
            client: anthropic.AsyncAnthropic = sdk.AsyncAnthropic(
                api_key=key,
                base_url=settings.base_url or "https://api.anthropic.com",
                timeout=settings.timeout,
                max_retries=0,
            )
            return client

        self._settings = settings
        self._service = AnthropicService(self.name, settings, make, LLMError, key)
        # What another maker's model takes is not known: it gets a temperature, and is not told how to think.
        claude = "claude" in settings.model
        older = not claude or _TAKES_TEMPERATURE.search(settings.model) is not None
        self._refused = frozenset({"thinking"} if older else {"temperature"})

    async def _generate(self, request: LLMRequest) -> str:
        body: dict[str, Any] = {}
        json_wanted = request.response_format == "json"
        if json_wanted:
            form = {} if request.schema is None else {"input_schema": dict(request.schema)}
            body = {"tools": [{**_ANSWER_TOOL, **form}], "tool_choice": {"type": "tool", "name": ANSWER}}
            system = f"{request.system_prompt}\nGive your answer by calling the tool {ANSWER}.".lstrip()
            request = replace(request, system_prompt=system)
        answer = await self._ask(request, body)
        call = next((call for call in answer.calls if call.name == ANSWER), None)
        if answer.stop_reason in _CUT_OFF and (json_wanted or not answer.text):
            raise self._cut_off()
        if json_wanted and call is not None:
            return json.dumps(call.input, ensure_ascii=False)
        if not answer.text:
            raise self._service.broken("the answer holds no text")
        return bare_json(answer.text) if json_wanted else answer.text

    async def _generate_with_tool_calls(self, request: LLMRequest) -> ToolAnswer:
        offered = [_offered(tool) for tool in request.tools]
        answer = await self._ask(request, {"tools": offered} if offered else {})
        check_offered((call.name for call in answer.calls), offered, self._service.broken)
        if answer.stop_reason in _CUT_OFF and (answer.calls or not answer.text):
            raise self._cut_off()
        if not answer.calls and not answer.text:
            raise self._service.broken("the answer holds neither text nor a call")
        return ToolAnswer(answer.text or None, [ToolCall(call.name, call.input) for call in answer.calls])

    def _stream(self, request: LLMRequest) -> AsyncGenerator[str, None]:
        # The system prompt is not marked for the cache: it changes with what was recalled.
        system, found = turns(request.system_prompt, request.messages)
        said = [{"role": "assistant" if turn.by_model else "user", "content": turn.text} for turn in found]
        body = self._body(request, said, {"system": system} if system else {})
        return self._streamed(partial(self._taken, body), self._pieces)

    async def _pieces(self, sent: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        tokens: Tokens | None = None
        ended, empty = False, True
        try:
            async with aclosing(self._service.stream(partial(_streamed, request=sent), asks_otherwise=True)) as events:
                async for received in events:
                    event = self._read(Event.model_validate, received.model_dump(warnings=False))
                    tokens = latest(tokens, event.message.usage if event.message else event.usage)
                    ended = ended or event.type == "message_stop"
                    if event.delta is None:
                        continue
                    self._check_refusal(event.delta)
                    if event.type == "content_block_delta" and event.delta.text:
                        empty = False
                        yield event.delta.text
        finally:
            if tokens is not None:  # what came is paid, also of an answer that nobody reads to its end
                self._count(tokens)
        if not ended:
            raise self._broke_off()
        if empty:
            raise self._service.broken("the answer holds no text")

    async def _ask(self, request: LLMRequest, body: Mapping[str, Any]) -> Answer:
        prompt = {"system": _cached_blocks(service.readable(request.system_prompt))} if request.system_prompt else {}
        said = [{"role": "user", "content": service.readable(request.user_message)}]
        content = await self._asked(partial(self._taken, self._body(request, said, {**prompt, **body})), _content)
        answer = self._read(Answer.model_validate_json, content)
        self._count(answer.usage or Tokens())
        self._check_refusal(answer)
        return answer

    def _body(
        self, request: LLMRequest, messages: Sequence[Mapping[str, str]], body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the request with every parameter, including those that the model may refuse."""
        settings = self._settings
        thinking = next((name for model, name in _LITTLE_THINKING.items() if model in settings.model), "disabled")
        return {
            "model": settings.model,
            "max_tokens": request.max_tokens or settings.max_tokens,
            "messages": list(messages),
            "temperature": settings.temperature if request.temperature is None else request.temperature,
            "thinking": {"type": thinking},
            **body,
        }

    def _check_refusal(self, ending: Ending) -> None:
        if ending.stop_reason == "refusal":
            details = ending.stop_details or Details()
            reason = details.explanation or details.category or "no reason was given"
            raise self._service.broken(f"the model refused to answer: {reason}", "refused")

    def _count(self, tokens: Tokens) -> None:
        cached = tokens.cache_read_input_tokens or 0
        total = (tokens.input_tokens or 0) + (tokens.cache_creation_input_tokens or 0) + cached
        generated(self.name, self._settings.model, total, tokens.output_tokens or 0, cached)


def _sendable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the client; it has no temperature any more, so that goes with the API version."""
    known = {key: value for key, value in body.items() if key != "temperature"}
    if "temperature" not in body:
        return known
    return {
        **known,
        "extra_body": {"temperature": body["temperature"]},
        "extra_headers": {"anthropic-version": _VERSION_WITH_TEMPERATURE},
    }


async def _content(client: anthropic.AsyncAnthropic, request: Mapping[str, Any]) -> bytes:
    answer: Any = await client.messages.with_raw_response.create(**_sendable(request))
    content: bytes = await answer.read()
    return content


async def _streamed(client: anthropic.AsyncAnthropic, request: Mapping[str, Any]) -> Any:
    return await client.messages.create(stream=True, **_sendable(request))


def _cached_blocks(system: str) -> list[dict[str, Any]]:
    """Mark the beginning of the system prompt for the service's cache.

    The last paragraph changes from call to call, and a cached prefix ends with a block. A prefix shorter than the
    model's minimum (512 to 4096 tokens) is not cached.
    """
    beginning, gap, end = system.rpartition("\n\n")
    if not beginning.strip() or not end.strip():
        return [{"type": "text", "text": system, "cache_control": _CACHED}]
    return [{"type": "text", "text": beginning + gap, "cache_control": _CACHED}, {"type": "text", "text": end}]


def _offered(tool: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in tool.items() if key != "parameters"}
    return {**known, "input_schema": tool.get("parameters") or {"type": "object", "properties": {}}}
