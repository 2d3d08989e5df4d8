"""Half-sent requests are given up (request_timeout.py), on real sockets, with both of uvicorn's parsers."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.frontends.gateway.upstream import upstream
from tests.frontends.server.running import Running, running
from tests.frontends.server.served import served

BODY = json.dumps({"query": "tea", "user_id": "ana"}).encode()
HEAD = b"POST /v1/memories/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
HALF = {
    "nothing": b"",
    "a line": b"POST /v1/memories/search HT",
    "a head": HEAD,
    "a body": HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:5],
    "a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY[:5],
    "of a chat": HEAD.replace(b"/v1/memories/search", b"/v1/chat/completions") + b"Content-Length: 90\r\n\r\n{",
    "of what is passed on": HEAD.replace(b"/v1/memories/search", b"/v1/files") + b"Content-Length: 90\r\n\r\n{",
}


@pytest.fixture(scope="module", params=["h11", "httptools"])
def hurried(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that waits for a second, before a model's."""
    parser: Literal["h11", "httptools"] = request.param
    folder = tmp_path_factory.mktemp("memory")
    with (
        upstream() as model,
        running(
            folder, http=parser, settings={"request_seconds": 1}, gateway={"upstream": {"base_url": model.url}}
        ) as found,
    ):
        yield found


def connect(server: Running) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def rest(connection: socket.socket) -> bytes:
    """What is answered until the server closes the connection, which it must."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize("sent", HALF.values(), ids=list(HALF))
def test_half_a_request_is_given_up(hurried: Running, sent: bytes) -> None:
    with connect(hurried) as connection:
        connection.sendall(sent)
        told = rest(connection)
    if sent:
        assert b"HTTP/1.1 408" in told
    assert hurried.client.get("/healthz").status_code == 200


def test_a_byte_now_and_then_is_half_a_request_too(hurried: Running) -> None:
    for slow in (b"", HEAD + b"Content-Length: 100000\r\n\r\n"):
        with connect(hurried) as connection:
            told = b""
            connection.sendall(slow or b"GET /")
            connection.settimeout(0.05)
            for byte in b"x" * 2_000:
                try:
                    connection.sendall(bytes([byte]))
                    told += connection.recv(1000)
                except TimeoutError:
                    continue
                except OSError:
                    break
                if told:
                    break
            assert told.startswith(b"HTTP/1.1 408")


def test_a_body_that_comes_steadily_is_taken(hurried: Running) -> None:
    """Longer under way than a second, and never slower than it may be."""
    body = json.dumps({"query": "tea", "user_id": "ana", "filters": {"tag": "x" * 30_000}}).encode()
    with connect(hurried) as connection:
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 6_000):
            connection.sendall(body[start : start + 6_000])
            time.sleep(0.4)
        assert rest(connection).startswith(b"HTTP/1.1 200")


def test_a_connection_is_kept_between_requests(hurried: Running) -> None:
    with connect(hurried) as connection:
        for _ in range(3):
            connection.sendall(WHOLE)
            told = b""
            while not told.endswith(b"}"):
                told += connection.recv(65536)
            assert told.startswith(b"HTTP/1.1 200")
            time.sleep(1.3)
        connection.sendall(HEAD)
        assert rest(connection).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_program_gives_up_as_its_setting_says(tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n[server]\nrequest_seconds = 1\n')
    with served(folder, "--workers", workers) as found:
        address = found.told["url"].removeprefix("http://").split(":")
        for sent in (HALF["a head"], HALF["a body"]):
            with socket.create_connection((address[0], int(address[1])), timeout=60) as connection:
                connection.sendall(sent)
                assert rest(connection).startswith(b"HTTP/1.1 408")
