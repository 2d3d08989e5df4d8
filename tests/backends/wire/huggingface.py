"""Embeddings as text-embeddings-inference, Hugging Face's router and a plain Inference Endpoint speak them; strict.

After https://huggingface.github.io/text-embeddings-inference (POST /embed) and the server's source
(router/src/http/server.rs of https://github.com/huggingface/text-embeddings-inference) for its errors, and
https://huggingface.co/docs/inference-providers/tasks/feature-extraction for the router. A field that is not in the
reference is refused. Four bytes count as a token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any, Literal

from tests.backends.wire.server import Heard, Reply, WireServer
from tests.backends.wire.vectors import vector_of

KEY = "hf_test0123456789abcdefghij"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DIMENSION = 384
_FIELDS = {"inputs", "normalize", "truncate", "truncation_direction", "prompt_name", "dimensions"}


def tei_error(kind: str, text: str) -> Reply:
    """The error of text-embeddings-inference of this type, with the status that belongs to it."""
    status = {"Validation": 413, "Empty": 400, "Tokenizer": 422, "Backend": 424, "Overloaded": 429, "Unhealthy": 503}
    return Reply.of({"error": text, "error_type": kind}, status[kind])


class HuggingFaceWire(WireServer):
    """Embeds at the paths of its kind: `tei`, the `router`, or a plain `endpoint`, which answers at its root alone.

    `most_texts` and `payload` bound a request, `context` a text; `cuts` is whether `truncate` is honoured. `tokens` is
    whether a vector for each token comes back. `intercept` may reply to a request before anything is checked.
    """

    def __init__(
        self,
        kind: Literal["tei", "router", "endpoint"] = "tei",
        *,
        key: str | None = None,
        most_texts: int = 32,
        payload: int = 2_000_000,
        context: int = 512,
        cuts: bool = True,
        tokens: bool = False,
        dimension: int = DIMENSION,
        intercept: Callable[[Heard], Reply | None] = lambda request: None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.key = key
        self.most_texts = most_texts
        self.payload = payload
        self.context = context
        self.cuts = cuts
        self.tokens = tokens
        self.dimension = dimension
        self.intercept = intercept
        self._guard = Lock()

    @property
    def paths(self) -> set[str]:
        return {
            "tei": {"/", "/embed", "/invocations"},
            "router": {f"/hf-inference/models/{MODEL}/pipeline/feature-extraction"},
            "endpoint": {"/"},
        }[self.kind]

    def sizes(self) -> list[int]:
        """How many texts each request held, in order."""
        return [len(request.json["inputs"]) for request in self.heard]

    def respond(self, request: Heard) -> Reply:
        with self._guard:
            early = self.intercept(request)
        if early is not None:
            return early
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return Reply.of({"error": "Invalid username or password."}, 401)
        if request.path not in self.paths:
            return Reply(404, b"" if self.kind == "tei" else b'{"error":"Not Found"}')
        if request.method != "POST":
            return Reply(405)
        if len(request.body) > self.payload:
            return Reply(413, b"Failed to buffer the request body: length limit exceeded")
        if request.headers.get("content-type") != "application/json":
            return Reply(415, b"Expected request with `Content-Type: application/json`")
        try:
            body = json.loads(request.body.decode())
        except ValueError:
            return Reply(400, b"Failed to parse the request body as JSON")
        return self._embed(body)

    def _embed(self, body: Any) -> Reply:
        if not isinstance(body, dict) or set(body) - _FIELDS or "inputs" not in body:
            return Reply(422, b"Failed to deserialize the JSON body into the target type: unknown field")
        inputs = [body["inputs"]] if isinstance(body["inputs"], str) else body["inputs"]
        if not isinstance(inputs, list) or not all(isinstance(text, str) for text in inputs):
            return Reply(422, b"Failed to deserialize the JSON body into the target type: inputs: data did not match")
        if not all(isinstance(body.get(name, True), bool) for name in ("normalize", "truncate")):
            return Reply(422, b"Failed to deserialize the JSON body into the target type: expected a boolean")
        if not inputs:
            return tei_error("Empty", "`inputs` cannot be empty")
        if len(inputs) > self.most_texts:
            text = f"batch size {len(inputs)} > maximum allowed batch size {self.most_texts}"
            return tei_error("Validation", text)
        if not all(inputs):
            return tei_error("Empty", "`inputs` cannot be empty")
        most = 4 * self.context
        longest = max(len(text.encode()) for text in inputs)
        if longest > most and not (self.cuts and body.get("truncate", False)):
            given = f"`inputs` must have less than {self.context} tokens. Given: {longest // 4}"
            return tei_error("Validation", f"Input validation error: {given}")
        wanted = body.get("dimensions", self.dimension)
        if not isinstance(wanted, int) or not 0 < wanted <= self.dimension:
            return tei_error("Validation", f"`dimensions` must be between 1 and {self.dimension}")
        read = [text.encode()[:most].decode(errors="ignore") for text in inputs]
        scale = 1.0 if body.get("normalize", True) else 3.0
        rows = [[scale * float(number) for number in vector_of(text, self.dimension)[:wanted]] for text in read]
        answer: list[Any] = [[row, row] for row in rows] if self.tokens else rows
        count = str(sum(len(text.encode()) // 4 + 2 for text in read))
        headers = {"x-compute-type": "cpu", "x-compute-tokens": count} if self.kind == "tei" else {}
        return Reply.of(answer, 200, **headers)
