"""The FastAPI app: the routes of all dialects, their middleware and the OpenAPI document."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse
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
    """Add error responses and credentials to the app's OpenAPI document, and the page `/docs` of it."""
    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(_document(app))
        return made

    app.openapi = document  # type: ignore[method-assign]
    page: list[str] = []

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        """Return the page of every operation."""
        if not page:
            page.append(docs_page(document()))
        return HTMLResponse(page[0], headers=PAGE_HEADERS)


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


# The page `/docs`: it has the origin of the server, so it runs no scripts and loads nothing, from here or elsewhere.

_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "summary{cursor:pointer}table{border-collapse:collapse}td{padding:0 1rem 0 0;vertical-align:top}"
    "p{white-space:pre-line}details>div{margin:0 0 1rem 1.5rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Headers of the page `/docs`."""


def docs_page(document: dict[str, Any]) -> str:
    """Return an HTML page of every operation of an OpenAPI document, by tag."""
    schemas = document.get("components", {}).get("schemas", {})
    by_tag: dict[str, list[str]] = {}
    for path, item in document.get("paths", {}).items():
        for method, operation in item.items():
            if method in _METHODS:
                shown = _operation_html(method, path, operation, schemas)
                by_tag.setdefault(operation.get("tags", ["others"])[0], []).append(shown)
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    parts = [f"<h2>{escape(tag)}</h2>{''.join(shown)}" for tag, shown in by_tag.items()]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"</head><body><h1>{title}</h1><p>{escape(document['info'].get('description', ''))}</p>"
        f'<p><a href="openapi.json">openapi.json</a> says the same to programs.</p>{"".join(parts)}</body></html>'
    )


def _operation_html(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parameters = [
        (each["name"], each["in"], _told(each["schema"], each.get("required")), each.get("description", ""))
        for each in operation.get("parameters", [])
    ]
    body = []
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        known = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
        needed = known.get("required", [])
        fields = known.get("properties", {}).items()
        body.append((kind, "body", _told(schema, True), known.get("description", "")))
        body += [(name, "field", _told(each, name in needed), each.get("description", "")) for name, each in fields]
    answers = [(status, "answer", "", each["description"]) for status, each in operation["responses"].items()]
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in (*parameters, *body, *answers)
    )
    note = " (deprecated)" if operation.get("deprecated") else ""
    return (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> {escape(operation.get('summary', ''))}{note}"
        f"</summary><div><p>{escape(operation.get('description', ''))}</p><table>{rows}</table></div></details>"
    )


def _told(schema: dict[str, Any], is_needed: bool | None) -> str:
    return _type_of(schema) + (", required" if is_needed else "")


def _type_of(schema: dict[str, Any]) -> str:
    """Return a schema's type in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if several := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(_type_of(each) for each in several))
    if "enum" in schema:
        return " or ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


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
        title="perdure",
        version=__version__,
        lifespan=_life,
        redirect_slashes=False,
        openapi_url="/openapi.json",
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    app.state.gateway = gateway = Gateway(
        service.engine,
        config.gateway,
        trust_client_user_id=settings.trust_client_user_id,
        registry=service.metrics.registry,
    )
    describe(app)
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
