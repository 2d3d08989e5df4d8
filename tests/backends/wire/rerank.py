"""Rerankers as Cohere, Jina AI and Voyage AI speak them; strict.

After https://docs.cohere.com/reference/rerank, https://api.jina.ai/redoc and
https://docs.voyageai.com/reference/reranker-api with its page of error codes. A field that is not in a service's
reference is refused. Every byte counts as a token, so that what keeps within a bound here does so anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from threading import Lock
from typing import Any, ClassVar

from tests.backends.wire.server import Heard, Reply, WireServer

KEY = "rerank-test-0123456789abcdef"


def relevance(query: str, text: str) -> float:
    """The share of the words of both that are in both (Jaccard)."""
    asked, read = (set(re.findall(r"\w+", each.lower())) for each in (query, text))
    return len(asked & read) / len(asked | read) if asked | read else 0.0


class RerankWire(WireServer):
    """Scores by shared words at the dialect's path, with the models that it knows.

    `key` None is a server of one's own, which asks for none. `intercept` may reply before anything is checked.
    """

    path: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    models: ClassVar[tuple[str, ...]]
    most_texts: ClassVar[int]
    refused: ClassVar[int]
    """The status of a request that is wrong."""

    def __init__(
        self, *, key: str | None = KEY, intercept: Callable[[Heard], Reply | None] = lambda request: None
    ) -> None:
        super().__init__()
        self.key = key
        self.intercept = intercept
        self._guard = Lock()

    @property
    def base_url(self) -> str:
        return self.address + self.path.removesuffix("/rerank")

    def sizes(self) -> list[int]:
        """How many texts each request held, in order."""
        return [len(request.json["documents"]) for request in self.heard]

    def error(self, status: int, said: str) -> Reply:
        """The service's refusal in its own words."""
        return Reply.of({"detail": said}, status)

    def answer(self, body: dict[str, Any], ranked: list[dict[str, Any]]) -> Reply:
        """The service's answer around the ranked results."""
        raise NotImplementedError

    def respond(self, request: Heard) -> Reply:
        with self._guard:
            early = self.intercept(request)
        if early is not None:
            return early
        if (request.method, request.path) != ("POST", self.path):
            return self.error(404, f"nothing at {request.path}")
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return self.error(401, f"invalid key {request.headers.get('authorization', '')[:16]}")
        if request.headers.get("content-type") != "application/json":
            return self.error(self.refused, "the body is no JSON")
        try:
            body = json.loads(request.body.decode())
        except ValueError:
            return self.error(self.refused, "the body is no JSON")
        fault = self.fault(body)
        if fault:
            return self.error(self.refused, fault)
        if body["model"] not in self.models:
            return self.error(404, f"model '{body['model']}' not found")
        ranked = [
            {"index": index, "relevance_score": relevance(body["query"], text)}
            for index, text in enumerate(body["documents"])
        ]
        ranked.sort(key=lambda result: -result["relevance_score"])
        return self.answer(body, ranked)

    def fault(self, body: Any) -> str | None:
        """What is wrong with a request."""
        if (
            not isinstance(body, dict)
            or not {"model", "query", "documents"} <= set(body)
            or set(body) - set(self.fields)
        ):
            return "the fields are not those of the reference"
        texts = body["documents"]
        if not isinstance(body["model"], str) or not isinstance(body["query"], str) or not isinstance(texts, list):
            return "a field has the wrong type"
        if not all(isinstance(text, str) for text in texts):
            return "documents must be texts"
        if not texts:
            return "list of documents must not be empty"
        if len(texts) > self.most_texts:
            return f"{len(texts)} documents, at most {self.most_texts}"
        return None if body["query"] and all(texts) else "query and documents must not be empty"


class CohereWire(RerankWire):
    path = "/v2/rerank"
    fields = ("model", "query", "documents", "top_n", "max_tokens_per_doc", "priority")
    models = ("rerank-v4.0-fast", "rerank-v4.0-pro", "rerank-v5.0-fast")
    most_texts = 1_000
    refused = 400

    def error(self, status: int, said: str) -> Reply:
        return Reply.of({"id": "a1", "message": said}, status)

    def answer(self, body: dict[str, Any], ranked: list[dict[str, Any]]) -> Reply:
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return Reply.of({"id": "a1", "results": ranked, "meta": meta})


class JinaWire(RerankWire):
    path = "/v1/rerank"
    fields = ("model", "query", "documents", "top_n", "return_documents")
    models = ("jina-reranker-v2-base-multilingual", "jina-reranker-m0", "jina-reranker-v3", "jina-colbert-v2")
    most_texts = 1_000
    refused = 422

    def answer(self, body: dict[str, Any], ranked: list[dict[str, Any]]) -> Reply:
        if body.get("return_documents", True):
            ranked = [{**each, "document": {"text": body["documents"][each["index"]]}} for each in ranked]
        return Reply.of({"model": body["model"], "usage": {"total_tokens": 7}, "results": ranked})


class VoyageWire(RerankWire):
    path = "/v1/rerank"
    fields = ("model", "query", "documents", "top_k", "return_documents", "truncation")
    models = ("rerank-2.5", "rerank-2.5-lite", "rerank-1")
    most_texts = 1_000
    refused = 400

    def fault(self, body: Any) -> str | None:
        found = super().fault(body)
        if found:
            return found
        context = 8_000 if body["model"] == "rerank-1" else 32_000
        most = 300_000 if body["model"] == "rerank-1" else 600_000
        query, texts = len(body["query"].encode()), [len(text.encode()) for text in body["documents"]]
        if body.get("truncation", True):
            query = min(query, context // 4)
            texts = [min(text, context - query) for text in texts]
        elif any(query + text > context for text in texts):
            return "a document does not fit into the model's context"
        tokens = query * len(texts) + sum(texts)
        return f"The max allowed tokens per submitted batch is {most}, not {tokens}" if tokens > most else None

    def answer(self, body: dict[str, Any], ranked: list[dict[str, Any]]) -> Reply:
        if body.get("return_documents", False):
            ranked = [{**each, "document": body["documents"][each["index"]]} for each in ranked]
        return Reply.of({"object": "list", "data": ranked, "model": body["model"], "usage": {"total_tokens": 7}})


WIRES: dict[str, type[RerankWire]] = {"cohere": CohereWire, "jina": JinaWire, "voyage": VoyageWire}
