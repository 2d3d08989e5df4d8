"""Upkeep over HTTP: merging what is of one matter, and telling what memories show together (001 §7; V69, V70)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.frontends.server.facts_examples import CONSOLIDATED, REFLECTED, answers
from perdure.frontends.server.facts_forms import ConsolidateBody, ReflectBody
from perdure.frontends.server.personal import Writing

router = APIRouter(tags=["memories"])


@router.post("/v1/consolidate", summary="Merge memories of one matter", responses=answers(CONSOLIDATED))
async def consolidate(body: ConsolidateBody, personal: Writing) -> dict[str, Any]:
    """Named memories become one, or what belongs together in a scope does; the merged ones stay as versions."""
    view, ids = personal.at(body.scope())
    done = await view.consolidate(body.memory_ids, **ids, at_least=body.at_least, dry_run=body.dry_run)
    return {"results": [each.model_dump() for each in done]}


@router.post("/v1/reflect", summary="Tell what memories show together", responses=answers(REFLECTED))
async def reflect(body: ReflectBody, personal: Writing) -> dict[str, Any]:
    """Insights of a scope: what is done often, what goes wrong, how it is done; each is kept as a memory."""
    view, ids = personal.at(body.scope())
    return (await view.reflect(**ids, about=body.about, dry_run=body.dry_run)).model_dump()
