"""Convert a chat answer, whole or in chunks, into a response with all its events."""

from __future__ import annotations

import itertools
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from perdure.frontends.gateway.responses.items import Item, item_id

# The response object, apart from its output.

Outcome = Literal["in_progress", "completed", "incomplete", "failed"]  # the state of a response
_ECHOED: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": None,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""Request fields that appear in the response too, with their defaults."""

_INCOMPLETE: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Chat's reasons to stop early, in the terms of the Responses API."""


def empty_response(response_id: str, body: Mapping[str, Any], *, created_at: int) -> dict[str, Any]:
    """Return the response to a request before the model's first output, without injected memory."""
    given = {name: body[name] for name in _ECHOED if body.get(name) is not None}
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": body.get("model") or "",
        "output": [],
        "usage": None,
        **_ECHOED,
        **given,
    }


def incomplete_details(finish_reason: object) -> dict[str, str] | None:
    """Return why an answer is incomplete, or None."""
    reason = _INCOMPLETE.get(finish_reason) if isinstance(finish_reason, str) else None
    return {"reason": reason} if reason else None


def usage_of(usage: object) -> dict[str, Any] | None:
    """Convert chat's token counts to those of the Responses API; None if there are none."""
    if not isinstance(usage, dict):
        return None
    read, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    prompt = usage.get("prompt_tokens_details")
    completion = usage.get("completion_tokens_details")
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": _inside(prompt, "cached_tokens"), "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": _inside(completion, "reasoning_tokens")},
        "total_tokens": _count(usage.get("total_tokens")) or read + written,
    }


def error_of(error: object) -> dict[str, str]:
    """Convert an error in the middle of a stream to the form of a response."""
    told = error if isinstance(error, dict) else {"message": error}
    limited = "rate_limit" in f"{told.get('code')} {told.get('type')}" or told.get("code") in (429, "429")
    message = told.get("message")
    return {
        "code": "rate_limit_exceeded" if limited else "server_error",
        "message": message if isinstance(message, str) and message else "The model's server failed.",
    }


def logprobs_of(logprobs: object) -> list[dict[str, Any]]:
    """Convert chat's log probabilities, with the fields that the Responses API always has."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    tokens = [token for token in content if isinstance(token, dict)] if isinstance(content, list) else []
    return [
        {**_token(token), "top_logprobs": [_token(each) for each in token.get("top_logprobs") or ()]}
        for token in tokens
    ]


def _token(token: dict[str, Any]) -> dict[str, Any]:
    text = str(token.get("token", ""))
    octets = token.get("bytes") or list(text.encode("utf-8", "replace"))
    return {"token": text, "logprob": token.get("logprob") or 0.0, "bytes": octets}


def _inside(details: object, name: str) -> int:
    return _count(details.get(name)) if isinstance(details, dict) else 0


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


# Output items while the model writes them; each step returns its events.

Event = dict[str, Any]  # one event of a stream, without its `sequence_number`


class OpenItem(ABC):
    """One item that is being written."""

    PREFIX: str
    """Prefix of its id."""

    def __init__(self, item_id: str, index: int) -> None:
        self.id = item_id
        self.index = index  # its index in the output

    @abstractmethod
    def item(self, status: str) -> Item:
        """Return the item in its current state."""

    @abstractmethod
    def closing(self, status: str) -> Iterator[Event]:
        """Yield the events that its parts are complete."""

    def opened(self) -> Event:
        """Return the event that it began."""
        return {"type": "response.output_item.added", "output_index": self.index, "item": self.item("in_progress")}

    def close(self, status: str) -> Iterator[Event]:
        """Yield the events that it is complete, its parts first."""
        yield from self.closing(status)
        yield {"type": "response.output_item.done", "output_index": self.index, "item": self.item(status)}

    def told(self, kind: str, **more: Any) -> Event:
        """Build an event about this item."""
        return {"type": kind, "item_id": self.id, "output_index": self.index, **more}


class OpenParts(OpenItem):
    """A message or a reasoning item: successive parts, of which the last one is open."""

    def __init__(self, item_id: str, index: int) -> None:
        super().__init__(item_id, index)
        self.parts: list[dict[str, Any]] = []
        self._is_open = False

    def write(self, kind: str, text: str, logprobs: list[dict[str, Any]] | None = None) -> Iterator[Event]:
        """Add text to the open part, or to a new one if the open part is of another kind."""
        if not self._is_open or self.parts[-1]["type"] != kind:
            yield from self._close_part()
            self.parts.append(_part(kind))
            self._is_open = True
            yield self._told_part("response.content_part.added")
        part = self.parts[-1]
        part[_TEXT[kind]] += text
        more: dict[str, Any] = {}
        if kind == "output_text":
            part["logprobs"].extend(logprobs or [])
            more = {"logprobs": logprobs or []}
        yield self.told(f"response.{kind}.delta", content_index=len(self.parts) - 1, delta=text, **more)

    def closing(self, status: str) -> Iterator[Event]:
        """Yield the events that the open part is complete."""
        yield from self._close_part()

    def _close_part(self) -> Iterator[Event]:
        if not self._is_open:
            return
        self._is_open = False
        part = self.parts[-1]
        kind = part["type"]
        more = {"logprobs": list(part["logprobs"])} if kind == "output_text" else {}
        whole = {_TEXT[kind]: part[_TEXT[kind]]}
        yield self.told(f"response.{kind}.done", content_index=len(self.parts) - 1, **whole, **more)
        yield self._told_part("response.content_part.done")

    def _told_part(self, kind: str) -> Event:
        return self.told(kind, content_index=len(self.parts) - 1, part=_copy(self.parts[-1]))


class OpenMessage(OpenParts):
    """The model's message: text and refusals."""

    PREFIX = "msg"

    def item(self, status: str) -> Item:
        """Return the message."""
        content = [_copy(part) for part in self.parts]
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}


