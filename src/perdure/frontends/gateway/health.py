"""GET /health: what stands behind the gateway, as 002's proxy tells it (A1)."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from perdure.frontends.gateway.asking import gateway_of

router = APIRouter(tags=["gateway"])


class GatewayHealth(BaseModel):
    """The gateway lives; every value is text."""

    status: str = Field(examples=["ok"])
    memory_store: str = Field(description="The name of the store that holds the memories", examples=["sqlite"])
    openai_base_url: str = Field(description="The model's server, empty where there is none")
    default_top_k: str = Field(description="Memories that a request is given", examples=["5"])


@router.get("/health", summary="What stands behind the gateway (002)")
async def health(request: Request) -> GatewayHealth:
    """Asks nobody: no folder of this machine and no password of an address is told."""
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
