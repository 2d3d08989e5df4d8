"""Routes for operation: liveness, readiness and metrics."""

from __future__ import annotations

import logging
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from perdure import __version__
from perdure.backends.blocking import run_blocking
from perdure.domain.errors import ForbiddenError, PerdureError
from perdure.frontends.server.dependencies import CurrentCaller
from perdure.frontends.server.metrics import CONTENT_TYPE
from perdure.frontends.server.state import CurrentService, Service

router = APIRouter(tags=["operation"])
logger = logging.getLogger("perdure.server")


Part = Literal["ok", "read_only", "down"]


class Health(BaseModel):
    """The server is alive."""

    status: Literal["ok"] = "ok"
    version: str = Field(__version__, examples=[__version__])


class Readiness(BaseModel):
    """Whether requests can be served, part by part."""

    status: Literal["ready", "read_only", "unready"] = Field(examples=["ready"])
    ledger: Part = Field(examples=["ok"])
    vector_store: Part = Field(examples=["ok"])


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
    """Check the ledger and the vector store; 503 while one cannot be used, `read_only` where nothing can be changed."""
    ledger, store = await _ledger(service), await _store(service)
    if "down" in (ledger, store):
        response.status_code = 503
        return Readiness(status="unready", ledger=ledger, vector_store=store)
    is_whole = ledger == store == "ok"
    return Readiness(status="ready" if is_whole else "read_only", ledger=ledger, vector_store=store)


@router.get(
    "/metrics",
    summary="Counters in Prometheus's format",
    response_class=Response,
    responses={501: {"description": "The extra `metrics` is not installed here"}},
)
async def metrics(service: CurrentService, caller: CurrentCaller) -> Response:
    """Return request counts and durations by route template, requests in flight, and errors by code.

    They are everybody's, so credentials for one user, team or project are refused. 501 without the extra `metrics`.
    """
    if caller.walls.given():
        raise ForbiddenError("these credentials are for a part of the memory, and the counters are everybody's")
    return Response(service.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})


async def _ledger(service: Service) -> Part:
    try:
        ledger = await service.ledger()
        await ledger.keys.any()
        await run_blocking(ledger.check_place)  # an open file is read although its folder is gone, and not written
    except PerdureError as error:
        logger.warning("not ready: %s", error.message)
        return "down"
    return "read_only" if ledger.read_only else "ok"


async def _store(service: Service) -> Part:
    kernel = service.engine.kernel
    try:
        await kernel.open()
        await kernel.store.get_collection_info(kernel.collection)
        await run_blocking(kernel.store.check_place)
    except PerdureError as error:
        logger.warning("not ready: %s", error.message)
        return "down"
    return "read_only" if kernel.store.read_only else "ok"
