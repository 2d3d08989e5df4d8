"""Cancellation, of any side and at any moment: no request fails for it that somebody waits for."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message

from perdure.backends.http.upstream import HttpUpstream
from perdure.domain.errors import UpstreamError
from perdure.engine.aio.worker import BatchQueue
from tests.frontends.gateway.scripts import Play, Reply, delta, event
from tests.frontends.gateway.test_chat import PATH, ask, episodes, settled
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("A32")

RESPONSES = "/v1/responses"
MOMENTS = [(0.0, steps) for steps in range(0, 40, 2)] + [(n * 0.0005, 0) for n in range(1, 40)]
"""Seconds, and steps of the event loop, after which somebody gives a request up."""


async def given_up_inside(*_: Any, **__: Any) -> Any:
    """What awaits something that somebody else cancels."""
    inside = asyncio.get_running_loop().create_future()
    inside.cancel()
    return await inside


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "this never comes"
        time.sleep(0.005)


# ------------------------------------------------------------------ nobody meant the request
@pytest.mark.covers("V3")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_look_that_is_cancelled_inside_costs_memory_and_no_answer(
    gateway: Running, model: Upstream, who: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.service.engine.kernel.embedding.embedder, "embed", given_up_inside)
    answer = ask(gateway, "What is my cat called?", user=who, stream=stream)
    assert answer.status_code == 200
    told = (answer.headers["x-memory-status"], answer.headers["x-memory-reason"])
    assert told == ("unavailable", "retrieval_error")
    monkeypatch.undo()
    assert ask(gateway, "What is my cat called?", user=who).headers["x-memory-status"] != "unavailable"


@pytest.mark.parametrize("path", [PATH, RESPONSES, "/v1/models"])
def test_work_that_is_cancelled_inside_is_told_as_a_failure(
    gateway: Running, who: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpUpstream, "send", given_up_inside)
    body = {"messages": [{"role": "user", "content": "Hello"}], "input": "Hello", "user": who}
    answer = gateway.client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")


def test_a_connection_that_is_closed_while_its_name_is_looked_up_is_no_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def asked() -> None:
        looking = asyncio.Event()

        async def hangs(*_: Any, **__: Any) -> Any:
            looking.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hangs)
        upstream = HttpUpstream("http://model.test/v1", api_key=None)
        asking = asyncio.create_task(upstream.send("GET", "/v1/models", headers=[]))
        await looking.wait()
        await upstream.close()
        with pytest.raises(UpstreamError):
            await asking
        asking = asyncio.create_task(upstream.send("GET", "/v1/models", headers=[]))
        looking.clear()
        await looking.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await upstream.close()

    asyncio.run(asked())


def test_what_waits_in_a_line_goes_on_after_work_that_was_cancelled_inside(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    async def work(batch: list[int]) -> None:
        if 1 in batch:
            await given_up_inside()
        done.extend(batch)

    async def both() -> None:
        line = BatchQueue(work, apart=lambda before, each: True)
        for number in (1, 2, 3):
            line.put(number)
        await line.so_far()

    asyncio.run(both())
    assert done == [2, 3]
    assert "what waits in a line" in caplog.text


# ------------------------------------------------------------------ the server ends
def give_up_requests(gateway: Running) -> None:
    """What uvicorn does with the requests that have not ended in time when it is told to stop."""

    async def cancel() -> None:
        for task in asyncio.all_tasks():
            if getattr(task.get_coro(), "__name__", "") == "run_asgi":
                task.cancel(msg="Task cancelled, timeout graceful shutdown exceeded")

    gateway.wait(cancel())


@pytest.mark.parametrize("path", [PATH, RESPONSES, "/v1/audio"])
def test_a_request_that_the_ending_server_gives_up_is_503(
    gateway: Running, model: Upstream, who: str, path: str
) -> None:
    async def until_asked(exchange: Any) -> None:
        await asyncio.to_thread(give_up_requests, gateway)
        await exchange.gone.wait()
        raise ConnectionAbortedError

    model.play(path, until_asked)
    body = {"messages": [{"role": "user", "content": "I live in Porto"}], "input": "I live in Porto", "user": who}
    answer = gateway.client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "closed")
    assert model.until(lambda: model.gone == 1), "the model works on for nobody"
    assert ask(gateway, "Hello", user=who).status_code == 200


# ------------------------------------------------------------------ the client leaves
def test_who_leaves_in_the_middle_of_a_request_is_no_fault_of_the_server(
    gateway: Running, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    with caplog.at_level(logging.INFO, "perdure.server"):
        for path in (PATH, RESPONSES):
            with socket.create_connection((host, int(port))) as connection:
                head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n"
                head += "Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"
                connection.sendall(head.encode())
                assert b"100 Continue" in connection.recv(100), "the body is waited for"
                connection.sendall(b'{"messages"')
        until(lambda: len(broken_off(caplog)) == 2)
    assert broken_off(caplog) == [(PATH, 499), (RESPONSES, 499)]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def broken_off(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    """Route and status of each request in the log that did not go well.

    An answer is logged after its client has it: one of the test before may come this late.
    """
    fields = [record.fields for record in caplog.records if record.message == "request" and hasattr(record, "fields")]
    return [(each["route"], each["status"]) for each in fields if each["status"] != 200]


class _Caller:
    """One request straight to the app, given up at a moment: by its client, or by the server that ends."""

    def __init__(self, path: str, body: dict[str, Any], moment: tuple[float, int]) -> None:
        self._path, self._moment = path, moment
        self._body: bytes | None = json.dumps(body).encode()
        self.sent: list[Message] = []

    async def ask(self, app: Any, *, ends: bool) -> None:
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": self._path, "raw_path": self._path.encode(), "query_string": b"", "root_path": "",
            "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        work = asyncio.create_task(app(scope, self._leaves if not ends else self._stays, self._take))
        if ends:
            await self._wait()
            work.cancel()
        done, _ = await asyncio.wait({work}, timeout=30)
        assert done, "the request never ends"
        if not work.cancelled():
            work.result()

    async def _wait(self) -> None:
        seconds, steps = self._moment
        await asyncio.sleep(seconds)
        for _ in range(steps):
            await asyncio.sleep(0)

    async def _leaves(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._wait()
        return {"type": "http.disconnect"}

    async def _stays(self) -> Message:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body or b"", None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _take(self, message: Message) -> None:
        await asyncio.sleep(0)
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return next((each["status"] for each in self.sent if each["type"] == "http.response.start"), None)


@pytest.mark.covers("A32")
@pytest.mark.parametrize("path", [PATH, RESPONSES])
@pytest.mark.parametrize("ends", [False, True], ids=["the-client-leaves", "the-server-ends"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_given_up_at_any_moment_nothing_fails_and_nothing_is_left(
    gateway: Running, model: Upstream, who: str, caplog: pytest.LogCaptureFixture, path: str, ends: bool, stream: bool
) -> None:
    async def all_of_them() -> list[int | None]:
        found: list[int | None] = []
        for place, moment in enumerate(MOMENTS):
            text = f"I live in Porto, said {place}"
            body = {"messages": [{"role": "user", "content": text}], "input": text, "user": who, "stream": stream}
            caller = _Caller(path, body, moment)
            await caller.ask(gateway.app, ends=ends)
            found.append(caller.status)
        return found

    with caplog.at_level(logging.WARNING):
        statuses = gateway.wait(all_of_them())
    assert set(statuses) <= ({None, 200, 503} if ends else {None, 200})
    assert {None, 503} & set(statuses), "or none was given up"
    settled(gateway)
    kept = [text for role, text in episodes(gateway, user_id=who) if role == "user"]
    assert len(kept) == len(set(kept)), "a turn is kept once"
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert {record.getMessage().partition(":")[0] for record in errors} <= {"ClosedError"}
    assert ask(gateway, "Hello", user=who).status_code == 200


def test_a_stream_that_the_ending_server_gives_up_is_kept_so_far(gateway: Running, model: Upstream, who: str) -> None:
    model.chat(Reply.stream(event(delta("Once upon ")), Play.HANG))

    async def ask_and_end() -> int | None:
        body = {"messages": [{"role": "user", "content": "Tell me a story"}], "user": who, "stream": True}
        caller = _Caller(PATH, body, (0.0, 0))
        caller._wait = lambda: _until(lambda: len(caller.sent) > 1)  # type: ignore[method-assign]
        await caller.ask(gateway.app, ends=True)
        return caller.status

    assert gateway.wait(ask_and_end()) == 200
    assert episodes(gateway, user_id=who) == [("user", "Tell me a story"), ("assistant", "Once upon […]")]


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)
