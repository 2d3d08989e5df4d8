"""The way to a Neo4j server: one driver for each event loop, transactions with retries, and what failures mean."""

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
_LONGEST = 300
"""Characters of the server's words that an error repeats."""


class Client:
    """Runs units of work, each in one transaction, which is tried again where it failed in passing."""

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
        """What the work gives, which only asks; GraphDownError or GraphError where it fails."""
        return await self._run(lambda session: session.execute_read(work))

    async def write(self, work: Work[T]) -> T:
        """What the work gives, once it is on the server's disk; GraphDownError or GraphError where it fails."""
        return await self._run(lambda session: session.execute_write(work))

    async def close(self) -> None:
        """Close the drivers of every loop that still runs."""
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
    """What the server or the driver says, cut; our queries hold no values, so that neither do their errors."""
    if isinstance(error, Neo4jError):
        return f"{error.code}: {readable(error.message)[:_LONGEST]}"
    return f"{type(error).__name__}: {readable(str(error))[:_LONGEST]}"


async def rows(transaction: Transaction, query: str, **values: Any) -> list[dict[str, Any]]:
    """The answer to a query; values go as parameters."""
    result = await transaction.run(query, values)
    return await result.data()
