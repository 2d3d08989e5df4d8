"""A language model on a loopback port that speaks Anthropic's Messages API, for programs that call that API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


@dataclass
class FakeModel:
    """Answers every request with the same text and keeps what it was asked."""

    url: str
    answer: str = "Understood."
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests for a message, oldest first."""

    def asked(self, prompt: str) -> list[dict[str, Any]]:
        """Return the requests whose messages hold a prompt."""
        return [request for request in self.requests if prompt in text_of(request["messages"])]


def text_of(content: Any) -> str:
    """Return all text of messages, of a message or of its content, one block a line."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(each) for each in content)
    return text_of(content.get("content", content.get("text", "")))


def blocks_of(request: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the blocks of one type, such as `tool_use`, in a request's messages."""
    contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
    return [block for content in contents for block in content if block.get("type") == kind]


def _events(model: str, answer: str) -> Iterator[dict[str, Any]]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "usage": USAGE}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "stop_sequence": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": answer}}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": USAGE}
    yield {"type": "message_stop"}


def _whole(model: str, answer: str) -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "usage": USAGE,
        "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn", "stop_sequence": None,
    }  # fmt: skip


@contextmanager
def fake_model() -> Iterator[FakeModel]:
    """Run the model until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._send("application/json", b"")

        def do_GET(self) -> None:
            self._send("application/json", b"{}")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            path = self.path.partition("?")[0]
            if path == "/v1/messages/count_tokens":
                self._send("application/json", b'{"input_tokens": 1}')
            elif path != "/v1/messages":
                self._send("application/json", b"{}")
            elif body.get("stream"):
                model.requests.append(body)
                lines = [
                    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                    for event in _events(body["model"], model.answer)
                ]
                self._send("text/event-stream", "".join(lines).encode())
            else:
                model.requests.append(body)
                self._send("application/json", json.dumps(_whole(body["model"], model.answer)).encode())

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing: pytest's own output is for failures."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model = FakeModel(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
