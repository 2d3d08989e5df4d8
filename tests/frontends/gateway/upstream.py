"""A model's server on a real port: it writes down what it is asked byte for byte, and answers as a test tells it to."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.frontends.gateway.scripts import Play, Reply, Step, echo_chat, echo_response

MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]}
KEY = "upstream-key-of-the-tests"
"""What servers of tests send upstream where the caller brought nothing."""


@dataclass(frozen=True)
class Seen:
    """One request, as it came over the wire."""

    method: str
    target: str
    """The path with its query string, as sent."""
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json["messages"]
        return found

    def header(self, name: str) -> str | None:
        """The last header of that name, or None."""
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return found[-1] if found else None


Script = Reply | Callable[["Exchange"], Awaitable[None]]


class _Reader(asyncio.StreamReader):
    """A reader that says when the other side has gone, though nobody reads."""

    def __init__(self, gone: asyncio.Event) -> None:
        super().__init__(limit=2**26)
        self._gone = gone

    def feed_eof(self) -> None:
        super().feed_eof()
        self._gone.set()


@dataclass
class Exchange:
    """One request and the connection that its answer goes to."""

    seen: Seen
    writer: asyncio.StreamWriter
    gone: asyncio.Event
    """Set as soon as the client has closed the connection."""
    sent: list[bytes] = field(default_factory=list)
    """The pieces that have been written of the body."""

    async def play(self, reply: Reply) -> None:
        """Give an answer, step by step; ConnectionError where the client left or it is to break off."""
        headers = list(reply.headers)
        body = reply.body
        if body is not None:
            headers.append(("Content-Length", str(len(body))))
            await self._raw(self._head(reply.status, headers) + (b"" if self.seen.method == "HEAD" else body))
            return
        headers.append(("Transfer-Encoding", "chunked"))
        await self._raw(self._head(reply.status, headers))
        for step in reply.steps:
            await self._step(step)
        await self._raw(b"0\r\n\r\n")

    async def _step(self, step: Step) -> None:
        if isinstance(step, bytes):
            await self._raw(b"%x\r\n%b\r\n" % (len(step), step))
            self.sent.append(step)
        elif isinstance(step, float):
            await self._unless_gone(asyncio.sleep(step))
        elif step in (Play.HANG, Play.BREAK_FRAMING):
            if step is Play.BREAK_FRAMING:
                await self._raw(b"no size of a chunk\r\n")
            await self.gone.wait()
            raise ConnectionAbortedError
        elif step is Play.BREAK_OFF:
            raise ConnectionAbortedError
        elif isinstance(step, threading.Event):
            while not step.is_set():
                await self._unless_gone(asyncio.sleep(0.002))

    async def _unless_gone(self, work: Awaitable[None]) -> None:
        await work
        if self.gone.is_set():
            raise ConnectionAbortedError

    async def _raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    @staticmethod
    def _head(status: int, headers: Sequence[tuple[str, str]]) -> bytes:
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Upstream:
    """The server: `play` scripts one answer, `always` all of a path; without either it echoes."""

    def __init__(self, *, responses: bool = True) -> None:
        self.url = ""
        """Its address with /v1, as a client is given it."""
        self.responses = responses
        """Whether it has a Responses API."""
        self.begun: list[str] = []
        """The path of each request of which the head has come, if not yet its body."""
        self.seen: list[Seen] = []
        self.exchanges: list[Exchange] = []
        self.gone = 0
        """Requests whose client left before its answer was whole."""
        self.connections = 0
        """Connections that were ever opened to it."""
        self._once: defaultdict[str, deque[Script]] = defaultdict(deque)
        self._always: dict[str, Script] = {}
        self._changed = threading.Condition()

    def play(self, path: str, *scripts: Script) -> None:
        """Answer the next requests of a path so, one each."""
        self._once[path].extend(scripts)

    def always(self, path: str, script: Script | None) -> None:
        """Answer every request of a path so, or no longer."""
        if script is None:
            self._always.pop(path, None)
        else:
            self._always[path] = script

    def chat(self, *scripts: Script) -> None:
        """Answer the next chats so."""
        self.play("/v1/chat/completions", *scripts)

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    def of(self, path: str) -> list[Seen]:
        """All requests of a path."""
        return [each for each in self.seen if each.path == path]

    def clear(self) -> None:
        """Forget what was asked and scripted."""
        self.begun.clear()
        self.seen.clear()
        self.exchanges.clear()
        self._once.clear()
        self._always.clear()
        self.gone = 0

    def until(self, holds: Callable[[], bool], seconds: float = 20) -> bool:
        """Wait until something holds of it; whether it does."""
        with self._changed:
            return self._changed.wait_for(holds, seconds)

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def connected(self, reader: _Reader, writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        """Serve one connection until it ends."""
        self.connections += 1
        self._tell()
        try:
            while (seen := await _request(reader, self._begins)) is not None:
                exchange = Exchange(seen, writer, gone)
                self.seen.append(seen)
                self.exchanges.append(exchange)
                self._tell()
                await self._answer(exchange)
        except (ConnectionError, asyncio.IncompleteReadError):
            if gone.is_set():
                self.gone += 1
        finally:
            writer.transport.abort()
            self._tell()

    def _begins(self, target: str) -> None:
        self.begun.append(target)
        self._tell()

    async def _answer(self, exchange: Exchange) -> None:
        path = exchange.seen.path
        script: Script | None = self._once[path].popleft() if self._once[path] else self._always.get(path)
        if script is None:
            try:
                script = self._default(exchange.seen)
            except (ValueError, LookupError, AttributeError, TypeError):
                script = Reply.error(400, "no such request is known here")
        if isinstance(script, Reply):
            await exchange.play(script)
        else:
            await script(exchange)

    def _default(self, seen: Seen) -> Reply:
        if seen.path == "/v1/models":
            return Reply.of_json(MODELS)
        if seen.path == "/v1/chat/completions" and seen.method == "POST":
            return echo_chat(seen.json)
        if seen.path == "/v1/responses" and self.responses and seen.method == "POST":
            return echo_response(seen.json)
        if seen.path.startswith("/v1/responses"):
            return Reply.of_json({"error": {"message": "no such route", "type": "not_found"}}, status=404)
        return Reply(headers=[("Content-Type", "application/octet-stream")], body=seen.body or b"nothing was sent")


async def _request(reader: asyncio.StreamReader, begins: Callable[[str], None]) -> Seen | None:
    """The next request of a connection, or None at its end; `begins` is told its target once its head has come."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    begins(target)
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    told = {name.lower(): value for name, value in headers}
    if told.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    else:
        body = await reader.readexactly(int(told.get("content-length", "0")))
    return Seen(method, target, headers, body)


@contextmanager
def upstream(*, responses: bool = True) -> Iterator[Upstream]:
    """Run one in a thread of its own, on a free port."""
    found = Upstream(responses=responses)
    loop = asyncio.new_event_loop()
    tasks: set[asyncio.Task[None]] = set()

    def connection() -> asyncio.StreamReaderProtocol:
        gone = asyncio.Event()
        reader = _Reader(gone)

        def begin(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = loop.create_task(found.connected(reader, writer, gone))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        return asyncio.StreamReaderProtocol(reader, begin)

    async def listen() -> asyncio.Server:
        return await loop.create_server(connection, "127.0.0.1", 0)

    async def end() -> None:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    server = loop.run_until_complete(listen())
    thread = threading.Thread(target=loop.run_forever, name="scripted-upstream", daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
