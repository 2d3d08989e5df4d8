"""The vector store on Milvus: a server, a cluster, Zilliz Cloud, or Milvus Lite in this process."""

from __future__ import annotations

import atexit
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from uuid import uuid4

import grpc  # type: ignore[import-untyped]  # it has no types
import numpy as np
from milvus_lite.adapter.grpc.server import start_server_in_thread  # type: ignore[import-untyped]  # it has no types
from milvus_lite.exceptions import DataDirLockedError  # type: ignore[import-untyped]  # it has no types
from pydantic import Field, SecretStr, field_validator, model_validator
from pymilvus import (  # type: ignore[import-untyped]  # it has no types
    CollectionSchema,
    DataType,
    MilvusClient,
    MilvusException,
)
from pymilvus.milvus_client.index import IndexParams  # type: ignore[import-untyped]  # it has no types

from perdure.backends.http.service import is_address
from perdure.backends.shared.batches import bounded_batches
from perdure.backends.validation import UserPath
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common import document_store
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.filter_clauses import moment_mark, number_mark
from perdure.backends.vector_stores.milvus.filter import GRAMMAR, NO_TIME, TOO_LONG, scope_text, time_field
from perdure.domain.errors import InvalidInputError, VectorStoreError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS


class Lite:
    """A running Milvus Lite, which listens on a free port of the loopback address.

    One thread at a time uses it, because Milvus Lite is not safe against concurrent writes to a collection.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            raise VectorStoreError(
                f"{path} is a file, and Milvus Lite 3 keeps a folder: one that Milvus Lite 2 wrote cannot be read"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._server, self._database, port = start_server_in_thread(str(path), max_workers=1)
        except DataDirLockedError:
            raise VectorStoreError(
                f"{path} is open already, and Milvus Lite's folder is for one at a time: start a server "
                "(milvus-lite server) and give its address as vector_store.config.uri to share it"
            ) from None
        except OSError as error:
            raise VectorStoreError(f"Milvus Lite cannot use {path}: {error.strerror or error}") from None
        self.uri = f"http://127.0.0.1:{port}"
        atexit.register(self.stop)

    def stop(self) -> None:
        """Finish running calls, and release the folder."""
        atexit.unregister(self.stop)
        self._server.stop(None).wait()
        self._database.close()


PROPERTY = "perdure"  # the property of a collection that tells its true name, dimension and model
PREFIX = "perdure_"
MAX_TEXT = 65_535  # bytes in a VARCHAR
MAX_PARTS = 32  # VARCHARs that one record is spread over
MAX_TOKENS = 4096  # elements of an ARRAY
MAX_RANGES = 1000  # numbers and dates of one row's metadata: a JSON field has 64 KB
_BATCH_BYTES = 4_000_000
_BATCH_ROWS = 1000
_INDEXED_TIMES = ("created_at", "expires_at", "valid_to")


def physical_name(name: str) -> str:
    """Return a collection's physical name: its readable part and a digest, because Milvus allows few characters."""
    slug = re.sub(r"[^A-Za-z0-9_]", "_", name)[:60]
    return f"{PREFIX}{slug}_{digest(name, 6)}"


def key_of(id: str) -> str:
    """Return a row's primary key: ids have any length and alphabet, keys do not."""
    return digest(id, 16)


def properties_of(name: str, shape: Shape) -> dict[str, str]:
    return {PROPERTY: json.dumps({"name": name, "dimension": shape.dimension, "model": shape.model})}


def described(description: Mapping[str, Any]) -> tuple[str, Shape] | None:
    """Return the true name and the shape of a described collection; None if it is not ours."""
    try:
        shape = json.loads(description["properties"][PROPERTY])
        return str(shape["name"]), Shape(int(shape["dimension"]), str(shape["model"]))
    except (KeyError, TypeError, ValueError):
        return None


