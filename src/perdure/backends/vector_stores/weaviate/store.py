"""Vectors in Weaviate: one class for each collection, exact search inside every filter."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import grpc  # type: ignore[import-untyped]  # it has no types
import httpx
from pydantic import Field, SecretStr, field_validator
from weaviate.proto.v1 import aggregate_pb2, batch_delete_pb2, batch_pb2, health_weaviate_pb2, search_get_pb2

from perdure.backends.http.service import is_address, secret_from, text_from
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row
from perdure.backends.vector_stores.weaviate.objects import (
    GRAMMAR,
    RECORD,
    SLOTS,
    STEMS,
    VECTOR,
    Clause,
    batches,
    both,
    class_name,
    class_prefix,
    collection_definition,
    described,
    everything,
    in_slots,
    keyword,
    object_of,
    packed,
    row_of,
    shape_of,
    store_class,
    store_definition,
    uuid_of,
    vector_bytes,
    with_ids,
)
from perdure.domain.errors import VectorStoreError

# Who may ask while rows move: Weaviate gives a row whose vector changes another place, and takes the old one first.
#
# For those few milliseconds no search finds the row. So the requests that move rows wait for those that read, and the
# other way round; all others go at one time.


class Turns:
    """Many may read at one time, and one may move rows alone; who waits to move goes before further readers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reading = 0
        self._waiting = 0
        self._moving = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._moving and not self._waiting)
            self._reading += 1
        try:
            yield
        finally:
            with self._changed:
                self._reading -= 1
                self._changed.notify_all()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Hold while nobody reads and nobody else moves rows."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._moving and not self._reading)
            finally:
                self._waiting -= 1
            self._moving = True
        try:
            yield
        finally:
            with self._changed:
                self._moving = False
                self._changed.notify_all()


# The way to a Weaviate server: its schema over HTTP, everything else over gRPC in the messages of Weaviate's client.
#
# The client's own classes are left aside: they try a lost connection again for a minute before they say so, which
# cannot be switched off, and ask the package index for a newer version of themselves when they connect.

