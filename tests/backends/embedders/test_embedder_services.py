"""What the embedders that ask a service over plain HTTP have in common where it fails: retries, waits, cancelling."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np
import pytest

from perdure.backends.embedders.base import Embedder
from perdure.backends.http import service
from perdure.domain.errors import EmbeddingError
from tests.backends.embedders import huggingface_vectors, ollama_vectors
from tests.backends.embedders.embedder_calls import JSON, always, replies
from tests.backends.wire.huggingface import HuggingFaceWire, tei_error
from tests.backends.wire.ollama import OllamaWire, failure
from tests.backends.wire.server import Reply, WireServer


@dataclass(frozen=True)
class Spoken:
    """An embedder and the service that it asks."""

    name: str
    wire: Callable[..., WireServer]
    calls: ModuleType
    """Its `make`, `at`, `embed`, `fails` and `expected`."""
    busy: Reply
    """The service's own way of asking to come back later."""
    half: bytes
    """The beginning of an answer."""
    silent: str
    """What is said where nobody listens."""


SERVICES = [
    Spoken(
        "huggingface",
        HuggingFaceWire,
        huggingface_vectors,
        busy=tei_error("Overloaded", "Model is overloaded"),
        half=b"[[0.1",
        silent=r"no connection to 127\.0\.0\.1",
    ),
    Spoken(
        "ollama",
        OllamaWire,
        ollama_vectors,
        busy=failure("busy"),
        half=b'{"embeddings": [[0.1',
        silent="`ollama serve`",
    ),
]


@pytest.fixture(params=SERVICES, ids=lambda spoken: spoken.name)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    found: Spoken = request.param
    return found


def test_what_passes_by_itself_is_tried_again(spoken: Spoken) -> None:
    with spoken.wire(intercept=replies(spoken.busy, Reply(reset=True))) as wire:
        assert np.allclose(spoken.calls.embed(wire, "tea"), spoken.calls.expected("tea"), atol=1e-6)
    assert len(wire.heard) == 3


def test_an_answer_that_breaks_off_is_tried_again(spoken: Spoken) -> None:
    half = Reply(200, spoken.half, {**JSON, "content-length": "900"})
    with spoken.wire(intercept=replies(half, half)) as wire:
        assert np.allclose(spoken.calls.embed(wire, "tea"), spoken.calls.expected("tea"), atol=1e-6)
    assert len(wire.heard) == 3


PAST = Reply(503, b"", {"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"})


@pytest.mark.parametrize(("second", "wait"), [(PAST, 0.0), (None, 0.5)], ids=["a moment", "nothing"])
def test_retry_after_is_honoured(
    spoken: Spoken, second: Reply | None, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(service, "with_retry", partial(service.with_retry, sleep=sleep))
    slow = Reply(429, b'{"error": "slow down"}', {**JSON, "retry-after": "7"})
    with spoken.wire(intercept=replies(slow, second or spoken.busy)) as wire:
        spoken.calls.embed(wire, "tea", retry_delay=0.25)
    assert waits == [7.0, wait]


def test_a_server_that_does_not_run(spoken: Spoken) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        embedder = spoken.calls.make(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=1)
        with pytest.raises(EmbeddingError, match=spoken.silent) as caught:
            asyncio.run(embedder.embed("tea"))
    assert caught.value.code == "connection"


def test_no_answer_in_time(spoken: Spoken) -> None:
    with spoken.wire(intercept=always(Reply(wait=60))) as wire:
        assert spoken.calls.fails(wire, timeout=0.2).code == "timeout"
    assert len(wire.heard) == 1


def test_a_cancelled_call_hangs_up_and_is_not_tried_again(spoken: Spoken) -> None:
    async def cancelled(embedder: Embedder) -> None:
        task = asyncio.ensure_future(embedder.embed("tea"))
        while not wire.heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not wire.left:
            await asyncio.sleep(0.01)

    with spoken.wire(intercept=always(Reply(wait=60))) as wire:
        spoken.calls.at(wire, cancelled)
    assert len(wire.heard) == len(wire.left) == 1
