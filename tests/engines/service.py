"""A service that cannot be had here, played by a strict fake: an HTTP server in this process, or in one of its own."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.backends.wire.server import Heard, Reply


class Service(ABC):
    """What is served; one request is answered at a time."""

    def __init__(self) -> None:
        self.heard: deque[Heard] = deque(maxlen=1000)
        """The last requests, in order."""
        self.faults: deque[Reply] = deque()
        """Given to the next requests instead of an answer, one each."""
        self.address = ""
        self._lock = threading.Lock()

    @abstractmethod
    def respond(self, request: Heard) -> Reply:
        """The answer to one request."""

    def answer(self, request: Heard) -> Reply:
        """The next fault, or else the answer."""
        with self._lock:
            self.heard.append(request)
            return self.faults.popleft() if self.faults else self.respond(request)


class Server:
    """Serves on 127.0.0.1 from `start` to `stop`; started again, on the port that it had."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.port = 0
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()

    def start(self) -> None:
        service, connections = self.service, self._open

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1  # head and body in one packet

            def setup(self) -> None:
                super().setup()
                connections.add(self.connection)

            def finish(self) -> None:
                connections.discard(self.connection)
                super().finish()

            def reply(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                query = parse_qs(parts.query, keep_blank_values=True)
                answer = service.answer(Heard(self.command, parts.path, query, headers, self.rfile.read(length)))
                time.sleep(answer.wait)
                if answer.reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = reply

            def log_message(self, *args: object) -> None:
                pass

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that goes away is what some tests are about."""

        self._server = Listener(("127.0.0.1", self.port), Handler)
        self.port = int(self._server.server_address[1])
        service.address = self.address
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop, and break off what is open, as a machine that goes down does."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            for connection in list(self._open):
                connection.close() if connection.fileno() < 0 else connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def serve(service: Service) -> None:
    """Serve until standard input ends, which it does with the process that started this one."""
    with Server(service) as server:
        print(server.address, flush=True)
        sys.stdin.read()


class Process:
    """A module that calls `serve`, in a process of its own."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout
        self.address = self._process.stdout.readline().strip()
        assert self.address, f"{module} did not start"

    def stop(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