OLDEST = (1, 33)  # the first version that has every filter we write
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
    """Weaviate refused; `status` is HTTP's, or 0."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(Exception):
    """The answer is too large for one message: ask for less."""


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
        self._closed = True
        self._channel.close()
        self._http.close()

    def check(self) -> None:
        """Check that both protocols answer; VectorStoreError if the version is too old."""
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

    def classes(self) -> list[dict[str, Any]]:
        found = self._ask("GET", "/v1/schema").get("classes")
        return found if isinstance(found, list) else []

    def find_class(self, name: str) -> dict[str, Any] | None:
        try:
            return self._ask("GET", f"/v1/schema/{name}")
        except Refused as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def make_class(self, definition: Mapping[str, Any]) -> None:
        """Create a class, unless it exists."""
        try:
            self._ask("POST", "/v1/schema", definition)
        except Refused:
            if self.find_class(definition["class"]) is None:
                raise

    def drop_class(self, name: str) -> None:
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

    def search(self, request: search_get_pb2.SearchRequest) -> list[search_get_pb2.SearchResult]:
        """Return the results of a search; TooLarge if they do not fit into one answer."""
        with self._turns.reading():
            return list(self._call(request).results)

    def count(self, request: aggregate_pb2.AggregateRequest) -> int:
        """Return the number of objects from a counting request."""
        with self._turns.reading():
            return int(self._call(request).single_result.objects_count)

    def write(self, name: str, objects: list[batch_pb2.BatchObject]) -> None:
        """Write whole objects that are new, or keep their vector."""
        errors = self._call(batch_pb2.BatchObjectsRequest(objects=objects), name).errors if objects else []
        if errors:
            if self.find_class(name) is None:
                raise MissingCollection
            raise Refused(0, errors[0].error[:_LONGEST_MESSAGE])

    def move(self, name: str, objects: list[batch_pb2.BatchObject]) -> None:
        """Write whole objects with a changed vector, while nobody reads."""
        if objects:
            with self._turns.moving():
                self.write(name, objects)

    def settle(self, name: str) -> None:
        """Make the server persist the vector index after the last request.

        It flushes the index's log with each request, but before the request's own vectors are in it: if it dies then,
        no search finds those rows any more. So another request follows, with a fixed object that has no slot, which all
        reads ignore.
        """
        self.write(name, [batch_pb2.BatchObject(collection=name, uuid=str(UUID(int=0)))])

    def delete(self, request: batch_delete_pb2.BatchDeleteRequest) -> int:
        """Delete the objects of a filter, as many as one request may; return how many there were."""
        reply = self._call(request)
        if reply.failed:
            raise Refused(0, f"{reply.failed} of {reply.matches} rows could not be deleted")
        return int(reply.matches)

    def _check_open(self) -> None:
        if self._closed:
            raise VectorStoreError("the vector store weaviate was closed") from None

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


DEFAULT_URL = "http://localhost:8080"
PAGE = 1000  # rows of one request that reads many
_DIALECT: Mapping[str, Any] = {"uses_123_api": True, "uses_125_api": True, "uses_127_api": True}
"""The newest of the forms in which Weaviate answers."""
_CLOUD = (".weaviate.cloud", ".weaviate.network")


class WeaviateVectorStore(DocumentStore[Clause]):
    """Stores memories in a Weaviate server or cluster."""

    name: ClassVar[str] = "weaviate"
    ranks_words: ClassVar[bool] = True
    grammar = GRAMMAR
    settings: Settings

    class Settings(EngineSettings):
        """Weaviate's addresses."""

        url: str = Field(default_factory=lambda: text_from("WEAVIATE_URL") or DEFAULT_URL)
        """The server's address for HTTP; from WEAVIATE_URL if left out."""
        grpc_address: str | None = None
        """Its host and port for gRPC; if left out, port 50051 of the same host, or Weaviate Cloud's own."""
        api_key: SecretStr | None = Field(default_factory=lambda: secret_from("WEAVIATE_API_KEY"))
        """The key; from WEAVIATE_API_KEY if left out. A server with anonymous access needs none."""
        namespace: str = Field(default="perdure", pattern=r"^[a-z][a-z0-9]{0,39}$")
        """Prefix of all class names, so that several stores may share a server."""

        @field_validator("url")
        @classmethod
        def _is_the_servers_address(cls, value: str) -> str:
            if not is_address(value) or "@" in value:
                raise ValueError(f"must be an address such as {DEFAULT_URL}, without a user")
            return value

        @field_validator("grpc_address")
        @classmethod
        def _is_host_and_port(cls, value: str | None) -> str | None:
            host, _, port = (value or "host:1").rpartition(":")
            if not host or not port.isdecimal() or "/" in host or "@" in host:
                raise ValueError("must be a host and a port such as localhost:50051")
            return value

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._grpc_address = settings.grpc_address or _grpc_address(settings.url)
        self._connected: Client | None = None

    def _connect(self) -> None:
        key = None if self.settings.api_key is None else self.settings.api_key.get_secret_value()
        client = Client(self.settings.url, self._grpc_address, key, self.settings.timeout)
        try:
            client.check()
            name = store_class(self.settings.namespace)
            if client.find_class(name) is None:
                client.make_class(store_definition(name, str(uuid4())))
        except BaseException:
            client.close()
            raise
        self._connected = client

    def _disconnect(self) -> None:
        client, self._connected = self._connected, None
        if client is not None:
            client.close()

    @property
    def _client(self) -> Client:
        if self._connected is None:
            raise VectorStoreError("the vector store weaviate was closed")
        return self._connected

    def _identity(self) -> str:
        name = store_class(self.settings.namespace)
        found = described(self._client.find_class(name) or {})
        if found is None or not isinstance(found.get("identity"), str):
            raise VectorStoreError(f"the class {name} is not of perdure's making: use another namespace")
        return str(found["identity"])

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, self.settings.url, self._grpc_address)

    def _class(self, name: str) -> str:
        return class_name(self.settings.namespace, name)

    def _find(self, name: str) -> Shape | None:
        found = shape_of(self._client.find_class(self._class(name)) or {})
        return found[1] if found is not None and found[0] == name else None

    def _names(self) -> Names:
        prefix = class_prefix(self.settings.namespace)
        shapes = [shape_of(one) for one in self._client.classes() if str(one.get("class")).startswith(prefix)]
        return [shape[0] for shape in shapes if shape is not None]

    def _make(self, name: str, shape: Shape) -> None:
        kept = self._class(name)
        for _ in range(3):
            found = self._client.find_class(kept)
            if found is not None and described(found) is not None:
                return
            if found is not None:
                # Weaviate makes a class by itself for objects that came just after theirs was removed.
                self._client.drop_class(kept)
            self._client.make_class(collection_definition(kept, name, shape))

    def _drop(self, name: str) -> None:
        if self._find(name) is not None:
            self._client.drop_class(self._class(name))

    def _clear(self, name: str) -> None:
        shape = self._find(name)
        if shape is None:
            return
        if self._count(name, None) > PAGE:  # Weaviate deletes row by row
            self._drop(name)
            self._make(name, shape)
            return
        request = batch_delete_pb2.BatchDeleteRequest(collection=self._class(name), filters=everything())
        while self._client.delete(request):
            pass

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        kept = self._class(name)
        dimension = next((len(one.vector) for one in documents if one.vector is not None), None)
        self._check_shape(name, dimension)
        for batch in batches([object_of(document, kept) for document in documents]):
            moved = self._moved(kept, batch)
            self._client.write(kept, [one for one in batch if one.uuid not in moved])
            self._client.move(kept, [one for one in batch if one.uuid in moved])
        if dimension is not None:
            self._client.settle(kept)
        for ids in _chunks(deletes):
            filters = with_ids([uuid_of(id) for id in ids])
            self._client.delete(batch_delete_pb2.BatchDeleteRequest(collection=kept, filters=filters))

    def _check_shape(self, name: str, dimension: int | None) -> None:
        """Raise MissingCollection if the collection is gone, or was recreated for other vectors.

        Weaviate would accept the rows: it creates missing classes by itself, and an empty one has any dimension.
        """
        found = self._find(name)
        if found is None or dimension not in (None, found.dimension):
            raise MissingCollection

    def _moved(self, kept: str, objects: Sequence[batch_pb2.BatchObject]) -> set[str]:
        """Return the uuids of the stored objects with another vector."""
        request = search_get_pb2.SearchRequest(
            collection=kept,
            limit=len(objects),
            filters=with_ids([one.uuid for one in objects]),
            metadata=search_get_pb2.MetadataRequest(uuid=True, vectors=[VECTOR]),
            **_DIALECT,
        )
        held = {found.metadata.id: vector_bytes(found.metadata.vectors) for found in self._client.search(request)}
        return {
            one.uuid for one in objects if held.get(one.uuid, vector_bytes(one.vectors)) != vector_bytes(one.vectors)
        }

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        rows: list[Row] = []
        waiting = _chunks(ids)
        while waiting:
            chunk = waiting.pop()
            request = self._request(name, len(chunk), with_ids([uuid_of(id) for id in chunk]), with_vectors)
            try:
                rows += map(row_of, self._client.search(request))
            except TooLarge:
                if len(chunk) == 1:
                    raise
                middle = len(chunk) // 2
                waiting += [chunk[:middle], chunk[middle:]]
        return rows

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        request = self._request(name, limit, everything() if clause is None else clause, with_vectors=False)
        request.near_vector.vectors.append(packed(query))
        request.near_vector.targets.target_vectors.append(VECTOR)
        request.metadata.distance = True
        return [(row_of(found), -found.metadata.distance) for found in self._client.search(request)]

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        request = self._request(name, limit, clause, with_vectors=False)
        request.bm25_search.query = " ".join(map(keyword, asked))
        request.bm25_search.properties.append(STEMS)
        request.metadata.score = True
        return [(row_of(found), found.metadata.score) for found in self._client.search(request)]

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        def ask(filters: Clause | None) -> list[Row] | None:
            try:
                return [
                    row_of(found) for found in self._client.search(self._request(name, PAGE, filters, with_vectors))
                ]
            except TooLarge:
                return None

        rows = ask(both(clause, everything()))
        if rows is not None and len(rows) < PAGE:
            yield rows
            return
        yield from _slices(lambda low, high: ask(both(clause, in_slots(low, high))), self._count(name, clause))

    def _count(self, name: str, clause: Clause | None) -> int:
        filters = both(clause, everything())
        request = aggregate_pb2.AggregateRequest(collection=self._class(name), objects_count=True, filters=filters)
        return self._client.count(request)

    def _request(
        self, name: str, limit: int, clause: Clause | None, with_vectors: bool
    ) -> search_get_pb2.SearchRequest:
        return search_get_pb2.SearchRequest(
            collection=self._class(name),
            limit=limit,
            filters=clause,
            properties=search_get_pb2.PropertiesRequest(non_ref_properties=[RECORD]),
            metadata=search_get_pb2.MetadataRequest(vectors=[VECTOR] if with_vectors else []),
            **_DIALECT,
        )


def _slices(ask: Callable[[int, int], list[Row] | None], count: int) -> Iterator[list[Row]]:
    """Yield the rows of all slots in slices; a slice that is full, or too large for an answer, is split."""
    parts = max(2, math.ceil(count / (PAGE // 2)))
    bounds = [SLOTS * part // parts for part in range(parts + 1)]
    waiting = list(pairwise(bounds))
    while waiting:
        low, high = waiting.pop()
        rows = ask(low, high)
        if (rows is None or len(rows) >= PAGE) and high - low > 1:
            middle = (low + high) // 2
            waiting += [(low, middle), (middle, high)]
            continue
        if rows is None:
            raise TooLarge
        yield rows


def _chunks(ids: Sequence[str]) -> list[list[str]]:
    return [list(ids[start : start + PAGE]) for start in range(0, len(ids), PAGE)]


def _grpc_address(url: str) -> str:
    """Return gRPC's address for an HTTP address."""
    host = urlsplit(url).hostname or ""
    if host.endswith(_CLOUD):
        return f"grpc-{host}:443"
    return f"[{host}]:50051" if ":" in host else f"{host}:50051"
