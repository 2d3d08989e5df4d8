"""Service: what every route of one server works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from perdure.backends.ledgers.base import Ledger
from perdure.engine.engine import Engine
from perdure.frontends.library.async_memory import AsyncMemory
from perdure.frontends.server.limits import RateLimit
from perdure.frontends.server.metrics import Metrics
from perdure.frontends.server.settings import ServerSecrets, ServerSettings
from perdure.frontends.server.tokens import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One memory, without walls, and what stands around it; on `app.state.service`."""

    memory: AsyncMemory
    """Without walls: routes take `walled(service, caller)`."""
    settings: ServerSettings
    secrets: ServerSecrets
    is_open: bool
    """Whether requests without credentials are served as long as no key was ever made."""
    metrics: Metrics
    limit: RateLimit
    tokens: Tokens

    @property
    def engine(self) -> Engine:
        """The engine behind the memory, for routes whose library class stands on it too."""
        return self.memory._engine

    async def ledger(self) -> Ledger:
        """The ledger, open, whether the vector store can be or not; LedgerError where it cannot be used.

        Then nobody can be made sure of.
        """
        return await self.engine.kernel.ledger_alone()


def service(request: Request) -> Service:
    """The service of the app that a request came to."""
    found: Service = request.app.state.service
    return found


Serving = Annotated[Service, Depends(service)]
"""The service, as an argument of a route."""
