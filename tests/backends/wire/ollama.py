"""Ollama's chat and embeddings as its server speaks them; strict.

After the reference https://docs.ollama.com/api (chat, embed) and the server's own source (server/routes.go of
https://github.com/ollama/ollama) for its errors and for the older POST /api/embeddings. What a version of the server
would ignore, such as a field that it does not know, is refused here. Four bytes count as a token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tests.backends.wire.server import Heard, Reply, WireServer
from tests.backends.wire.vectors import vector_of

KEY = "ollama-key-0123456789abcdef"
CHATS = {"llama3.1": {"tools"}, "llama3.2": {"tools"}, "gemma2": set(), "qwen3": {"tools", "thinking"}}
"""Models that were pulled, and what they can do."""
EMBEDDERS = {"nomic-embed-text": (768, 2048), "all-minilm": (384, 256), "own-model": (16, 512)}
"""Dimension and context length."""
_CHAT_FIELDS = {
    "model", "messages", "tools", "think", "format", "options", "stream", "keep_alive", "logprobs", "top_logprobs"
}  # fmt: skip
_OPTIONS = {
    "num_ctx": int, "num_predict": int, "num_batch": int, "num_gpu": int, "num_keep": int, "num_thread": int,
    "seed": int, "top_k": int, "top_p": float, "temperature": float, "repeat_penalty": float, "stop": list,
}  # fmt: skip
_EMBED_FIELDS = {"model", "input", "truncate", "dimensions", "options", "keep_alive"}
_EMBEDDINGS_FIELDS = {"model", "prompt", "options", "keep_alive"}
TOO_LONG = "the input length exceeds the context length"
NO_PATH = Reply(404, b"404 page not found", {"content-type": "text/plain"})
"""What the server's router answers to a path that this version does not have."""


