"""What LLM providers share: conversation formats, answer checks, and retries without refused parameters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from perdure.backends.http.service import RefusedError, Service, ServiceError, readable
from perdure.backends.llms.base import LLMRequest, RequestLLM
from perdure.domain.message import Message, transcript

T = TypeVar("T")
_ROLES = {"developer": "system", "tool": "user", "function": "user"}
"""What a conversation's roles are sent as: older models and Ollama's templates know no developer, and refuse or drop a
tool's message that comes without the call that it answers."""


def chat_messages(request: LLMRequest) -> list[dict[str, str]]:
    """Return the system prompt, if any, then the conversation or the user message, as valid Unicode."""
    said = [(_ROLES.get(message.role, message.role), message.content) for message in request.messages]
    turns = said or [("user", request.user_message)]
    leading = [("system", request.system_prompt)] if request.system_prompt else []
    return [{"role": role, "content": readable(content)} for role, content in [*leading, *turns]]


def naming_json(request: LLMRequest) -> LLMRequest:
    """Return the request with "JSON" in its system prompt, unless one of its texts has the word."""
    if "json" in f"{request.system_prompt}{request.user_message}".lower():
        return request
    return replace(request, system_prompt=f"{request.system_prompt}\nAnswer in JSON.".lstrip())


@dataclass(frozen=True, slots=True)
class Turn:
    """The text of one side."""

    by_model: bool
    text: str


_RULES = ("system", "developer")


def turns(system: str, messages: Sequence[Message]) -> tuple[str, list[Turn]]:
    """Split a conversation into the system prompt, with all system messages, and turns, as valid Unicode.

    Services refuse empty messages, which are left out, and turns that do not alternate or do not begin and end with the
    user: consecutive messages of one side are joined, and other conversations become one transcript.
    """
    said = [message for message in messages if message.content.strip()]
    rules = [message.content for message in said if message.role in _RULES]
    spoken = [message for message in said if message.role not in _RULES]
    found: list[Turn] = []
    for message in spoken:
        turn = Turn(message.role == "assistant", readable(message.content))
        if found and found[-1].by_model == turn.by_model:
            turn = Turn(turn.by_model, f"{found.pop().text}\n\n{turn.text}")
        found.append(turn)
    if found and (found[0].by_model or found[-1].by_model):
        found = [Turn(False, readable(transcript(spoken)))]
    return readable("\n\n".join(filter(None, [system, *rules]))), found


def check_offered(
    called: Iterable[str], tools: Iterable[Mapping[str, Any]], broken: Callable[[str], ServiceError]
) -> None:
    """Raise the error from `broken` if a called tool is not among `tools`."""
    names = {tool.get("name") for tool in tools}
    for name in called:
        if name not in names:
            raise broken(f"the model called the tool {name!r}, which was not offered")


class ServiceLLM(RequestLLM):
    """A language model behind a service: how requests are sent and answers read."""

    takes_schema: bool = True
    optional: ClassVar[tuple[str, ...]] = ()
    """Parameters that some models refuse: one that a model refuses is left out from then on."""
    _service: Service[Any]
    _refused: frozenset[str] = frozenset()

    async def close(self) -> None:
        await self._service.close()

    async def _asked(self, request: Callable[[], dict[str, Any]], send: Callable[..., Awaitable[T]]) -> T:
        """Send a request by `send(client, request)`, again without each parameter that the model refuses."""
        while True:
            sent = request()
            try:
                return await self._service.ask(partial(send, request=sent), asks_otherwise=True)
            except RefusedError as refused:
                problem = self._learn(refused, sent)
            if problem:
                raise problem

    async def _streamed(
        self, request: Callable[[], dict[str, Any]], send: Callable[[dict[str, Any]], AsyncGenerator[str, None]]
    ) -> AsyncGenerator[str, None]:
        """The same for a stream: `send(request)` raises RefusedError before the first piece, if at all."""
        while True:
            sent = request()
            try:
                async with aclosing(send(sent)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except RefusedError as refused:
                problem = self._learn(refused, sent)
            if problem:
                raise problem

    def _taken(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in body.items() if key not in self._refused}

    def _parameter(self, refused: RefusedError, sent: Mapping[str, Any]) -> str | None:
        """Return the refused parameter; by default the first optional one that the error message names."""
        return next((name for name in self.optional if name in sent and name in refused.said.lower()), None)

    def _learn(self, refused: RefusedError, sent: Mapping[str, Any]) -> Exception | None:
        """Leave the refused parameter out from now on; return the error to raise if there is nothing to leave out."""
        parameter = self._parameter(refused, sent)
        if parameter is None or parameter not in sent:
            return refused.error
        self._refused |= {parameter}
        return None

    def _read(self, parse: Callable[[Any], T], answer: Any) -> T:
        try:
            return parse(answer)
        except ValidationError:
            raise self._service.broken("the answer is not what the service documents") from None

    def _cut_off(self) -> ServiceError:
        return self._service.broken("the answer was cut off at max_tokens; raise it", "length")

    def _broke_off(self) -> ServiceError:
        return self._service.broken("the answer broke off", "connection")