def schema_of(dimension: int) -> CollectionSchema:
    """Return the fields of a collection; the user is its partition key."""
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("pk", DataType.VARCHAR, is_primary=True, max_length=32)
    for name in SCOPE_FIELDS:
        schema.add_field(name, DataType.VARCHAR, max_length=200, is_partition_key=name == "user_id")
    schema.add_field("bare", DataType.BOOL)
    schema.add_field("tokens", DataType.ARRAY, element_type=DataType.VARCHAR, max_length=20, max_capacity=MAX_TOKENS)
    for name in sorted(TIME_FIELDS):
        schema.add_field(time_field(name), DataType.INT64)
    schema.add_field("ranges", DataType.JSON)
    schema.add_field("memory", DataType.VARCHAR, max_length=MAX_TEXT)
    parts = {"element_type": DataType.VARCHAR, "max_length": MAX_TEXT, "max_capacity": MAX_PARTS}
    schema.add_field("record", DataType.ARRAY, **parts)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    return schema


def indexes_of(kind: str, *, lite: bool) -> dict[str, IndexParams]:
    """Return a collection's indexes by name; Milvus Lite indexes no arrays, and gains nothing from more than one."""
    vector = {"index_type": kind, "metric_type": "IP", "params": {}}
    if kind == "HNSW":
        vector["params"] = {"M": 16, "efConstruction": 200}
    wanted: dict[str, dict[str, Any]] = {"vector": vector}
    times = [time_field(name) for name in _INDEXED_TIMES]
    inverted = ["user_id"] if lite else [*SCOPE_FIELDS, "bare", "tokens", *times]
    wanted.update({name: {"index_type": "INVERTED"} for name in inverted})
    found = {}
    for name, how in wanted.items():
        found[name] = MilvusClient.prepare_index_params()
        found[name].add_index(name, index_name=name, **how)
    return found


def entity(document: Document, dimension: int) -> dict[str, Any]:
    """Return the document for Milvus; InvalidInputError names an exceeded limit."""
    _check(document)
    times = {time_field(name): document.moments.get(name, NO_TIME) for name in TIME_FIELDS}
    ranges: dict[str, float] = {number_mark(path): number for path, number in document.numbers.items()}
    ranges.update({moment_mark(path): when for path, when in document.moments.items() if path not in TIME_FIELDS})
    text = document.memory
    vector = np.zeros(dimension, np.float32) if document.vector is None else document.vector
    return {
        "pk": key_of(document.id),
        **{name: scope_text(document.scope[name]) if name in document.scope else "" for name in SCOPE_FIELDS},
        "bare": document.vector is None,
        "tokens": document.tokens,
        **times,
        "ranges": ranges,
        "memory": text if len(text.encode()) <= MAX_TEXT else TOO_LONG,
        "record": [document.record[start : start + MAX_TEXT] for start in range(0, len(document.record), MAX_TEXT)],
        "vector": vector,
    }


def _check(document: Document) -> None:
    if len(document.record) > MAX_TEXT * MAX_PARTS:
        raise InvalidInputError(
            f"a memory with all its fields may have {MAX_TEXT * MAX_PARTS} characters of JSON in milvus, "
            f"not {len(document.record)}",
            field="payload",
        )
    if len(document.tokens) > MAX_TOKENS:
        raise InvalidInputError(
            f"a memory may have {MAX_TOKENS} different words and values in milvus, not {len(document.tokens)}",
            field="payload",
        )
    if len(document.numbers) + len(document.moments) > MAX_RANGES:
        raise InvalidInputError(
            f"a memory may have {MAX_RANGES} numbers and dates in milvus, "
            f"not {len(document.numbers) + len(document.moments)}",
            field="payload",
        )


def size_of(entity: dict[str, Any]) -> int:
    """Return roughly how many bytes it takes in a request."""
    return 2 * sum(map(len, entity["record"])) + 24 * len(entity["tokens"]) + int(entity["vector"].nbytes)


def row_of(found: Mapping[str, Any]) -> Row:
    return decode("".join(found["record"]), found.get("vector"))


NOT_LOADED = 101
ALREADY_THERE = 35
_CONNECT_FAILED = 2
_RATE_LIMIT = 8
_MISSING = 100
_NO_DATABASE = 800
_LONGEST_MESSAGE = 500
_PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
}
_FORBIDDEN = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}


