"""The first thing that mem0's client asks: whether its key is good, and what project it belongs to."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.frontends.server.dependencies import ReadAccess
from perdure.frontends.server.routes.extraction_prompt import project_of
from perdure.frontends.server.schemas.responses import Ping, described
from perdure.frontends.server.schemas.scope_fields import ORGANIZATION

router = APIRouter(tags=["mem0"])


@router.get("/v1/ping", response_model=described(Ping), summary="Whether a key is good (mem0)")
async def ping(personal: ReadAccess) -> dict[str, Any]:
    """The one organization, and the project that the key is bound to."""
    return {"status": "ok", "org_id": ORGANIZATION, "project_id": project_of(personal), "user_email": None}