class Refusal(Exception):
    """The reply to a request that is wrong."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.reply = Reply.of({"error": message}, status)


@dataclass(frozen=True)
class Says:
    """What the model answers."""

    text: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()
    thinking: str = ""
    done_reason: str = "stop"
    tokens: tuple[int | None, int | None] = (20, 7)
    """Read and written; the server leaves a count of 0 out."""
    pause: float = 0.0
    """Seconds before each piece of a stream."""
    breaks_off: int | None = None
    """Pieces of a stream that are sent before the connection is reset."""
    error_after: int | None = None
    """Pieces of a stream that are sent before the server tells that it failed."""
    ends_after: int | None = None
    """Pieces of a stream that are sent before it simply ends."""

    @property
    def counts(self) -> dict[str, Any]:
        names = ("prompt_eval_count", "eval_count")
        found = {name: count for name, count in zip(names, self.tokens, strict=True) if count is not None}
        return {"done_reason": self.done_reason, "total_duration": 4935886791, "load_duration": 534986708, **found}


def failure(name: str) -> Reply:
    """The reply of a server that fails: rate_limit, busy, server, timeout, connection or authentication."""
    if name == "timeout":
        return Reply(wait=60.0)
    if name == "connection":
        return Reply(reset=True)
    status, text = {
        "rate_limit": (429, "you've reached your hourly usage limit, please upgrade to continue"),
        "busy": (503, "server busy, please try again.  maximum pending requests exceeded"),
        "server": (500, "model runner has unexpectedly stopped"),
        "authentication": (401, "unauthorized"),
        "forbidden": (403, "this model requires a subscription"),
    }[name]
    return Reply.of({"error": text}, status)


class OllamaWire(WireServer):
    """Answers chats with `answers` in order, and embeds.

    An answer is text, a Says, a Reply as it is, or what the contract suites use: {"tool_calls", "text"?} or
    {"error": name}. `old` is a server from before /api/embed. `cuts` is whether it cuts a text that is too long, as
    documented, or refuses it, as some versions do. `shortens` is whether it knows `dimensions`. `key` is demanded if
    there is one. `intercept` may reply to a request before anything is checked.
    """

    def __init__(
        self,
        *answers: Any,
        old: bool = False,
        cuts: bool = True,
        shortens: bool = True,
        key: str | None = None,
        intercept: Callable[[Heard], Reply | None] = lambda request: None,
    ) -> None:
        super().__init__()
        self.answers = list(answers)
        self.old = old
        self.cuts = cuts
        self.shortens = shortens
        self.key = key
        self.intercept = intercept
        self._guard = Lock()

    def bodies(self, path: str = "") -> list[Any]:
        """The bodies heard at this path, in order."""
        return [request.json for request in self.heard if request.path.endswith(path)]

    def respond(self, request: Heard) -> Reply:
        with self._guard:
            early = self.intercept(request)
        if early is not None:
            return early
        paths = {"/api/chat": self._chat, "/api/embed": self._embed, "/api/embeddings": self._embeddings}
        if self.old:
            del paths["/api/embed"]
        if request.method != "POST" or request.path not in paths:
            return NO_PATH
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return failure("authentication")
        try:
            if request.headers.get("content-type") != "application/json":
                raise Refusal("missing request body")
            try:
                body = json.loads(request.body.decode())
            except ValueError:
                raise Refusal("invalid character looking for beginning of value") from None
            return paths[request.path](body)
        except Refusal as refusal:
            return refusal.reply

    # ------------------------------------------------------------------ chat
    def _chat(self, body: dict[str, Any]) -> Reply:
        check_fields(body, _CHAT_FIELDS)
        abilities = known(body, CHATS)
        check_options(body)
        check_messages(body.get("messages"))
        check_tools(body.get("tools"))
        if body.get("tools") and "tools" not in abilities:
            raise Refusal(f"registry.ollama.ai/library/{body['model']}:latest does not support tools")
        if body.get("think") not in (None, False, True, "low", "medium", "high"):
            raise Refusal("invalid think value")
        if body.get("think") and "thinking" not in abilities:
            raise Refusal(f'"{body["model"]}" does not support thinking')
        if body.get("format") not in (None, "json") and not isinstance(body["format"], dict):
            raise Refusal(f'invalid format: "{body["format"]}"; expected "json" or a valid JSON Schema object')
        with self._guard:
            assert self.answers, f"the script has no answer for {body['messages']}"
            answer = self.answers.pop(0)
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, dict) and "error" in answer:
            return failure(answer["error"])
        if isinstance(answer, dict):
            answer = Says(answer.get("text", ""), tuple(answer["tool_calls"]))
        said = Says(answer) if isinstance(answer, str) else answer
        frame = {"model": body["model"], "created_at": "2026-03-01T09:00:00.123456Z"}
        if body.get("stream", True):
            return streamed(said, frame)
        message: dict[str, Any] = {"role": "assistant", "content": said.text}
        if said.thinking:
            message["thinking"] = said.thinking
        if said.calls:
            message["tool_calls"] = tool_calls(said)
        return Reply.of({**frame, "message": message, "done": True, **said.counts})

    # ------------------------------------------------------------------ embeddings
    def _embed(self, body: dict[str, Any]) -> Reply:
        check_fields(body, _EMBED_FIELDS)
        dimension, context = known(body, EMBEDDERS)
        check_options(body)
        texts = [body.get("input")] if isinstance(body.get("input"), str) else body.get("input")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise Refusal("invalid input type")
        most = 4 * context
        if not (self.cuts and body.get("truncate", True)) and any(len(text.encode()) > most for text in texts):
            raise Refusal(TOO_LONG)
        wanted = body.get("dimensions", 0)
        if not isinstance(wanted, int):
            raise Refusal("json: cannot unmarshal string into Go struct field EmbedRequest.dimensions of type int")
        read = [text.encode()[:most].decode(errors="ignore") for text in texts]
        vectors = [vector_of(text, dimension) for text in read]
        if self.shortens and 0 < wanted < dimension:
            vectors = [vector[:wanted] for vector in vectors]
        return Reply.of({
            "model": body["model"],
            "embeddings": [[float(number) for number in vector] for vector in vectors],
            "total_duration": 14143917,
            "prompt_eval_count": sum(len(text.encode()) for text in read),
        })  # fmt: skip

    def _embeddings(self, body: dict[str, Any]) -> Reply:
        check_fields(body, _EMBEDDINGS_FIELDS)
        dimension, context = known(body, EMBEDDERS)
        check_options(body)
        prompt = body.get("prompt", "")
        if not isinstance(prompt, str):
            raise Refusal("json: cannot unmarshal array into Go struct field EmbeddingRequest.prompt of type string")
        if not prompt:
            return Reply.of({"embedding": []})  # loads the model, and nothing else
        if len(prompt.encode()) > 4 * context:
            raise Refusal(TOO_LONG, 500)
        # This path gives vectors as the model makes them, of any length.
        return Reply.of({"embedding": [7.5 * float(number) for number in vector_of(prompt, dimension)]})


def check_fields(body: Any, fields: set[str]) -> None:
    if not isinstance(body, dict) or set(body) - fields:
        raise Refusal(f"unknown field in {body!r}")


def known(body: Mapping[str, Any], models: Mapping[str, Any]) -> Any:
    """What is known of the model that the request is for; it must have been pulled."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refusal("model is required")
    if model.removesuffix(":latest") not in models:
        raise Refusal(f'model "{model}" not found, try pulling it first', 404)
    return models[model.removesuffix(":latest")]


