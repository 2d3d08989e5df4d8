"""A Responses request before a model's server that has the API: it passes, with memory in its instructions."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import Send

from perdure.backends.upstreams.http import UpstreamAnswer
from perdure.frontends.gateway.asking import memory_headers
from perdure.frontends.gateway.gateway import Keeping
from perdure.frontends.gateway.headers import downward
from perdure.frontends.gateway.overrides import FIELDS, without_ours
from perdure.frontends.gateway.relay import stream, whole
from perdure.frontends.gateway.responses.asked import Asked
from perdure.frontends.gateway.responses.chains import Chains
from perdure.frontends.gateway.responses.hearing import Hearing
from perdure.frontends.gateway.responses.items import Item, messages_of, new_response_id, read_input
from perdure.frontends.gateway.responses.keeping import link_of
from perdure.frontends.gateway.responses.reach import PATH
from perdure.frontends.gateway.sse import Events

_OK = range(200, 300)


class Native:
    """One request that passes; its answer comes back byte for byte (V90: its chain is the server's own)."""

    def __init__(self, asked: Asked, chains: Chains) -> None:
        self._asked = asked
        self._chains = chains
        self._hearing = Hearing()
        self._events = Events()
        self._turn: Keeping | None = None
        self._sent = b""
        self._has_begun = self._has_ended = False

    async def serve(self, send: Send) -> None:
        """Ask, and send the answer on; what is said is kept beside that."""
        answer: UpstreamAnswer | None = None
        failed = ended = False
        try:
            self._sent = await self._body()
            answer = await self._asked.asking.send(PATH, self._sent)
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
        """What goes up: the client's own bytes where nothing is changed in them (V29).

        A history is shortened where the request has all of it (V83), not where the server keeps it.
        """
        asked = self._asked
        body, given = without_ours(asked.body), asked.body.get("input")
        if isinstance(given, list) and asked.previous_id is None and not body.get("conversation"):
            body["input"] = await asked.shortened(given)
        if asked.recalled.is_empty and body.get("input") is given and not FIELDS & asked.body.keys():
            return asked.asking.raw
        return json.dumps(asked.placed(body), separators=(",", ":")).encode()

    # ------------------------------------------------------------------ listening
    def _hear(self, chunk: bytes) -> None:
        for data in self._events.feed(chunk):
            event = _object(data)
            if event is not None:
                self._hearing.event(event)
        if self._hearing.response_id is not None:
            self._begin()

    def _hear_whole(self, data: bytes) -> None:
        response = _object(data)
        if response is not None:
            self._hearing.whole(response)

    def _begin(self) -> None:
        """Keep the user's words, as soon as it is known what the response is called, and so its session (K37)."""
        if self._has_begun:
            return
        self._has_begun = True
        self._turn = self._asked.turn(self._hearing.response_id or new_response_id())
        if self._turn is not None:
            self._turn.begin()

    def _end(self, ended: bool) -> None:
        """Keep what was said, once."""
        if self._has_ended:
            return
        self._has_ended = True
        self._asked.note(self._sent)
        self._begin()
        hearing = self._hearing
        if self._turn is not None:
            self._turn.end(hearing.text, complete=ended, asks=hearing.asks)
        if hearing.response_id is None or not ended or not self._asked.keeps_response:
            return
        conversation = self._asked.in_session(hearing.response_id)
        link = link_of(
            {"id": hearing.response_id, "model": hearing.model, "output": _spoken("assistant", hearing.text)},
            _inputs(self._asked.body.get("input")),
            scope=conversation.scope,
            session=conversation.session,
            previous_id=self._asked.previous_id,
            is_native=True,
        )
        if self._chains.put(link, self._turn) is not None:
            self._chains.name(link.id, self._turn)


def is_events(answer: UpstreamAnswer) -> bool:
    """Whether an answer is a stream of server-sent events."""
    return (answer.header("content-type") or "").lower().startswith("text/event-stream")


def _inputs(given: object) -> list[Item]:
    """The words of an input: the server has the whole of it, and memory needs no more."""
    items = read_input(given) if isinstance(given, str | list) else []
    return [item for message in messages_of(items) for item in _spoken(message.role, message.content)]


def _spoken(role: str, text: str) -> list[Item]:
    if role == "tool":
        return [{"type": "function_call_output", "output": text}]
    return [{"type": "message", "role": role, "content": text}] if text.strip() else []


def _object(data: str | bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
