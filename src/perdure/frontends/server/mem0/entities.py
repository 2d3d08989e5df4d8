"""mem0's entities: the users, agents, apps and runs that own memories."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.requests import Request

from perdure.domain.errors import NotFoundError
from perdure.domain.memory import Owner
from perdure.domain.scope import Scope
from perdure.engine.requests import ForgetRequest as Forgetting
from perdure.frontends.server.dependencies import ReadAccess, WriteAccess
from perdure.frontends.server.schemas.responses import Deletion, NumberedPage, answers
from perdure.frontends.server.schemas.views import deletion_id, numbered

router = APIRouter(tags=["mem0"])
ENTITY_TYPES = {"user": "user_id", "agent": "agent_id", "app": "world_id", "run": "run_id"}
"""mem0's names for the owners of memories."""

_TYPE_OF = {axis: name for name, axis in ENTITY_TYPES.items()}


class EntityType(StrEnum):
    """The kind of an entity."""

    user = "user"
    agent = "agent"
    app = "app"
    run = "run"


class OwnerSummary(BaseModel):
    """A user, agent, app or run with memories."""

    id: str
    name: str
    type: Literal["user", "agent", "app", "run"]
    total_memories: int
    created_at: str | None
    updated_at: str | None
    owner: None
    metadata: None


class Owners(NumberedPage):
    """All owners of memories."""

    results: list[OwnerSummary]
    total_users: int
    total_agents: int
    total_apps: int
    total_runs: int


@router.get("/v1/entities", summary="List users, agents, apps and runs", **answers(Owners))
async def entities(
    request: Request,
    personal: ReadAccess,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int | None, Query(ge=1, le=10_000)] = None,
) -> dict[str, Any]:
    """List the owners of memories that the caller may see; all on one page unless `page_size` is given."""
    found = await personal.overview.owners(personal.walls)
    size = page_size or max(len(found), 1)
    first = (page - 1) * size
    views = [entity_view(owner) for owner in found[first : first + size]]
    totals = {f"total_{name}s": sum(owner.axis == axis for owner in found) for name, axis in ENTITY_TYPES.items()}
    return numbered(request, views, len(found), page, size) | totals


@router.get("/v2/entities/{type}/{name:path}", summary="Get a user, agent, app or run", **answers(OwnerSummary))
async def entity(type: EntityType, name: str, personal: ReadAccess) -> dict[str, Any]:
    """Return one owner of memories."""
    scope = _scope(type, name)
    for owner in await personal.overview.owners(personal.inside(scope)):
        if (owner.axis, owner.name) == (ENTITY_TYPES[type], name):
            return entity_view(owner)
    raise NotFoundError("Entity not found!")


@router.delete(
    "/v2/entities/{type}/{name:path}", summary="Delete the memories of a user, agent, app or run", **answers(Deletion)
)
async def delete_entity(type: EntityType, name: str, personal: WriteAccess, erase: bool = False) -> dict[str, Any]:
    """Delete all memories of one owner; an owner without memories is no error."""
    scope = personal.inside(_scope(type, name))
    if erase:
        await personal.engine.forget(Forgetting(scope=scope, walls=personal.walls))
    else:
        await personal.engine.revise.delete_all(scope, personal.walls)
    return {"message": "Entity deleted successfully!", "event_id": deletion_id(scope)}


@router.delete(
    "/v1/entities/{type}/{id:path}",
    summary="Delete an entity by its id (mem0, v1)",
    deprecated=True,
    **answers(Deletion),
)
async def delete_entity_by_id(type: EntityType, id: str, personal: WriteAccess, erase: bool = False) -> dict[str, Any]:
    """Delete all memories of one owner, by the `id` of the list, as clients before 1.0 send it, or by name."""
    return await delete_entity(type, id.removeprefix(f"{type}:"), personal, erase)


def _scope(type: EntityType, name: str) -> Scope:
    return Scope(**{ENTITY_TYPES[type]: name})


def _in_a_path(name: str) -> str:
    """Percent-encode a name that a path would misread ("..", "a?b", "a/../b"); return any other as it is.

    mem0's clients delete users by writing the listed name into a path, where `a/../b` would mean the user `b`.
    """
    climbs = any(part in (".", "..") for part in name.split("/"))
    if not climbs and not any(mark in name for mark in "?#%\\"):
        return name
    return quote(name, safe="").replace(".", "%2E")


def entity_view(owner: Owner) -> dict[str, Any]:
    """Build the view of an owner; the name is encoded for paths, into which clients put it as it is."""
    name = _in_a_path(owner.name)
    return {
        "id": f"{_TYPE_OF[owner.axis]}:{name}",
        "name": name,
        "type": _TYPE_OF[owner.axis],
        "total_memories": owner.memories,
        "created_at": owner.created_at,
        "updated_at": owner.updated_at,
        "owner": None,
        "metadata": None,
    }
