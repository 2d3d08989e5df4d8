"""The app: every dialect's routes behind one door."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from perdure import __version__
from perdure.domain.errors import PerdureError
from perdure.engine.config import MemoryConfig
from perdure.engine.loading import load_rules
from perdure.frontends.gateway import passing
from perdure.frontends.gateway.gateway import Gateway
from perdure.frontends.gateway.routes import ROUTERS
from perdure.frontends.library.async_memory import AsyncMemory
from perdure.frontends.server import (
    health,
    routes_graph,
    routes_mem0,
    routes_memories,
    routes_memory,
    routes_team,
    routes_upkeep,
)
from perdure.frontends.server.around import Around
from perdure.frontends.server.body import BodyLimit
from perdure.frontends.server.documents import describe
from perdure.frontends.server.door import Door
from perdure.frontends.server.limits import RateLimit
from perdure.frontends.server.metrics import Metrics
from perdure.frontends.server.refusals import handle
from perdure.frontends.server.service import Service
from perdure.frontends.server.settings import ServerSecrets, read_settings
from perdure.frontends.server.slashes import Slashes
from perdure.frontends.server.sweeping import sweeping
from perdure.frontends.server.tokens import Tokens

logger = logging.getLogger("perdure.server")


def create_app(config: MemoryConfig, *, is_open: bool | None = None) -> FastAPI:
    """The app of one memory; ConfigError names a setting that is wrong, and nothing is opened before it starts.

    `is_open` says whether requests without credentials are served while no key was ever made; by default on loopback,
    or as `server.open` says. Secrets are the environment's.
    """
    settings = read_settings(config)
    secrets = ServerSecrets.read()
    service = Service(
        memory=AsyncMemory(config),
        settings=settings,
        secrets=secrets,
        is_open=(settings.on_loopback or settings.open) if is_open is None else is_open,
        metrics=Metrics(),
        limit=RateLimit(settings.rate_per_minute),
        tokens=Tokens(settings.jwt, secrets),
    )
    app = FastAPI(
        title="perdure",
        version=__version__,
        lifespan=_life,
        redirect_slashes=False,
        openapi_url="/openapi.json",
    )
    app.state.service = service
    app.state.gateway = gateway = Gateway(
        service.engine,
        config.gateway,
        trust_client_user_id=settings.trust_client_user_id,
        registry=service.metrics.registry,
    )
    # 001's last: its {memory_id} would take the names below /v1/memory that are 004's.
    for each in (health, routes_memories, routes_upkeep, routes_mem0, routes_team, routes_graph, routes_memory):
        app.include_router(each.router)
    for router in ROUTERS:
        app.include_router(router)
    gateway.keep_own([*_paths(app.routes)])
    if gateway.passes:
        app.include_router(passing.router)  # the last one: it takes what nobody took
    describe(app)
    for kind in (PerdureError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)
    # The last one added is the outermost.
    app.add_middleware(Door, service=service, gateway=gateway)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(Around, metrics=service.metrics)
    app.add_middleware(Slashes)
    return app


def _paths(routes: Iterable[BaseRoute]) -> Iterator[str]:
    """The path templates of all routes, those of routers inside of routers too."""
    for route in routes:
        if (inner := getattr(route, "original_router", None)) is not None:  # FastAPI includes routers as they are
            yield from _paths(inner.routes)
        elif isinstance(route, Route):
            yield route.path


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """Open the memory, so that what a crash left over is finished at once; close it when all requests are served."""
    service: Service = app.state.service
    gateway: Gateway = app.state.gateway
    load_rules()
    try:
        await service.engine.kernel.open()
    except PerdureError as error:
        # The server lives and says so; `readyz` and every request try again.
        logger.error("the memory could not be opened: %s", error.message)
    try:
        await gateway.start()
        async with sweeping(service.memory):
            yield
    finally:
        await gateway.close()
        await service.memory.close()