def is_missing(error: MilvusException) -> bool:
    return bool(error.code == _MISSING or error.compatible_code == 4)


def no_database(error: MilvusException) -> bool:
    said = str(error.message)
    return error.code == _NO_DATABASE or ("database" in said and ("not found" in said or "does not exist" in said))


def failure_of(error: Exception, address: str, timeout: float) -> document_store.Failure | None:
    status = _status(error)
    if status is None and not isinstance(error, MilvusException):
        return None
    said = str(getattr(error, "message", ""))[:_LONGEST_MESSAGE]
    if status == grpc.StatusCode.DEADLINE_EXCEEDED:
        return document_store.Failure(f"{address} did not answer within {timeout:g} seconds", passing=True)
    if status in _FORBIDDEN or "auth check failure" in said:
        return document_store.Failure(f"{address} refused the token: check vector_store.config.token")
    code = getattr(error, "code", None)
    if status == grpc.StatusCode.UNAVAILABLE or code == _CONNECT_FAILED:
        return document_store.Failure(f"{address} cannot be reached: is Milvus running there?", passing=True)
    if status is not None:
        return document_store.Failure(f"{address} failed: {status.name}", passing=status in _PASSING)
    assert isinstance(error, MilvusException)
    return document_store.Failure(f"{address}: {said}", passing=error.retriable or code == _RATE_LIMIT)


