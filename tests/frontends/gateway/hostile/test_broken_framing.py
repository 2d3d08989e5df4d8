"""An answer whose chunks break in the middle, of a server that stays: it is over at once, as any that breaks off."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from perdure.backends.http.upstream import HttpUpstream
from perdure.domain.errors import UpstreamError
from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.responses.test_native import PATH as RESPONSES
from tests.frontends.gateway.scripts import Play, Reply, delta, event, response_events
from tests.frontends.gateway.test_chat import PATH, ask, episodes
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running

SAID = "Once upon a time"


@pytest.fixture(scope="module")
def translated(upstream_client: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Upstream]]:
    """A gateway before a model's server that has only chat."""
    folder = tmp_path_factory.mktemp("translated")
    with upstream(responses=False) as model, gateway_to(folder, model.url, gateway=knowing(model)) as found:
        yield found, model


def broken(first: bytes, gate: threading.Event) -> Reply:
    """A stream that breaks once its first piece has come to the client."""
    return Reply.stream(first, gate, Play.BREAK_FRAMING)


def read_on(answer: httpx.Response, gate: threading.Event) -> bytes:
    """All that comes; the model's server goes on as soon as the first piece is here."""
    told = b""
    for piece in answer.iter_raw():
        told += piece
        gate.set()
    return told


# ------------------------------------------------------------------ streams
@pytest.mark.covers("A32")
def test_a_broken_stream_breaks_off_and_is_kept_so_far(gateway: Running, model: Upstream, who: str) -> None:
    gate = threading.Event()
    model.chat(broken(event(delta(SAID)), gate))
    body = {"messages": [{"role": "user", "content": "Tell me a story"}], "stream": True, "user": who}
    with (
        pytest.raises(httpx.RemoteProtocolError),
        gateway.client.stream("POST", PATH, json=body) as answer,
    ):
        assert answer.status_code == 200
        read_on(answer, gate)
    assert episodes(gateway, user_id=who) == [("user", "Tell me a story"), ("assistant", f"{SAID} […]")]
    assert model.until(lambda: model.gone == 1), "the connection is not used again"


@pytest.mark.parametrize("path", [RESPONSES, "/v1/audio"])
def test_item1_a_broken_stream_that_passes_breaks_off(gateway: Running, model: Upstream, path: str) -> None:
    gate = threading.Event()
    model.play(path, broken(response_events(["Half ", "a ", "sentence"])[:400], gate))
    with (
        pytest.raises(httpx.RemoteProtocolError),
        gateway.client.stream("POST", path, json={"input": "hi", "stream": True}) as answer,
    ):
        read_on(answer, gate)
    assert model.until(lambda: model.gone == 1)


def test_item1_a_broken_stream_fails_the_response_that_it_is_translated_to(
    translated: tuple[Running, Upstream],
) -> None:
    gateway, model = translated
    gate = threading.Event()
    model.chat(broken(event(delta("Half")), gate))
    with gateway.client.stream("POST", RESPONSES, json={"input": "hi", "stream": True}) as answer:
        told = read_on(answer, gate)
    assert b"event: response.failed" in told and b"Half" in told
    assert model.until(lambda: model.gone == 1)


# ------------------------------------------------------------------ whole answers
@pytest.mark.parametrize("before", [(), (b'{"choices"',), (0.05,)], ids=["with-the-head", "with-a-piece", "after-it"])
def test_a_broken_answer_is_502_and_the_next_one_comes(
    gateway: Running, model: Upstream, who: str, before: tuple[Any, ...]
) -> None:
    model.chat(Reply(200, [("Content-Type", "application/json")], steps=[*before, Play.BREAK_FRAMING]))
    answer = ask(gateway, "I live in Porto", user=who)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert episodes(gateway, user_id=who) == []
    assert ask(gateway, "I live in Porto", user=who).status_code == 200


def test_a_broken_answer_to_responses_is_502(translated: tuple[Running, Upstream]) -> None:
    gateway, model = translated
    model.chat(Reply(200, [("Content-Type", "application/json")], steps=[0.05, Play.BREAK_FRAMING]))
    assert gateway.client.post(RESPONSES, json={"input": "hi"}).status_code == 502


# ------------------------------------------------------------------ the port
def test_what_came_whole_is_whole_however_the_connection_ends_then(model: Upstream) -> None:
    """No answer is called broken for a connection that ends after it, as where nothing tells its length."""

    async def asked() -> list[bytes]:
        server = await asyncio.start_server(closing, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        found = HttpUpstream(f"http://{host}:{port}", api_key=None)
        bodies: list[bytes] = []
        for _ in range(3):
            answer = await found.send("GET", "/x", headers=[])
            bodies.append(await answer.read())
            answer.close()
        await found.close()
        server.close()
        await server.wait_closed()
        return bodies

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 300_000)
        await writer.drain()
        writer.close()

    assert asyncio.run(asked()) == [b"x" * 300_000] * 3


def test_who_reads_a_broken_answer_late_hears_of_it_too(model: Upstream) -> None:
    gate = threading.Event()
    model.play("/v1/late", Reply(200, steps=[b"first", gate, Play.BREAK_FRAMING]))

    async def asked() -> None:
        found = HttpUpstream(model.url, api_key=None)
        answer = await found.send("GET", "/v1/late", headers=[])
        gate.set()
        await asyncio.to_thread(model.until, lambda: model.gone == 1, 2)  # httpcore2 looks when it is asked to
        with pytest.raises(UpstreamError):
            await answer.read()
        answer.close()
        await found.close()

    asyncio.run(asked())
