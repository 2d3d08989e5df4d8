"""Hugging Face's embedder where something fails."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import numpy as np
import pytest

from perdure.backends import retrying, service
from perdure.backends.embedders.huggingface import HuggingFaceEmbedder
from perdure.domain.errors import EmbeddingError
from tests.backends.embedder_calls import JSON, always, replies
from tests.backends.huggingface_vectors import at, embed, expected, fails, make
from tests.backends.wire.huggingface import HuggingFaceWire, tei_error
from tests.backends.wire.server import Reply


# ------------------------------------------------------------------ what fails
@pytest.mark.parametrize(
    ("reply", "code", "requests"),
    [
        (tei_error("Empty", "`inputs` cannot be empty"), "embedding_error", 1),
        (tei_error("Tokenizer", "Tokenization error"), "embedding_error", 1),
        (tei_error("Backend", "Inference failed"), "server", 3),
        (tei_error("Overloaded", "Model is overloaded"), "rate_limit", 3),
        (tei_error("Unhealthy", "unhealthy"), "server", 3),
        (Reply.of({"error": "Invalid username or password."}, 401), "authentication", 1),
        (Reply.of({"error": "forbidden"}, 403), "authentication", 1),
        (Reply(408), "timeout", 1),
        (Reply.of({"error": ["Error in `inputs`", "no"]}, 400), "embedding_error", 1),
        (Reply(302, b"", {"location": "http://localhost:1/"}), "embedding_error", 1),
        (Reply(500, b"<html>\xff</html>"), "server", 3),
        (Reply(502), "server", 3),
        (Reply(reset=True), "connection", 3),
        (Reply(500, b"half", {"content-length": "900"}), "connection", 3),
    ],
)
def test_every_status_has_its_code_and_one_layer_of_retries(reply: Reply, code: str, requests: int) -> None:
    with HuggingFaceWire(intercept=always(reply)) as wire:
        assert fails(wire).code == code
    assert len(wire.heard) == requests


def test_what_passes_by_itself_is_tried_again() -> None:
    first = (tei_error("Overloaded", "Model is overloaded"), Reply(reset=True))
    with HuggingFaceWire(intercept=replies(*first)) as wire:
        assert np.allclose(embed(wire, "tea"), expected("tea"), atol=1e-6)
    assert len(wire.heard) == 3


def test_retry_after_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(service, "with_retry", partial(retrying.with_retry, sleep=sleep))
    slow = Reply(429, b'{"error": "slow down"}', {**JSON, "retry-after": "7"})
    past = Reply(503, b"", {"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"})
    with HuggingFaceWire(intercept=replies(slow, past)) as wire:
        embed(wire, "tea", retry_delay=0.25)
    assert waits == [7.0, 0.0]


def test_a_server_that_does_not_run() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(EmbeddingError, match=r"no connection to 127\.0\.0\.1") as caught:
            asyncio.run(make(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=1).embed("tea"))
    assert caught.value.code == "connection"


def test_no_answer_in_time() -> None:
    with HuggingFaceWire(intercept=always(Reply(wait=60))) as wire:
        assert fails(wire, timeout=0.2).code == "timeout"
    assert len(wire.heard) == 1


def test_a_cancelled_call_hangs_up_and_is_not_tried_again() -> None:
    async def cancelled(embedder: HuggingFaceEmbedder) -> None:
        task = asyncio.ensure_future(embedder.embed("tea"))
        while not wire.heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not wire.left:
            await asyncio.sleep(0.01)

    with HuggingFaceWire(intercept=always(Reply(wait=60))) as wire:
        at(wire, cancelled)
    assert len(wire.heard) == len(wire.left) == 1


@pytest.mark.parametrize(
    "answer",
    [b"", b"not JSON", b"[[0.1, 0.2", b"{}", b"null", b"7", b"[]", b"[[]]", b"[0.6, 0.8]", b"[[0.6, 0.8], [0.6, 0.8]]",
     b'[["a", "b"]]', b"[[0.6, null]]", b"[[0.0, 0.0]]", b"[[NaN, 1.0]]", b"[[1e999, 1.0]]", b'[{"embedding": []}]',
     b"\xff\xfe"],
)  # fmt: skip
def test_a_broken_answer_is_an_error_and_not_tried_again(answer: bytes) -> None:
    with HuggingFaceWire(intercept=always(Reply(200, answer, JSON))) as wire:
        assert fails(wire, model=None, dimensions=2).code == "embedding_error"
    assert len(wire.heard) == 1


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    half = Reply(200, b"[[0.1", {**JSON, "content-length": "900"})
    with HuggingFaceWire(intercept=replies(half, half)) as wire:
        assert np.allclose(embed(wire, "tea"), expected("tea"), atol=1e-6)
    assert len(wire.heard) == 3
