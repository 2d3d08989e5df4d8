"""Vectors in Chroma: a server, or the engine in this process on a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from json import JSONDecodeError
from typing import Any, ClassVar, Literal, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import numpy as np
from chromadb import errors
from chromadb.api import ServerAPI
from chromadb.api.collection_configuration import CreateCollectionConfiguration
from chromadb.api.fastapi import FastAPI
from chromadb.api.models.Collection import Collection
from chromadb.api.types import Include, Metadata
from chromadb.config import Settings, System
from pydantic import Field, SecretStr, field_validator, model_validator

from perdure.backends.extras import extra_line
from perdure.backends.file_lock import FolderLock
from perdure.backends.http.service import secret_from, text_from
from perdure.backends.shared.batches import bounded_batches
from perdure.backends.validation import UserPath
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.chroma.filter import GRAMMAR, TOKENS, Where, is_plain, sortable, span_key
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.filter_clauses import word_token
from perdure.domain.errors import DependencyError, InvalidInputError, VectorStoreError
from perdure.domain.scope import SCOPE_FIELDS

# Rows and collections in Chroma's terms: ids, names and metadata.
#
# A row's document is its record, because Chroma gives documents without the metadata, five times faster than with it.

PREFIX = "perdure."  # what the names of our collections begin with in Chroma
IDENTITY = "perdure"  # the collection whose metadata has the store's id
MARK = "perdure"  # the metadata key of a collection's true name, dimension and model, as JSON in ASCII
ROW = "row"  # a token that every row has: Chroma refuses empty lists
MOST_ENTRIES = 5_000
"""List entries, or keys, in one row's metadata. From 5,462 on Chroma can never read the collection again."""

_BATCH_ROWS = 500
_BATCH_BYTES = 8_000_000  # a server takes requests of 40 MB
_PLAIN_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{0,59}[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Record:
    """A row in Chroma's form."""

    id: str
    vector: Vector
    metadata: dict[str, Any]
    document: str


def collection_name(name: str) -> str:
    """Return the collection's name in Chroma: readable, and unique because plain names have no dot."""
    if _PLAIN_NAME.fullmatch(name):
        return PREFIX + name
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40]
    return f"{PREFIX}{slug or '_'}.{digest(json.dumps(name), 16)}"


def describe(name: str, shape: Shape) -> dict[str, str]:
    return {MARK: json.dumps([name, shape.dimension, shape.model])}


def described(metadata: object) -> tuple[str, Shape] | None:
    text = metadata.get(MARK) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        return None
    name, dimension, model = json.loads(text)
    return name, Shape(dimension, model)


def row_id(id: str) -> str:
    """Return the row's id in Chroma: its own if it is plain, else a digest, which no plain id looks like."""
    return id if _PLAIN_ID.fullmatch(id) else f"#{digest(json.dumps(id), 16)}"


def to_record(document: Document, dimension: int) -> Record:
    """Return the record of a document; missing fields are None, so that merging removes an older version's."""
    vector = np.zeros(dimension, np.float32) if document.vector is None else document.vector
    metadata: dict[str, Any] = {
        field: text if (text := document.scope.get(field)) is not None and is_plain(text) else None
        for field in SCOPE_FIELDS
    }
    metadata[TOKENS] = [ROW, *_tokens(document)]
    metadata |= {span_key("number", path): sortable(number) for path, number in document.numbers.items()}
    metadata |= {span_key("moment", path): moment for path, moment in document.moments.items()}
    if len(metadata) > MOST_ENTRIES:
        raise _too_many(document.id)
    return Record(row_id(document.id), vector, metadata, document.record)


def _tokens(document: Document) -> list[str]:
    """Return all tokens, or those of the fields and of the first words if there are too many."""
    tokens = document.tokens
    if len(tokens) <= MOST_ENTRIES:
        return tokens
    spoken = list(dict.fromkeys(map(word_token, document.stems)))
    words = set(spoken)
    fields = [token for token in tokens if token not in words]
    if len(fields) > MOST_ENTRIES:
        raise _too_many(document.id)
    return fields + spoken[: MOST_ENTRIES - len(fields)]


