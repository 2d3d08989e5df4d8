"""A service on 127.0.0.1 that speaks OpenAI's wire format, answers from a script, and writes down what it was asked.

Routes: POST /v1/chat/completions, /v1/responses and /v1/embeddings. Drivers steer it by two more: POST /tell with the
facts that the next conversation tells, and POST /record with true or false.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import sqrt
from typing import Any, Self

from model_cost.answers import Answer, Ask, answer
from model_cost.scenes import Fact

DIMENSIONS = 1536
"""Of an embedding where the request names no number: text-embedding-3-small's."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request to a language model and what it was answered, as texts to count."""

    asked: tuple[str, ...]
    """Roles and texts of the messages, tools and schemas, each by itself."""
    messages: int
    said: tuple[str, ...]


@dataclass(slots=True)
class Records:
    """What happened while recording was on."""

    exchanges: list[Exchange] = field(default_factory=list)
    embedding_calls: int = 0
    embedded: list[str] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Beginning and end of each request, in seconds."""

    def busy(self) -> float:
        """Seconds during which at least one request was being answered."""
        total, until = 0.0, 0.0
        for start, end in sorted(self.spans):
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total


class Server:
    """The service, on a free port, for the length of a `with`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recording = False
        self._facts: tuple[Fact, ...] = ()
        self.records = Records()
        self.problems: list[str] = []
        """Requests that could not be answered."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def clear(self) -> None:
        """Forget what was recorded."""
        with self._lock:
            self.records, self.problems, self._recording, self._facts = Records(), [], False, ()

    def serve(self, path: str, body: Any) -> Any:
        """The body of the answer; KeyError for a path that does not exist."""
        started = time.perf_counter()
        served = _ROUTES[path](self, body)
        with self._lock:
            if self._recording and path.startswith("/v1/"):
                self.records.spans.append((started, time.perf_counter()))
        return served

    def _tell(self, body: Any) -> Any:
        self._facts = tuple(Fact(**each) for each in body)
        return {}

    def _record(self, body: Any) -> Any:
        self._recording = bool(body)
        return {}

    def _chat(self, body: Any) -> Any:
        tools = [tool["function"] for tool in body.get("tools") or []]
        demanded = body.get("response_format") or {}
        schema = (demanded.get("json_schema") or {}).get("schema")
        ask = Ask(
            tuple((each["role"], _text(each)) for each in body["messages"]),
            tuple(tools),
            schema,
            demanded.get("type") == "json_object",
        )
        given, used = self._answer(ask, tools, demanded if schema else None)
        message: dict[str, Any] = {"role": "assistant", "content": given.text}
        if given.calls:
            message["tool_calls"] = [
                {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for n, (name, arguments) in enumerate(given.calls)
            ]
        reason = "tool_calls" if given.calls else "stop"
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)},
        }

    def _responses(self, body: Any) -> Any:
        asked = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        first = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        demanded = (body.get("text") or {}).get("format") or {}
        tools = body.get("tools") or []
        messages = tuple((each["role"], _text(each)) for each in [*first, *asked])
        ask = Ask(messages, tuple(tools), demanded.get("schema"), demanded.get("type") == "json_object")
        given, used = self._answer(ask, tools, demanded if "schema" in demanded else None)
        output: list[dict[str, Any]] = [
            {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"call_{n}",
                "name": name,
                "arguments": json.dumps(each),
            }
            for n, (name, each) in enumerate(given.calls)
        ]
        if given.text is not None:
            content = [{"type": "output_text", "text": given.text, "annotations": []}]
            output = [
                {"type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "content": content}
            ]
        return {
            "id": "resp_0",
            "object": "response",
            "created_at": int(time.time()),
            "model": body["model"],
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": tools,
            "usage": {
                "input_tokens": used[0],
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": used[1],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": sum(used),
            },
        }

    def _answer(self, ask: Ask, tools: Any, demanded: Any) -> tuple[Answer, tuple[int, int]]:
        """The answer, and a rough usage for clients that read it: four characters a token."""
        given = answer(ask, self._facts)
        asked = [part for message in ask.messages for part in message]
        asked += [_compact(each) for each in (tools, demanded) if each]
        said = [given.text] if given.text is not None else []
        said += [part for name, arguments in given.calls for part in (name, json.dumps(arguments))]
        with self._lock:
            if self._recording:
                self.records.exchanges.append(Exchange(tuple(asked), len(ask.messages), tuple(said)))
        return given, (sum(map(len, asked)) // 4, sum(map(len, said)) // 4)

    def _embeddings(self, body: Any) -> Any:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("embeddings of token numbers are not served")
        size = body.get("dimensions") or DIMENSIONS
        with self._lock:
            if self._recording:
                self.records.embedding_calls += 1
                self.records.embedded += texts
        vectors: list[Any] = [list(_embedding(text, size)) for text in texts]
        if body.get("encoding_format") == "base64":
            vectors = [base64.b64encode(struct.pack(f"<{size}f", *vector)).decode() for vector in vectors]
        data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
        used = sum(map(len, texts)) // 4
        return {
            "object": "list",
            "data": data,
            "model": body["model"],
            "usage": {"prompt_tokens": used, "total_tokens": used},
        }


_ROUTES: dict[str, Callable[[Server, Any], Any]] = {
    "/v1/chat/completions": Server._chat,
    "/v1/responses": Server._responses,
    "/v1/embeddings": Server._embeddings,
    "/tell": Server._tell,
    "/record": Server._record,
}


def _text(message: Any) -> str:
    """The text of a message, whichever way its content is given, with the calls that it makes."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    return text + (_compact(message["tool_calls"]) if message.get("tool_calls") else "")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=4096)
def _embedding(text: str, size: int) -> tuple[float, ...]:
    """A vector of length 1 in which each word has its own direction: texts that share words are near each other."""
    vector = [0.0] * size
    for word in _WORD.findall(text.casefold()) or [text]:
        digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
        place = int.from_bytes(digest[:4], "little") % size
        vector[place] += 1.0 if digest[4] % 2 else -1.0
    length = sqrt(sum(value * value for value in vector)) or 1.0
    return tuple(value / length for value in vector)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body leave together

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, served = 200, server.serve(self.path, body)
            except Exception as error:  # the client is told, and so is whoever runs the benchmark
                problem = f"{self.path}: {type(error).__name__}: {error}"
                server.problems.append(problem)
                status, served = 400, {"error": {"message": problem, "type": "invalid_request_error"}}
            payload = json.dumps(served).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)
            self.wfile.flush()

        def do_GET(self) -> None:
            server.problems.append(f"GET {self.path}")
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
