"""The vector store on Milvus: a server, a cluster, Zilliz Cloud, or Milvus Lite inside this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import Field, SecretStr, field_validator, model_validator
from pymilvus import DataType, MilvusClient, MilvusException  # type: ignore[import-untyped]  # it has no types

from perdure.backends.vector_stores._document_engine import EngineSettings, Failure, MissingCollection, Shape
from perdure.backends.vector_stores._document_store import DocumentStore
from perdure.backends.vector_stores._documents import Document, Row
from perdure.backends.vector_stores._milvus_failures import ALREADY_THERE, NOT_LOADED, is_missing, no_database, told
from perdure.backends.vector_stores._milvus_filter import MilvusGrammar
from perdure.backends.vector_stores._milvus_lite import Lite
from perdure.backends.vector_stores._milvus_rows import (
    PREFIX,
    PROPERTY,
    batches,
    entity,
    indexes_of,
    key_of,
    physical_name,
    properties_of,
    row_of,
    schema_of,
    told_of,
)
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import VectorStoreError

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


class MilvusVectorStore(DocumentStore[str]):
    """Keeps rows in collections whose partition key is the user; searches are exact inside the user's partition."""

    name: ClassVar[str] = "milvus"
    keeps_bare = False  # every row must have a vector
    grammar = MilvusGrammar()

    class Settings(EngineSettings):
        """Where Milvus is, and how collections are made."""

        uri: str | None = None
        """Address of a server, such as `http://localhost:19530`, which it is without `path`, or `https://` for TLS."""
        token: SecretStr | None = None
        """`user:password`, or the key of Zilliz Cloud; needed where the server asks who is there."""
        db_name: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,254})?$")
        """The database on the server, made when it does not exist; empty for the default one."""
        path: Path | None = None
        """A folder for Milvus Lite, which then runs inside this process, one process at a time; no server is used."""
        partitions: int = Field(default=64, ge=1, le=1024)
        """Parts that a new collection is split into by user; Milvus Lite always makes 16."""
        index: Literal["FLAT", "HNSW"] = "FLAT"
        """How a new collection finds neighbours: exactly, or, with large partitions, fast and nearly all of them."""

        @field_validator("uri")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is None:
                return None
            try:
                parts = urlsplit(value)
                good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            except ValueError:
                good = False
            if not good:
                raise ValueError("must be an address such as http://localhost:19530; a folder is given as path")
            if parts.username is not None or parts.password is not None:
                raise ValueError("must hold no password: give token = 'user:password'")
            return value

        @field_validator("path")
        @classmethod
        def _expand(cls, path: Path | None) -> Path | None:
            return None if path is None else path.expanduser()

        @model_validator(mode="after")
        def _is_one_place(self) -> MilvusVectorStore.Settings:
            if self.path is not None and (self.uri is not None or self.token is not None):
                raise ValueError("path is for Milvus Lite in this process, uri and token are for a server: give one")
            return self

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.settings = settings
        self.exact = settings.index == "FLAT"  # type: ignore[misc]  # a class says it for engines without a choice
        self._engine: Lite | None = None
        self._client: MilvusClient | None = None
        self._is_lite = False
        self._known_as: str | None = None
        self._unflushed: dict[str, int] = {}
        self._counting = threading.Lock()
        self._how: dict[str, Any] = {"timeout": settings.timeout, "retry_on_rate_limit": False}

    # ------------------------------------------------------------------ life
    @property
    def address(self) -> str:
        """Where the store is, for messages."""
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
            told = client.describe_collection(_IDENTITY, **self._how)  # which another process may have been first with
            self._known_as = str(told["properties"][PROPERTY])
        return self._known_as

    def _failure(self, error: Exception) -> Failure | None:
        return told(error, self.address, self.settings.timeout)

    # ------------------------------------------------------------------ asking
    @property
    def _asked(self) -> MilvusClient:
        if self._client is None:
            raise VectorStoreError("the vector store milvus was closed")
        return self._client

    def _call(self, name: str, method: str, **values: Any) -> Any:
        """Call a method on a collection; one that a server that started again does not have in memory is loaded."""
        client, physical = self._asked, physical_name(name)
        try:
            return getattr(client, method)(physical, **values, **self._how)
        except MilvusException as error:
            if is_missing(error):
                raise MissingCollection from None
            if error.code != NOT_LOADED:
                raise
        client.load_collection(physical, **self._how)
        return getattr(client, method)(physical, **values, **self._how)

    # ------------------------------------------------------------------ collections
    def _find(self, name: str) -> Shape | None:
        client, physical = self._asked, physical_name(name)
        if not client.has_collection(physical, **self._how):
            return None
        try:
            found = told_of(client.describe_collection(physical, **self._how))
            if found is None or found[0] != name:
                return None
            self._ready(client, physical)
        except MilvusException as error:
            if is_missing(error):
                return None
            raise
        return found[1]

    def _ready(self, client: MilvusClient, physical: str) -> None:
        """Make the indexes that are missing, since whoever made the collection may have died, and load it."""
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
                    found = told_of(self._asked.describe_collection(physical, **self._how))
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

    # ------------------------------------------------------------------ documents
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        dimension = self._shape(name).dimension
        entities = [entity(document, dimension) for document in documents]
        for batch in batches(entities):
            self._call(name, "upsert", data=batch)
        for keys in _keys(deletes):
            self._call(name, "delete", filter=keys)
        if self._is_lite:
            self._flush_at_times(name, len(documents) + len(deletes))

    def _flush_at_times(self, name: str, written: int) -> None:
        with self._counting:
            waiting = self._unflushed.get(name, 0) + written
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
        """Pages in the order of the keys, each after the last key of the one before: an offset ends at 16,384 rows."""
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
    """Expressions for the rows of these ids, a page each."""
    for start in range(0, len(ids), _PAGE):
        keys = ", ".join(f'"{key_of(id)}"' for id in ids[start : start + _PAGE])
        yield f"pk in [{keys}]"
