"""Client of a Neo4j server: one driver per event loop, transactions with retries, error mapping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import neo4j
from neo4j.exceptions import (
    AuthError,
    ConnectionAcquisitionTimeoutError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from perdure.backends.http.service import LoopClients, readable
from perdure.domain.errors import GraphDownError, GraphError

T = TypeVar("T")
Transaction = neo4j.AsyncManagedTransaction
Work = Callable[[Transaction], Awaitable[T]]
_DOWN = (ServiceUnavailable, SessionExpired, TransientError, ConnectionAcquisitionTimeoutError, OSError)
_LONGEST = 300  # characters of the server's words that an error repeats


class Client:
    """Runs work in single transactions, retried after transient failures."""

    def __init__(
        self, url: str, auth: tuple[str, str] | None, database: str | None, *, timeout: float, retry_time: float
    ) -> None:
        self._url = url
        self._auth = auth
        self._database = database
        self._timeout = timeout
        self._retry_time = retry_time
        self._drivers = LoopClients(neo4j.AsyncDriver.close)

    async def read(self, work: Work[T]) -> T:
        """Return the result of work that only reads; GraphDownError or GraphError on failure."""
        return await self._run(lambda session: session.execute_read(work))

    async def write(self, work: Work[T]) -> T:
        """Return the result of work once it is on the server's disk; GraphDownError or GraphError on failure."""
        return await self._run(lambda session: session.execute_write(work))

    async def close(self) -> None:
        """Close the drivers of all running event loops."""
        await self._drivers.close()

    async def _run(self, ask: Callable[[neo4j.AsyncSession], Awaitable[T]]) -> T:
        try:
            driver = await self._drivers.of_this_loop(self._driver)
            async with asyncio.timeout(self._timeout), driver.session(database=self._database) as session:
                return await ask(session)
        except TimeoutError:
            failure: GraphError = GraphDownError(f"neo4j at {self._url} gave no answer within {self._timeout:g} s")
        except _DOWN as error:
            failure = GraphDownError(f"neo4j at {self._url} cannot be reached: {_words(error)}")
        except AuthError as error:
            failure = GraphError(f"neo4j at {self._url} refused the user or password ({error.code})")
        except (Neo4jError, DriverError) as error:
            failure = GraphError(f"neo4j at {self._url} failed: {_words(error)}")
        raise failure  # outside of the handler: the driver's exception holds values, and is not chained to ours

    async def _driver(self) -> neo4j.AsyncDriver:
        return neo4j.AsyncGraphDatabase.driver(
            self._url,
            auth=self._auth,
            connection_timeout=self._timeout,
            connection_acquisition_timeout=self._timeout,
            max_transaction_retry_time=self._retry_time,
            initial_retry_delay=0.1,
            notifications_min_severity="OFF",  # an empty database lacks the names that we ask for, and says so
            telemetry_disabled=True,
            user_agent="perdure",
        )


def _words(error: Exception) -> str:
    """Return the error's words, shortened; our queries hold no values, so errors hold none either."""
    if isinstance(error, Neo4jError):
        return f"{error.code}: {readable(error.message)[:_LONGEST]}"
    return f"{type(error).__name__}: {readable(str(error))[:_LONGEST]}"


async def rows(transaction: Transaction, query: str, **values: Any) -> list[dict[str, Any]]:
    """Return the rows of a query; values are passed as parameters."""
    result = await transaction.run(query, values)
    return await result.data()
