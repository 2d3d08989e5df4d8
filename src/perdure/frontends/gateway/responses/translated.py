"""A Responses request before a model's server that has only chat: said in its words, and its answer in ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from starlette.types import Send

from perdure.backends.upstreams.http import UpstreamAnswer
from perdure.domain.clock import system_clock
from perdure.domain.errors import UpstreamError
from perdure.frontends.gateway.asking import memory_headers
from perdure.frontends.gateway.gateway import Keeping
from perdure.frontends.gateway.headers import downward
from perdure.frontends.gateway.overrides import without_ours
from perdure.frontends.gateway.relay import RawHeaders, begin, whole
from perdure.frontends.gateway.responses.asked import Asked
from perdure.frontends.gateway.responses.chains import Chains, unknown_previous
from perdure.frontends.gateway.responses.from_chat import ResponseWriter, has_finished, whole_as_chunk
from perdure.frontends.gateway.responses.items import (
    Item,
    asks_for_tools,
    new_response_id,
    read_input,
    references,
    resolved,
    response_of,
    with_ids,
)
from perdure.frontends.gateway.responses.keeping import link_of
from perdure.frontends.gateway.responses.native import is_events
from perdure.frontends.gateway.responses.open_items import Event
from perdure.frontends.gateway.responses.reach import CHAT_PATH
from perdure.frontends.gateway.responses.to_chat import chat_request
from perdure.frontends.gateway.responses.whose import reach_of
from perdure.frontends.gateway.sse import DONE, Events

_OK = range(200, 300)
_BROKE_OFF = "The model's server broke off."
_STREAM: RawHeaders = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


class Translated:
    """One request that is translated; its chain is kept here, and sent in full (V90)."""

    def __init__(self, asked: Asked, chains: Chains) -> None:
        self._asked = asked
        self._chains = chains
        self._response_id = new_response_id()
        self._inputs: list[Item] = []
        stored = {} if asked.keeps_response else {"store": False}
        self._writer = ResponseWriter(self._response_id, {**asked.body, **stored}, lambda: system_clock().timestamp())
        self._events = Events()
        self._is_finished = self._is_kept = False
        self._turn: Keeping | None = None
        self._sent = b""

    async def serve(self, send: Send) -> None:
        """Translate, ask, and translate the answer back; InvalidInputError for what chat cannot say."""
        self._sent = await self._body()
        answer: UpstreamAnswer | None = None
        failed = ended = False
        try:
            if self._is_stream:
                self._begin()
            answer = await self._asked.asking.send(CHAT_PATH, self._sent)
            failed = answer.status not in _OK
            if failed:
                # An error of chat has the shape of one of Responses; what it says comes from the model's server.
                headers = downward(answer.headers) + memory_headers(self._asked.recalled)
                await whole(send, answer.status, headers, await answer.read())
            elif self._is_stream:
                await self._stream(send, answer)
            else:
                self._begin()
                await self._whole(send, answer)
            ended = True
        except Exception:  # not reached, or not understood: there is no answer to keep
            failed = True
            raise
        finally:
            # Also where the client has left, which cancels this: then what was said so far is kept.
            if answer is not None:
                answer.close()
            if not failed:
                self._end(ended)

    @property
    def _is_stream(self) -> bool:
        return self._asked.body.get("stream") is True

    def _begin(self) -> None:
        self._turn = self._asked.turn(self._response_id)
        if self._turn is not None:
            self._turn.begin()

    def _end(self, ended: bool) -> None:
        """Keep what was said, once, after what it may repeat of memory."""
        noted, self._sent = self._sent, b""
        if noted:
            self._asked.note(noted)
        turn, self._turn = self._turn, None
        if turn is not None:
            response = self._writer.response
            is_whole, asks = ended and response["status"] != "failed", asks_for_tools(response["output"])
            turn.end(self._writer.text, complete=is_whole, asks=asks)
            if self._is_kept:
                self._chains.name(self._response_id, turn)

    # ------------------------------------------------------------------ up
    async def _body(self) -> bytes:
        """The chat request: the whole chain, the request's own input, and what is remembered."""
        asked = self._asked
        if asked.previous_id is not None and not asked.chain:
            raise unknown_previous(asked.previous_id)
        earlier = asked.earlier
        own = read_input(asked.body.get("input"))
        known = [*earlier, *await self._referred(own)]
        self._inputs = with_ids(resolved(own, known), self._response_id)
        before, own = await self._shortened(earlier, self._inputs)
        placed = asked.placed({**without_ours(asked.body), "input": own})
        items = [*before, *read_input(placed["input"])]
        return json.dumps(chat_request(placed, items, first=len(before)), separators=(",", ":")).encode()

    async def _shortened(self, earlier: list[Item], own: list[Item]) -> tuple[list[Item], list[Item]]:
        """What was said in the chain, and the request's own items, without what the state stands for (V83)."""
        whole = [*earlier, *own]
        short = await self._asked.shortened(whole)
        if short is whole:
            return earlier, own
        at = len(short) - len(own)
        is_whole = at >= 0 and all(kept is given for kept, given in zip(short[at:], own, strict=True))
        return (short[:at], own) if is_whole else ([], short)

    async def _referred(self, items: list[Item]) -> list[Item]:
        """Items of other responses that are referred to: an item's id tells which response it is of."""
        found: list[Item] = []
        if self._asked.conversation is None:
            return found
        walls = reach_of(self._asked.asking, self._asked.conversation)
        for response_id in {response_of(reference) for reference in references(items)} - {None}:
            kept = await self._chains.get(str(response_id), walls)
            found.extend(kept.items if kept is not None else ())
        return found

    # ------------------------------------------------------------------ down
    async def _whole(self, send: Send, answer: UpstreamAnswer) -> None:
        completion = _object(await answer.read())
        if completion is None:
            raise UpstreamError("the model's server gave an answer to a chat that is no JSON object")
        response = self._writer.whole(completion)
        await self._keep()
        self._end(True)
        data = json.dumps(response, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        length = str(len(data)).encode()
        told: RawHeaders = [(b"content-type", b"application/json"), (b"content-length", length)]
        await whole(send, answer.status, [*self._headers(answer), *told], data)

    async def _stream(self, send: Send, answer: UpstreamAnswer) -> None:
        await begin(send, answer.status, self._headers(answer) + _STREAM)
        await _send(send, self._writer.start())
        broken: str | None = _BROKE_OFF
        try:
            if is_events(answer):
                async for chunk in answer.chunks():
                    await _send(send, [event for data in self._events.feed(chunk) for event in self._heard(data)])
                await _send(send, [event for data in self._events.end() for event in self._heard(data)])
                broken = None if self._is_finished else _BROKE_OFF
            else:
                # A server that knows no streams gives its answer in one piece.
                completion = _object(await answer.read())
                if completion is not None:
                    await _send(send, list(self._writer.feed(whole_as_chunk(completion))))
                    broken = None
        except UpstreamError:
            broken = _BROKE_OFF
        last = list(self._writer.finish(broken=broken))
        await self._keep()
        self._end(True)
        await _send(send, last, more=False)

    def _heard(self, data: str) -> Iterable[Event]:
        if data.strip() == DONE:
            self._is_finished = True
            return ()
        chunk = _object(data)
        if chunk is None:
            return ()
        self._is_finished = self._is_finished or has_finished(chunk)
        return self._writer.feed(chunk)

    def _headers(self, answer: UpstreamAnswer) -> RawHeaders:
        kept = [
            (name, value)
            for name, value in downward(answer.headers, is_changed=True)
            if name.lower() not in (b"content-type", b"content-encoding", b"cache-control", b"etag")
        ]
        return kept + memory_headers(self._asked.recalled)

    async def _keep(self) -> None:
        """Keep the response before its end is told: the next request may go on from it at once."""
        response = self._writer.response
        if not self._asked.keeps_response or response["status"] == "failed":
            return
        conversation = self._asked.in_session(self._response_id)
        link = link_of(
            response,
            self._inputs,
            scope=conversation.scope,
            session=conversation.session,
            previous_id=self._asked.previous_id,
        )
        self._is_kept = await self._chains.kept(link, self._turn)


async def _send(send: Send, events: Iterable[Event], *, more: bool = True) -> None:
    body = b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(
            "utf-8", "replace"
        )
        for event in events
    )
    if body or not more:
        await send({"type": "http.response.body", "body": body, "more_body": more})


def _object(data: str | bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
