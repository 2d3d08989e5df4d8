"""Routes of maintenance: consolidate related memories, and derive insights from them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.frontends.server.dependencies import WriteAccess
from perdure.frontends.server.schemas.memories import ConsolidateBody, ReflectBody
from perdure.frontends.server.schemas.responses import CONSOLIDATED, REFLECTED, Consolidations, Reflection, answers

router = APIRouter(tags=["memories"])


@router.post("/v1/consolidate", summary="Merge related memories", **answers(Consolidations, CONSOLIDATED))
async def consolidate(body: ConsolidateBody, personal: WriteAccess) -> dict[str, Any]:
    """Merge the named memories, or related ones of a scope; the merged ones stay as versions."""
    view, ids = personal.at(body.scope())
    done = await view.consolidate(body.memory_ids, **ids, at_least=body.at_least, dry_run=body.dry_run)
    return {"results": [each.model_dump() for each in done]}


@router.post("/v1/reflect", summary="Derive insights from memories", **answers(Reflection, REFLECTED))
async def reflect(body: ReflectBody, personal: WriteAccess) -> dict[str, Any]:
    """Derive insights of a scope (habits, problems, ways of working) and store each as a memory."""
    view, ids = personal.at(body.scope())
    return (await view.reflect(**ids, about=body.about, dry_run=body.dry_run)).model_dump()
