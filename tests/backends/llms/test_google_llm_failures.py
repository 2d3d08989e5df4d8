"""Google's language models when the service, the network or the answer fails."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any, TypeVar

import pytest

from perdure.backends.http import service
from perdure.backends.http.service import with_retry
from perdure.backends.llms.base import LLM
from perdure.backends.registry import build
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from tests.backends.wire.google import KEY, GoogleWire, error, events, failure, retry_info
from tests.backends.wire.server import Reply

T = TypeVar("T")
Start = Callable[..., tuple[LLM, GoogleWire]]

TURNS = [Message("user", "m")]
ONCE = {"candidates": [{"content": {"parts": [{"text": "Once"}], "role": "model"}, "index": 0}]}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """The client loads parts of itself with the first request, which must not count as the service's time."""
    with GoogleWire("ok", "ok") as wire:
        llm = build("llms", "google", {"api_key": KEY, "base_url": wire.address})
        assert run(llm.generate("s", "m")) == "ok"
        assert "".join(run(collected(llm.stream("s", TURNS)))) == "ok"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server that gives the answers, and a provider that asks it; keywords are settings."""
    with ExitStack() as stack:

        def start_one(*answers: Any, **settings: Any) -> tuple[LLM, GoogleWire]:
            wire = stack.enter_context(GoogleWire(*answers))
            config = {"api_key": KEY, "base_url": wire.address, "retries": 2, "retry_delay": 0, **settings}
            return build("llms", "google", config), wire

        yield start_one


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would have been waited between attempts."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(service, "with_retry", partial(with_retry, sleep=sleep))
    return slept


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def fails(work: Coroutine[Any, Any, Any]) -> LLMError:
    with pytest.raises(LLMError) as caught:
        run(work)
    assert KEY not in str(caught.value)
    return caught.value


async def collected(pieces: AsyncIterator[str], kept: list[str] | None = None) -> list[str]:
    kept = [] if kept is None else kept
    async for piece in pieces:
        kept.append(piece)
    return kept


TRANSIENT = {"rate_limit": "rate_limit", "server": "server", "internal": "server", "gateway": "server",
             "connection": "connection"}  # fmt: skip
FINAL = {"quota": "quota", "authentication": "authentication", "unauthenticated": "authentication",
         "permission": "authentication", "not_found": "llm_error", "precondition": "llm_error"}  # fmt: skip


@pytest.mark.parametrize("name", TRANSIENT)
def test_what_passes_by_itself_is_asked_again_and_by_one_layer_alone(start: Start, name: str) -> None:
    llm, wire = start(*[{"error": name}] * 9)
    assert fails(llm.generate("s", "m")).code == TRANSIENT[name]
    assert len(wire.heard) == 3
    assert fails(collected(llm.stream("s", TURNS))).code == TRANSIENT[name]
    assert len(wire.heard) == 6


@pytest.mark.parametrize("name", FINAL)
def test_what_does_not_pass_is_told_at_once(start: Start, name: str) -> None:
    llm, wire = start(*[{"error": name}] * 9)
    assert fails(llm.generate("s", "m")).code == FINAL[name]
    assert fails(llm.generate_with_tool_calls("s", "m", [])).code == FINAL[name]
    assert fails(collected(llm.stream("s", TURNS))).code == FINAL[name]
    assert len(wire.heard) == 3


def test_after_a_failure_that_passed_the_answer_comes(start: Start) -> None:
    llm, wire = start({"error": "server"}, {"error": "connection"}, "ok", {"error": "rate_limit"}, "streamed")
    assert run(llm.generate("s", "m")) == "ok"
    assert "".join(run(collected(llm.stream("s", TURNS)))) == "streamed"
    assert len(wire.heard) == 5


def test_a_wrong_request_is_told_in_the_services_words(start: Start) -> None:
    llm, wire = start()
    told = fails(llm.generate_with_tool_calls("s", "m", [{"name": "not a name"}]))
    assert "status 400: * GenerateContentRequest.tools[0].function_declarations[0].name" in str(told)
    assert told.code == "llm_error"
    assert len(wire.heard) == 1


def test_the_wait_doubles_unless_the_service_says_how_long(start: Start, waits: list[float]) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    failures = [
        failure("rate_limit"),
        failure("rate_limit", retry_info("17s")),
        failure("rate_limit", retry_info("0.5s")),
        failure("rate_limit", retry_info("17s"), **{"retry-after": "7"}),
        failure("rate_limit", **{"retry-after": soon}),
        failure("rate_limit", retry_info("later")),
    ]
    llm, wire = start(*failures, "ok", retries=6, retry_delay=1)
    assert run(llm.generate("s", "m")) == "ok"
    assert len(wire.heard) == 7
    assert waits[:4] == [1, 17, 0.5, 7]
    assert 0 < waits[4] <= 30
    assert waits[5:] == [32]


def test_a_service_that_asks_for_an_hour_is_not_waited_for(start: Start, waits: list[float]) -> None:
    llm, wire = start(failure("rate_limit", retry_info("3600s")), "ok")
    assert fails(llm.generate("s", "m")).code == "rate_limit"
    assert len(wire.heard) == 1
    assert waits == []


def test_a_slow_answer_is_a_timeout_and_is_not_asked_again(start: Start) -> None:
    llm, wire = start({"error": "timeout"}, {"error": "timeout"}, timeout=0.5)
    assert fails(llm.generate("s", "m")).code == "timeout"
    assert fails(collected(llm.stream("s", TURNS))).code == "timeout"
    assert len(wire.heard) == 2


def test_a_stream_that_stops_talking_is_a_timeout(start: Start) -> None:
    silent = events([ONCE])
    silent.pieces = slowly(list(silent.pieces or []))
    llm, _ = start(silent, timeout=1)
    kept: list[str] = []
    assert fails(collected(llm.stream("s", TURNS), kept)).code == "timeout"
    assert kept == ["Once"]


def slowly(pieces: list[bytes]) -> Iterator[bytes]:
    """The pieces, and then nothing for long."""
    yield from pieces
    threading.Event().wait(3)


def endless(talking: threading.Event, given_up: threading.Event, first: bytes, then: bytes) -> Iterator[bytes]:
    """An answer without an end; notes when it began, and when nobody reads it any more."""
    try:
        yield first
        talking.set()
        while True:
            threading.Event().wait(0.02)
            yield then
    finally:
        given_up.set()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_cancelled_call_closes_its_connection_and_asks_nothing_more(start: Start, streamed: bool) -> None:
    talking, given_up = threading.Event(), threading.Event()
    first = b"".join(events([ONCE]).pieces or []) if streamed else b'{"candidates": ['
    then = b": on\n" if streamed else b" "
    llm, wire = start(Reply(headers=JSON, pieces=endless(talking, given_up, first, then)))

    async def cancel_when_asked() -> None:
        work = collected(llm.stream("s", TURNS)) if streamed else llm.generate("s", "m")
        task = asyncio.ensure_future(work)
        assert await asyncio.to_thread(talking.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(given_up.wait, 20), "the server still talks to somebody"

    run(cancel_when_asked())
    assert len(wire.heard) == 1


BROKEN = {
    "no JSON": Reply(body=b"<html>busy</html>", headers={"content-type": "text/html"}),
    "cut JSON": Reply(body=b'{"candidates": [{"content"', headers=JSON),
    "nothing": Reply(headers=JSON),
    "a list": Reply.of([]),
    "no candidates": Reply.of({"candidates": []}),
    "an empty object": Reply.of({}),
    "candidates are no list": Reply.of({"candidates": "words"}),
    "a call without a name": Reply.of({"candidates": [{"content": {"parts": [{"functionCall": {}}]}}]}),
    "a call without an object": Reply.of(
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "t", "args": "x"}}]}}]}
    ),
    "empty content": Reply.of({"candidates": [{"content": {}, "finishReason": "STOP"}]}),
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_answer_is_an_error_and_is_not_asked_again(start: Start, reply: Reply) -> None:
    llm, wire = start(reply, reply, reply)
    for work in (
        llm.generate("s", "m"),
        llm.generate("s", "m", response_format="json"),
        llm.generate_with_tool_calls("s", "m", []),
    ):
        assert fails(work).code == "llm_error"
    assert len(wire.heard) == 3


def test_an_answer_without_counts_is_an_answer(start: Start) -> None:
    llm, _ = start(Reply.of(ONCE))
    assert run(llm.generate("s", "m")) == "Once"


def test_a_connection_that_breaks_in_the_middle_of_an_answer_is_tried_again(start: Start) -> None:
    llm, wire = start(Reply(headers=JSON, pieces=[b'{"candidates": ['], reset=True), "ok")
    assert run(llm.generate("s", "m")) == "ok"
    assert len(wire.heard) == 2


def told(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": kind}}


STREAMS: dict[str, tuple[list[Any], str]] = {
    "ended early": ([ONCE], "connection"),
    "overloaded": ([ONCE, told(503, "UNAVAILABLE", "The model is overloaded.")], "server"),
    "revoked": ([ONCE, told(401, "UNAUTHENTICATED", f"bad key {KEY}")], "authentication"),
    "an error without a code": ([ONCE, {"error": {"message": "oops"}}], "llm_error"),
    # The client passes over a piece of another shape: what is missed then is the end.
    "wrong shape": ([ONCE, {"candidates": "words"}], "connection"),
    "a list": ([ONCE, [1]], "connection"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_breaks_off_is_an_error_after_what_came(start: Start, name: str) -> None:
    pieces, code = STREAMS[name]
    breaks_off(start, events(pieces), code)


def test_a_stream_whose_connection_breaks_is_an_error_after_what_came(start: Start) -> None:
    breaks_off(start, events([ONCE], reset=True), "connection")


def test_a_stream_that_turns_into_noise_is_an_error_after_what_came(start: Start) -> None:
    noise = [*(events([ONCE]).pieces or []), b"data: {oops\r\n\r\n"]
    breaks_off(start, Reply(headers={"content-type": "text/event-stream"}, pieces=noise), "llm_error")


def breaks_off(start: Start, reply: Reply, code: str) -> None:
    llm, wire = start(reply)
    kept: list[str] = []
    assert fails(collected(llm.stream("s", TURNS), kept)).code == code
    assert kept == ["Once"]
    assert len(wire.heard) == 1


@pytest.mark.parametrize("body", [b"<html>busy</html>", b""])
def test_what_is_no_stream_is_an_error(start: Start, body: bytes) -> None:
    llm, wire = start(Reply(body=body, headers={"content-type": "text/html"}))
    assert fails(collected(llm.stream("s", TURNS))).code in ("connection", "llm_error")
    assert len(wire.heard) == 1


def test_the_key_is_in_no_error_no_log_no_address_and_no_repr(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    wrong = f"wrong-{KEY}"
    llm, wire = start(error(400, "INVALID_ARGUMENT", "never reached"), api_key=wrong)
    with caplog.at_level(logging.DEBUG):
        failed = fails(llm.generate("s", "m"))
    assert failed.code == "authentication"  # the server repeats the key in its refusal
    assert failed.__cause__ is None
    assert failed.__context__ is None
    assert wrong not in caplog.text
    assert wrong not in repr(llm) + repr(vars(llm)) + str(vars(llm)["_settings"])
    assert wire.heard[0].query == {}
