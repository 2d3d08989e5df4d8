"""Responses requests to a model's server with chat only: translated into chat, and the answer back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.types import Send

from perdure.backends.http.upstream import UpstreamAnswer
from perdure.domain.clock import system_clock
from perdure.domain.errors import InvalidInputError, UpstreamError
from perdure.domain.text.readable import kind_of as kind_of_value
from perdure.domain.text.readable import shown
from perdure.frontends.gateway.overrides import without_ours
from perdure.frontends.gateway.request_context import memory_headers
from perdure.frontends.gateway.responses.chains import Chains, unknown_previous
from perdure.frontends.gateway.responses.from_chat import Event, ResponseWriter, has_finished, whole_as_chunk
from perdure.frontends.gateway.responses.items import (
    OUTPUTS,
    ROLES,
    Item,
    asks_for_tools,
    kind_of,
    new_response_id,
    read_input,
    references,
    resolved,
    response_of,
    with_ids,
)
from perdure.frontends.gateway.responses.native import CHAT_PATH
from perdure.frontends.gateway.responses.request import Exchange, ResponsesRequest, reach_of
from perdure.frontends.gateway.sse import DONE, json_object
from perdure.frontends.gateway.streaming import RawHeaders, begin, downward, is_events, whole

# Items of the Responses API as messages of a chat.

ChatMessage = dict[str, Any]  # one message in the form of /v1/chat/completions
TEXTS = ("input_text", "output_text", "text", "summary_text")  # types of parts with text only


def chat_messages(items: Sequence[Item], instructions: str | None = None, *, first: int = 0) -> list[ChatMessage]:
    """Convert items to chat messages; InvalidInputError names an unsupported item, counted from `first`.

    Instructions come first, as a system message. `developer` becomes `system`, which every model's server knows. Tool
    calls become part of the assistant's message before them; reasoning is left out, because chat has no place for it.
    """
    found: list[ChatMessage] = []
    if instructions:
        found.append({"role": "system", "content": instructions})
    for number, item in enumerate(items):
        _Adding(found, f"input[{number - first}]" if number >= first else "previous_response_id").add(item)
    return found


class _Adding:
    def __init__(self, messages: list[ChatMessage], place: str) -> None:
        self._messages = messages
        self._place = place

    def add(self, item: Item) -> None:
        kind = kind_of(item)
        if kind == "message":
            self._message(item)
        elif kind == "function_call":
            function = {"name": self._text(item, "name"), "arguments": self._text(item, "arguments")}
            self._call(item, {"type": "function", "function": function})
        elif kind == "custom_tool_call":
            custom = {"name": self._text(item, "name"), "input": self._text(item, "input")}
            self._call(item, {"type": "custom", "custom": custom})
        elif kind in OUTPUTS:
            content = self._content(item.get("output"), "output")
            self._messages.append({"role": "tool", "tool_call_id": self._text(item, "call_id"), "content": content})
        elif kind != "reasoning":
            raise self._wrong("type", f"{shown(kind)}: the model's server has only chat, which has no such items", kind)

    def _message(self, item: Item) -> None:
        role = item.get("role")
        if role not in ROLES:
            raise self._wrong("role", f"must be one of {', '.join(ROLES)}, not {shown(role)}", role)
        told = "system" if role == "developer" else str(role)
        message: ChatMessage = {"role": told, "content": self._content(item.get("content"), "content")}
        if isinstance(item.get("name"), str):
            message["name"] = item["name"]
        self._messages.append(message)

    def _call(self, item: Item, call: dict[str, Any]) -> None:
        whole = {"id": self._text(item, "call_id"), **call}
        before = self._messages[-1] if self._messages else None
        if before is None or before["role"] != "assistant":
            before = {"role": "assistant", "content": None}
            self._messages.append(before)
        before.setdefault("tool_calls", []).append(whole)

    def _content(self, content: object, name: str) -> str | list[dict[str, Any]]:
        """Return a single text as text, which simple servers accept too; else the parts."""
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise self._wrong(name, "must be text or a list of parts", content)
        parts = [self._part(part, f"{name}[{number}]") for number, part in enumerate(content)]
        if not parts:
            return ""
        return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts

    def _part(self, part: object, name: str) -> dict[str, Any]:
        if not isinstance(part, dict):
            raise self._wrong(name, "must be an object", part)
        kind = part.get("type")
        if kind in TEXTS:
            return {"type": "text", "text": self._text(part, "text", f"{name}.text")}
        if kind == "refusal":
            return {"type": "refusal", "refusal": self._text(part, "refusal", f"{name}.refusal")}
        if kind == "input_image":
            if not isinstance(part.get("image_url"), str):
                raise self._wrong(f"{name}.image_url", "is needed: the model's server keeps no files", kind)
            detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
            return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
        if kind == "input_file":
            if part.get("file_url") is not None:
                raise self._wrong(f"{name}.file_url", "cannot be said to a server that has only chat", kind)
            told = {key: part[key] for key in ("file_id", "file_data", "filename") if part.get(key) is not None}
            return {"type": "file", "file": told}
        if kind == "input_audio":
            return part
        raise self._wrong(f"{name}.type", f"is not known: {shown(kind)}", kind)

    def _text(self, of: dict[str, Any], key: str, name: str | None = None) -> str:
        value = of.get(key)
        if not isinstance(value, str):
            raise self._wrong(name or key, f"must be text, not {kind_of_value(value)}", value)
        return value

    def _wrong(self, name: str, problem: str, value: object) -> InvalidInputError:
        field = f"{self._place}.{name}"
        return InvalidInputError(f"{field} {problem}", field=field, value=value)


# A Responses request as a chat request, for model servers with chat only.

_OWN = frozenset(
    {
        "input",
        "instructions",
        "previous_response_id",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "max_output_tokens",
        "max_tool_calls",
        "truncation",
        "include",
        "top_logprobs",
        "stream_options",
        "background",
        "conversation",
        "prompt",
    }
)
"""Fields that chat lacks, or names differently; all others are forwarded unchanged."""

_IMPOSSIBLE: Mapping[str, str] = {
    "background": "answers are not made in the background here",
    "conversation": "it keeps no conversations: use previous_response_id",
    "prompt": "it keeps no prompts",
}
"""Features that a server with chat only cannot provide, and why."""


def chat_request(body: Mapping[str, Any], items: Sequence[Item], *, first: int = 0) -> dict[str, Any]:
    """Build the body for /v1/chat/completions; `items` is the whole input, the first `first` from earlier responses.

    InvalidInputError names a field that chat cannot express: hosted tools, files of the server, background work.
    """
    for name, why in _IMPOSSIBLE.items():
        if body.get(name):
            raise _impossible(name, why, body[name])
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise InvalidInputError("instructions must be text", field="instructions", value=instructions)
    chat = {name: value for name, value in body.items() if name not in _OWN}
    chat["messages"] = chat_messages(items, instructions, first=first)
    if body.get("tools"):
        tools = body["tools"]
        if not isinstance(tools, list):
            raise InvalidInputError("tools must be a list", field="tools", value=tools)
        chat["tools"] = [_tool(tool, f"tools[{number}]") for number, tool in enumerate(tools)]
        if body.get("tool_choice") is not None:
            chat["tool_choice"] = _tool_choice(body["tool_choice"])
    else:
        # Without tools there is no choice, and servers reject the field.
        chat.pop("parallel_tool_calls", None)
    chat |= _text(body.get("text"))
    effort = _request_object(body.get("reasoning"), "reasoning").get("effort")
    if effort is not None:
        chat["reasoning_effort"] = effort
    if body.get("max_output_tokens") is not None:
        # The older name, which servers with chat only know; OpenAI's own server has the Responses API.
        chat["max_tokens"] = body["max_output_tokens"]
    if body.get("top_logprobs") is not None:
        chat |= {"logprobs": True, "top_logprobs": body["top_logprobs"]}
    elif isinstance(body.get("include"), list) and "message.output_text.logprobs" in body["include"]:
        chat["logprobs"] = True
    if body.get("stream"):
        chat["stream_options"] = {
            **_request_object(body.get("stream_options"), "stream_options"),
            "include_usage": True,
        }
    return chat


def _tool(tool: object, place: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise InvalidInputError(f"{place} must be an object", field=place, value=tool)
    kind = tool.get("type")
    if kind not in ("function", "custom"):
        why = "it has no tools of its own, only functions of the caller's"
        raise _impossible(f"{place}.type", why, kind, f"the tool {shown(kind)}")
    if not isinstance(tool.get("name"), str):
        raise InvalidInputError(f"Missing required parameter: '{place}.name'.", field=f"{place}.name", value=None)
    inside = {name: value for name, value in tool.items() if name != "type" and value is not None}
    if kind == "custom" and isinstance(inside.get("format"), dict) and inside["format"].get("type") == "grammar":
        grammar = {name: value for name, value in inside["format"].items() if name != "type"}
        inside["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": kind, kind: inside}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, str):
        return choice
    if isinstance(choice, dict):
        kind = choice.get("type")
        if kind in ("function", "custom"):
            return _named(choice)
        if kind == "allowed_tools" and isinstance(choice.get("tools"), list):
            tools = [_named(tool) if isinstance(tool, dict) else tool for tool in choice["tools"]]
            return {"type": kind, "allowed_tools": {"mode": choice.get("mode", "auto"), "tools": tools}}
        why = "it has no tools of its own, only functions of the caller's"
        raise _impossible("tool_choice.type", why, kind, f"the tool {shown(kind)}")
    raise InvalidInputError("tool_choice must be text or an object", field="tool_choice", value=choice)


def _named(tool: dict[str, Any]) -> dict[str, Any]:
    kind = str(tool.get("type"))
    return {"type": kind, kind: {name: value for name, value in tool.items() if name != "type"}}


def _text(text: object) -> dict[str, Any]:
    """`response_format` and `verbosity` of the `text` field."""
    given = _request_object(text, "text")
    found: dict[str, Any] = {}
    if given.get("verbosity") is not None:
        found["verbosity"] = given["verbosity"]
    wanted = _request_object(given.get("format"), "text.format")
    kind = wanted.get("type", "text")
    if kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type" and value is not None}
        found["response_format"] = {"type": kind, "json_schema": schema}
    elif kind != "text":
        found["response_format"] = wanted
    return found


def _request_object(value: object, place: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInputError(f"{place} must be an object, not {kind_of_value(value)}", field=place, value=value)
    return value


def _impossible(field: str, why: str, value: object, what: str | None = None) -> InvalidInputError:
    told = f"{field}: {what or shown(value)} cannot be had of this model's server, which has only chat: {why}"
    return InvalidInputError(told, field=field, value=value)


_BROKE_OFF = "The model's server broke off."
_STREAM: RawHeaders = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Translated(Exchange):
    """One translated request; its chain is stored here, and sent in full."""

    def __init__(self, asked: ResponsesRequest, chains: Chains) -> None:
        super().__init__(asked, chains)
        self._response_id = new_response_id()
        self._inputs: list[Item] = []
        stored = {} if asked.keeps_response else {"store": False}
        self._writer = ResponseWriter(self._response_id, {**asked.body, **stored}, lambda: system_clock().timestamp())
        self._is_finished = self._is_kept = False

    async def _exchange(self, send: Send) -> None:
        if self._is_stream:
            self._begin()
        answer = await self._ask(CHAT_PATH)
        if self._failed:
            # A chat error has the same shape as a Responses error; its text comes from the model's server.
            await whole(send, answer.status, self._forwarded(answer), await answer.read())
        elif self._is_stream:
            await self._stream(send, answer)
        else:
            self._begin()
            await self._whole(send, answer)

    @property
    def _is_stream(self) -> bool:
        return self._asked.body.get("stream") is True

    def _begin(self) -> None:
        self._turn = self._asked.turn(self._response_id)
        if self._turn is not None:
            self._asked.context.gateway.turns.enqueue_user(self._turn)

    def _end(self, ended: bool) -> None:
        noted, self._sent = self._sent, b""
        if noted:
            self._asked.note(noted)
        turn, self._turn = self._turn, None
        if turn is not None:
            response = self._writer.response
            is_whole, asks = ended and response["status"] != "failed", asks_for_tools(response["output"])
            log = self._asked.context.gateway.turns
            log.enqueue_answer(turn, self._writer.text, complete=is_whole, asks=asks)
            if self._is_kept:
                self._chains.name(self._response_id, turn)

    async def _body(self) -> bytes:
        """Return the chat request: the whole chain, the request's own input, and the memories."""
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
        """Return the chain's items and the request's own, without those that the state replaces."""
        whole = [*earlier, *own]
        short = await self._asked.shortened(whole)
        if short is whole:
            return earlier, own
        at = len(short) - len(own)
        is_whole = at >= 0 and all(kept is given for kept, given in zip(short[at:], own, strict=True))
        return (short[:at], own) if is_whole else ([], short)

    async def _referred(self, items: list[Item]) -> list[Item]:
        """Return referenced items of other responses; an item's id names its response."""
        found: list[Item] = []
        if self._asked.conversation is None:
            return found
        walls = reach_of(self._asked.context, self._asked.conversation)
        for response_id in {response_of(reference) for reference in references(items)} - {None}:
            kept = await self._chains.get(str(response_id), walls)
            found.extend(kept.items if kept is not None else ())
        return found

    async def _whole(self, send: Send, answer: UpstreamAnswer) -> None:
        completion = json_object(await answer.read())
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
                # A server without streaming answers in one piece.
                completion = json_object(await answer.read())
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
        chunk = json_object(data)
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
        """Store the response before its end is sent, because the next request may continue it at once."""
        response = self._writer.response
        if not self._asked.keeps_response or response["status"] == "failed":
            return
        link = self._asked.link(response, self._inputs)
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
