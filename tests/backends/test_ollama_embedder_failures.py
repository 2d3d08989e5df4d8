"""Ollama's embedder where something fails."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import pytest

from perdure.backends import retrying, service
from perdure.backends.embedders.ollama import OllamaEmbedder
from perdure.domain.errors import EmbeddingError
from tests.backends.embedder_calls import JSON, replies
from tests.backends.ollama_vectors import at, embed, fails, make
from tests.backends.wire.ollama import OllamaWire, failure
from tests.backends.wire.server import Heard, Reply


# ------------------------------------------------------------------ what fails
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    ("reply", "code", "requests"),
    [
        (Reply.of({"error": "invalid input type"}, 400), "embedding_error", 1),
        (failure("authentication"), "authentication", 1),
        (failure("rate_limit"), "rate_limit", 3),
        (failure("server"), "server", 3),
        (failure("busy"), "server", 3),
        (failure("connection"), "connection", 3),
        (Reply(502, b"<html>Bad Gateway</html>"), "server", 3),
    ],
)
def test_every_status_has_its_code_and_one_layer_of_retries(old: bool, reply: Reply, code: str, requests: int) -> None:
    def instead(request: Heard) -> Reply | None:
        return None if old and request.path == "/api/embed" else reply

    with OllamaWire(old=old, intercept=instead) as wire:
        assert fails(wire).code == code
    assert len(wire.heard) == requests + old


def test_what_passes_by_itself_is_tried_again() -> None:
    with OllamaWire(intercept=replies(failure("busy"), failure("connection"))) as wire:
        assert embed(wire, "tea").shape == (1, 384)
    assert len(wire.heard) == 3


def test_retry_after_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(service, "with_retry", partial(retrying.with_retry, sleep=sleep))
    slow = Reply(429, b'{"error": "slow down"}', {**JSON, "retry-after": "7"})
    with OllamaWire(intercept=replies(slow, failure("busy"))) as wire:
        embed(wire, "tea", retry_delay=0.25)
    assert waits == [7.0, 0.5]


def test_a_server_that_does_not_run() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(EmbeddingError, match="`ollama serve`") as caught:
            asyncio.run(make(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=1).embed("tea"))
    assert caught.value.code == "connection"


def test_no_answer_in_time() -> None:
    with OllamaWire(intercept=lambda request: failure("timeout")) as wire:
        assert fails(wire, timeout=0.2).code == "timeout"
    assert len(wire.heard) == 1


def test_a_cancelled_call_hangs_up_and_is_not_tried_again() -> None:
    async def cancelled(embedder: OllamaEmbedder) -> None:
        task = asyncio.ensure_future(embedder.embed("tea"))
        while not wire.heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not wire.left:
            await asyncio.sleep(0.01)

    with OllamaWire(intercept=lambda request: failure("timeout")) as wire:
        at(wire, cancelled)
    assert len(wire.heard) == len(wire.left) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not JSON",
        b'{"embeddings": [[0.1, 0.2',
        b"[]",
        b"null",
        b"{}",
        b'{"embeddings": []}',
        b'{"embeddings": [[]]}',
        b'{"embeddings": [[0.1], [0.2]]}',
        b'{"embeddings": [[0.6, 0.8, null]]}',
        b'{"embeddings": [["a", "b"]]}',
        b'{"embeddings": [[[0.6, 0.8]]]}',
        b'{"embeddings": [[0.0, 0.0]]}',
        b'{"embeddings": [[NaN, 1.0]]}',
        b'{"embeddings": [[0.6, 0.8, 0.0]]}',
    ],
)
def test_a_broken_answer_is_an_error_and_not_tried_again(body: bytes) -> None:
    with OllamaWire(intercept=lambda request: Reply(200, body, JSON)) as wire:
        assert fails(wire, model="own-model", dimensions=2).code == "embedding_error"
    assert len(wire.heard) in (1, 2)  # the second asks for shorter vectors


@pytest.mark.parametrize("body", [b"{}", b'{"embedding": []}', b'{"embedding": null}', b'{"embedding": [[1.0]]}'])
def test_a_broken_answer_of_an_old_server(body: bytes) -> None:
    def instead(request: Heard) -> Reply | None:
        return Reply(200, body, JSON) if request.path == "/api/embeddings" else None

    with OllamaWire(old=True, intercept=instead) as wire:
        assert fails(wire).code == "embedding_error"


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    half = Reply(200, b'{"embeddings": [[0.1', {**JSON, "content-length": "900"})
    with OllamaWire(intercept=replies(half, half)) as wire:
        assert embed(wire, "tea").shape == (1, 384)
    assert len(wire.heard) == 3
