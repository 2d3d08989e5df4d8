"""The vector store on Qdrant: a server, or its own engine in this process on a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from perdure.backends.service import secret_from, text_from
from perdure.backends.vector_stores._document_engine import EngineSettings, Failure, Shape
from perdure.backends.vector_stores._document_store import DocumentStore
from perdure.backends.vector_stores._documents import Document, Row, decode
from perdure.backends.vector_stores._qdrant_engine import QdrantEngine
from perdure.backends.vector_stores._qdrant_filter import Clause, QdrantGrammar
from perdure.backends.vector_stores._qdrant_folder import QdrantFolder, dimension_in, failure_in
from perdure.backends.vector_stores._qdrant_points import asked as asked_words
from perdure.backends.vector_stores._qdrant_points import point_id, point_of
from perdure.backends.vector_stores._qdrant_server import QdrantServer, failure_at
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import VectorStoreError

PAGE = 256
"""Rows read at a time."""
ASKED = 1000
"""Ids in one request."""


def _port() -> Any:
    return text_from("QDRANT_PORT") or 6333  # a text that is no number is told of as any other setting


class QdrantVectorStore(DocumentStore[Clause]):
    """Keeps rows as points; every search is exact, and words are ranked by Qdrant's sparse vectors."""

    name: ClassVar[str] = "qdrant"
    ranks_words: ClassVar[bool] = True

    class Settings(EngineSettings):
        """Where Qdrant is."""

        url: str | None = None
        """The server's address, such as https://xyz.cloud.qdrant.io; it stands for `host` and `https`."""
        host: str | None = Field(default_factory=lambda: text_from("QDRANT_HOST"))
        """The server's host; `localhost` without one."""
        port: int = Field(default_factory=_port, ge=1, le=65535)
        """The port of its REST API, where `url` names none."""
        https: bool | None = None
        """Whether `host` is spoken to by TLS; as with Qdrant's own client, it is where there is a key."""
        api_key: SecretStr | None = Field(default_factory=lambda: secret_from("QDRANT_API_KEY"))
        """The key, which needs the right to write."""
        path: Path | None = None
        """A folder in which Qdrant's engine runs inside this process, without a server, for one process at a time."""
        prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_-]{0,60}$")
        """What the names of our collections on the server begin with: stores with different ones do not meet."""
        on_disk: bool | None = None
        """Whether a server keeps the vectors of new collections on disk rather than in memory; it decides if None."""

        @field_validator("url")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is not None:
                parts = urlsplit(value)
                if parts.scheme not in ("http", "https") or not parts.hostname:
                    raise ValueError("must be an address such as https://host:6333")
            return value

        @field_validator("path")
        @classmethod
        def _expand(cls, value: Path | None) -> Path | None:
            return value and value.expanduser()

        @model_validator(mode="after")
        def _is_one_place(self) -> QdrantVectorStore.Settings:
            server = {"url", "host", "port", "https", "api_key", "prefix", "on_disk"} & self.model_fields_set
            if self.path is not None and server:
                raise ValueError(f"path is for Qdrant without a server, {', '.join(sorted(server))} for one")
            if self.url is not None and {"host", "https"} & self.model_fields_set:
                raise ValueError("url stands for host and https: give one or the other")
            return self

        def address(self) -> str:
            """The server's address, without a name and password that stand in it: Qdrant's client ignores those."""
            host = self.url or self.host or "localhost"
            if "://" in host:  # also in QDRANT_HOST
                parts = urlsplit(host)
                return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
            safe = self.https if self.https is not None else self.api_key is not None
            return f"{'https' if safe else 'http'}://{host}:{self.port}"

        def key(self) -> str | None:
            """The key in clear."""
            return None if self.api_key is None else self.api_key.get_secret_value()

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.settings = settings
        self.grammar = QdrantGrammar(substrings=False)
        self._opened: QdrantEngine | None = None

    @property
    def _engine(self) -> QdrantEngine:
        if self._opened is None:
            raise VectorStoreError("the vector store qdrant is not open: call open() first")
        return self._opened

    # ------------------------------------------------------------------ life
    def _connect(self) -> None:
        settings = self.settings
        if settings.path is not None:
            self._opened = QdrantFolder(settings.path)
        else:
            self._opened = QdrantServer(
                settings.address(),
                settings.port,
                settings.key(),
                timeout=settings.timeout,
                prefix=settings.prefix,
                on_disk=settings.on_disk,
            )
        self.grammar = QdrantGrammar(substrings=self._opened.substrings)

    def _disconnect(self) -> None:
        engine, self._opened = self._engine, None
        engine.close()

    def _identity(self) -> str:
        return self._engine.identity()

    def _failure(self, error: Exception) -> Failure | None:
        settings = self.settings
        if settings.path is not None:
            return failure_in(settings.path, error)
        return failure_at(settings.address(), error, key=settings.key(), timeout=settings.timeout)

    def stored_dimension(self, collection: str) -> int | None:
        """The dimension of a collection in the folder; of one on a server it cannot be told without connecting."""
        return None if self.settings.path is None else dimension_in(self.settings.path, collection)

    async def sync(self) -> None:
        """Return once everything applied so far would survive power loss of this machine."""
        await self._change(self._sync)

    async def scrub(self) -> bool:
        """Make deleted text unreadable in the folder's files; a server gives its space away in its own time."""
        await self._change(self._scrub)
        return True

    def _sync(self) -> None:
        self._engine.sync()

    def _scrub(self) -> None:
        self._engine.scrub()

    # ------------------------------------------------------------------ collections
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

    # ------------------------------------------------------------------ documents
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        self._engine.write(name, [point_of(document) for document in documents], [point_id(id) for id in deletes])

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        points = [point_id(id) for id in ids]
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
