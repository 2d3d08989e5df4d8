"""OpenAI's chat completions and embeddings as the service speaks them, also at Azure's paths; strict.

After the references https://platform.openai.com/docs/api-reference/chat/create and .../embeddings/create, the guide
https://platform.openai.com/docs/guides/error-codes, and, for Azure,
https://learn.microsoft.com/azure/ai-services/openai/reference. What they forbid is refused with the body that the
service refuses it with. Tokens are counted as bytes: no tokeniser makes more.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from tests.backends.wire.openai_checks import Refusal, check_format, check_messages, check_numbers, check_tools
from tests.backends.wire.server import Heard, Reply, WireServer
from tests.backends.wire.vectors import vector_of

KEY = "sk-test-0123456789abcdefghij"
EMBEDDERS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
CHATS = ("gpt-4o-mini", "gpt-4o", "gpt-4.1-mini")
REASONERS = ("o4-mini", "gpt-5-mini")
LONGEST_INPUT = 8192
_CHAT_FIELDS = {
    "model", "messages", "temperature", "max_tokens", "max_completion_tokens", "response_format", "stream",
    "stream_options", "tools", "tool_choice", "top_p", "n", "stop", "seed", "user", "metadata", "store",
    "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "parallel_tool_calls",
    "reasoning_effort", "service_tier", "modalities", "prediction", "verbosity", "prompt_cache_key",
    "safety_identifier", "web_search_options", "audio",
}  # fmt: skip
_EMBEDDING_FIELDS = {"model", "input", "encoding_format", "dimensions", "user"}
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")


@dataclass(frozen=True)
class Says:
    """What the model answers."""

    text: str | None = None
    calls: tuple[Mapping[str, Any], ...] = ()
    refusal: str | None = None
    finish: str | None = None
    """`finish_reason`; by default stop or tool_calls."""
    tokens: tuple[int, int, int] | None = (20, 7, 0)
    """Read, written, and of those read from the cache; None for a service that does not count."""
    pause: float = 0.0
    """Seconds before each piece of a stream."""
    breaks_off: int | None = None
    """Pieces of a stream that are sent before the connection is reset."""

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def usage(self) -> dict[str, Any] | None:
        if self.tokens is None:
            return None
        read, written, cached = self.tokens
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Arguments that are text already go out as they are."""
        return [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": call["arguments"]
                    if isinstance(call["arguments"], str)
                    else json.dumps(call["arguments"]),
                },
            }
            for number, call in enumerate(self.calls)
        ]


def failure(name: str) -> Reply:
    """The reply of a service that fails: one of rate_limit, quota, server, overloaded, authentication, filter, ..."""
    if name == "timeout":
        return Reply(wait=60.0)
    if name == "connection":
        return Reply(reset=True)
    status, error = _FAILURES[name]
    return Reply.of({"error": error}, status)


