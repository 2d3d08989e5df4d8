"""Routes for operation: liveness, readiness and metrics."""

from __future__ import annotations

import logging
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from perdure import __version__
from perdure.domain.errors import PerdureError
from perdure.frontends.server.metrics import CONTENT_TYPE
from perdure.frontends.server.state import CurrentService, Service

router = APIRouter(tags=["operation"])
logger = logging.getLogger("perdure.server")


class Health(BaseModel):
    """The server is alive."""

    status: Literal["ok"] = "ok"
    version: str = Field(__version__, examples=[__version__])


class Readiness(BaseModel):
    """Whether requests can be served, part by part."""

    status: Literal["ready", "unready"] = Field(examples=["ready"])
    ledger: Literal["ok", "down"] = Field(examples=["ok"])
    vector_store: Literal["ok", "down"] = Field(examples=["ok"])


@router.get("/healthz", summary="Liveness")
@router.get("/v1/healthz", summary="Liveness (the same as /healthz)")
async def healthz() -> Health:
    """Answer as long as the process runs, even if the stores are down."""
    return Health()


@router.get(
    "/readyz",
    summary="Readiness",
    responses={503: {"model": Readiness, "description": "The ledger or the vector store cannot be used"}},
)
async def readyz(service: CurrentService, response: Response) -> Readiness:
    """Check the ledger and the vector store; 503 while one of them cannot be used."""
    ledger, store = await _ledger_works(service), await _store_works(service)
    if not (ledger and store):
        response.status_code = 503
    return Readiness(
        status="ready" if ledger and store else "unready",
        ledger="ok" if ledger else "down",
        vector_store="ok" if store else "down",
    )


@router.get("/metrics", summary="Counters in Prometheus's format", response_class=Response)
async def metrics(service: CurrentService) -> Response:
    """Return request counts and durations by route template, requests in flight, and errors by code."""
    return Response(service.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})


async def _ledger_works(service: Service) -> bool:
    try:
        await (await service.ledger()).keys.any()
    except PerdureError as error:
        logger.warning("not ready: %s", error.message)
        return False
    return True


async def _store_works(service: Service) -> bool:
    kernel = service.engine.kernel
    try:
        await kernel.open()
        await kernel.store.get_collection_info(kernel.collection)
    except PerdureError as error:
        logger.warning("not ready: %s", error.message)
        return False
    return True
