"""A Responses request before a model's server that has the API: it passes, with memory in its instructions."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

from starlette.types import Send

from perdure.backends.http.upstream import Headers, HttpUpstream, UpstreamAnswer
from perdure.engine.chat.conversation_step import words
from perdure.engine.chat.settings import UpstreamSettings
from perdure.engine.chat.turn_log import PendingTurn
from perdure.frontends.gateway.overrides import FIELDS, without_ours
from perdure.frontends.gateway.request_context import memory_headers
from perdure.frontends.gateway.responses.chains import Chains
from perdure.frontends.gateway.responses.items import (
    Item,
    asks_for_tools,
    kind_of,
    messages_of,
    new_response_id,
    read_input,
)
from perdure.frontends.gateway.responses.request import ResponsesRequest
from perdure.frontends.gateway.sse import Events, json_object
from perdure.frontends.gateway.streaming import downward, is_events, stream, whole

# Whether the model's server has a Responses API: asked once, and remembered for as long as the process lives.

PATH = "/v1/responses"
CHAT_PATH = "/v1/chat/completions"

logger = logging.getLogger("perdure.gateway")

_ABSENT = (404, 405, 501)
"""What servers say to a path that they have not."""
_UNDECIDED = (401, 403, 407, 408, 425, 429)
"""What is said before anybody looks at the path."""


class ResponsesSupport:
    """Knows of one model's server whether it answers Responses requests, or has to be asked by chat."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._known: bool | None = None if settings.responses == "auto" else settings.responses == "native"
        self._probing = asyncio.Lock()

    async def is_native(self, upstream: HttpUpstream, headers: Headers) -> bool:
        """Whether it has the API; `headers` are those of a request, whose credentials the question is asked with.

        The question is an empty request, which names no model and costs none: whatever has the path complains of what
        is missing. UpstreamError where nobody answers; an answer that decides nothing is asked for again next time.
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
    """Whether an error speaks of what was asked for (a model that there is not), and not of the path."""
    problem = json_object(body) or {}
    error = problem.get("error", problem)
    if not isinstance(error, dict):
        return False
    return bool(error.get("param")) or "model" in f"{error.get('code')} {error.get('message')}".lower()


# Reads what a model says in an answer of the Responses API that passes through untouched.


class AnswerReader:
    """Listens to one native answer: its events one by one, or the whole object."""

    def __init__(self) -> None:
        self.response_id: str | None = None
        """The answer's id, known from its first event on."""
        self.model: str | None = None
        self.is_complete = False
        """Whether the answer came to its own end."""
        self.asks = False
        """Whether it asks for tools of the client's."""
        self._pieces: list[str] = []
        self._whole: str | None = None

    @property
    def text(self) -> str:
        """What the model has said so far."""
        return self._whole if self._whole is not None else "".join(self._pieces)

    def event(self, data: Mapping[str, Any]) -> None:
        """Take in one event of a stream; those of kinds that say nothing are passed over."""
        kind = data.get("type")
        if kind == "response.output_text.delta" and isinstance(data.get("delta"), str):
            self._pieces.append(data["delta"])
        elif kind == "response.output_item.done" and self._pieces:
            # Between two messages of one answer.
            self._pieces.append("\n")
        elif isinstance(data.get("response"), dict):
            self._object(data["response"], is_last=kind in _LAST)

    def whole(self, response: Mapping[str, Any]) -> None:
        """Take in the answer of a request that did not stream."""
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


_OK = range(200, 300)


class Native:
    """One request that passes; its answer comes back byte for byte; its chain is the server's own."""

    def __init__(self, asked: ResponsesRequest, chains: Chains) -> None:
        self._asked = asked
        self._chains = chains
        self._hearing = AnswerReader()
        self._events = Events()
        self._turn: PendingTurn | None = None
        self._sent = b""
        self._has_begun = self._has_ended = False

    async def serve(self, send: Send) -> None:
        """Ask, and send the answer on; what is said is kept beside that."""
        answer: UpstreamAnswer | None = None
        failed = ended = False
        try:
            self._sent = await self._body()
            answer = await self._asked.context.send(PATH, self._sent)
            failed = answer.status not in _OK
            headers = downward(answer.headers) + memory_headers(self._asked.recalled)
            if is_events(answer):
                ended = await stream(send, answer, headers, self._hear)
            else:
                data = await answer.read()
                ended = True
                if not failed:
                    self._hear_whole(data)
                    self._end(ended)
                await whole(send, answer.status, headers, data)
        except Exception:  # not reached, or broken off before anything was sent: there is no answer to keep
            failed = True
            raise
        finally:
            # Also where the client has left, which cancels this: then what was said so far is kept.
            if answer is not None:
                answer.close()
                if not failed:
                    self._end(ended)

    async def _body(self) -> bytes:
        """What goes up: the client's own bytes where nothing is changed in them.

        A history is shortened where the request has all of it, not where the server keeps it.
        """
        asked = self._asked
        body, given = without_ours(asked.body), asked.body.get("input")
        if isinstance(given, list) and asked.previous_id is None and not body.get("conversation"):
            body["input"] = await asked.shortened(given)
        if asked.recalled.is_empty and body.get("input") is given and not FIELDS & asked.body.keys():
            return asked.context.raw
        return json.dumps(asked.placed(body), separators=(",", ":")).encode()

    # ------------------------------------------------------------------ listening
    def _hear(self, chunk: bytes) -> None:
        for data in self._events.feed(chunk):
            event = json_object(data)
            if event is not None:
                self._hearing.event(event)
        if self._hearing.response_id is not None:
            self._begin()

    def _hear_whole(self, data: bytes) -> None:
        response = json_object(data)
        if response is not None:
            self._hearing.whole(response)

    def _begin(self) -> None:
        """Keep the user's words, as soon as it is known what the response is called, and so its session."""
        if self._has_begun:
            return
        self._has_begun = True
        self._turn = self._asked.turn(self._hearing.response_id or new_response_id())
        if self._turn is not None:
            self._asked.context.gateway.turns.enqueue_user(self._turn)

    def _end(self, ended: bool) -> None:
        """Keep what was said, once."""
        if self._has_ended:
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
    """The words of an input: the server has the whole of it, and memory needs no more."""
    items = read_input(given) if isinstance(given, str | list) else []
    return [item for message in messages_of(items) for item in _spoken(message.role, message.content)]


def _spoken(role: str, text: str) -> list[Item]:
    if role == "tool":
        return [{"type": "function_call_output", "output": text}]
    return [{"type": "message", "role": role, "content": text}] if text.strip() else []
