"""The vector store on Qdrant: a server, or its own engine in this process on a folder."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from pydantic import Field, SecretStr, field_validator, model_validator
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from perdure.backends.http.service import secret_from, text_from
from perdure.backends.shared.batches import bounded_batches
from perdure.backends.validation import UserPath
from perdure.backends.vector_stores.base import Names, Shape, Shapes, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.qdrant import folder
from perdure.backends.vector_stores.qdrant.filter import GRAMMAR, WITHOUT_SUBSTRINGS, Clause, as_filter
from perdure.backends.vector_stores.qdrant.folder import asked as asked_words
from perdure.domain.errors import VectorStoreError

LABEL = "perdure"  # the key of a collection's metadata under which its label stands
IDENTITY = "perdure.identity"
"""The collection whose metadata is the server's identity; its dot keeps it apart from the names of others."""
OLDEST = (1, 16)  # the first version whose collections have metadata
WITH_SUBSTRINGS = (1, 20)  # the first version that matches a part of a text
BATCH_BYTES = 8_000_000  # about so much goes into one request; a server takes 32 MB by default
POOL = 64  # connections that one store may hold
STRONG = models.WriteOrdering.STRONG
ALLOWED = models.StrictModeConfig(
    unindexed_filtering_retrieve=True, unindexed_filtering_update=True, search_allow_exact=True
)
"""What some servers (Qdrant Cloud) forbid by default and the store cannot do without."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,60}")
_INDEXES: dict[str, Any] = {
    folder.TENANT: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    **dict.fromkeys(folder.KEYWORDS, models.PayloadSchemaType.KEYWORD),
    **dict.fromkeys(folder.DATES, models.PayloadSchemaType.DATETIME),
}


def plain_name(name: str) -> str:
    """Return a collection's name after the prefix: itself if plain, else the readable part and a digest."""
    return name if _PLAIN.fullmatch(name) else f"{re.sub('[^A-Za-z0-9_-]+', '-', name)[:40]}.{digest(name, 10)}"


