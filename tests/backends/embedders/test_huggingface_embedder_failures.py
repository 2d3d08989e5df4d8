"""Hugging Face's embedder where its service answers that something failed, or answers nonsense."""

from __future__ import annotations

import pytest

from tests.backends.embedders.embedder_calls import JSON, always
from tests.backends.embedders.huggingface_vectors import fails
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
