"""Responses requests to a model's server with that API: forwarded, with memory in the instructions."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

from starlette.types import Send

from perdure.backends.http.upstream import Headers, HttpUpstream
from perdure.engine.chat.conversation_step import words
from perdure.engine.chat.settings import UpstreamSettings
from perdure.frontends.gateway.overrides import FIELDS, without_ours
from perdure.frontends.gateway.responses.chains import Chains
from perdure.frontends.gateway.responses.items import (
    Item,
    asks_for_tools,
    kind_of,
    messages_of,
    new_response_id,
    read_input,
)
from perdure.frontends.gateway.responses.request import Exchange, ResponsesRequest
from perdure.frontends.gateway.sse import json_object
from perdure.frontends.gateway.streaming import is_events, stream, whole

# Whether the model's server has a Responses API: asked once in the life of the process.

PATH = "/v1/responses"
CHAT_PATH = "/v1/chat/completions"
logger = logging.getLogger("perdure.gateway")
_ABSENT = (404, 405, 501)  # status codes of servers for an unknown path
_UNDECIDED = (401, 403, 407, 408, 425, 429)  # status codes that come before the path is checked


class ResponsesSupport:
    """Whether one model's server supports Responses, or must be called by chat."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._known: bool | None = None if settings.responses == "auto" else settings.responses == "native"
        self._probing = asyncio.Lock()

    async def is_native(self, upstream: HttpUpstream, headers: Headers) -> bool:
        """Whether it has the API; `headers` are those of a request, whose credentials the test uses.

        The test is an empty request, which names no model and costs nothing: a server with the path complains about
        missing fields. UpstreamError if the server is unreachable; an inconclusive answer is tested again next time.
        """
        if self._known is not None:
            return self._known
        async with self._probing:
            if self._known is None:
                return await self._ask(upstream, headers)
        return self._known

    async def _ask(self, upstream: HttpUpstream, headers: Headers) -> bool:
        kept = [(name, value) for name, value in headers if name.lower() not in ("content-type", "accept")]
        answer = await upstream.send("POST", PATH, headers=[*kept, ("content-type", "application/json")], body=b"{}")
        try:
            absent = answer.status in _ABSENT and not is_about_the_request(await answer.read())
        finally:
            answer.close()
        if answer.status in _UNDECIDED or (answer.status >= 500 and not absent):
            return True
        self._known = not absent
        if absent:
            logger.info("the model's server has no Responses API: requests are translated into chat")
        return self._known


def is_about_the_request(body: bytes) -> bool:
    """Whether an error concerns the request (an unknown model), and not the path."""
    problem = json_object(body) or {}
    error = problem.get("error", problem)
    if not isinstance(error, dict):
        return False
    return bool(error.get("param")) or "model" in f"{error.get('code')} {error.get('message')}".lower()


# Reads the model's text in an answer of the Responses API while it is forwarded.


class AnswerReader:
    """Reads one native answer: its events one by one, or the whole object."""

    def __init__(self) -> None:
        self.response_id: str | None = None  # the answer's id, known from its first event on
        self.model: str | None = None
        self.is_complete = False  # whether the answer ended by itself
        self.asks = False  # whether it calls the client's tools
        self._pieces: list[str] = []
        self._whole: str | None = None

    @property
    def text(self) -> str:
        """The model's text so far."""
        return self._whole if self._whole is not None else "".join(self._pieces)

    def event(self, data: Mapping[str, Any]) -> None:
        """Read one event of a stream; events without text are skipped."""
        kind = data.get("type")
        if kind == "response.output_text.delta" and isinstance(data.get("delta"), str):
            self._pieces.append(data["delta"])
        elif kind == "response.output_item.done" and self._pieces:
            # Between two messages of one answer.
            self._pieces.append("\n")
        elif isinstance(data.get("response"), dict):
            self._object(data["response"], is_last=kind in _LAST)

    def whole(self, response: Mapping[str, Any]) -> None:
        """Read an answer that was not streamed."""
        self._object(response, is_last=True)

    def _object(self, response: Mapping[str, Any], *, is_last: bool) -> None:
        given = response.get("id")
        self.response_id = given if isinstance(given, str) and given else self.response_id
        self.model = response["model"] if isinstance(response.get("model"), str) else self.model
        if not is_last:
            return
        output = response.get("output")
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        texts = [words(item.get("content")) for item in items if kind_of(item) == "message"]
        if any(texts):
            self._whole = "\n".join(text for text in texts if text)
        self.asks = asks_for_tools(items)
        self.is_complete = response.get("status") == "completed"


_LAST = ("response.completed", "response.incomplete", "response.failed")


class Native(Exchange):
    """One forwarded request; its answer is returned byte for byte, and the server stores its chain."""

    def __init__(self, asked: ResponsesRequest, chains: Chains) -> None:
        super().__init__(asked, chains)
        self._hearing = AnswerReader()
        self._has_begun = self._has_ended = False

    async def _exchange(self, send: Send) -> None:
        answer = await self._ask(PATH)
        if is_events(answer):
            ended = await stream(send, answer, self._forwarded(answer), self._hear)
            if not self._failed:
                self._end(ended)
            return
        data = await answer.read()
        if not self._failed:
            response = json_object(data)
            if response is not None:
                self._hearing.whole(response)
            self._end(True)
        await whole(send, answer.status, self._forwarded(answer), data)

    async def _body(self) -> bytes:
        """Return the body for upstream: the client's bytes if nothing changes; only whole histories are shortened."""
        asked = self._asked
        body, given = without_ours(asked.body), asked.body.get("input")
        if isinstance(given, list) and asked.previous_id is None and not body.get("conversation"):
            body["input"] = await asked.shortened(given)
        if asked.recalled.is_empty and body.get("input") is given and not FIELDS & asked.body.keys():
            return asked.context.raw
        return json.dumps(asked.placed(body), separators=(",", ":")).encode()

    def _hear(self, chunk: bytes) -> None:
        for data in self._events.feed(chunk):
            event = json_object(data)
            if event is not None:
                self._hearing.event(event)
        if self._hearing.response_id is not None:
            self._begin()

    def _begin(self) -> None:
        """Store the user's message as soon as the response's id, and so its session, is known."""
        if self._has_begun:
            return
        self._has_begun = True
        self._turn = self._asked.turn(self._hearing.response_id or new_response_id())
        if self._turn is not None:
            self._asked.context.gateway.turns.enqueue_user(self._turn)

    def _end(self, ended: bool) -> None:
        if self._has_ended or self._answer is None:
            return
        self._has_ended = True
        self._asked.note(self._sent)
        self._begin()
        hearing = self._hearing
        if self._turn is not None:
            self._asked.context.gateway.turns.enqueue_answer(
                self._turn, hearing.text, complete=ended, asks=hearing.asks
            )
        if hearing.response_id is None or not ended or not self._asked.keeps_response:
            return
        link = self._asked.link(
            {"id": hearing.response_id, "model": hearing.model, "output": _spoken("assistant", hearing.text)},
            _inputs(self._asked.body.get("input")),
            is_native=True,
        )
        if self._chains.put(link, self._turn) is not None:
            self._chains.name(link.id, self._turn)


def _inputs(given: object) -> list[Item]:
    """Return the texts of an input, which is all that memory needs."""
    items = read_input(given) if isinstance(given, str | list) else []
    return [item for message in messages_of(items) for item in _spoken(message.role, message.content)]


def _spoken(role: str, text: str) -> list[Item]:
    if role == "tool":
        return [{"type": "function_call_output", "output": text}]
    return [{"type": "message", "role": role, "content": text}] if text.strip() else []
