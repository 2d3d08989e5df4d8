"""Application state that all routes of one server share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from perdure.backends.ledgers.base import Ledger
from perdure.engine.engine import Engine
from perdure.frontends.library.memory import AsyncMemory
from perdure.frontends.server.auth.jwt import JwtVerifier
from perdure.frontends.server.metrics import Metrics
from perdure.frontends.server.middleware.rate_limit import RateLimit
from perdure.frontends.server.settings import ServerSecrets, ServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The memory of one server with its settings, metrics and authentication; on `app.state.service`."""

    memory: AsyncMemory  # unrestricted: routes take `memory_of_caller(service, caller)`
    settings: ServerSettings
    secrets: ServerSecrets
    is_open: bool  # whether requests without credentials are served while no API key was ever created
    metrics: Metrics
    limit: RateLimit
    tokens: JwtVerifier

    @property
    def engine(self) -> Engine:
        """The engine behind the memory, for routes whose library class needs it."""
        return self.memory._engine

    async def ledger(self) -> Ledger:
        """Return the open ledger, even if the vector store is down; LedgerError if the ledger cannot be used."""
        return await self.engine.kernel.ledger_alone()


def service(request: Request) -> Service:
    """Return the service of a request's app."""
    found: Service = request.app.state.service
    return found


async def current_service(request: Request) -> Service:
    """Return the same as a dependency, as a coroutine because FastAPI runs any other in a thread."""
    return service(request)


CurrentService = Annotated[Service, Depends(current_service)]  # the service, as an argument of a route
