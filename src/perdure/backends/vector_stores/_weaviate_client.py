"""The way to a Weaviate server: its schema over HTTP, everything else over gRPC in the messages of Weaviate's client.

The client's own classes are left aside: they try a lost connection again for a minute before they say so, which cannot
be switched off, and ask the package index for a newer version of themselves when they connect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import grpc  # type: ignore[import-untyped]  # it has no types
import httpx
from weaviate.proto.v1 import aggregate_pb2, batch_delete_pb2, batch_pb2, health_weaviate_pb2, search_get_pb2

from perdure.backends.vector_stores._document_engine import Failure, MissingCollection
from perdure.backends.vector_stores._weaviate_turns import Turns
from perdure.domain.errors import VectorStoreError

OLDEST = (1, 33)
"""The first version that has every filter we write."""

_LONGEST_MESSAGE = 300
_SERVICE = "weaviate.v1.Weaviate"
_METHODS: Mapping[str, tuple[Any, Any]] = {
    f"/{_SERVICE}/Search": (search_get_pb2.SearchRequest, search_get_pb2.SearchReply),
    f"/{_SERVICE}/Aggregate": (aggregate_pb2.AggregateRequest, aggregate_pb2.AggregateReply),
    f"/{_SERVICE}/BatchObjects": (batch_pb2.BatchObjectsRequest, batch_pb2.BatchObjectsReply),
    f"/{_SERVICE}/BatchDelete": (batch_delete_pb2.BatchDeleteRequest, batch_delete_pb2.BatchDeleteReply),
    "/grpc.health.v1.Health/Check": (
        health_weaviate_pb2.WeaviateHealthCheckRequest,
        health_weaviate_pb2.WeaviateHealthCheckResponse,
    ),
}
_CHANNEL = (
    ("grpc.enable_retries", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A server that comes back is found at once: how long to wait is for our own retries to say.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class Refused(Exception):
    """Weaviate said no; `status` is HTTP's, or 0."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(Exception):
    """The answer is larger than one message may be: ask for less."""


