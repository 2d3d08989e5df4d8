"""The graph in Neo4j: memories and entities as nodes, what memories state as relationships."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from perdure.backends.graphs import _neo4j_read, _neo4j_write
from perdure.backends.graphs._neo4j_client import Client, Transaction
from perdure.backends.graphs._neo4j_read import Reader
from perdure.backends.graphs._neo4j_schema import Keys, prepare
from perdure.backends.graphs._rows import askable, asked_keys, check_depth, check_limit, checked
from perdure.backends.graphs.base import GraphStore
from perdure.backends.service import secret_from, text_from, without_none
from perdure.domain.errors import GraphDownError, GraphError
from perdure.domain.graph import Entity, Neighbourhood, Statement
from perdure.domain.scope import Scope

T = TypeVar("T")

DEFAULT_URL = "bolt://localhost:7687"
DEFAULT_USER = "neo4j"
_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")


class Neo4jGraphStore(GraphStore):
    """Keeps the graph in a Neo4j server or cluster, which several engines may share."""

    name: ClassVar[str] = "neo4j"

    class Settings(BaseModel):
        """Where Neo4j is, and who asks."""

        model_config = ConfigDict(
            extra="forbid",
            frozen=True,
            use_attribute_docstrings=True,
            validate_default=True,  # a default may come from the environment
            hide_input_in_errors=True,  # it may be a password
        )

        url: str = Field(default_factory=lambda: text_from("NEO4J_URL") or DEFAULT_URL)
        """The server's address for Bolt; from NEO4J_URL if left out."""
        username: str = Field(default_factory=lambda: text_from("NEO4J_USER") or DEFAULT_USER)
        """The user; from NEO4J_USER if left out."""
        password: SecretStr | None = Field(default_factory=lambda: secret_from("NEO4J_PASSWORD"))
        """The password; from NEO4J_PASSWORD if left out. A server without authentication needs none."""
        database: str | None = None
        """The database; the user's home database if left out."""
        namespace: str = Field(default="perdure", pattern=r"^[a-z][a-z0-9_-]{0,39}$")
        """Which graph of the database, so that several may share it without seeing each other."""
        timeout: float = Field(default=10.0, gt=0, le=3600)
        """Seconds that a call may take, further attempts included; an erasure of a whole scope takes several calls."""
        retry_time: float = Field(default=2.0, ge=0, le=600)
        """Seconds during which a transaction that failed in passing is tried again."""

        @model_validator(mode="before")
        @classmethod
        def _none_means_left_out(cls, values: Any) -> Any:
            return without_none(values)

        @field_validator("url")
        @classmethod
        def _is_an_address(cls, value: str) -> str:
            try:
                parts = urlsplit(value)
                good = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
            except ValueError:
                good = False
            if not good or "@" in value:
                raise ValueError(f"must be an address such as {DEFAULT_URL}, without a user")
            return value

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._keys = Keys(settings.namespace)
        self._client: Client | None = None
        self._identity: str | None = None

    # ------------------------------------------------------------------ life
    async def open(self) -> None:
        """Connect, and make constraints and indexes where they are missing.

        After a GraphDownError it counts as opened: the first call that reaches the server makes up for it.
        """
        if self._client is None:
            settings = self.settings
            auth = None if settings.password is None else (settings.username, settings.password.get_secret_value())
            self._client = Client(
                settings.url, auth, settings.database, timeout=settings.timeout, retry_time=settings.retry_time
            )
        try:
            await self._ready()
        except GraphDownError:
            raise
        except BaseException:
            await self.close()  # what is wrong stays wrong, and nobody closes what did not open
            raise

    async def close(self) -> None:
        """Close the connections."""
        client, self._client, self._identity = self._client, None, None
        if client is not None:
            await client.close()

    async def identity(self) -> str:
        """The UUID that the graph was made with."""
        await self._ready()
        return str(self._identity)

    async def _ready(self) -> Client:
        client = self._client
        if client is None:
            raise GraphError(f"the graph at {self.settings.url} is not open: call open() first")
        if self._identity is None:
            self._identity = await prepare(client, self._keys)
        return client

    # ------------------------------------------------------------------ changes
    async def state(self, statement: Statement, moment: str) -> None:
        """Make the memory state this, as this reader read it; InvalidInputError for a name that is blank."""
        stated = checked(statement)
        await self._write(lambda transaction: _neo4j_write.state(transaction, self._keys, stated, moment))

    async def take_back(self, memory_ids: Sequence[str], moment: str, by: str | None = None) -> None:
        """Let the memories state nothing any more."""
        ids = askable(memory_ids)
        await self._write(lambda transaction: _neo4j_write.take_back(transaction, self._keys, ids, moment, by))

    async def erase(self, memory_ids: Sequence[str]) -> int:
        """Remove all that these memories ever stated; Neo4j overwrites its files in its own time."""
        ids = askable(memory_ids)
        return await self._write(lambda transaction: _neo4j_write.erase(transaction, self._keys, ids))

    async def erase_scope(self, scope: Scope) -> int:
        """Remove all that memories of a scope ever stated, in several transactions where it is much."""
        where, values = _neo4j_read.where(scope), _neo4j_read.values(self._keys, scope)
        rows, more = 0, True
        while more:
            gone, more = await self._write(
                lambda transaction: _neo4j_write.erase_part(transaction, self._keys, where, values)
            )
            rows += gone
        return rows

    async def reset(self) -> None:
        """Remove everything of this namespace, in several transactions where it is much."""
        await self.erase_scope(Scope())

    async def count(self, memory_ids: Sequence[str]) -> int:
        """How many mentions and relations these memories have."""
        ids = askable(memory_ids)
        client = await self._ready()
        return await client.read(lambda transaction: _neo4j_write.count(transaction, self._keys, ids))

    # ------------------------------------------------------------------ questions
    async def entities(
        self, scope: Scope, *, names: Sequence[str] | None = None, limit: int = 100, as_of: str | None = None
    ) -> list[Entity]:
        """The entities of a scope, those named by most memories first."""
        check_limit(limit)
        keys = None if names is None else asked_keys(names)
        return await self._read(scope, as_of, lambda reader: reader.entities(keys, limit))

    async def neighbourhood(
        self, scope: Scope, names: Sequence[str], *, depth: int = 1, limit: int = 1000, as_of: str | None = None
    ) -> Neighbourhood:
        """The entities in reach, and the relations between them, at most `limit` of each."""
        check_depth(depth)
        check_limit(limit)
        keys = asked_keys(names)
        return await self._read(scope, as_of, lambda reader: reader.neighbourhood(keys, depth, limit))

    async def similar_names(self, scope: Scope, name: str, limit: int = 20) -> list[Entity]:
        """Entities of the scope whose names share a word, or its first three characters, the most alike first."""
        check_limit(limit)
        if not asked_keys([name]):
            return []
        return await self._read(scope, None, lambda reader: reader.similar_names(name, limit))

    # ------------------------------------------------------------------ transactions
    async def _read(self, scope: Scope, as_of: str | None, ask: Callable[[Reader], Awaitable[T]]) -> T:
        client = await self._ready()
        return await client.read(lambda transaction: ask(Reader(transaction, self._keys, scope, as_of)))

    async def _write(self, write: Callable[[Transaction], Awaitable[T]]) -> T:
        client = await self._ready()
        return await client.write(write)
