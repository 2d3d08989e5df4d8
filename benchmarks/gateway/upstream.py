"""A model's server that costs next to nothing: what it does is said in each request's own `script`.

The benchmarks run it as a process of its own: python -m benchmarks.gateway.upstream PORT

`script` is `{"id", "words", "first", "pause", "fault"}`: a name of the request, how many words the answer has, seconds
before the first and between two of them, and what goes wrong. `fault` is "error" (a status of 500), "refusal" (429 with
Retry-After), "hang" (nothing after half of the words) or "break" (the connection ends there). `GET /told` is what
became of each request that had a name, which is the first word of its answer too, and `GET /drop` closes all other
connections. `POST /v1/embeddings` makes vectors
of words, and fails for so many seconds after `POST /failing` has said so.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import zlib
from contextlib import suppress
from typing import Any

_HEAD = b"HTTP/1.1 %d Scripted\r\nContent-Type: %b\r\n%b\r\n"
_JSON, _EVENTS = b"application/json", b"text/event-stream; charset=utf-8"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
DIMENSIONS = 64
"""Of the vectors."""
ANSWERED, BROKEN = "answered", "broken"
"""What became of a request: its answer went out whole, or the connection ended before that."""


class Upstream:
    """The server, and what it remembers of what it was asked."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._fails_until = 0.0
        self._open: set[asyncio.StreamWriter] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        self._open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
                raw = await reader.readexactly(int(length[0].partition(":")[2])) if length else b""
                if head.startswith("GET /drop"):
                    for other in self._open - {writer}:
                        other.transport.abort()
                if head.startswith("GET"):
                    _whole(writer, 200, self._told if head.startswith("GET /told") else {"object": "list", "data": []})
                    continue
                body = json.loads(raw)
                if not head.startswith("POST /v1/chat"):
                    self._aside(head, body, writer)
                    continue
                name = body.get("script", {}).get("id")
                if name is not None:
                    self._told[name] = BROKEN
                became = await self._answer(body, reader, writer)
                await writer.drain()
                if name is not None:
                    self._told[name] = became
        self._open.discard(writer)
        writer.transport.abort()

    def _aside(self, head: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if head.startswith("POST /failing"):
            self._fails_until = time.monotonic() + body["seconds"]
            _whole(writer, 200, {})
        elif time.monotonic() < self._fails_until:
            _whole(writer, 500, {"error": {"message": "scripted", "type": "scripted"}})
        else:
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            data = [{"object": "embedding", "index": at, "embedding": _vector(text)} for at, text in enumerate(texts)]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            _whole(writer, 200, {"object": "list", "data": data, "model": "m", "usage": usage})

    async def _answer(self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        script = body.get("script", {})
        fault, count, pause = script.get("fault"), script.get("words", 20), script.get("pause", 0.0)
        words = [script.get("id", "word0"), *(f"word{number}" for number in range(1, count))]
        await asyncio.sleep(script.get("first", 0.0))
        if fault in ("error", "refusal"):
            status = 500 if fault == "error" else 429
            _whole(writer, status, {"error": {"message": "scripted", "type": "scripted"}}, b"Retry-After: 1\r\n")
            return str(status)
        if not body.get("stream"):
            if fault is None:
                await asyncio.sleep(pause * count)
                _whole(writer, 200, _completion(" ".join(words)))
                return ANSWERED
            writer.write(_HEAD % (200, _JSON, b"Content-Length: 100000\r\n") + b'{"choices": ')
            await self._gone(fault, reader)
        writer.write(_HEAD % (200, _EVENTS, _CHUNKED))
        for number, word in enumerate(words):
            if fault is not None and number == count // 2:
                await self._gone(fault, reader)
            _event(writer, json.dumps(_chunk(f"{word} ")).encode())
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)
        _event(writer, b"[DONE]")
        writer.write(b"0\r\n\r\n")
        return ANSWERED

    async def _gone(self, fault: str, reader: asyncio.StreamReader) -> None:
        if fault == "hang":
            await reader.read(1)  # b"" as soon as the other side has left
        raise ConnectionAbortedError


def _whole(writer: asyncio.StreamWriter, status: int, value: Any, more: bytes = b"") -> None:
    data = json.dumps(value).encode()
    writer.write(_HEAD % (status, _JSON, b"Content-Length: %d\r\n" % len(data) + more) + data)


def _event(writer: asyncio.StreamWriter, data: bytes) -> None:
    event = b"data: %b\n\n" % data
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))


def _vector(text: str) -> list[float]:
    """A bag of words, as numbers."""
    vector = [0.01] * DIMENSIONS
    for word in text.lower().split():
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1.0
    return vector


def _chunk(text: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


def _completion(text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


async def serve(port: int) -> None:
    """Listen until the process is ended."""
    server = await asyncio.start_server(Upstream().connected, "127.0.0.1", port, limit=2**24)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
