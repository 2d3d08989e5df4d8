"""Vectors in Weaviate: one class of its schema for each collection, exact search inside every filter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import Field, SecretStr, field_validator
from weaviate.proto.v1 import aggregate_pb2, batch_delete_pb2, batch_pb2, search_get_pb2

from perdure.backends.service import secret_from, text_from
from perdure.backends.vector_stores._document_engine import EngineSettings, Failure, MissingCollection, Shape
from perdure.backends.vector_stores._document_store import DocumentStore
from perdure.backends.vector_stores._documents import Document, Row
from perdure.backends.vector_stores._weaviate_client import Client, TooLarge, failure_of
from perdure.backends.vector_stores._weaviate_filter import (
    SLOTS,
    Clause,
    WeaviateGrammar,
    both,
    everything,
    in_slots,
    with_ids,
)
from perdure.backends.vector_stores._weaviate_objects import (
    batches,
    keyword,
    object_of,
    packed,
    row_of,
    uuid_of,
    vector_bytes,
)
from perdure.backends.vector_stores._weaviate_schema import (
    RECORD,
    STEMS,
    VECTOR,
    class_name,
    class_prefix,
    collection_definition,
    described,
    shape_of,
    store_class,
    store_definition,
)
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import VectorStoreError

DEFAULT_URL = "http://localhost:8080"
PAGE = 1000
"""Rows of one request that reads many."""
_DIALECT: Mapping[str, Any] = {"uses_123_api": True, "uses_125_api": True, "uses_127_api": True}
"""The newest of the forms in which Weaviate answers."""
_CLOUD = (".weaviate.cloud", ".weaviate.network")


class WeaviateVectorStore(DocumentStore[Clause]):
    """Keeps memories in a Weaviate server or cluster."""

    name: ClassVar[str] = "weaviate"
    ranks_words: ClassVar[bool] = True

    class Settings(EngineSettings):
        """Where Weaviate is."""

        url: str = Field(default_factory=lambda: text_from("WEAVIATE_URL") or DEFAULT_URL)
        """The server's address for HTTP; from WEAVIATE_URL if left out."""
        grpc_address: str | None = None
        """Its host and port for gRPC; if left out, port 50051 of the same host, or what Weaviate Cloud has for it."""
        api_key: SecretStr | None = Field(default_factory=lambda: secret_from("WEAVIATE_API_KEY"))
        """The key; from WEAVIATE_API_KEY if left out. A server with anonymous access needs none."""
        namespace: str = Field(default="perdure", pattern=r"^[a-z][a-z0-9]{0,39}$")
        """What the names of all classes begin with, so that several stores may share a server."""

        @field_validator("url")
        @classmethod
        def _is_the_servers_address(cls, value: str) -> str:
            try:
                parts = urlsplit(value)
                good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            except ValueError:
                good = False
            if not good or "@" in value:
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
        self.settings = settings
        self.grammar = WeaviateGrammar()
        self._grpc_address = settings.grpc_address or _grpc_address(settings.url)
        self._connected: Client | None = None

    # ------------------------------------------------------------------ life
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
        told = described(self._client.find_class(name) or {})
        if told is None or not isinstance(told.get("identity"), str):
            raise VectorStoreError(f"the class {name} is not of perdure's making: use another namespace")
        return str(told["identity"])

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, self.settings.url, self._grpc_address)

    # ------------------------------------------------------------------ collections
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

    # ------------------------------------------------------------------ documents
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
        """MissingCollection if the collection is gone, or was made again for other vectors.

        Weaviate would take the rows: it makes a missing class by itself, and an empty one is of any dimension.
        """
        found = self._find(name)
        if found is None or dimension not in (None, found.dimension):
            raise MissingCollection

    def _moved(self, kept: str, objects: Sequence[batch_pb2.BatchObject]) -> set[str]:
        """The uuids of those objects that stand there with another vector."""
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
        """In slices of the slots, which a row never leaves: pages by number would lose rows that others move."""

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
    """The rows of all slots, slice by slice; a slice that is full, or too large for an answer, is cut in two."""
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
    """Where gRPC is answered, for an HTTP address."""
    host = urlsplit(url).hostname or ""
    if host.endswith(_CLOUD):
        return f"grpc-{host}:443"
    return f"[{host}]:50051" if ":" in host else f"{host}:50051"
