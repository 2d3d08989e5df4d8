"""A wire in front of a real Elasticsearch: keeps every request, and replies with faults first where it is told to."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.backends.wire.server import Heard, Reply, WireServer

Fault = Reply | Callable[[Heard], Reply | None]
"""A reply to the next request, or one to those that it wants to answer."""


class ElasticsearchWire(WireServer):
    """Passes requests on to a server; each fault stands in for one answer."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._behind = urlsplit(url).netloc
        self.faults_to_come: list[Fault] = []

    def respond(self, request: Heard) -> Reply:
        """The server's answer, or a fault."""
        for fault in self.faults_to_come:
            reply = fault(request) if callable(fault) else fault
            if reply is not None:
                self.faults_to_come.remove(fault)
                return reply
        return self._passed_on(request)

    def _passed_on(self, request: Heard) -> Reply:
        connection = http.client.HTTPConnection(self._behind, timeout=60)
        try:
            path = request.path + (f"?{urlencode(request.query, doseq=True)}" if request.query else "")
            headers = {name: value for name, value in request.headers.items() if name in ("accept", "content-type")}
            connection.request(request.method, path, request.body or None, headers)
            answer = connection.getresponse()
            kept = {name: answer.headers[name] for name in ("content-type", "X-elastic-product")}
            return Reply(answer.status, answer.read(), kept)
        finally:
            connection.close()

    def asked(self, ending: str) -> list[Any]:
        """The bodies of requests whose path ends so, in order; nothing is kept of them afterwards."""
        return [request.json for request in self._taken(ending)]

    def _taken(self, ending: str) -> Iterator[Heard]:
        heard, self.heard = self.heard, []
        return (request for request in heard if request.path.endswith(ending))


def to(ending: str, reply: Reply) -> Fault:
    """A fault that answers only a request whose path ends so."""
    return lambda request: reply if request.path.endswith(ending) else None


def told(status: int, kind: str, reason: str = "") -> Reply:
    """An error as Elasticsearch tells it."""
    error = {"type": kind, "reason": reason}
    return Reply.of({"error": {"root_cause": [error], **error}, "status": status}, status, **product())


def product() -> dict[str, str]:
    """The header by which Elasticsearch is known."""
    return {"X-elastic-product": "Elasticsearch"}