class OpenReasoning(OpenParts):
    """The model's reasoning, from servers that report it."""

    PREFIX = "rs"

    def item(self, status: str) -> Item:
        """Return the reasoning item."""
        content = [_copy(part) for part in self.parts]
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content}


class OpenCall(OpenItem):
    """A call of one of the client's functions."""

    PREFIX = "fc"

    def __init__(self, item_id: str, index: int, *, call_id: str, name: str) -> None:
        super().__init__(item_id, index)
        self.call_id = call_id
        self.name = name
        self.arguments = ""

    def write(self, text: str) -> Iterator[Event]:
        """Add to the arguments."""
        self.arguments += text
        yield self.told("response.function_call_arguments.delta", delta=text)

    def closing(self, status: str) -> Iterator[Event]:
        """Yield the events that the arguments are complete; a client needs the name with them."""
        whole = {"arguments": self.arguments, "name": self.name}
        yield self.told("response.function_call_arguments.done", **whole)

    def item(self, status: str) -> Item:
        """Return the call."""
        called = {"arguments": self.arguments, "call_id": self.call_id, "name": self.name}
        return {"id": self.id, "type": "function_call", "status": status, **called}


class OpenCustomCall(OpenCall):
    """A call of a client's tool that takes free text."""

    PREFIX = "ctc"

    def write(self, text: str) -> Iterator[Event]:
        """Add to the input."""
        self.arguments += text
        yield self.told("response.custom_tool_call_input.delta", delta=text)

    def closing(self, status: str) -> Iterator[Event]:
        """Yield the events that the input is complete."""
        yield self.told("response.custom_tool_call_input.done", input=self.arguments)

    def item(self, status: str) -> Item:
        """Return the call; such items have no status."""
        called = {"input": self.arguments, "call_id": self.call_id, "name": self.name}
        return {"id": self.id, "type": "custom_tool_call", **called}


_TEXT = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}  # the text field of each kind of part


def _part(kind: str) -> dict[str, Any]:
    empty = {"type": kind, _TEXT[kind]: ""}
    return {**empty, "annotations": [], "logprobs": []} if kind == "output_text" else empty


def _copy(part: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value for name, value in part.items()}


_FIRST_OUTPUT = 0x8000  # output items are numbered from here on, so that their ids differ from the input's


