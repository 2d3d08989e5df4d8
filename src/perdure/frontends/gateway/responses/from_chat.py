"""An answer of chat, whole or in chunks, as a response with all the events that a client of it waits for."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from perdure.frontends.gateway.responses.items import Item, item_id
from perdure.frontends.gateway.responses.open_items import (
    Event,
    OpenCall,
    OpenCustomCall,
    OpenItem,
    OpenMessage,
    OpenParts,
    OpenReasoning,
)
from perdure.frontends.gateway.responses.shape import (
    Outcome,
    empty_response,
    error_of,
    incomplete_details,
    logprobs_of,
    usage_of,
)

_FIRST_OUTPUT = 0x8000
"""Output items are numbered from here on, so that their ids are none of the input's."""


class ResponseWriter:
    """Writes one response while its chat answer comes in.

    `start`, `feed` for each chunk and `finish` give the events in order, each with its `sequence_number`; `response` is
    the whole object. However an answer is cut into chunks, the object is the same.
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

    # -------------------------------------------------------------- what comes in
    def start(self) -> Iterator[Event]:
        """The events before the model's first word."""
        yield from self._numbered(
            {"type": kind, "response": dict(self.response)} for kind in ("response.created", "response.in_progress")
        )

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        """The events of one chunk of a stream."""
        yield from self._numbered(self._chunk(chunk))

    def finish(self, *, broken: str | None = None) -> Iterator[Event]:
        """The last events; `broken` says why the stream ended before the answer did."""
        if self._is_finished:
            return
        self._is_finished = True
        if broken is not None and self._error is None:
            self._error = error_of(broken)
        yield from self._numbered(self._end())

    def whole(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """The response to an answer that came in one piece."""
        chunk = whole_as_chunk(completion)
        for _ in self.feed(chunk):
            pass
        for _ in self.finish(broken=None if chunk["choices"] else "The model's server gave no answer."):
            pass
        return self.response

    @property
    def text(self) -> str:
        """What the model has said so far."""
        parts = (part for item in self._items if isinstance(item, OpenMessage) for part in item.parts)
        return "".join(part.get("text", "") for part in parts)

    @property
    def is_complete(self) -> bool:
        """Whether the answer came to its own end."""
        return bool(self.response["status"] == "completed")

    # -------------------------------------------------------------- what goes out
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
        """A piece of a call; one without an index goes on with the last one, unless it brings an id of its own."""
        is_custom = call.get("type") == "custom" or "custom" in call
        inside = call.get("custom" if is_custom else "function")
        inside = inside if isinstance(inside, dict) else {}
        given = call.get("id")
        if index is None:
            index = len(self._calls) - 1 if self._calls and not given else len(self._calls)
        found = self._calls.get(index)
        if found is None or (given and given != found.call_id):
            # Some servers count every call as the first; its own id tells it from the one before.
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
        # Calls stay open until here: pieces of several of them may come in any order.
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
    """An answer that came in one piece, as the one chunk of a stream; its choices are empty where it has none."""
    choice = _first(completion.get("choices"))
    message = choice.get("message")
    return {**completion, "choices": [{**choice, "delta": message}] if isinstance(message, dict) else []}


def has_finished(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk is the last one that says something."""
    return bool(chunk.get("error") or _first(chunk.get("choices")).get("finish_reason"))


def _text(content: object) -> str:
    """The text of a message's content, which some servers give in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _first(choices: object) -> dict[str, Any]:
    """The one choice that a response tells of."""
    found = choices[0] if isinstance(choices, list) and choices else None
    return found if isinstance(found, dict) and not found.get("index") else {}
