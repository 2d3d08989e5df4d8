"""The first thing that mem0's client asks: whether its key is good, and what project it belongs to."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.frontends.server.mem0.project import ORGANIZATION, project_of
from perdure.frontends.server.personal import Reading

router = APIRouter(tags=["mem0"])


@router.get("/v1/ping", summary="Whether a key is good (mem0)")
async def ping(personal: Reading) -> dict[str, Any]:
    """The one organization, and the project that the key is bound to."""
    return {"status": "ok", "org_id": ORGANIZATION, "project_id": project_of(personal), "user_email": None}