class ResponseWriter:
    """Builds one response while its chat answer arrives.

    `start`, `feed` for each chunk and `finish` yield the events in order, each with its `sequence_number`; `response`
    is the whole object. It is the same however the answer is split into chunks.
    """

    def __init__(self, response_id: str, body: Mapping[str, Any], clock: Callable[[], float]) -> None:
        self._clock = clock
        self.response = empty_response(response_id, body, created_at=int(clock()))
        self._items: list[OpenItem] = []
        self._open: OpenParts | None = None
        self._calls: dict[object, OpenCall] = {}
        self._done: dict[int, Item] = {}
        self._numbers = itertools.count()
        self._finish_reason: object = None
        self._error: dict[str, str] | None = None
        self._is_finished = False

    def start(self) -> Iterator[Event]:
        """Yield the events before the model's first output."""
        yield from self._numbered(
            {"type": kind, "response": dict(self.response)} for kind in ("response.created", "response.in_progress")
        )

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        """Yield the events of one chunk of a stream."""
        yield from self._numbered(self._chunk(chunk))

    def finish(self, *, broken: str | None = None) -> Iterator[Event]:
        """Yield the last events; `broken` says why the stream ended early."""
        if self._is_finished:
            return
        self._is_finished = True
        if broken is not None and self._error is None:
            self._error = error_of(broken)
        yield from self._numbered(self._end())

    def whole(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to an answer in one piece."""
        chunk = whole_as_chunk(completion)
        for _ in self.feed(chunk):
            pass
        for _ in self.finish(broken=None if chunk["choices"] else "The model's server gave no answer."):
            pass
        return self.response

    @property
    def text(self) -> str:
        """The model's text so far."""
        parts = (part for item in self._items if isinstance(item, OpenMessage) for part in item.parts)
        return "".join(part.get("text", "") for part in parts)

    @property
    def is_complete(self) -> bool:
        """Whether the answer ended by itself."""
        return bool(self.response["status"] == "completed")

    def _numbered(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            yield {**event, "sequence_number": next(self._numbers)}

    def _chunk(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        if chunk.get("error"):
            self._error = error_of(chunk["error"])
            return
        if isinstance(chunk.get("model"), str) and chunk["model"]:
            self.response["model"] = chunk["model"]
        if isinstance(chunk.get("service_tier"), str):
            self.response["service_tier"] = chunk["service_tier"]
        self.response["usage"] = usage_of(chunk.get("usage")) or self.response["usage"]
        choice = _first(chunk.get("choices"))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            yield from self._delta(delta, choice)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason

    def _delta(self, delta: Mapping[str, Any], choice: Mapping[str, Any]) -> Iterator[Event]:
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str) and thought:
            yield from self._say(OpenReasoning, "reasoning_text", thought)
        if text := _text(delta.get("content")):
            yield from self._say(OpenMessage, "output_text", text, logprobs_of(choice.get("logprobs")))
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            yield from self._say(OpenMessage, "refusal", delta["refusal"])
        calls = delta.get("tool_calls")
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                yield from self._call(call.get("index", number if "message" in choice else None), call)
        if isinstance(delta.get("function_call"), dict):
            yield from self._call("function_call", {"function": delta["function_call"]})

    def _say(
        self, kind: type[OpenParts], part: str, text: str, logprobs: list[dict[str, Any]] | None = None
    ) -> Iterator[Event]:
        if type(self._open) is not kind:
            yield from self._close_open("completed")
            self._open = kind(self._new_id(kind.PREFIX), len(self._items))
            yield self._added(self._open)
        yield from self._open.write(part, text, logprobs)

    def _call(self, index: object, call: Mapping[str, Any]) -> Iterator[Event]:
        """Handle a piece of a call; without an index it continues the last one, unless it has its own id."""
        is_custom = call.get("type") == "custom" or "custom" in call
        inside = call.get("custom" if is_custom else "function")
        inside = inside if isinstance(inside, dict) else {}
        given = call.get("id")
        if index is None:
            index = len(self._calls) - 1 if self._calls and not given else len(self._calls)
        found = self._calls.get(index)
        if found is None or (given and given != found.call_id):
            # Some servers number every call as the first; its own id distinguishes it.
            index = index if found is None else (index, given)
            found = self._calls.get(index)
        if found is None:
            yield from self._close_open("completed")
            kind = OpenCustomCall if is_custom else OpenCall
            found = kind(
                self._new_id(kind.PREFIX),
                len(self._items),
                call_id=str(given or f"call_{uuid.uuid4().hex}"),
                name=str(inside.get("name") or ""),
            )
            self._calls[index] = found
            yield self._added(found)
        found.name = found.name or str(inside.get("name") or "")
        text = inside.get("input" if is_custom else "arguments")
        if isinstance(text, str) and text:
            yield from found.write(text)

    def _added(self, item: OpenItem) -> Event:
        self._items.append(item)
        return item.opened()

    def _new_id(self, prefix: str) -> str:
        return item_id(self.response["id"], prefix, _FIRST_OUTPUT + len(self._items))

    def _close_open(self, status: str) -> Iterator[Event]:
        if self._open is not None:
            yield from self._close(self._open, status)
            self._open = None

    def _close(self, item: OpenItem, status: str) -> Iterator[Event]:
        self._done[item.index] = item.item(status)
        yield from item.close(status)

    def _end(self) -> Iterator[Event]:
        details = incomplete_details(self._finish_reason)
        outcome: Outcome = "failed" if self._error else "incomplete" if details else "completed"
        status = "completed" if outcome == "completed" else "incomplete"
        # Calls stay open until here: their pieces may arrive in any order.
        for item in self._items:
            if item.index not in self._done:
                yield from self._close(item, status)
        self.response |= {
            "status": outcome,
            "error": self._error,
            "incomplete_details": details if outcome == "incomplete" else None,
            "completed_at": int(self._clock()) if outcome == "completed" else None,
            "output": [self._done[item.index] for item in self._items],
        }
        yield {"type": f"response.{outcome}", "response": dict(self.response)}


def whole_as_chunk(completion: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an answer in one piece into a single chunk; its choices are empty if it has none."""
    choice = _first(completion.get("choices"))
    message = choice.get("message")
    return {**completion, "choices": [{**choice, "delta": message}] if isinstance(message, dict) else []}


def has_finished(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk is the last one with content."""
    return bool(chunk.get("error") or _first(chunk.get("choices")).get("finish_reason"))


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _first(choices: object) -> dict[str, Any]:
    found = choices[0] if isinstance(choices, list) and choices else None
    return found if isinstance(found, dict) and not found.get("index") else {}
