"""Ollama's embedder where the server answers that something failed, or answers nonsense."""

from __future__ import annotations

import pytest

from tests.backends.embedders.embedder_calls import JSON, always
from tests.backends.embedders.ollama_vectors import fails
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
    with OllamaWire(intercept=always(Reply(200, body, JSON))) as wire:
        assert fails(wire, model="own-model", dimensions=2).code == "embedding_error"
    assert len(wire.heard) in (1, 2)  # the second asks for shorter vectors


@pytest.mark.parametrize("body", [b"{}", b'{"embedding": []}', b'{"embedding": null}', b'{"embedding": [[1.0]]}'])
def test_a_broken_answer_of_an_old_server(body: bytes) -> None:
    def instead(request: Heard) -> Reply | None:
        return Reply(200, body, JSON) if request.path == "/api/embeddings" else None

    with OllamaWire(old=True, intercept=instead) as wire:
        assert fails(wire).code == "embedding_error"