class Client:
    """One connection to a server, for all threads."""

    def __init__(self, url: str, grpc_address: str, key: str | None, timeout: float) -> None:
        secure = url.startswith("https:")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._timeout = timeout
        self._closed = False
        self._turns = Turns()
        self._metadata = tuple((name.lower(), value) for name, value in headers.items())
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout)
        self._channel: Any = (
            grpc.secure_channel(grpc_address, grpc.ssl_channel_credentials(), options=_CHANNEL)
            if secure
            else grpc.insecure_channel(grpc_address, options=_CHANNEL)
        )
        self._calls = {
            asked: self._channel.unary_unary(
                path, request_serializer=asked.SerializeToString, response_deserializer=answered.FromString
            )
            for path, (asked, answered) in _METHODS.items()
        }

    def close(self) -> None:
        """Let go of the connections."""
        self._closed = True
        self._channel.close()
        self._http.close()

    def check(self) -> None:
        """Both ways answer, and the version is one that we know; VectorStoreError if it is too old."""
        version = str(self._ask("GET", "/v1/meta").get("version", ""))
        try:
            known = tuple(int(part) for part in version.split(".")[:2])
        except ValueError:
            known = OLDEST  # a build without a number
        if known < OLDEST:
            raise VectorStoreError(f"Weaviate {version} is too old: perdure needs {OLDEST[0]}.{OLDEST[1]} or newer")
        self._calls[health_weaviate_pb2.WeaviateHealthCheckRequest](
            health_weaviate_pb2.WeaviateHealthCheckRequest(), timeout=self._timeout, metadata=self._metadata
        )

    # ------------------------------------------------------------------ schema
    def classes(self) -> list[dict[str, Any]]:
        """Every class of the schema."""
        found = self._ask("GET", "/v1/schema").get("classes")
        return found if isinstance(found, list) else []

    def find_class(self, name: str) -> dict[str, Any] | None:
        """One class of the schema, or None."""
        try:
            return self._ask("GET", f"/v1/schema/{name}")
        except Refused as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def make_class(self, definition: Mapping[str, Any]) -> None:
        """Make a class; one of that name that is there by then is left alone."""
        try:
            self._ask("POST", "/v1/schema", definition)
        except Refused:
            if self.find_class(definition["class"]) is None:
                raise

    def drop_class(self, name: str) -> None:
        """Remove a class and its objects."""
        self._ask("DELETE", f"/v1/schema/{name}")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, json=body)
        except (httpx.TransportError, RuntimeError):
            self._check_open()
            raise
        if answer.is_success:
            found = answer.json() if answer.content else {}
            return found if isinstance(found, dict) else {}
        raise Refused(answer.status_code, answer.text[:_LONGEST_MESSAGE])

    # ------------------------------------------------------------------ objects
    def search(self, request: search_get_pb2.SearchRequest) -> list[search_get_pb2.SearchResult]:
        """The results of a search; TooLarge if they do not fit into one answer."""
        with self._turns.reading():
            return list(self._call(request).results)

    def count(self, request: aggregate_pb2.AggregateRequest) -> int:
        """How many objects a request that asks for their count finds."""
        with self._turns.reading():
            return int(self._call(request).single_result.objects_count)

    def write(self, name: str, objects: list[batch_pb2.BatchObject]) -> None:
        """Write objects whole that are new, or whose vector stays as it is."""
        if objects:
            self._said(name, self._call(batch_pb2.BatchObjectsRequest(objects=objects), name).errors)

    def move(self, name: str, objects: list[batch_pb2.BatchObject]) -> None:
        """Write objects whole that stand there with another vector; nobody reads meanwhile."""
        if objects:
            with self._turns.moving():
                self.write(name, objects)

    def settle(self, name: str) -> None:
        """Make the server write down what its vector index remembers of the last request.

        It flushes the index's log with each request, but before the request's own vectors are in it: a server that dies
        then keeps rows that no search finds any more. So one more request goes after them, with an object that is
        always the same; it has no slot, which is how everything that reads leaves it out.
        """
        self.write(name, [batch_pb2.BatchObject(collection=name, uuid=str(UUID(int=0)))])

    def delete(self, request: batch_delete_pb2.BatchDeleteRequest) -> int:
        """Delete the objects of a filter, as many as one request may; how many there were."""
        reply = self._call(request)
        if reply.failed:
            raise Refused(0, f"{reply.failed} of {reply.matches} rows could not be deleted")
        return int(reply.matches)

    def _check_open(self) -> None:
        if self._closed:
            raise VectorStoreError("the vector store weaviate was closed") from None

    def _said(self, name: str, errors: Any) -> None:
        if errors:
            if self.find_class(name) is None:
                raise MissingCollection
            raise Refused(0, errors[0].error[:_LONGEST_MESSAGE])

    def _call(self, request: Any, name: str = "") -> Any:
        try:
            return self._calls[type(request)](request, timeout=self._timeout, metadata=self._metadata)
        except ValueError:  # what gRPC says of a closed channel
            self._check_open()
            raise
        except grpc.RpcError as error:
            self._check_open()
            code = error.code()
            if code == grpc.StatusCode.RESOURCE_EXHAUSTED and "message" in (error.details() or ""):
                raise TooLarge(error.details()) from error
            # Only texts tell a class that is gone from other mistakes, and not always the same ones.
            if code == grpc.StatusCode.UNKNOWN and self.find_class(name or request.collection) is None:
                raise MissingCollection from error
            raise


def failure_of(error: Exception, url: str, grpc_address: str) -> Failure | None:
    """What an exception of the drivers means; None for others."""
    if isinstance(error, Refused):
        return _refusal(error, url)
    if isinstance(error, TooLarge):
        return Failure("the answer is larger than one message may be: ask for fewer rows")
    if isinstance(error, httpx.TimeoutException):
        return Failure(f"no answer from {url} in time", passing=True)
    if isinstance(error, httpx.TransportError):
        return Failure(f"no connection to {url}: is Weaviate running there?", passing=True)
    if isinstance(error, (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError)):
        return Failure(f"{url} does not answer as Weaviate does: is it the right address?")
    if isinstance(error, grpc.RpcError):
        return _lost_call(error, grpc_address)
    return None


def _refusal(error: Refused, url: str) -> Failure:
    if error.status in (401, 403):
        return Failure(f"{url} refused the key: give the right one as api_key or in WEAVIATE_API_KEY")
    passing = error.status == 429 or error.status >= 500 or "leader not found" in str(error)
    return Failure(f"{url} refused: {error}", passing=passing)


def _lost_call(error: Any, address: str) -> Failure:
    code, said = error.code(), str(error.details() or "")[:_LONGEST_MESSAGE]
    if code == grpc.StatusCode.UNAVAILABLE:
        return Failure(f"no connection to {address} (gRPC): is Weaviate running there?", passing=True)
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Failure(f"no answer from {address} (gRPC) in time", passing=True)
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Failure(f"{address} (gRPC) refused the key: give the right one as api_key or in WEAVIATE_API_KEY")
    return Failure(f"{address} (gRPC) refused: {said}", passing=code == grpc.StatusCode.RESOURCE_EXHAUSTED)