_FAILURES: dict[str, tuple[int, dict[str, Any]]] = {
    "rate_limit": (429, {
        "message": "Rate limit reached for gpt-4o-mini in organization org-x on requests per min (RPM): Limit 3.",
        "type": "requests", "param": None, "code": "rate_limit_exceeded"}),
    "quota": (429, {
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}),
    "server": (500, {
        "message": "The server had an error while processing your request. Sorry about that!",
        "type": "server_error", "param": None, "code": None}),
    "overloaded": (503, {
        "message": "That model is currently overloaded with other requests.",
        "type": "server_error", "param": None, "code": None}),
    "authentication": (401, {
        "message": "Incorrect API key provided: sk-test-***********ghij. You can find your API key at https://...",
        "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}),
    "forbidden": (403, {
        "message": "Country, region, or territory not supported",
        "type": "request_forbidden", "param": None, "code": "unsupported_country_region_territory"}),
    "filter": (400, {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "type": None, "param": "prompt", "code": "content_filter"}),
    "too_long": (400, {
        "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000.",
        "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}),
}  # fmt: skip


class Asked(NamedTuple):
    """Where a request is for: the model, and whether by Azure's path."""

    model: str
    azure: bool


class OpenAIWire(WireServer):
    """Answers chats with `answers` in order, and embeds.

    An answer is text, a Says, a Reply as it is, or what the contract suites use: {"tool_calls", "text"?} or
    {"error": name}. `unknown` are parameters that this service does not know, `deployments` Azure's names of models.
    `intercept` may reply to a request before anything is checked. `models` are embedding models of one's own.
    """

    def __init__(
        self,
        *answers: Any,
        key: str = KEY,
        unknown: Iterable[str] = (),
        deployments: Mapping[str, str] | None = None,
        models: Mapping[str, int] | None = None,
        floats_only: bool = False,
        intercept: Callable[[Heard], Reply | None] = lambda request: None,
    ) -> None:
        super().__init__()
        self.answers = list(answers)
        self.key = key
        self.unknown = set(unknown)
        self.deployments = dict(deployments or {})
        self.embedders = {**EMBEDDERS, **(models or {})}
        self.floats_only = floats_only
        self.intercept = intercept
        self._guard = Lock()

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def bodies(self, ending: str = "") -> list[Any]:
        """The bodies heard at paths with this ending, in order."""
        return [request.json for request in self.heard if request.path.endswith(ending)]

    def respond(self, request: Heard) -> Reply:
        early = self.intercept(request)
        if early is not None:
            return early
        try:
            asked, endpoint = self._route(request)
            body = self._body(request)
            if endpoint == "chat/completions":
                return self._chat(asked, body)
            return self._embeddings(asked, body)
        except Refusal as refusal:
            return refusal.reply

    # ------------------------------------------------------------------ what both endpoints check
    def _route(self, request: Heard) -> tuple[Asked, str]:
        azure = re.fullmatch(r"/openai/deployments/([^/]+)/(chat/completions|embeddings)", request.path)
        if azure:
            self._check_azure(request, azure[1])
            return Asked(self.deployments[azure[1]], True), azure[2]
        if request.path not in ("/v1/chat/completions", "/v1/embeddings"):
            raise Refusal(f"Invalid URL ({request.method} {request.path})", status=404)
        if request.method != "POST":
            raise Refusal(f"Not allowed to {request.method} on {request.path}", status=405, code="method_not_supported")
        header = request.headers.get("authorization", "")
        if not header.startswith("Bearer ") or "api-key" in request.headers:
            raise Refusal("You didn't provide an API key.", status=401)
        given = header.removeprefix("Bearer ")
        if given != self.key:
            raise Refusal(
                f"Incorrect API key provided: {given[:8]}***{given[-4:]}.", status=401, code="invalid_api_key"
            )
        return Asked("", False), request.path.removeprefix("/v1/")

    def _check_azure(self, request: Heard, deployment: str) -> None:
        if request.headers.get("api-key") != self.key:
            text = "Access denied due to invalid subscription key or wrong API endpoint."
            raise Refusal(text, status=401, code="401")
        versions = request.query.get("api-version", [])
        if len(versions) != 1 or not _VERSION.fullmatch(versions[0]):
            raise Refusal("Resource not found", status=404, code="404")
        if deployment not in self.deployments:
            text = "The API deployment for this resource does not exist."
            raise Refusal(text, status=404, code="DeploymentNotFound")

    def _body(self, request: Heard) -> dict[str, Any]:
        if request.headers.get("content-type") != "application/json":
            raise Refusal("Unsupported content type", status=415)
        try:
            body = json.loads(request.body.decode("utf-8"))
            json.dumps(body, ensure_ascii=False).encode()  # a lone surrogate is no text
        except ValueError:
            raise Refusal("We could not parse the JSON body of your request.") from None
        if not isinstance(body, dict):
            raise Refusal("We could not parse the JSON body of your request.")
        for name in body:
            known = _CHAT_FIELDS if request.path.endswith("completions") else _EMBEDDING_FIELDS
            if name not in known or name in self.unknown:
                raise Refusal(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
        return body

    def _model(self, asked: Asked, body: Mapping[str, Any], known: Iterable[str]) -> str:
        model = asked.model or body.get("model")
        if not model:
            raise Refusal("you must provide a model parameter")
        if model not in known:
            text = f"The model `{model}` does not exist or you do not have access to it."
            raise Refusal(text, status=404, code="model_not_found")
        return str(model)

    # ------------------------------------------------------------------ chat
    def _chat(self, asked: Asked, body: dict[str, Any]) -> Reply:
        model = self._model(asked, body, (*CHATS, *REASONERS))
        check_messages(body.get("messages"))
        check_numbers(body, reasoner=model in REASONERS)
        check_format(body)
        check_tools(body)
        with self._guard:
            assert self.answers, f"the script has no answer for {body['messages']}"
            answer = self.answers.pop(0)
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, dict) and "error" in answer:
            return failure(answer["error"])
        if isinstance(answer, dict):
            answer = Says(answer.get("text"), tuple(answer["tool_calls"]))
        said = Says(answer) if isinstance(answer, str) else answer
        if body.get("stream"):
            return streamed(said, model, azure=asked.azure, counted=bool(body.get("stream_options")))
        message = {"role": "assistant", "content": said.text, "refusal": said.refusal, "annotations": []}
        if said.calls:
            message["tool_calls"] = said.tool_calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said.finish_reason}
        return Reply.of({**envelope(model, "chat.completion"), "choices": [choice], "usage": said.usage})

    # ------------------------------------------------------------------ embeddings
    def _embeddings(self, asked: Asked, body: dict[str, Any]) -> Reply:
        model = self._model(asked, body, self.embedders)
        texts = [body.get("input")] if isinstance(body.get("input"), str) else body.get("input")
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise Refusal("'$.input' is invalid. Please check the API reference.")
        if len(texts) > 2048:
            text = "Invalid 'input': array too long. Expected an array with maximum length 2048."
            raise Refusal(text, param="input", code="array_above_max_length")
        lengths = [len(text.encode()) for text in texts]
        if max(lengths) > LONGEST_INPUT:
            raise Refusal(f"Invalid 'input': maximum context length is {LONGEST_INPUT} tokens.")
        most = LONGEST_INPUT if asked.azure else 300_000
        if sum(lengths) > most:
            text = f"Requested {sum(lengths)} tokens, max {most} tokens per request"
            raise Refusal(text, code="max_tokens_per_request")
        form = body.get("encoding_format", "float")
        if form not in ("float", "base64"):
            raise Refusal(f"Invalid value: '{form}'.", param="encoding_format")
        dimension = self._length(model, body.get("dimensions"))
        vectors = [vector_of(text, dimension) for text in texts]
        data = [
            {"object": "embedding", "index": index, "embedding": self._encoded(vector, form)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": sum(lengths), "total_tokens": sum(lengths)}
        return Reply.of({"object": "list", "data": data, "model": model, "usage": usage})

    def _length(self, model: str, wanted: Any) -> int:
        most = self.embedders[model]
        if wanted is None:
            return most
        if model == "text-embedding-ada-002":
            raise Refusal("This model does not support specifying dimensions.")
        if not isinstance(wanted, int) or not 1 <= wanted <= most:
            raise Refusal(f"Invalid value for 'dimensions' = {wanted}. Must be less than or equal to {most}.")
        return wanted

    def _encoded(self, vector: np.ndarray, form: str) -> str | list[float]:
        if form == "base64" and not self.floats_only:
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return [float(number) for number in vector]


def streamed(said: Says, model: str, *, azure: bool, counted: bool) -> Reply:
    """The answer as server-sent events, a word a piece; Azure begins with what its filter found in the prompt."""
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks(said, model, azure, counted)]
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    reply = Reply(headers=headers, pieces=[*events, b"data: [DONE]\n\n"], pause=said.pause)
    if said.breaks_off is None:
        return reply
    return replace(reply, pieces=events[: said.breaks_off], reset=True)


def chunks(said: Says, model: str, azure: bool, counted: bool) -> Iterator[dict[str, Any]]:
    """The chunks of a stream in order, the count in a last one without choices."""
    frame = {**envelope(model, "chat.completion.chunk"), **({"usage": None} if counted else {})}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**frame, "choices": [choice]}

    if azure:
        yield {**frame, "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for word in re.findall(r"\s*\S+\s*|\s+", said.text or ""):
        yield chunk({"content": word})
    if said.refusal:
        yield chunk({"refusal": said.refusal})
    yield chunk({}, said.finish_reason)
    if counted and said.usage:
        yield {**frame, "choices": [], "usage": said.usage}


def envelope(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_760_000_000, "model": model, "system_fingerprint": "fp_1"}