def _too_many(id: str) -> InvalidInputError:
    return InvalidInputError(
        f"the row {id!r} has more than {MOST_ENTRIES} values, which Chroma cannot keep: leave lists out of its "
        "metadata, or make them shorter",
        field="metadata",
        value=None,
    )


def batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Split the records into requests that a server accepts."""

    def size_of(record: Record) -> int:
        return len(record.document) + 6 * record.vector.size + 26 * len(record.metadata[TOKENS])

    return bounded_batches(records, size_of, most_size=_BATCH_BYTES, most_items=_BATCH_ROWS)


_LONGEST_MESSAGE = 300


def open_server(host: str, port: int, *, ssl: bool, headers: dict[str, str], timeout: float) -> System:
    """Make a client of a server, without asking it anything."""
    system = System(
        Settings(
            _env_file=None,  # else Chroma reads the .env of the working folder, and refuses what it does not know there
            anonymized_telemetry=False,
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host=host,
            chroma_server_http_port=port,
            chroma_server_ssl_enabled=ssl,
            chroma_server_headers=headers,
        )
    )
    api = system.instance(ServerAPI)  # type: ignore[type-abstract]  # Chroma finds its implementation by it
    assert isinstance(api, FastAPI)
    # Chroma's client waits for ever and tells no status; it has no setting for either.
    api._session.timeout = httpx.Timeout(timeout)
    api._session.event_hooks = {"response": [_tell_status]}
    system.start()
    return system


def open_folder(folder: str) -> System:
    if find_spec("chromadb.is_thin_client") is not None:  # a module of chromadb-client alone
        raise DependencyError(
            "a chroma store with a path needs the whole package chromadb, and only chromadb-client is installed: "
            + extra_line("chroma")
        )
    system = System(
        Settings(
            _env_file=None,
            anonymized_telemetry=False,
            chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
            is_persistent=True,
            persist_directory=folder,
        )
    )
    system.instance(ServerAPI)  # type: ignore[type-abstract]  # as above
    system.start()
    return system


def close(system: System) -> None:
    """Close the client's connections, or the engine."""
    api = system.instance(ServerAPI)  # type: ignore[type-abstract]  # Chroma finds its implementation by it
    if isinstance(api, FastAPI):
        api._session.close()  # stopping it leaves its connections open
    system.stop()


def _tell_status(response: httpx.Response) -> None:
    if response.status_code in (401, 403, 408, 413, 429) or response.status_code >= 500:
        response.read()
        raise httpx.HTTPStatusError("", request=response.request, response=response)


def failure(error: Exception, place: str, timeout: float) -> Failure | None:
    if isinstance(error, httpx.HTTPStatusError):
        return _of_status(error.response, place)
    if isinstance(error, httpx.TimeoutException):
        return Failure(f"no answer from {place} within {timeout:g} s: try again, or raise timeout", passing=True)
    if isinstance(error, httpx.TransportError):
        return Failure(
            f"cannot reach {place} ({error or type(error).__name__}): start it (`chroma run`), or set host and port "
            "(CHROMA_HOST, CHROMA_PORT), or path to need no server",
            passing=True,
        )
    if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
        return Failure(f"{place} cannot be asked: {_short(str(error))}")
    if isinstance(error, JSONDecodeError):
        return Failure(f"what answers at {place} is no Chroma server with API v2: check host, port and ssl")
    if isinstance(error, errors.ChromaError):
        return _of_chroma(error, place)
    if type(error) is Exception:  # Chroma's client raises it for an answer that it does not know
        return Failure(f"{place} answered: {_short(str(error))}")
    return None


def _of_status(response: httpx.Response, place: str) -> Failure:
    status, said = response.status_code, _short(response.text)
    if status in (401, 403):
        return Failure(f"{place} refused the key (status {status}): check api_key and token_header, or CHROMA_API_KEY")
    if status == 413:
        return Failure(f"a row is larger than {place} takes: raise max_payload_size_bytes of the server")
    return Failure(f"{place} answered with status {status}: {said}", passing=True)