class QdrantServer:
    """A server at one address."""

    def __init__(
        self, address: str, port: int, key: str | None, *, timeout: float, prefix: str, on_disk: bool | None
    ) -> None:
        self._address = address
        self._prefix = prefix
        self._on_disk = on_disk
        self._client = QdrantClient(
            url=address,
            port=port,
            api_key=key,
            timeout=math.ceil(timeout),
            check_compatibility=False,  # it warns from a thread; `_check_version` is ours
            limits=httpx.Limits(max_connections=POOL, max_keepalive_connections=POOL),
        )
        try:
            self.substrings = self._check_version() >= WITH_SUBSTRINGS
        except BaseException:
            self._client.close()
            raise

    def _check_version(self) -> tuple[int, ...]:
        info = self._client.info()
        found = re.match(r"(\d+)\.(\d+)", info.version)
        if found is None or "qdrant" not in info.title.lower():
            raise VectorStoreError(f"qdrant: what answers at {self._address} is no Qdrant server")
        version = tuple(int(part) for part in found.groups())
        if version < OLDEST:
            least = ".".join(map(str, OLDEST))
            raise VectorStoreError(
                f"qdrant: {self._address} runs Qdrant {info.version}; perdure needs {least} or newer (metadata of "
                "collections)"
            )
        return version

    def close(self) -> None:
        self._client.close()

    def identity(self) -> str:
        """Return the id in the metadata of a collection without points."""
        name = self._prefix + IDENTITY
        self._create(name, vectors_config={}, metadata={LABEL: str(uuid4())})
        return str((self._client.get_collection(name).config.metadata or {})[LABEL])

    def _create(self, name: str, **options: Any) -> None:
        """Create a collection unless it exists; of concurrent calls one wins."""
        if self._client.collection_exists(name):
            return
        try:
            self._client.create_collection(name, **options)
        except UnexpectedResponse as error:
            if error.status_code != 409 and b"already exists" not in error.content:
                raise

    def _stored_name(self, name: str) -> str:
        return self._prefix + plain_name(name)

    def find(self, name: str) -> Shape | None:
        """Return the shape in the collection's metadata, after creating indexes that an interrupted `make` left out."""
        label, info = self._label(self._stored_name(name))
        if label is None or info is None or label[0] != name:
            return None
        self._index(name, there=info.payload_schema)
        return label[1]

    def _label(self, stored: str) -> tuple[tuple[str, Shape] | None, models.CollectionInfo | None]:
        try:
            info = self._client.get_collection(stored)
        except UnexpectedResponse as error:
            if error.status_code == 404:
                return None, None
            raise
        return folder.read_label((info.config.metadata or {}).get(LABEL)), info

    def names(self) -> Names:
        """Return the names in the metadata of the collections with our prefix."""
        stored = [found.name for found in self._client.get_collections().collections]
        labels = ((one, self._label(one)[0]) for one in stored if one.startswith(self._prefix))
        return [label[0] for one, label in labels if label is not None and self._stored_name(label[0]) == one]

    def make(self, name: str, shape: Shape) -> None:
        """Create a collection without a graph, because every search here is exact."""
        stored = self._stored_name(name)
        self._create(
            stored,
            vectors_config={
                folder.DENSE: models.VectorParams(
                    size=shape.dimension, distance=models.Distance.DOT, on_disk=self._on_disk
                )
            },
            sparse_vectors_config={folder.WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            hnsw_config=models.HnswConfigDiff(m=0),
            strict_mode_config=ALLOWED,
            metadata={LABEL: folder.write_label(name, shape)},
        )
        if self._label(stored)[0] is None:
            raise VectorStoreError(
                f"qdrant: the collection {stored!r} at {self._address} is there and was not made by perdure: choose "
                "another name, or set vector_store.config.prefix"
            )
        self._index(name)

    def _index(self, name: str, *, there: Collection[str] = ()) -> None:
        with _in_collection():
            for field, schema in _INDEXES.items():
                if field not in there:
                    self._client.create_payload_index(
                        self._stored_name(name), field, schema, wait=True, ordering=STRONG
                    )

    def drop(self, name: str) -> None:
        self._client.delete_collection(self._stored_name(name))

    def clear(self, name: str) -> None:
        everything = models.FilterSelector(filter=models.Filter())
        with _in_collection():
            self._client.delete(self._stored_name(name), everything, wait=True, ordering=STRONG)

    def write(self, name: str, points: Sequence[folder.StoredPoint], deletes: Sequence[str]) -> None:
        """Write whole points in requests that a server accepts, then delete others."""
        stored = self._stored_name(name)
        with _in_collection():
            for batch in bounded_batches(points, _size_of, most_size=BATCH_BYTES):
                self._client.upsert(stored, [_sent(point) for point in batch], wait=True, ordering=STRONG)
            if deletes:
                gone = models.PointIdsList(points=list(deletes))
                self._client.delete(stored, gone, wait=True, ordering=STRONG)

    def fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[folder.Stored]:
        with _in_collection():
            found = self._client.retrieve(
                self._stored_name(name),
                list(ids),
                with_payload=[folder.RECORD],
                with_vectors=[folder.DENSE] if with_vectors else False,
            )
        return [_stored(point) for point in found]

    def nearest(
        self, name: str, query: Vector | folder.Words, limit: int, clause: Clause | None
    ) -> list[folder.Scored]:
        if isinstance(query, folder.Words):
            near: Any = models.SparseVector(indices=query.places, values=query.weights)
        else:
            near = query.tolist()
        with _in_collection():
            found = self._client.query_points(
                self._stored_name(name),
                near,
                using=folder.WORDS if isinstance(query, folder.Words) else folder.DENSE,
                query_filter=_filter(clause),
                search_params=models.SearchParams(exact=True),
                limit=limit,
                with_payload=[folder.RECORD],
            )
        return [(_record(point.payload), point.score) for point in found.points]

    def page(
        self, name: str, clause: Clause | None, after: Any, limit: int, *, with_vectors: bool
    ) -> tuple[list[folder.Stored], Any]:
        with _in_collection():
            points, following = self._client.scroll(
                self._stored_name(name),
                scroll_filter=_filter(clause),
                limit=limit,
                offset=after,
                with_payload=[folder.RECORD],
                with_vectors=[folder.DENSE] if with_vectors else False,
            )
        return [_stored(point) for point in points], following

    def count(self, name: str, clause: Clause | None) -> int:
        with _in_collection():
            return self._client.count(self._stored_name(name), count_filter=_filter(clause), exact=True).count


@contextmanager
def _in_collection() -> Iterator[None]:
    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code == 404:
            raise MissingCollection from None
        raise


def failure_at(address: str, error: Exception, *, key: str | None, timeout: float) -> Failure | None:
    if isinstance(error, ResourceExhaustedResponse):
        return Failure(f"{address} has too much to do (status 429)", passing=True)
    if isinstance(error, UnexpectedResponse):
        return _answered(error, address, key)
    if not isinstance(error, (ResponseHandlingException, json.JSONDecodeError, UnicodeDecodeError)):
        return None
    source = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(source, httpx.TimeoutException):
        return Failure(f"no answer from {address} within {timeout:g} s", passing=True)
    if isinstance(source, httpx.TransportError):
        return Failure(
            f"no connection to {address} ({type(source).__name__}): is Qdrant running there? It is given by "
            "vector_store.config.url, or host and port, or QDRANT_HOST and QDRANT_PORT",
            passing=True,
        )
    return Failure(f"the answer of {address} cannot be read ({type(source).__name__}): is it a Qdrant server?")


def _answered(error: UnexpectedResponse, address: str, key: str | None) -> Failure:
    status = error.status_code or 0
    if status in (401, 403):
        return Failure(
            f"{address} refused the key (status {status}): give one that may write in vector_store.config.api_key or "
            "QDRANT_API_KEY"
        )
    said = error.content[:500].decode("utf-8", "replace")
    if key:
        said = said.replace(key, "***")
    return Failure(f"{address} answered with status {status}: {said}", passing=status in (408, 429) or status >= 500)


def _filter(clause: Clause | None) -> models.Filter | None:
    return None if clause is None else models.Filter.model_validate(as_filter(clause))


def _size_of(point: folder.StoredPoint) -> int:
    """Return roughly how many bytes the point takes in a request."""
    numbers = (0 if point.dense is None else len(point.dense)) + 2 * (len(point.words.places) if point.words else 0)
    return 20 * numbers + 3 * len(point.payload[folder.RECORD]) + 500


def _sent(point: folder.StoredPoint) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[folder.DENSE] = point.dense.tolist()
    if point.words is not None:
        vectors[folder.WORDS] = models.SparseVector(indices=point.words.places, values=point.words.weights)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def _stored(point: models.Record) -> folder.Stored:
    vectors = point.vector if isinstance(point.vector, dict) else {}
    return _record(point.payload), vectors.get(folder.DENSE)  # type: ignore[return-value]  # a dense vector is of floats


def _record(payload: dict[str, Any] | None) -> str:
    return str((payload or {})[folder.RECORD])


PAGE = 256  # rows read at a time
ASKED = 1000  # ids in one request


def _port() -> Any:
    return text_from("QDRANT_PORT") or 6333  # a text that is no number is told of as any other setting


class QdrantVectorStore(DocumentStore[Clause]):
    """Stores rows as points; every search is exact, and words are ranked by Qdrant's sparse vectors."""

    name: ClassVar[str] = "qdrant"
    ranks_words: ClassVar[bool] = True
    grammar = GRAMMAR
    settings: Settings

    class Settings(EngineSettings):
        """Qdrant's address or folder."""

        url: str | None = None
        """The server's address, such as https://xyz.cloud.qdrant.io; it replaces `host` and `https`."""
        host: str | None = Field(default_factory=lambda: text_from("QDRANT_HOST"))
        """The server's host; `localhost` without one."""
        port: int = Field(default_factory=_port, ge=1, le=65535)
        """The port of its REST API, if `url` names none."""
        https: bool | None = None
        """Whether to use TLS for `host`; as in Qdrant's own client, the default is yes if there is a key."""
        api_key: SecretStr | None = Field(default_factory=lambda: secret_from("QDRANT_API_KEY"))
        """The API key, which needs write permission."""
        path: UserPath | None = None
        """A folder for Qdrant's engine inside this process, without a server, one process at a time."""
        prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_-]{0,60}$")
        """Prefix of collection names on the server: stores with different prefixes are separate."""
        on_disk: bool | None = None
        """Whether a server keeps the vectors of new collections on disk and not in memory; None: its default."""

        @field_validator("url")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is not None:
                parts = urlsplit(value)
                if parts.scheme not in ("http", "https") or not parts.hostname:
                    raise ValueError("must be an address such as https://host:6333")
            return value

        @model_validator(mode="after")
        def _is_one_place(self) -> QdrantVectorStore.Settings:
            server = {"url", "host", "port", "https", "api_key", "prefix", "on_disk"} & self.model_fields_set
            if self.path is not None and server:
                raise ValueError(f"path is for Qdrant without a server, {', '.join(sorted(server))} for one")
            if self.url is not None and {"host", "https"} & self.model_fields_set:
                raise ValueError("url stands for host and https: give one or the other")
            return self

        def address(self) -> str:
            """Return the server's address without credentials, which Qdrant's client ignores."""
            host = self.url or self.host or "localhost"
            if "://" in host:  # also in QDRANT_HOST
                parts = urlsplit(host)
                return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
            safe = self.https if self.https is not None else self.api_key is not None
            return f"{'https' if safe else 'http'}://{host}:{self.port}"

        def key(self) -> str | None:
            return None if self.api_key is None else self.api_key.get_secret_value()

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._opened: QdrantServer | folder.QdrantFolder | None = None

    @property
    def _engine(self) -> QdrantServer | folder.QdrantFolder:
        if self._opened is None:
            raise VectorStoreError("the vector store qdrant is not open: call open() first")
        return self._opened

    def _connect(self) -> None:
        settings = self.settings
        if settings.path is not None:
            self._opened = folder.QdrantFolder(settings.path)
        else:
            self._opened = QdrantServer(
                settings.address(),
                settings.port,
                settings.key(),
                timeout=settings.timeout,
                prefix=settings.prefix,
                on_disk=settings.on_disk,
            )
        self.grammar = GRAMMAR if self._opened.substrings else WITHOUT_SUBSTRINGS

    def _disconnect(self) -> None:
        engine, self._opened = self._engine, None
        engine.close()

    def _identity(self) -> str:
        return self._engine.identity()

    def _failure(self, error: Exception) -> Failure | None:
        settings = self.settings
        if settings.path is not None:
            return folder.failure_in(settings.path, error)
        return failure_at(settings.address(), error, key=settings.key(), timeout=settings.timeout)

    def stored_collections(self) -> Shapes:
        return {} if self.settings.path is None else folder.collections_in(self.settings.path)

    async def sync(self) -> None:
        await self._change(lambda: self._on_folder(folder.QdrantFolder.sync))

    async def scrub(self) -> bool:
        """Make deleted text unreadable in the folder's files; a server frees its space in its own time."""
        await self._change(lambda: self._on_folder(folder.QdrantFolder.scrub))
        return True

    def _on_folder(self, work: Callable[[folder.QdrantFolder], None]) -> None:
        if isinstance(self._engine, folder.QdrantFolder):
            work(self._engine)

    def _find(self, name: str) -> Shape | None:
        return self._engine.find(name)

    def _names(self) -> Names:
        return self._engine.names()

    def _make(self, name: str, shape: Shape) -> None:
        self._engine.make(name, shape)

    def _drop(self, name: str) -> None:
        self._engine.drop(name)

    def _clear(self, name: str) -> None:
        self._engine.clear(name)

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        self._engine.write(
            name, [folder.point_of(document) for document in documents], [folder.point_id(id) for id in deletes]
        )

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        points = [folder.point_id(id) for id in ids]
        return [
            decode(record, vector)
            for start in range(0, len(points), ASKED)
            for record, vector in self._engine.fetch(name, points[start : start + ASKED], with_vectors=with_vectors)
        ]

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        return [(decode(record), score) for record, score in self._engine.nearest(name, query, limit, clause)]

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        words = asked_words(asked)
        return [(decode(record), score) for record, score in self._engine.nearest(name, words, limit, clause)]

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        after = None
        while True:
            found, after = self._engine.page(name, clause, after, PAGE, with_vectors=with_vectors)
            yield [decode(record, vector) for record, vector in found]
            if after is None:
                return

    def _count(self, name: str, clause: Clause | None) -> int:
        return self._engine.count(name, clause)
