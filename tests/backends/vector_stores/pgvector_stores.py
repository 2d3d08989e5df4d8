"""What the tests of the pgvector store share: a server of the process's own, stores on it, what they send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import numpy as np
import psycopg

from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.pgvector.store import PgVectorStore
from tests.contracts.ledgers.ledger_postgres import Server

DIMENSION = 4


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a coroutine test on a loop of its own."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def make(server: Server, schema: str, url: str | None = None, **settings: Any) -> PgVectorStore:
    """A store that is not open yet."""
    given = {"connection_string": url or server.url(), "schema": schema, "pool_size": 3, "retry_delay": 0.05}
    return PgVectorStore(PgVectorStore.Settings(**{**given, **settings}))


@asynccontextmanager
async def opened(server: Server, schema: str, **settings: Any) -> AsyncIterator[PgVectorStore]:
    """A store for the time of a test, closed whatever happens."""
    store = make(server, schema, **settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def point(id: str, *numbers: float, **fields: Any) -> Point:
    """A row of DIMENSION numbers."""
    vector = np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], np.float32) if numbers else None
    payload = {"id": id, "memory": f"text of {id}", "user_id": "alice", "created_at": "2026-01-01", **fields}
    return Point(id, vector, {name: value for name, value in payload.items() if value is not ...})


def query(*numbers: float) -> Any:
    """A vector to search by."""
    return np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], np.float32)


class Sent:
    """Every statement that psycopg is given, with its values."""

    def __init__(self, monkeypatch: Any) -> None:
        self.statements: list[tuple[str, tuple[object, ...]]] = []
        execute = psycopg.Connection.execute

        def recorded(connection: Any, statement: Any, values: Any = None, **options: Any) -> Any:
            self.statements.append((str(statement), tuple(values or ())))
            return execute(connection, statement, values, **options)

        monkeypatch.setattr(psycopg.Connection, "execute", recorded)

    def last(self, words: str) -> tuple[str, tuple[object, ...]]:
        """The last statement with these words."""
        return next(sent for sent in reversed(self.statements) if words in sent[0])