def check_options(body: Mapping[str, Any]) -> None:
    for name, value in (body.get("options") or {}).items():
        if name not in _OPTIONS:
            raise Refusal(f"invalid option provided: {name}")
        kind = _OPTIONS[name]
        if not isinstance(value, int | float if kind is float else kind) or isinstance(value, bool):
            raise Refusal(f'option "{name}" must be of type {kind.__name__}')
    if not 0 <= (body.get("options") or {}).get("temperature", 0) <= 2:
        raise Refusal("temperature is out of range")


def check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages are required")  # the server would load the model and answer nothing
    for message in messages:
        if set(message) - {"role", "content", "thinking", "images", "tool_calls", "tool_name"}:
            raise Refusal(f"unknown field in {message!r}")
        if message.get("role") not in ("system", "user", "assistant"):  # `tool` answers a call, which none here was
            raise Refusal(f"invalid role: {message.get('role')}")
        if not isinstance(message.get("content", ""), str):
            raise Refusal("invalid message content type")


def check_tools(tools: Any) -> None:
    for tool in tools or []:
        if set(tool) != {"type", "function"} or tool["type"] != "function":
            raise Refusal(f"invalid tool {tool!r}")
        function = tool["function"]
        if set(function) - {"name", "description", "parameters"} or not function.get("name"):
            raise Refusal(f"invalid function {function!r}")
        if (function.get("parameters") or {}).get("type") != "object":
            raise Refusal("the parameters of a function are an object")


def tool_calls(said: Says) -> list[dict[str, Any]]:
    """Arguments are an object, not text."""
    return [{"function": {"name": call["name"], "arguments": call["arguments"]}} for call in said.calls]


def streamed(said: Says, frame: Mapping[str, Any]) -> Reply:
    """The answer as lines of JSON, a word a line, first what the model thinks; the last one has the counts."""
    parts = [line(part) for part in lines(said, frame)]
    headers = {"content-type": "application/x-ndjson"}
    if said.error_after is not None:
        parts = [*parts[: said.error_after], line({"error": "an error was encountered while running the model"})]
    if said.breaks_off is not None:
        return Reply(headers=headers, pieces=parts[: said.breaks_off], pause=said.pause, reset=True)
    return Reply(headers=headers, pieces=parts[: said.ends_after], pause=said.pause)


def lines(said: Says, frame: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for word in words(said.thinking):
        message = {"role": "assistant", "content": "", "thinking": word}
        yield {**frame, "message": message, "done": False}
    for word in words(said.text):
        yield {**frame, "message": {"role": "assistant", "content": word}, "done": False}
    yield {**frame, "message": {"role": "assistant", "content": ""}, "done": True, **said.counts}


def words(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*|\s+", text)


def line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
