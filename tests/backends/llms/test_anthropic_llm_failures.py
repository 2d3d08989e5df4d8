"""Anthropic's provider when the service, the network or the answer fails."""

from __future__ import annotations

import asyncio
import json
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
from tests.backends.wire.anthropic import KEY, AnthropicWire, error, events, failure
from tests.backends.wire.server import Reply

T = TypeVar("T")
Start = Callable[..., tuple[LLM, AnthropicWire]]

TURNS = [Message("user", "m")]
STARTED = ("message_start", {"type": "message_start", "message": {"id": "msg", "type": "message", "role": "assistant",
           "model": "m", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}})  # fmt: skip
BEGUN = ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": {"type": "text",
         "text": ""}})  # fmt: skip
ONCE = ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta",
        "text": "Once"}})  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """The client loads parts of itself with the first request, which must not count as the service's time."""
    with AnthropicWire("ok", "ok") as wire:
        llm = build("llms", "anthropic", {"api_key": KEY, "base_url": wire.address})
        assert run(llm.generate("s", "m")) == "ok"
        assert "".join(run(collected(llm.stream("s", TURNS)))) == "ok"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server that gives the answers, and a provider that asks it; keywords are settings."""
    with ExitStack() as stack:

        def start_one(*answers: Any, **settings: Any) -> tuple[LLM, AnthropicWire]:
            wire = stack.enter_context(AnthropicWire(*answers))
            config = {"api_key": KEY, "base_url": wire.address, "retries": 2, "retry_delay": 0, **settings}
            return build("llms", "anthropic", config), wire

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
FINAL = {"quota": "quota", "authentication": "authentication", "permission": "authentication",
         "not_found": "llm_error", "too_large": "llm_error"}  # fmt: skip


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


def test_a_spent_limit_is_no_rate_limit(start: Start) -> None:
    details = {"error_code": "enforced_spend_limit_reached"}
    spent = {"type": "rate_limit_error", "message": "You have reached your limit.", "details": details}
    low = error(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.")
    llm, wire = start(Reply.of({"type": "error", "error": spent}, 429), low)
    assert fails(llm.generate("s", "m")).code == "quota"
    assert fails(llm.generate("s", "m")).code == "quota"
    assert len(wire.heard) == 2


def test_a_wrong_request_is_told_in_the_services_words(start: Start) -> None:
    llm, wire = start()
    told = fails(llm.generate_with_tool_calls("s", "m", [{"name": "not a name"}]))
    assert "status 400: tools.0.custom.name: String should match pattern" in str(told)
    assert told.code == "llm_error"
    assert len(wire.heard) == 1


def test_the_wait_doubles_unless_the_service_says_how_long(start: Start, waits: list[float]) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    headers = [{}, {}, {"retry-after": "7"}, {"retry-after": soon}, {"retry-after": past}, {"retry-after": "soon"}]
    llm, wire = start(*[failure("rate_limit", **each) for each in headers], "ok", retries=6, retry_delay=1)
    assert run(llm.generate("s", "m")) == "ok"
    assert len(wire.heard) == 7
    assert waits[:3] == [1, 2, 7]
    assert 0 < waits[3] <= 30
    assert waits[4:] == [0, 32]


def test_a_slow_answer_is_a_timeout_and_is_not_asked_again(start: Start) -> None:
    llm, wire = start({"error": "timeout"}, {"error": "timeout"}, timeout=0.5)
    assert fails(llm.generate("s", "m")).code == "timeout"
    assert fails(collected(llm.stream("s", TURNS))).code == "timeout"
    assert len(wire.heard) == 2


def test_a_stream_that_stops_talking_is_a_timeout(start: Start) -> None:
    silent = events([STARTED, BEGUN, ONCE])
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
    kind = "text/event-stream" if streamed else "application/json"
    first = b"".join(events([STARTED, BEGUN, ONCE]).pieces or []) if streamed else b'{"content": ['
    then = b": on\n" if streamed else b" "
    llm, wire = start(Reply(headers={"content-type": kind}, pieces=endless(talking, given_up, first, then)))

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


MESSAGE = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
BROKEN = {
    "no JSON": Reply(body=b"<html>busy</html>", headers={"content-type": "text/html"}),
    "cut JSON": Reply(body=b'{"id": "msg", "content": [{"type"', headers={"content-type": "application/json"}),
    "nothing": Reply(headers={"content-type": "application/json"}),
    "a list": Reply.of([]),
    "no content": Reply.of(MESSAGE),
    "content is no list": Reply.of({**MESSAGE, "content": "words"}),
    "a call without an object": Reply.of({**MESSAGE, "content": [{"type": "tool_use", "name": "t", "input": "x"}]}),
    "empty content": Reply.of({**MESSAGE, "content": []}),
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
    llm, _ = start(Reply.of({**MESSAGE, "content": [{"type": "text", "text": "ok"}]}))
    assert run(llm.generate("s", "m")) == "ok"


def test_a_connection_that_breaks_in_the_middle_of_an_answer_is_tried_again(start: Start) -> None:
    half = Reply(headers={"content-type": "application/json"}, pieces=[b'{"content": ['], reset=True)
    llm, wire = start(half, "ok")
    assert run(llm.generate("s", "m")) == "ok"
    assert len(wire.heard) == 2


OVERLOADED = ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
REVOKED = ("error", {"type": "error", "error": {"type": "authentication_error", "message": f"bad key {KEY}"}})
STREAMS = {
    "reset": (events([STARTED, BEGUN, ONCE], reset=True), "connection"),
    "ended early": (events([STARTED, BEGUN, ONCE]), "connection"),
    "overloaded": (events([STARTED, BEGUN, ONCE, OVERLOADED]), "server"),
    "revoked": (events([STARTED, BEGUN, ONCE, REVOKED]), "authentication"),
    "unknown error": (events([STARTED, BEGUN, ONCE, ("error", {"type": "error"})]), "server"),
    "no JSON": (Reply(headers={"content-type": "text/event-stream"},
                      pieces=[*(events([STARTED, BEGUN, ONCE]).pieces or []),
                              b"event: content_block_delta\ndata: {oops\n\n"]), "llm_error"),
    "wrong shape": (events([STARTED, BEGUN, ONCE, ("message_delta", {"type": "message_delta", "delta": [1]})]),
                    "llm_error"),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_breaks_off_is_an_error_after_what_came(start: Start, name: str) -> None:
    reply, code = STREAMS[name]
    reply = Reply(headers=reply.headers, pieces=list(reply.pieces or []), reset=reply.reset)
    llm, wire = start(reply)
    kept: list[str] = []
    told = fails(collected(llm.stream("s", TURNS), kept))
    assert told.code == code
    assert kept == ["Once"]
    assert len(wire.heard) == 1


def test_what_is_no_stream_is_an_error(start: Start) -> None:
    llm, _ = start(Reply(body=b"<html>busy</html>", headers={"content-type": "text/html"}))
    assert fails(collected(llm.stream("s", TURNS))).code == "connection"


def test_the_key_is_in_no_error_no_log_and_no_repr(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    wrong = f"wrong-{KEY}"
    llm, _ = start(error(400, "invalid_request_error", f"bad: {wrong}"), api_key=wrong)
    with caplog.at_level(logging.DEBUG, logger="perdure"):
        told = fails(llm.generate("s", "m"))
    assert told.code == "authentication"  # the server repeats the key in its refusal
    assert told.__cause__ is None and told.__context__ is None
    assert wrong not in caplog.text
    assert wrong not in repr(llm) + repr(vars(llm))
    assert json.dumps(wrong) not in str(vars(llm)["_settings"])
