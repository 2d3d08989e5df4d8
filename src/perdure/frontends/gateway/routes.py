"""The routes of the gateway, which a server mounts beside its own."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.responses import Response

from perdure.frontends.gateway import chat, sessions
from perdure.frontends.gateway.request_context import gateway_of
from perdure.frontends.gateway.responses import routes as responses

# GET /health: the store and the upstream server.

router = APIRouter(tags=["gateway"])


class GatewayHealth(BaseModel):
    """The state of the gateway; every value is text."""

    status: str = Field(examples=["ok"])
    memory_store: str = Field(description="The name of the store that holds the memories", examples=["sqlite"])
    openai_base_url: str = Field(description="The model's server, empty where there is none")
    default_top_k: str = Field(description="Memories that a request is given", examples=["5"])


@router.get("/health", summary="What stands behind the gateway")
async def health(request: Request) -> GatewayHealth:
    """Describe the settings without contacting a server; paths and passwords are left out."""
    gateway = gateway_of(request)
    return GatewayHealth(
        status="ok",
        memory_store=gateway.engine.kernel.store.name,
        openai_base_url=_without_password(gateway.upstream.base_url) if gateway.passes else "",
        default_top_k=str(gateway.settings.default_retrieval_limit),
    )


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _without_v1(*routers: APIRouter) -> APIRouter:
    """The same routes for clients whose base URL has no /v1, with memory too; documented once."""
    short = APIRouter()
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        path, methods = route.path.removeprefix("/v1"), sorted(route.methods or ())
        short.add_api_route(path, route.endpoint, methods=methods, response_class=Response, include_in_schema=False)
    return short


ROUTERS = (chat.router, router, responses.router, sessions.router, _without_v1(chat.router, responses.router))
"""In matching order, without the pass-through (`passing`)."""
