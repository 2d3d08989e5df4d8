"""The FastAPI app: the routes of all dialects, their middleware and the OpenAPI document."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from perdure import __version__
from perdure.domain.errors import PerdureError
from perdure.engine.build import load_rules
from perdure.engine.config.config import MemoryConfig
from perdure.engine.maintenance.schedule import running_schedule
from perdure.frontends.faults import Dialect, dialect_of
from perdure.frontends.gateway import pass_through
from perdure.frontends.gateway.gateway import Gateway
from perdure.frontends.gateway.routes import ROUTERS
from perdure.frontends.library.memory import AsyncMemory
from perdure.frontends.server.auth.jwt import JwtVerifier
from perdure.frontends.server.error_responses import handle_error
from perdure.frontends.server.mem0 import routes as mem0
from perdure.frontends.server.metrics import Metrics
from perdure.frontends.server.middleware.auth import HEALTH_ROUTES, AuthMiddleware
from perdure.frontends.server.middleware.origin_check import OriginCheckMiddleware
from perdure.frontends.server.middleware.rate_limit import RateLimit
from perdure.frontends.server.middleware.request_context import RequestContextMiddleware, TrailingSlashMiddleware
from perdure.frontends.server.middleware.request_limits import AT_SHUTDOWN, BodyLimitMiddleware, BodyTimeoutMiddleware
from perdure.frontends.server.routes import explicit_memories, graph, health, maintenance, memories, teams
from perdure.frontends.server.routes.mcp import McpEndpoint
from perdure.frontends.server.settings import ServerSecrets, read_settings
from perdure.frontends.server.state import Service

# The OpenAPI document: error responses and credentials of every route.

DESCRIPTION = """\
Long-term memory for agents and teams: facts that are kept, corrected and recalled, and what was believed when.

Send a key as `Authorization: Bearer`, `Authorization: Token` or `X-API-Key`. A request about a team's memory names the
team in `X-Team-Scope` and needs a token, or a key of that team. A trailing slash makes no difference."""

SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or the JWT of a team's member"},
    "token": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "Token, a blank, an API key"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key"},
}
_ERRORS: dict[str, Any] = json.loads(files(__package__).joinpath("errors.json").read_bytes())
REFUSALS: dict[str, str] = _ERRORS["refusals"]  # descriptions by status
SHAPES: dict[Dialect, dict[str, Any]] = _ERRORS["shapes"]  # JSON schemas
_NAMES: dict[Dialect, str] = {
    "facts": "Fault",
    "explicit": "ExplicitFault",
    "team": "TeamFault",
    "openai": "OpenAIFault",
}
_METHODS = ("get", "put", "post", "patch", "delete", "head", "options")


def describe(app: FastAPI) -> None:
    """Add error responses and credentials to the app's OpenAPI document."""
    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(_document(app))
        return made

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    parts = found.setdefault("components", {})
    parts["securitySchemes"] = SCHEMES
    parts.setdefault("schemas", {}).update({_NAMES[dialect]: shape for dialect, shape in SHAPES.items()})
    for path, item in found.get("paths", {}).items():
        for method in _METHODS:
            if method in item:
                _complete(path, method, item[method])
    return found


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    if path in HEALTH_ROUTES:
        return
    operation["security"] = [{}, *({name: []} for name in SCHEMES)]
    shapes = sorted({dialect_of(path, method.upper(), for_team=for_team) for for_team in (False, True)})
    schemas = [{"$ref": f"#/components/schemas/{_NAMES[shape]}"} for shape in shapes]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    for status, description in REFUSALS.items():
        known = operation["responses"].get(status)
        if known is None or status == "422":  # FastAPI's own 422 shape is not the one that is sent
            operation["responses"][status] = {
                "description": description,
                "content": {"application/json": {"schema": schema}},
            }


def background_scheduler(memory: AsyncMemory) -> AbstractAsyncContextManager[None]:
    """Run due maintenance (expiry, pruning, quotas, backups) now and whenever it falls due, until the block ends."""
    return running_schedule(memory._engine)


logger = logging.getLogger("perdure.server")


def create_app(config: MemoryConfig, *, is_open: bool | None = None) -> FastAPI:
    """Build the app of one memory; ConfigError names a wrong setting, and nothing is opened before the app starts.

    `is_open`: serve requests without credentials while no API key was ever created; by default on loopback, or if
    `server.open` is set. Secrets are read from the environment.
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
        tokens=JwtVerifier(settings.jwt, secrets),
    )
    app = FastAPI(
        title="perdure", version=__version__, lifespan=_life, redirect_slashes=False, openapi_url="/openapi.json"
    )
    app.state.service = service
    app.state.gateway = gateway = Gateway(
        service.engine,
        config.gateway,
        trust_client_user_id=settings.trust_client_user_id,
        registry=service.metrics.registry,
    )
    # explicit_memories is last: its {memory_id} would match the teams' routes below /v1/memory.
    for each in (health, memories, maintenance, mem0, teams, graph, explicit_memories):
        app.include_router(each.router)
    for router in ROUTERS:
        app.include_router(router)
    app.state.mcp = endpoint = McpEndpoint(service)
    app.router.routes.extend(endpoint.routes())
    gateway.keep_own([*_paths(app.routes)])
    if gateway.passes:
        app.include_router(pass_through.router)  # the last one: it takes all remaining paths
    describe(app)
    for kind in (PerdureError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle_error)
    # The last one added is the outermost.
    app.add_middleware(AuthMiddleware, service=service, gateway=gateway)
    app.add_middleware(BodyTimeoutMiddleware, seconds=settings.request_seconds)
    app.add_middleware(BodyLimitMiddleware, max_bytes=settings.max_body_bytes)
    app.add_middleware(OriginCheckMiddleware, settings=settings, gateway=gateway)
    app.add_middleware(RequestContextMiddleware, metrics=service.metrics)
    app.add_middleware(TrailingSlashMiddleware)
    return app


def _paths(routes: Iterable[BaseRoute]) -> Iterator[str]:
    for route in routes:
        if (inner := getattr(route, "original_router", None)) is not None:  # FastAPI includes routers as they are
            yield from _paths(inner.routes)
        elif isinstance(route, Route):
            yield route.path


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Open the memory, which finishes what a crash left over; close it after the last request."""
    service: Service = app.state.service
    gateway: Gateway = app.state.gateway
    load_rules()
    try:
        await service.engine.kernel.open()
    except PerdureError as error:
        # The server starts anyway; `readyz` and every request try again.
        logger.error("the memory could not be opened: %s", error.message)
    try:
        await gateway.start()
        async with background_scheduler(service.memory):
            yield {AT_SHUTDOWN: app.state.mcp.end_streams}
    finally:
        await app.state.mcp.close()
        await gateway.close()
        await service.memory.close()
