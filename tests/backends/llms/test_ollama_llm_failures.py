"""Ollama's language models where something fails: the server, an answer, a stream."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest

from perdure.backends.http import service
from perdure.backends.llms.ollama import OllamaLLM
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from tests.backends.llms.ollama_calls import (
    GOOD,
    JSON,
    REMEMBER,
    Work,
    at,
    fails,
    hello,
    make,
    streamed,
)
from tests.backends.wire.ollama import OllamaWire, Says, failure, line
from tests.backends.wire.server import Heard, Reply


# ------------------------------------------------------------------ what fails
@pytest.mark.parametrize(
    ("reply", "code", "requests"),
    [
        (Reply.of({"error": "invalid options"}, 400), "llm_error", 1),
        (failure("authentication"), "authentication", 1),
        (failure("forbidden"), "authentication", 1),
        (Reply.of({"error": "took too long"}, 408), "timeout", 1),
        (failure("rate_limit"), "rate_limit", 3),
        (failure("server"), "server", 3),
        (failure("busy"), "server", 3),
        (Reply(502, b"<html>Bad Gateway</html>"), "server", 3),
        (Reply.of(["no object"], 500), "server", 3),
        (Reply.of({"error": {"message": "as OpenAI has it"}}, 500), "server", 3),
        (Reply(reset=True), "connection", 3),
        (Reply(500, b"half", {"content-length": "900"}), "connection", 3),
    ],
)
@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_every_status_has_its_code_and_one_layer_of_retries(
    work: Work[Any], reply: Reply, code: str, requests: int
) -> None:
    with OllamaWire(*[reply] * 3) as wire:
        assert fails(wire, work).code == code
    assert len(wire.heard) == requests


@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_what_passes_by_itself_is_tried_again(work: Work[Any]) -> None:
    with OllamaWire(failure("busy"), failure("connection"), "at last") as wire:
        assert "".join(at(wire, work)) == "at last"
    assert len(wire.heard) == 3


@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_retry_after_is_honoured(work: Work[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(service, "with_retry", partial(service.with_retry, sleep=sleep))
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    answers = [
        Reply(429, b'{"error": "slow down"}', {**JSON, "retry-after": "7"}),
        Reply(503, b"", {"retry-after": later}),
        Reply(503, b"", {"retry-after": "soon"}),
        "at last",
    ]
    with OllamaWire(*answers) as wire:
        assert "".join(at(wire, work, retries=3, retry_delay=0.25)) == "at last"
    assert waits[0] == 7.0
    assert 20 < waits[1] <= 30
    assert waits[2] == 1.0  # the third wait by the usual rule


@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_a_model_that_was_not_pulled(work: Work[Any]) -> None:
    with OllamaWire() as wire:
        error = fails(wire, work, model="mistral:7b")
    assert "mistral:7b" in str(error)
    assert "`ollama pull mistral:7b`" in str(error)
    assert len(wire.heard) == 1


def test_an_address_with_a_path_too_many() -> None:
    with OllamaWire() as wire:
        error = fails(wire, base_url=f"{wire.address}/v1")
    assert "base_url" in str(error)
    assert "/v1/api/chat" in str(error)


def test_an_address_below_a_path_is_used_whole() -> None:
    def below(request: Heard) -> Reply | None:
        return Reply.of({"message": GOOD, "done": True}) if request.path == "/ollama/api/chat" else None

    with OllamaWire(intercept=below) as wire:
        assert at(wire, hello, base_url=f"{wire.address}/ollama/") == "hello"


@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_a_server_that_does_not_run(work: Work[Any]) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        llm = make(f"http://127.0.0.1:{port}", retries=1)
        with pytest.raises(LLMError) as caught:
            asyncio.run(work(llm))
    assert caught.value.code == "connection"
    assert "`ollama serve`" in str(caught.value)
    assert f"127.0.0.1:{port}" in str(caught.value)


def test_models_say_what_they_cannot_do() -> None:
    with OllamaWire() as wire:
        error = fails(wire, lambda llm: llm.generate_with_tool_calls("", "m", [REMEMBER]), model="gemma2")
        assert "does not support tools" in str(error)
        assert "does not support thinking" in str(fails(wire, think="high"))


def test_a_prompt_that_the_server_refuses_as_too_long() -> None:
    with OllamaWire(Reply.of({"error": "the input length exceeds the context length"}, 400)) as wire:
        assert fails(wire).code == "length"


@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_no_answer_in_time(work: Work[Any]) -> None:
    with OllamaWire(failure("timeout")) as wire:
        error = fails(wire, work, timeout=0.2)
    assert error.code == "timeout"
    assert len(wire.heard) == 1


def test_a_piece_that_does_not_come_in_time() -> None:
    said = Says("one two three", pause=1.5)
    with OllamaWire(said) as wire:
        assert fails(wire, streamed, timeout=0.3).code == "timeout"


@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_a_cancelled_call_hangs_up_and_is_not_tried_again(work: Work[Any]) -> None:
    async def cancelled(llm: OllamaLLM) -> None:
        task = asyncio.ensure_future(work(llm))
        while not wire.heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not wire.left:
            await asyncio.sleep(0.01)

    with OllamaWire(failure("timeout")) as wire:
        at(wire, cancelled)
    assert len(wire.heard) == len(wire.left) == 1


def test_a_stream_that_is_left_hangs_up() -> None:
    async def first_piece(llm: OllamaLLM) -> str:
        pieces = llm.stream("", [Message("user", "hello")])
        first = await anext(pieces)
        await pieces.aclose()
        while not wire.left:
            await asyncio.sleep(0.01)
        return first

    with OllamaWire(Says("one two three four", pause=0.5)) as wire:
        assert at(wire, first_piece) == "one "


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not JSON",
        b'{"message": {"role": "assistant", "content": "hel',
        b"[1, 2]",
        b"7",
        b"null",
        b"{}",
        b'{"message": "hello", "done": true}',
        b'{"message": {"content": 7}, "done": true}',
        b'{"message": {"role": "assistant", "tool_calls": [{"function": {"name": "remember", "arguments": "{}"}}]}}',
        b"\xff\xfe",
    ],
)
def test_a_broken_answer_is_an_error_and_not_tried_again(body: bytes) -> None:
    with OllamaWire(Reply(200, body, JSON), Reply(200, body, JSON)) as wire:
        assert "not what the service documents" in str(fails(wire))
        assert fails(wire, streamed).code in ("llm_error", "connection")
    assert len(wire.heard) == 2


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    half = Reply(200, b'{"message": {"role": "ass', {**JSON, "content-length": "900"})
    with OllamaWire(half, half, half) as wire:
        assert fails(wire).code == "connection"
    assert len(wire.heard) == 3


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (Says("one two three", breaks_off=2), "connection"),
        (Says("one two three", ends_after=2), "connection"),
        (Says("one two three", error_after=2), "server"),
        (Reply(pieces=[line({"message": GOOD, "done": False}), b"{no JSON\n"]), "llm_error"),
        (Reply(pieces=[line({"message": GOOD, "done": False}), b"[]\n"]), "llm_error"),
        (Reply(pieces=[line({"message": GOOD, "done": False}), b'{"message": 7}\n']), "llm_error"),
    ],
)
def test_a_stream_that_breaks_off_keeps_what_came(said: Any, code: str) -> None:
    got: list[str] = []

    async def collect(llm: OllamaLLM) -> None:
        async for piece in llm.stream("", [Message("user", "hello")]):
            got.append(piece)

    with OllamaWire(said) as wire:
        assert fails(wire, collect).code == code
    assert "".join(got) in ("one two ", "hello")
    assert len(wire.heard) == 1
