"""Items of an output while the model still writes them; each step gives the events that tell of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from perdure.frontends.gateway.responses.items import Item

Event = dict[str, Any]
"""One event of a stream, without its `sequence_number`."""


class OpenItem(ABC):
    """One item that is being written."""

    PREFIX: str
    """What its id begins with."""

    def __init__(self, item_id: str, index: int) -> None:
        self.id = item_id
        self.index = index
        """Its place in the output."""

    @abstractmethod
    def item(self, status: str) -> Item:
        """The item as far as it has come."""

    @abstractmethod
    def closing(self, status: str) -> Iterator[Event]:
        """What tells that its parts are whole."""

    def opened(self) -> Event:
        """What tells that it was begun."""
        return {"type": "response.output_item.added", "output_index": self.index, "item": self.item("in_progress")}

    def close(self, status: str) -> Iterator[Event]:
        """What tells that it is whole, its parts first."""
        yield from self.closing(status)
        yield {"type": "response.output_item.done", "output_index": self.index, "item": self.item(status)}

    def told(self, kind: str, **more: Any) -> Event:
        """An event about this item."""
        return {"type": kind, "item_id": self.id, "output_index": self.index, **more}


class OpenParts(OpenItem):
    """A message or a reasoning item: parts one after another, of which the last one is open."""

    def __init__(self, item_id: str, index: int) -> None:
        super().__init__(item_id, index)
        self.parts: list[dict[str, Any]] = []
        self._is_open = False

    def write(self, kind: str, text: str, logprobs: list[dict[str, Any]] | None = None) -> Iterator[Event]:
        """Add text to the open part, or to a new one where the open part is of another kind."""
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
        """What tells that the open part is whole."""
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
    """What the model says: text and refusals."""

    PREFIX = "msg"

    def item(self, status: str) -> Item:
        """The message."""
        content = [_copy(part) for part in self.parts]
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}


class OpenReasoning(OpenParts):
    """What the model thought aloud, of servers that tell it."""

    PREFIX = "rs"

    def item(self, status: str) -> Item:
        """The reasoning item."""
        content = [_copy(part) for part in self.parts]
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content}


class OpenCall(OpenItem):
    """A call of a function of the client's."""

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
        """What tells that the arguments are whole; a client needs the name with them."""
        whole = {"arguments": self.arguments, "name": self.name}
        yield self.told("response.function_call_arguments.done", **whole)

    def item(self, status: str) -> Item:
        """The call."""
        called = {"arguments": self.arguments, "call_id": self.call_id, "name": self.name}
        return {"id": self.id, "type": "function_call", "status": status, **called}


class OpenCustomCall(OpenCall):
    """A call of a tool of the client's that takes any text."""

    PREFIX = "ctc"

    def write(self, text: str) -> Iterator[Event]:
        """Add to the input."""
        self.arguments += text
        yield self.told("response.custom_tool_call_input.delta", delta=text)

    def closing(self, status: str) -> Iterator[Event]:
        """What tells that the input is whole."""
        yield self.told("response.custom_tool_call_input.done", input=self.arguments)

    def item(self, status: str) -> Item:
        """The call; such items have no status."""
        called = {"input": self.arguments, "call_id": self.call_id, "name": self.name}
        return {"id": self.id, "type": "custom_tool_call", **called}


_TEXT = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}
"""Where the text of a part of each kind stands."""


def _part(kind: str) -> dict[str, Any]:
    empty = {"type": kind, _TEXT[kind]: ""}
    return {**empty, "annotations": [], "logprobs": []} if kind == "output_text" else empty


def _copy(part: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value for name, value in part.items()}