def _status(error: BaseException | None) -> grpc.StatusCode | None:
    """Return the gRPC status of an exception, or of its cause: pymilvus raises some from themselves."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        code = getattr(error, "code", None)
        found = code() if callable(code) else code
        if isinstance(found, grpc.StatusCode):
            return found
        seen.append(error)
        error = error.__cause__
    return None


DEFAULT_URI = "http://localhost:19530"
_PAGE = 1000
_CHANNEL = {
    # A server that is back is found by the next attempt, not after gRPC's own growing pauses.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 500,
    "grpc.use_local_subchannel_pool": 1,
}
_IDENTITY = f"{PREFIX}identity"
_UNFLUSHED = 2000
"""Writes after which Milvus Lite is told to flush: it searches what is not flushed ten times more slowly."""


class MilvusVectorStore(document_store.DocumentStore[str]):
    """Stores rows in collections whose partition key is the user; searches are exact in the user's partition."""

    name: ClassVar[str] = "milvus"
    keeps_bare = False  # every row must have a vector
    grammar = GRAMMAR
    settings: Settings

    class Settings(document_store.EngineSettings):
        """Milvus's address, and how collections are created."""

        uri: str | None = None
        """Address of a server, `http://...` or `https://...` for TLS; without `path` `http://localhost:19530`."""
        token: SecretStr | None = None
        """`user:password`, or the key of Zilliz Cloud; needed if the server authenticates."""
        db_name: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,254})?$")
        """The database on the server, created if it does not exist; empty for the default one."""
        path: UserPath | None = None
        """A folder for Milvus Lite, which runs inside one process at a time; no server is used."""
        partitions: int = Field(default=64, ge=1, le=1024)
        """Number of partitions of a new collection, by user; Milvus Lite always makes 16."""
        index: Literal["FLAT", "HNSW"] = "FLAT"
        """How a new collection finds neighbours: exactly, or with an approximate index, faster in large partitions."""

        @field_validator("uri")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is not None and not is_address(value):
                raise ValueError("must be an address such as http://localhost:19530; a folder is given as path")
            if value is not None and "@" in urlsplit(value).netloc:
                raise ValueError("must hold no password: give token = 'user:password'")
            return value

        @model_validator(mode="after")
        def _is_one_place(self) -> MilvusVectorStore.Settings:
            if self.path is not None and (self.uri is not None or self.token is not None):
                raise ValueError("path is for Milvus Lite in this process, uri and token are for a server: give one")
            return self

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.exact = settings.index == "FLAT"  # type: ignore[misc]  # a class says it for engines without a choice
        self._engine: Lite | None = None
        self._client: MilvusClient | None = None
        self._is_lite = False
        self._known_as: str | None = None
        self._unflushed: dict[str, int] = {}
        self._counting = threading.Lock()
        self._how: dict[str, Any] = {"timeout": settings.timeout, "retry_on_rate_limit": False}

    @property
    def address(self) -> str:
        return str(self.settings.path) if self.settings.path else self.settings.uri or DEFAULT_URI

    def _connect(self) -> None:
        if self.settings.path is not None:
            self._engine = Lite(self.settings.path)
        try:
            self._client = self._connected(self.settings.db_name)
            try:
                self._client.list_collections(**self._how)
            except MilvusException as error:
                if not self.settings.db_name or not no_database(error):
                    raise
                self._make_database()
            self._is_lite = "lite" in self._client.get_server_version(**self._how)
        except BaseException:
            self._disconnect()
            raise

    def _connected(self, db_name: str) -> MilvusClient:
        uri = self._engine.uri if self._engine else self.address
        token = self.settings.token.get_secret_value() if self.settings.token else ""
        return MilvusClient(
            uri, token=token, db_name=db_name, timeout=self.settings.timeout, dedicated=True, grpc_options=_CHANNEL
        )

    def _make_database(self) -> None:
        client = self._connected("")
        try:
            if self.settings.db_name not in client.list_databases(**self._how):
                client.create_database(self.settings.db_name, **self._how)
        except MilvusException:
            if self.settings.db_name not in client.list_databases(**self._how):  # nor has another process made it
                raise
        finally:
            client.close()

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        engine, self._engine = self._engine, None
        self._known_as = None
        try:
            if client is not None:
                client.close()
        finally:
            if engine is not None:
                engine.stop()

    def _identity(self) -> str:
        if self._known_as is None:
            client = self._asked
            if not client.has_collection(_IDENTITY, **self._how):
                schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
                schema.add_field("pk", DataType.VARCHAR, is_primary=True, max_length=32)
                schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
                self._created(_IDENTITY, schema, {PROPERTY: str(uuid4())})
            found = client.describe_collection(_IDENTITY, **self._how)  # another process may have made it first
            self._known_as = str(found["properties"][PROPERTY])
        return self._known_as

    def _failure(self, error: Exception) -> document_store.Failure | None:
        return failure_of(error, self.address, self.settings.timeout)

    @property
    def _asked(self) -> MilvusClient:
        if self._client is None:
            raise VectorStoreError("the vector store milvus was closed")
        return self._client

    def _call(self, name: str, method: str, **values: Any) -> Any:
        """Call a method on a collection, and load one that a restarted server does not have in memory."""
        client, physical = self._asked, physical_name(name)
        try:
            return getattr(client, method)(physical, **values, **self._how)
        except MilvusException as error:
            if is_missing(error):
                raise document_store.MissingCollection from None
            if error.code != NOT_LOADED:
                raise
        client.load_collection(physical, **self._how)
        return getattr(client, method)(physical, **values, **self._how)

    def _find(self, name: str) -> Shape | None:
        client, physical = self._asked, physical_name(name)
        if not client.has_collection(physical, **self._how):
            return None
        try:
            found = described(client.describe_collection(physical, **self._how))
            if found is None or found[0] != name:
                return None
            self._ready(client, physical)
        except MilvusException as error:
            if is_missing(error):
                return None
            raise
        return found[1]

    def _ready(self, client: MilvusClient, physical: str) -> None:
        """Create missing indexes, in case the creator died, and load the collection."""
        there = set(client.list_indexes(physical, **self._how))
        for field, parameters in indexes_of(self.settings.index, lite=self._is_lite).items():
            if field not in there:
                try:
                    client.create_index(physical, parameters, sync=False, **self._how)
                except MilvusException as error:
                    if error.code != ALREADY_THERE:
                        raise
        client.load_collection(physical, **self._how)

    def _names(self) -> Names:
        names = []
        for physical in self._asked.list_collections(**self._how):
            if physical.startswith(PREFIX) and physical != _IDENTITY:
                try:
                    found = described(self._asked.describe_collection(physical, **self._how))
                except MilvusException as error:
                    if not is_missing(error):
                        raise
                else:
                    if found is not None:
                        names.append(found[0])
        return names

    def _make(self, name: str, shape: Shape) -> None:
        self._created(physical_name(name), schema_of(shape.dimension), properties_of(name, shape))

    def _created(self, physical: str, schema: Any, properties: dict[str, str]) -> None:
        parted = any(field.is_partition_key for field in schema.fields)
        options = {"num_partitions": self.settings.partitions} if parted else {}
        try:
            self._asked.create_collection(
                physical, schema=schema, properties=properties, consistency_level="Strong", **options, **self._how
            )
        except MilvusException:
            if not self._asked.has_collection(physical, **self._how):  # nor has another process made it
                raise

    def _drop(self, name: str) -> None:
        try:
            self._asked.drop_collection(physical_name(name), **self._how)
        except MilvusException as error:
            if not is_missing(error):
                raise
        self._unflushed.pop(name, None)

    def _clear(self, name: str) -> None:
        self._call(name, "delete", filter='pk != ""')
        self._unflushed.pop(name, None)

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        dimension = self._shape(name).dimension
        entities = [entity(document, dimension) for document in documents]
        for batch in bounded_batches(entities, size_of, most_size=_BATCH_BYTES, most_items=_BATCH_ROWS):
            self._call(name, "upsert", data=batch)
        for keys in _keys(deletes):
            self._call(name, "delete", filter=keys)
        if not self._is_lite:
            return
        with self._counting:
            waiting = self._unflushed.get(name, 0) + len(documents) + len(deletes)
            self._unflushed[name] = 0 if waiting >= _UNFLUSHED else waiting
        if waiting >= _UNFLUSHED:
            self._call(name, "flush")

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        return [row_of(found) for keys in _keys(ids) for found in self._query(name, keys, _fields(with_vectors))]

    def _nearest(self, name: str, query: Vector, limit: int, clause: str | None) -> list[tuple[Row, float]]:
        how: dict[str, Any] = {"metric_type": "IP", "params": {}}
        if self.settings.index == "HNSW":
            how["params"] = {"ef": max(128, 2 * limit)}
        (hits,) = self._call(
            name,
            "search",
            data=[query],
            anns_field="vector",
            filter=clause or "",
            limit=limit,
            output_fields=["record"],
            search_params=how,
            consistency_level="Strong",
        )
        return [(row_of(hit["entity"]), float(hit["distance"])) for hit in hits]

    def _scan(self, name: str, clause: str | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        last = ""
        while True:
            after = f'pk > "{last}"'
            wanted = after if clause is None else self.grammar.every([after, clause])
            # What the vendor's own iterator sends, so that a limited page holds the smallest keys.
            found = self._query(
                name, wanted, _fields(with_vectors), limit=_PAGE, iterator="True", reduce_stop_for_best="True"
            )
            yield [row_of(each) for each in found]
            if len(found) < _PAGE:
                return
            last = max(each["pk"] for each in found)

    def _count(self, name: str, clause: str | None) -> int:
        (found,) = self._query(name, clause or "", ["count(*)"])
        return int(found["count(*)"])

    def _query(self, name: str, wanted: str, fields: list[str], **options: Any) -> list[dict[str, Any]]:
        found = self._call(name, "query", filter=wanted, output_fields=fields, consistency_level="Strong", **options)
        return list(found)


def _fields(with_vectors: bool) -> list[str]:
    return ["pk", "record", "vector"] if with_vectors else ["pk", "record"]


def _keys(ids: Sequence[str]) -> Iterator[str]:
    """Yield expressions for the rows of these ids, one for each page."""
    for start in range(0, len(ids), _PAGE):
        keys = ", ".join(f'"{key_of(id)}"' for id in ids[start : start + _PAGE])
        yield f"pk in [{keys}]"
