"""Google's Gemini interface, strictly, as its reference has it.

On ai.google.dev: api/generate-content (requests, answers, FinishReason, BlockReason, usage), api/embeddings
(batchEmbedContents), gemini-api/docs/troubleshooting (statuses), gemini-api/docs/embeddings (dimensions, lengths);
errors are google.rpc.Status with the details of google/rpc/error_details.proto.

The words of errors are the service's where they are published or well known, else written after the reference.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic.alias_generators import to_camel

from tests.backends.wire.server import Heard, Reply, WireServer

KEY = "AIzaTest0123456789"
MOST_TEXTS = 100

_PATH = re.compile(r"/v1beta/models/([^/:]+):(generateContent|streamGenerateContent|batchEmbedContents)")
_FIELDS = {
    "contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent",
    "serviceTier", "store",
}  # fmt: skip
_CONFIG = {
    "stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "candidateCount", "maxOutputTokens",
    "temperature", "topP", "topK", "seed", "thinkingConfig",
}  # fmt: skip
_DECLARATION = {"name", "description", "behavior", "parameters", "parametersJsonSchema", "response"}
_EMBED = {"model", "content", "taskType", "title", "outputDimensionality"}
_DIMENSIONS = {"gemini-embedding-001": 3072, "gemini-embedding-2": 3072, "embedder-of-16": 16}
_INFO = "type.googleapis.com/google.rpc."
_ERRORS = {
    "rate_limit": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing."),
    "quota": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing."),
    "server": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "internal": (500, "INTERNAL", "An internal error has occurred."),
    "gateway": (504, "DEADLINE_EXCEEDED", "The request timed out. Please try again."),
    "authentication": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "unauthenticated": (401, "UNAUTHENTICATED", "Request had invalid authentication credentials."),
    "permission": (403, "PERMISSION_DENIED", "Generative Language API has not been used in this project."),
    "not_found": (404, "NOT_FOUND", "models/gemini-none is not found for API version v1beta."),
    "precondition": (400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
}
_VIOLATIONS = {
    "rate_limit": "GenerateRequestsPerMinutePerProjectPerModel",
    "quota": "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
}


class Refused(Exception):
    """The service refuses the request with this status and message."""

    def __init__(self, message: str, status: int = 400, kind: str = "INVALID_ARGUMENT", *details: Any) -> None:
        super().__init__(message)
        self.reply = error(status, kind, message, *details)


class GoogleWire(WireServer):
    """Gives its answers in order; a refused request takes none of them, and embeddings are made from the texts.

    An answer is text, a dict (`text`, `tool_calls`, `thinking`, `reason`, `blocked`, `cached`, or `error`: a key of
    _ERRORS, "timeout" or "connection") or a Reply.
    """

    def __init__(self, *answers: Any, key: str = KEY, most_bytes: int = 10_000_000) -> None:
        super().__init__()
        self._most_bytes = most_bytes
        self._answers = deque(answers)
        self._key = key
        self._guard = threading.Lock()

    def respond(self, request: Heard) -> Reply:
        try:
            if len(request.body) > self._most_bytes:
                raise Refused(f"Request payload size exceeds the limit: {self._most_bytes} bytes.")
            model, method, body = check(request, self._key)
        except Refused as refused:
            return refused.reply
        with self._guard:
            answer = self._answers.popleft() if self._answers else None
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, dict) and "error" in answer:
            return failure(answer["error"])
        if method == "batchEmbedContents":
            return Reply.of(_embeddings(model, body["requests"]))
        whole = _answer(model, body, answer if isinstance(answer, dict) else {"text": answer or ""})
        return events(stream(whole)) if method == "streamGenerateContent" else Reply.of(whole)


def error(status: int, kind: str, message: str, *details: Any, **headers: str) -> Reply:
    value = {"code": status, "message": message, "status": kind, "details": list(details)}
    return Reply.of({"error": value}, status, **headers)


def failure(name: str, *details: Any, **headers: str) -> Reply:
    """The reply for a failure by its name."""
    if name == "timeout":
        return Reply(wait=60)
    if name == "connection":
        return Reply(reset=True)
    if name == "authentication":
        details = (bad_key(),)
    if name in _VIOLATIONS:
        details = (*details, {"@type": f"{_INFO}QuotaFailure", "violations": [{"quotaId": _VIOLATIONS[name]}]})
    return error(*_ERRORS[name], *details, **headers)


def bad_key() -> dict[str, Any]:
    return {"@type": f"{_INFO}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": f"{_INFO}RetryInfo", "retryDelay": delay}


def events(pieces: Iterable[Any], **settings: Any) -> Reply:
    """Server-sent events, each of which is one piece."""
    encoded = (f"data: {json.dumps(data)}\r\n\r\n".encode() for data in pieces)
    return Reply(headers={"content-type": "text/event-stream"}, pieces=encoded, **settings)


def stream(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pieces of a whole answer; each counts the tokens that came so far."""
    if not whole.get("candidates"):
        yield whole
        return
    [candidate] = whole["candidates"]
    for part in candidate["content"]["parts"]:
        for start in range(0, len(part["text"]), 4):
            piece = {**part, "text": part["text"][start : start + 4]}
            said = {"candidates": [{"content": {"parts": [piece], "role": "model"}, "index": 0}]}
            yield {**whole, **said, "usageMetadata": {**whole["usageMetadata"], "candidatesTokenCount": start // 4 + 1}}
    last = {**candidate, "content": {"parts": [{"text": ""}], "role": "model"}}
    yield {**whole, "candidates": [last]}


def check(request: Heard, key: str) -> tuple[str, str, dict[str, Any]]:
    """The model, the method and the body of a request that the service would take; Refused for any other."""
    found = _PATH.fullmatch(request.path)
    if request.method != "POST" or found is None:
        raise Refused("Not found", 404, "NOT_FOUND")
    model, method = found.groups()
    if "key" in request.query or "authorization" in request.headers:
        raise Refused("The key belongs into the header x-goog-api-key.")
    given = request.headers.get("x-goog-api-key")
    if given is None:
        raise Refused("Method doesn't allow unregistered callers.", 403, "PERMISSION_DENIED")
    if given != key:
        raise Refused(f"API key not valid. Please pass a valid API key: {given}", 400, "INVALID_ARGUMENT", bad_key())
    if (method == "streamGenerateContent") != (request.query == {"alt": ["sse"]}):
        raise Refused("Streams come as server-sent events, and other answers do not.")
    body = json.loads(request.body)
    if method == "batchEmbedContents":
        _check_embedding(model, body)
    else:
        _check_fields(body, _FIELDS, "")
        _check_contents(body)
        _check_config(body)
        _check_tools(body)
    return model, method, body


def _check_fields(value: dict[str, Any], known: set[str], where: str) -> None:
    for name in value:
        if name not in known:
            raise Refused(f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.')


def _check_parts(content: dict[str, Any], where: str) -> None:
    _check_fields(content, {"role", "parts"}, f" at '{where}'")
    for number, part in enumerate(content.get("parts") or [{}]):
        _check_fields(part, {"text"}, f" at '{where}.parts[{number}]'")
        if not part.get("text"):
            raise Refused(f"{where}.parts[{number}].data: required oneof field 'data' must have one initialized field")


def _check_contents(body: dict[str, Any]) -> None:
    contents = body.get("contents")
    if not contents:
        raise Refused("* GenerateContentRequest.contents: contents is not specified")
    if "systemInstruction" in body:
        _check_parts(body["systemInstruction"], "system_instruction")
    for number, content in enumerate(contents):
        _check_parts(content, f"contents[{number}]")
        if content.get("role", "user") not in ("user", "model"):
            raise Refused("Please use a valid role: user, model.")
    roles = [content.get("role", "user") for content in contents]
    if roles[0] != "user" or any(first == second for first, second in pairwise(roles)):
        raise Refused("Please ensure that multiturn requests alternate between user and model.")
    if roles[-1] != "user":
        raise Refused("Please ensure that multiturn requests end with a user role or a function response.")


def _check_config(body: dict[str, Any]) -> None:
    config = body.get("generationConfig", {})
    _check_fields(config, _CONFIG, " at 'generation_config'")
    if not 0 <= config.get("temperature", 1) <= 2:
        raise Refused("* GenerateContentRequest.generation_config.temperature: must be in the range [0.0, 2.0].")
    if config.get("maxOutputTokens", 1) < 1:
        raise Refused("* GenerateContentRequest.generation_config.max_output_tokens: must be positive.")
    if config.get("responseMimeType", "text/plain") not in ("text/plain", "application/json"):
        raise Refused("* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are ...")
    if body.get("tools") and config.get("responseMimeType") == "application/json":
        raise Refused("Function calling with a response mime type: 'application/json' is unsupported")


def _check_tools(body: dict[str, Any]) -> None:
    for tool in body.get("tools", []):
        _check_fields(tool, {"functionDeclarations"}, " at 'tools[0]'")
        for number, given in enumerate(tool["functionDeclarations"]):
            where = f"tools[0].function_declarations[{number}]"
            # The service reads both spellings of a field (the JSON mapping of protocol buffers); the client uses both.
            declared = {to_camel(name): value for name, value in given.items()}
            _check_fields(declared, _DECLARATION, f" at '{where}'")
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", declared.get("name", "")):
                raise Refused(f"* GenerateContentRequest.{where}.name: Invalid function name.")
            schema = declared.get("parametersJsonSchema", {"properties": {"any": {}}})
            if not schema.get("properties"):
                raise Refused(f"* GenerateContentRequest.{where}.parameters.properties: should be non-empty for OBJECT")


def _check_embedding(model: str, body: dict[str, Any]) -> None:
    _check_fields(body, {"requests"}, "")
    if model not in _DIMENSIONS:
        raise Refused(f"models/{model} is not found for API version v1beta.", 404, "NOT_FOUND")
    requests = body.get("requests") or []
    if not requests:
        raise Refused("* BatchEmbedContentsRequest.requests: requests is not specified")
    if len(requests) > MOST_TEXTS:
        raise Refused("* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch")
    for number, request in enumerate(requests):
        _check_fields(request, _EMBED, f" at 'requests[{number}]'")
        if request.get("model") != f"models/{model}":
            raise Refused(f"* BatchEmbedContentsRequest.requests[{number}].model: must match the batch's model")
        _check_parts(request["content"], f"requests[{number}].content")
        if not 1 <= request.get("outputDimensionality", 1) <= _DIMENSIONS[model]:
            raise Refused(f"* EmbedContentRequest.output_dimensionality: must be in [1, {_DIMENSIONS[model]}]")


def _answer(model: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if "thinking" in answer:
        parts.append({"text": answer["thinking"], "thought": True})
    if answer.get("text"):
        parts.append({"text": answer["text"]})
    for call in answer.get("tool_calls", []):
        arguments = {"args": call["arguments"]} if call["arguments"] else {}
        parts.append({"functionCall": {"id": "f1", "name": call["name"], **arguments}, "thoughtSignature": "c2lnbmVk"})
    prompt = _tokens(json.dumps(body))
    thoughts = _tokens(answer.get("thinking", ""))
    said = _tokens(json.dumps([part for part in parts if "thought" not in part]))
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": said, "totalTokenCount": prompt + said + thoughts}
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    if "cached" in answer:
        usage["cachedContentTokenCount"] = answer["cached"]
    whole: dict[str, Any] = {"usageMetadata": usage, "modelVersion": model, "responseId": "r1"}
    if "blocked" in answer:
        return {**whole, "promptFeedback": {"blockReason": answer["blocked"]}}
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": answer.get("reason", "STOP"), "index": 0}
    return {"candidates": [candidate], **whole}


def _embeddings(model: str, requests: list[dict[str, Any]]) -> dict[str, Any]:
    vectors = []
    for request in requests:
        text = request["content"]["parts"][0]["text"]
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal(_DIMENSIONS[model])
        vector /= np.linalg.norm(vector)
        # A shorter vector is the beginning of the whole one, and so not of length 1.
        vectors.append({"values": vector[: request.get("outputDimensionality")].tolist()})
    answer: dict[str, Any] = {"embeddings": vectors}
    if model == "gemini-embedding-2":
        counts = [_tokens(request["content"]["parts"][0]["text"]) for request in requests]
        answer["usageMetadata"] = {"promptTokenCount": sum(counts)}
    return answer


def _tokens(text: str) -> int:
    """About as many as the service would count."""
    return len(text) // 4 + 1 if text else 0
