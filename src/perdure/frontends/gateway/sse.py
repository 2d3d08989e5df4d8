"""Parse server-sent events from bytes that may be split anywhere, while the bytes are forwarded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from perdure.engine.chat.conversation_step import first_choice

DONE = "[DONE]"  # the data of the last event of a chat's stream
_LONGEST_LINE = 16 * 1024 * 1024  # bytes of an unfinished line after which a stream is no longer parsed, only forwarded


def json_object(data: str | bytes) -> dict[str, Any] | None:
    """Parse a JSON object; None for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Events:
    """The events of a stream, from bytes that may be split inside of lines, of CR LF, and of characters."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._after_return = False
        self._lost = False

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the data of each event that ends in this piece."""
        if self._lost:
            return
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_return = chunk.endswith(b"\r") if chunk else self._after_return
        self._rest += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            self._lost = len(self._rest) > _LONGEST_LINE
            return
        *lines, rest = self._rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            if line:
                if line.startswith(b"data:"):
                    self._data.append(bytes(line[5:]).removeprefix(b" "))
            elif self._data:
                data, self._data = self._data, []
                yield b"\n".join(data).decode("utf-8", "replace")

    def end(self) -> Iterator[str]:
        """Yield the data of an event that ended without the empty line after it."""
        yield from self.feed(b"\n\n")


class ChatStream:
    """The text of the first choice of a streamed chat completion."""

    def __init__(self) -> None:
        self._events = Events()
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """The assistant's text so far, without tool calls and separate reasoning."""
        return "".join(self._texts)

    def feed(self, chunk: bytes) -> None:
        """Parse a piece."""
        for data in self._events.feed(chunk):
            self._take(data)

    def end(self) -> str:
        """End the stream and return its text."""
        for data in self._events.end():
            self._take(data)
        return self.text

    def _take(self, data: str) -> None:
        delta = (first_choice(json_object(data)) or {}).get("delta")  # [DONE] is not an object
        if isinstance(delta, dict):
            said = delta.get("content")
            said = delta.get("text") if said is None else said
            if isinstance(said, str):
                self._texts.append(said)
