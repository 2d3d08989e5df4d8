"""mem0's entities: the users, agents, apps and runs that memories are kept for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request

from perdure.domain.errors import NotFoundError
from perdure.domain.scope import Scope
from perdure.engine.forget import Request as Forgetting
from perdure.frontends.server.mem0 import events
from perdure.frontends.server.mem0.lists import numbered
from perdure.frontends.server.mem0.shapes import ENTITY_TYPES, entity_view
from perdure.frontends.server.personal import Reading, Writing

router = APIRouter(tags=["mem0"])


class EntityType(StrEnum):
    """What kind of entity."""

    user = "user"
    agent = "agent"
    app = "app"
    run = "run"


@router.get("/v1/entities", summary="List users, agents, apps and runs")
async def entities(
    request: Request,
    personal: Reading,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int | None, Query(ge=1, le=10_000)] = None,
) -> dict[str, Any]:
    """Everybody that memories are kept for, as far as the caller may see; all on one page unless asked otherwise."""
    found = await personal.overview.owners(personal.walls)
    size = page_size or max(len(found), 1)
    first = (page - 1) * size
    views = [entity_view(owner) for owner in found[first : first + size]]
    totals = {f"total_{name}s": sum(owner.axis == axis for owner in found) for name, axis in ENTITY_TYPES.items()}
    return numbered(request, views, len(found), page, size) | totals


@router.get("/v2/entities/{type}/{name:path}", summary="Get a user, agent, app or run")
async def entity(type: EntityType, name: str, personal: Reading) -> dict[str, Any]:
    """What is kept for one of them."""
    scope = _scope(type, name)
    for owner in await personal.overview.owners(personal.inside(scope)):
        if (owner.axis, owner.name) == (ENTITY_TYPES[type], name):
            return entity_view(owner)
    raise NotFoundError("Entity not found!")


@router.delete("/v2/entities/{type}/{name:path}", summary="Delete the memories of a user, agent, app or run")
async def delete_entity(type: EntityType, name: str, personal: Writing, erase: bool = False) -> dict[str, Any]:
    """Remove all that is kept for one of them; nothing being left is no error, for it is what was asked."""
    scope = personal.inside(_scope(type, name))
    if erase:
        await personal.engine.forget(Forgetting(scope=scope, walls=personal.walls))
    else:
        await personal.engine.revise.delete_all(scope, personal.walls)
    return {"message": "Entity deleted successfully!", "event_id": events.deletion_id(scope)}


def _scope(type: EntityType, name: str) -> Scope:
    return Scope(**{ENTITY_TYPES[type]: name})
