"""A language model with scripted answers, for tests, demonstrations and recorded conversations."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from perdure.backends.llms.base import LLMRequest, RequestLLM, ToolAnswer, ToolCall
from perdure.domain.errors import LLMError
from perdure.domain.message import transcript

Failure = Literal["rate_limit", "timeout", "server", "connection", "authentication"]
"""Ways to fail; each is the `code` of the LLMError."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Call(_Part):
    """A tool that the model asks for."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class Say(_Part):
    """A full answer: text, tool calls, or a failure, each after a delay in seconds."""

    text: str | None = None
    tool_calls: tuple[Call, ...] = ()
    error: Failure | None = None
    delay: float = Field(default=0.0, ge=0.0)


def _as_answer(value: str | dict[str, Any]) -> str | dict[str, Any]:
    """Parse a dictionary with only the keys of Say as one; any other is a JSON answer."""
    if isinstance(value, dict) and _is_say(value):
        Say.model_validate(value)
    return value


def _is_say(value: Mapping[str, Any]) -> bool:
    return bool(value) and set(value) <= set(Say.model_fields)


Answer = Annotated[str | dict[str, Any], AfterValidator(_as_answer)]
"""Text; a dictionary with the keys of Say; or any other dictionary, which is answered as JSON text."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call, in order."""

    system_prompt: str
    user_message: str
    options: dict[str, Any] = field(default_factory=dict)
    """temperature, max_tokens, response_format; for a call with tools: temperature, tools; for a stream: stream."""


class Rule(_Part):
    """The answer for every matching message."""

    match: str = Field(min_length=1)
    """Text or a regular expression, in any case, looked for in the user message and in the system prompt."""
    answer: Answer

    def fits(self, call: RecordedCall) -> bool:
        """Whether either text of the call contains `match`, literally or as a regular expression."""
        try:
            pattern = re.compile(self.match, re.IGNORECASE)
        except re.error:  # plain text such as "C++ ("
            pattern = re.compile(re.escape(self.match), re.IGNORECASE)
        texts = (call.user_message, call.system_prompt)
        return any(self.match.lower() in text.lower() or pattern.search(text) for text in texts)


class ScriptedLLM(RequestLLM):
    """Answers by the first matching rule, else with the next of its answers; LLMError when none is left.

    All calls are recorded in `calls`, failed ones too. An answer `{"error": "rate_limit"}` fails with that code.
    """

    name: ClassVar[str] = "scripted"

    class Settings(BaseModel):
        """The scripted answers."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        answers: tuple[Answer, ...] = ()
        """Used in this order, one for each call that no rule answers."""
        rules: tuple[Rule, ...] = ()
        """Tried in this order."""
        delay: float = Field(default=0.0, ge=0.0)
        """Seconds before every answer, added to the answer's own."""

        @model_validator(mode="after")
        def _says_something(self) -> ScriptedLLM.Settings:
            if not self.answers and not self.rules:
                raise ValueError("scripted needs `answers` or `rules`")
            return self

    def __init__(self, settings: Settings) -> None:
        self.calls: list[RecordedCall] = []
        self._settings = settings
        self._next = iter(settings.answers)

    async def _generate(self, request: LLMRequest) -> str:
        options = {
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "response_format": request.response_format,
        }
        said = await self._say(RecordedCall(request.system_prompt, request.user_message, options))
        return _text(said)

    async def _generate_with_tool_calls(self, request: LLMRequest) -> ToolAnswer:
        offered = [dict(tool) for tool in request.tools]
        options = {"temperature": request.temperature, "tools": offered}
        said = await self._say(RecordedCall(request.system_prompt, request.user_message, options))
        names = [str(tool.get("name")) for tool in offered]
        for call in said.tool_calls:
            if call.name not in names:
                raise LLMError(f"scripted: the tool {call.name!r} was not offered, only {', '.join(names) or 'none'}")
        return ToolAnswer(said.text, [ToolCall(call.name, dict(call.arguments)) for call in said.tool_calls])

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[str, None]:
        options = {"temperature": request.temperature, "max_tokens": request.max_tokens, "stream": True}
        said = await self._say(RecordedCall(request.system_prompt, transcript(request.messages), options))
        for word in re.findall(r"\s*\S+\s*|\s+", _text(said)):
            yield word

    async def _say(self, call: RecordedCall) -> Say:
        self.calls.append(call)
        said = self._choose(call)
        await asyncio.sleep(self._settings.delay + said.delay)
        if said.error:
            raise LLMError(f"scripted: told to fail ({said.error})", code=said.error)
        return said

    def _choose(self, call: RecordedCall) -> Say:
        for rule in self._settings.rules:
            if rule.fits(call):
                return _read(rule.answer)
        for answer in self._next:
            return _read(answer)
        raise LLMError(
            f"scripted: call {len(self.calls)} has no answer left: {len(self._settings.answers)} answers were given, "
            f"and none of {len(self._settings.rules)} rules fits"
        )


def _text(said: Say) -> str:
    if said.text is None:
        raise LLMError("scripted: the next answer is a tool call, but the call offered no tools")
    return said.text


def _read(answer: str | dict[str, Any]) -> Say:
    if isinstance(answer, str):
        return Say(text=answer)
    if _is_say(answer):
        return Say.model_validate(answer)
    return Say(text=json.dumps(answer, ensure_ascii=False))