def _of_chroma(error: errors.ChromaError, place: str) -> Failure:
    said = _short(str(error))
    if isinstance(error, errors.ChromaAuthError | errors.AuthorizationError):
        return Failure(f"{place} refused the key: check api_key and token_header, or CHROMA_API_KEY")
    if isinstance(error, errors.RateLimitError | errors.QuotaError):
        return Failure(f"{place} has had enough for now: {said}", passing=isinstance(error, errors.RateLimitError))
    if isinstance(error, errors.NotFoundError):
        return Failure(f"{place} misses something: {said}")
    return Failure(f"{place} failed: {said}", passing=isinstance(error, errors.InternalError) and "locked" in said)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"


T = TypeVar("T")
_PAGE = 1_000  # rows that are read at one time
_INDEX: CreateCollectionConfiguration = {"hnsw": {"space": "ip", "ef_construction": 200, "ef_search": 200}}
"""The inner product of vectors of length 1 is their cosine, and 0 for zeros; twice Chroma's efforts find more."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A collection as last seen; another process may have removed it since."""

    collection: Collection
    name: str
    shape: Shape


class ChromaVectorStore(DocumentStore[Where]):
    """Stores rows in Chroma; scopes of up to 10,000 rows are searched exactly, larger ones by Chroma's HNSW index."""

    name: ClassVar[str] = "chroma"
    exact = False
    keeps_bare = False
    grammar = GRAMMAR
    settings: ChromaVectorStore.Settings

    class Settings(EngineSettings):
        """Chroma's address or folder."""

        host: str = Field(default_factory=lambda: text_from("CHROMA_HOST") or "localhost")
        """The server's name, or its address (`https://host:port`)."""
        port: int = Field(default_factory=lambda: _port(text_from("CHROMA_PORT")), ge=1, le=65535)
        """The server's port, if `host` names none."""
        ssl: bool = False
        """Whether to use https."""
        api_key: SecretStr | None = Field(default_factory=lambda: secret_from("CHROMA_API_KEY"))
        """The token that the server, or a proxy in front of it, requires."""
        token_header: Literal["x-chroma-token", "authorization"] = "x-chroma-token"  # noqa: S105 - a header's name
        """The header of the token; in `authorization` it follows the word Bearer."""
        path: UserPath | None = None
        """A folder for the engine in this process: no server is needed, and one process at a time may use it."""
        tenant: str = Field("default_tenant", min_length=1)
        """The tenant that the database belongs to."""
        database: str = Field("default_database", min_length=3)
        """The database of the collections; created if it is missing."""

        @field_validator("host")
        @classmethod
        def _is_a_host(cls, host: str) -> str:
            parts = urlsplit(host if "://" in host else f"http://{host}")
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.path not in "/":
                raise ValueError("must be a host's name or an address such as https://host:8000")
            _ = parts.port  # raises ValueError for one that is none
            return host

        @model_validator(mode="after")
        def _either_or(self) -> ChromaVectorStore.Settings:
            if self.path is not None and self.model_fields_set & {"host", "port", "ssl", "api_key"}:
                raise ValueError("path is for the engine in this process: leave host, port, ssl and api_key out")
            return self

        def address(self) -> tuple[str, int, bool]:
            """Return host, port and whether it is https."""
            parts = urlsplit(self.host if "://" in self.host else f"http://{self.host}")
            ssl = self.ssl or parts.scheme == "https"
            host = parts.hostname or ""
            return f"[{host}]" if ":" in host else host, parts.port or self.port, ssl

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._lock: FolderLock | None = None
        self._system: System | None = None
        self._held: dict[str, _Held] = {}
        self._tenant, self._database = settings.tenant, settings.database
        if settings.path is None:
            host, port, ssl = settings.address()
            self._place = f"the Chroma server at {'https' if ssl else 'http'}://{host}:{port}"
        else:
            self._place = f"Chroma in {settings.path}"

    def _connect(self) -> None:
        try:
            self._system = self._start()
            self._make_database()
        except BaseException:
            self._disconnect()
            raise

    def _start(self) -> System:
        settings = self.settings
        if settings.path is not None:
            self._lock = FolderLock(settings.path)
            return open_folder(str(self._lock.folder))
        host, port, ssl = settings.address()
        headers: dict[str, str] = {}
        if settings.api_key is not None:
            bearer = settings.token_header.startswith("auth")
            headers[settings.token_header] = f"{'Bearer ' * bearer}{settings.api_key.get_secret_value()}"
        return open_server(host, port, ssl=ssl, headers=headers, timeout=settings.timeout)

    def _make_database(self) -> None:
        try:
            self._api.get_database(self._database, self._tenant)
        except errors.NotFoundError:
            try:
                self._api.create_database(self._database, self._tenant)
            except errors.ChromaError:
                self._api.get_database(
                    self._database, self._tenant
                )  # another process made it, or the reason is told here

    def _disconnect(self) -> None:
        system, lock = self._system, self._lock
        self._system = self._lock = None
        self._held.clear()
        if system is not None:
            close(system)
        if lock is not None:
            lock.release()

    @property
    def _api(self) -> ServerAPI:
        if self._system is None:
            raise VectorStoreError(f"{self._place} was closed meanwhile: open it again")
        return self._system.instance(ServerAPI)  # type: ignore[type-abstract]  # Chroma finds the concrete one

    def _identity(self) -> str:
        model = self._api.create_collection(
            IDENTITY,
            metadata={"identity": str(uuid4())},
            get_or_create=True,
            tenant=self._tenant,
            database=self._database,
        )
        return str((model.metadata or {})["identity"])

    def _failure(self, error: Exception) -> Failure | None:
        return failure(error, self._place, self.settings.timeout)

    def _find(self, name: str) -> Shape | None:
        try:
            return self._look(name).shape
        except MissingCollection:
            return None

    def _look(self, name: str) -> _Held:
        self._held.pop(name, None)
        try:
            model = self._api.get_collection(collection_name(name), tenant=self._tenant, database=self._database)
        except errors.NotFoundError:
            raise MissingCollection from None
        found = described(model.metadata)
        if found is None or found[0] != name:
            raise MissingCollection
        collection = Collection(client=self._api, model=model, embedding_function=None, data_loader=None)
        held = self._held[name] = _Held(collection, name, found[1])
        return held

    def _ask(self, name: str, use: Callable[[_Held], T]) -> T:
        """Use a collection; if it was removed and created again since, the new one."""
        held = self._held.get(name) or self._look(name)
        try:
            return use(held)
        except errors.NotFoundError:
            again = self._look(name)
            if again.shape.dimension != held.shape.dimension:
                raise MissingCollection from None
            return use(again)

    def _names(self) -> Names:
        names: set[str] = set()
        for offset in count(0, _PAGE):
            models = self._api.list_collections(
                limit=_PAGE, offset=offset, tenant=self._tenant, database=self._database
            )
            names.update(found[0] for model in models if (found := described(model.metadata)))
            if len(models) < _PAGE:
                break
        return list(names)

    def _make(self, name: str, shape: Shape) -> None:
        known = collection_name(name)
        model = self._api.create_collection(
            known,
            configuration=_INDEX,
            metadata=describe(name, shape),
            get_or_create=True,
            tenant=self._tenant,
            database=self._database,
        )
        if described(model.metadata) is None:
            raise VectorStoreError(f"{self._place} has a collection {known!r} that perdure did not make: rename it")

    def _drop(self, name: str) -> None:
        self._held.pop(name, None)
        try:
            self._api.delete_collection(collection_name(name), tenant=self._tenant, database=self._database)
        except errors.NotFoundError:
            return

    def _clear(self, name: str) -> None:
        def clear(held: _Held) -> None:
            ids = held.collection.get(include=[])["ids"]
            for start in range(0, len(ids), _PAGE):
                held.collection.delete(ids=ids[start : start + _PAGE])

        self._ask(name, clear)

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        def write(held: _Held) -> None:
            records = [to_record(document, held.shape.dimension) for document in documents]
            for batch in batches(records):
                _put(held.collection, batch)
            gone = [row_id(id) for id in deletes]
            for start in range(0, len(gone), _PAGE):
                held.collection.delete(ids=gone[start : start + _PAGE])

        self._ask(name, write)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        known = [row_id(id) for id in ids]
        return [row for page in self._pages(name, known, with_vectors=with_vectors) for row in page]

    def _nearest(self, name: str, query: Vector, limit: int, clause: Where | None) -> list[tuple[Row, float]]:
        def ask(held: _Held) -> list[tuple[Row, float]]:
            found = held.collection.query(
                query_embeddings=query[None, :], n_results=limit, where=clause, include=["documents", "distances"]
            )
            records, distances = found["documents"], found["distances"]
            assert records is not None
            assert distances is not None
            return [(decode(text), 1.0 - far) for text, far in zip(records[0], distances[0], strict=True)]

        best = self._ask(name, ask)
        if len(best) < limit and len(best) < self._count(name, clause):
            return self._nearest_of_all(name, query, limit, clause)
        return best

    def _nearest_of_all(self, name: str, query: Vector, limit: int, clause: Where | None) -> list[tuple[Row, float]]:
        """Compute every row's product here, because the index returns too few rows when asked for many."""
        best: list[tuple[Row, float]] = []
        for page in self._scan(name, clause, with_vectors=True):
            best += [(row, float(row.vector @ query)) for row in page if row.vector is not None]
            best = sorted(best, key=lambda pair: -pair[1])[:limit]
        return [(Row(row.id, row.payload), score) for row, score in best]

    def _scan(self, name: str, clause: Where | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        first = self._ask(name, lambda held: _read(held.collection, clause, with_vectors=with_vectors, limit=_PAGE + 1))
        if len(first) <= _PAGE:
            yield first
            return
        # By ids, not by offsets: those would skip rows while others delete some.
        ids = self._ask(name, lambda held: held.collection.get(where=clause, include=[])["ids"])
        yield from self._pages(name, ids, with_vectors=with_vectors)

    def _pages(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> Iterator[list[Row]]:
        for start in range(0, len(ids), _PAGE):
            some = list(ids[start : start + _PAGE])

            def read(held: _Held, some: list[str] = some) -> list[Row]:
                return _read(held.collection, None, with_vectors=with_vectors, ids=some)

            yield self._ask(name, read)

    def _count(self, name: str, clause: Where | None) -> int:
        if clause is None:
            return self._ask(name, lambda held: held.collection.count())
        return self._ask(name, lambda held: len(held.collection.get(where=clause, include=[])["ids"]))


def _port(text: str | None) -> Any:
    """Return CHROMA_PORT, for pydantic to check."""
    return text or 8000


def _put(collection: Collection, batch: Sequence[Record]) -> None:
    """Write whole records: Chroma merges metadata, so keys of older versions are removed."""
    ids = [record.id for record in batch]
    old = collection.get(ids=ids, include=["metadatas"])
    keys = {id: metadata.keys() for id, metadata in zip(old["ids"], old["metadatas"] or [], strict=True) if metadata}
    metadatas: list[Metadata] = [{**dict.fromkeys(keys.get(record.id, ())), **record.metadata} for record in batch]
    collection.upsert(
        ids=ids,
        embeddings=np.stack([record.vector for record in batch]),
        metadatas=metadatas,
        documents=[record.document for record in batch],
    )


def _read(
    collection: Collection,
    clause: Where | None,
    *,
    with_vectors: bool,
    ids: list[str] | None = None,
    limit: int | None = None,
) -> list[Row]:
    include: Include = ["documents", "embeddings"] if with_vectors else ["documents"]
    found = collection.get(ids=ids, where=clause, limit=limit, include=include)
    records = found["documents"] or []
    vectors: Any = found["embeddings"] if with_vectors else [None] * len(records)
    pairs = zip(records, vectors, strict=True)
    return [decode(record, vector) for record, vector in pairs if record is not None]  # None: deleted meanwhile
