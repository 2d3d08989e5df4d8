"""The routes of the gateway, which a server mounts beside its own."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.responses import Response

from perdure.frontends.gateway import chat, health, sessions
from perdure.frontends.gateway.responses import routes as responses


def _without_v1(*routers: APIRouter) -> APIRouter:
    """The same routes for clients whose base URL has no /v1, which are to have memory too; documented once."""
    short = APIRouter()
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        path, methods = route.path.removeprefix("/v1"), sorted(route.methods or ())
        short.add_api_route(path, route.endpoint, methods=methods, response_class=Response, include_in_schema=False)
    return short


ROUTERS = (
    chat.router,
    health.router,
    responses.router,
    sessions.router,
    _without_v1(chat.router, responses.router),
)
"""In the order in which they are asked; what passes everything else on is not among them (`passing`)."""
