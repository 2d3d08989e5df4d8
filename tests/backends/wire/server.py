"""A real HTTP server on a real port: hears requests, keeps them, and replies as a vendor's dialect decides."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Heard:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """What goes back; `pieces` are sent one by one as a stream, each after `pause` seconds."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes] | None = None
    pause: float = 0.0
    wait: float = 0.0
    """Seconds before the first byte; ended early when the server closes."""
    reset: bool = False
    """Break the connection off, without a reply or after the last piece."""

    @classmethod
    def of(cls, value: Any, status: int = 200, **headers: str) -> Reply:
        return cls(status, json.dumps(value).encode(), {"content-type": "application/json", **headers})


class WireServer(ABC):
    """Serves on 127.0.0.1 from `with`; `heard` holds every request in order.

    `left` holds those whose client went away before it had the whole answer. A fault of the server's own, such as a
    request for which a script has no answer, fails the test at the end of `with`.
    """

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.left: list[Heard] = []
        self.faults: list[Exception] = []
        self._closing = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    @abstractmethod
    def respond(self, request: Heard) -> Reply:
        """The reply to one request; called from many threads."""

    @property
    def address(self) -> str:
        assert self._server is not None, "inside `with`"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        wire = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Heard(
                    self.command, parts.path, parse_qs(parts.query, keep_blank_values=True), headers,
                    self.rfile.read(length),
                )  # fmt: skip
                wire.heard.append(request)
                try:
                    reply = wire.respond(request)
                except Exception as fault:
                    wire.faults.append(fault)
                    reply = Reply(status=500, body=b"the wire server itself failed")
                try:
                    wire._send(self, reply)
                except OSError:
                    wire.left.append(request)
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that goes away is what some tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        if self.faults and exc[0] is None:
            raise self.faults[0]

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        self._wait(handler, reply.wait)
        if reply.reset and reply.pieces is None:
            return _break_off(handler)
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if reply.pieces is None:
            if "content-length" not in reply.headers:
                handler.send_header("content-length", str(len(reply.body)))
            else:
                handler.close_connection = True  # a promise that the body does not keep
            handler.end_headers()
            handler.wfile.write(reply.body)
            return None
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for piece in reply.pieces:
            self._wait(handler, reply.pause)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        if reply.reset:
            return _break_off(handler)
        handler.wfile.write(b"0\r\n\r\n")
        return None

    def _wait(self, handler: BaseHTTPRequestHandler, seconds: float) -> None:
        """OSError as soon as the client has gone away, or the server closes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._closing.is_set():
                raise ConnectionAbortedError("the server closes")
            if select.select([handler.connection], [], [], min(left, 0.02))[0]:
                if not handler.connection.recv(1, socket.MSG_PEEK):
                    raise ConnectionResetError("the client went away")
                time.sleep(0.01)  # the next request of a client that does not wait


def _break_off(handler: BaseHTTPRequestHandler) -> None:
    """Close with RST, so that the client sees a connection that failed, not one that ended."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()
