"""Routes of the graph: entities, relations, neighbours and queue status, of personal memory or of a team.

Below /v1/graph a request with X-Team-Scope reads that team's graph as a member; any other reads personal memory and
names its scope.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from perdure.domain.errors import ForbiddenError
from perdure.frontends.server.dependencies import CurrentCaller, ReadAccess, need_admin, read_access, write_access
from perdure.frontends.server.routes.teams import member
from perdure.frontends.server.schemas.examples import example_response
from perdure.frontends.server.schemas.graph import (
    ENTITIES,
    RELATIONS,
    EntitiesBody,
    NeighborsQuery,
    NeighborsView,
    QueueQuery,
    QueueView,
    RelationsQuery,
)
from perdure.frontends.server.schemas.responses import Entities, Relations, RevivedJobs, described
from perdure.frontends.server.schemas.times import read_time
from perdure.frontends.server.state import CurrentService

_NONE: dict[int | str, dict[str, Any]] = {501: {"description": "This server has no graph"}}
router = APIRouter(tags=["graph"], responses=_NONE)

Name = Annotated[str, Path(description="In whatever case", examples=["Alice"])]


# ------------------------------------------------------------------ entities and relations
@router.post(
    "/v1/entities",
    response_model=described(Entities),
    summary="Entities of a scope's memories",
    responses=example_response(ENTITIES),
)
async def entities(body: EntitiesBody, personal: ReadAccess) -> dict[str, Any]:
    """List entities, those that most memories name first."""
    view, ids = personal.at(body.scope())
    found = await view.graph.entities(**ids, names=body.names, limit=body.limit, as_of=_moment(body.as_of, "as_of"))
    return {"results": [entity.model_dump() for entity in found]}


@router.get(
    "/v1/entities/{name:path}/relations",
    response_model=described(Relations),
    summary="Relations of an entity",
    responses=example_response(RELATIONS),
)
async def relations(name: Name, query: Annotated[RelationsQuery, Query()], personal: ReadAccess) -> dict[str, Any]:
    """List the relations from and to an entity by time; 404 if no memory names it."""
    view, ids = personal.at(query.scope())
    found = await view.graph.relations(
        name,
        **ids,
        depth=query.depth,
        at=_moment(query.at, "at"),
        as_of=_moment(query.as_of, "as_of"),
        include_past=query.include_past,
    )
    return {"entity": name, "results": [edge.model_dump() for edge in found]}


# ------------------------------------------------------------------ neighbours and queue
@router.get("/v1/graph/neighbors", summary="Neighbours of an entity")
async def neighbors(
    request: Request, service: CurrentService, caller: CurrentCaller, query: Annotated[NeighborsQuery, Query()]
) -> NeighborsView:
    """List entities that are related to an entity at a time, or named with it; 404 if no memory names it."""
    at, team = _moment(query.at, "at"), caller.walls.team_id
    if team is not None:
        query.refuse_owner()
        found = await member(service, caller).neighbors(
            query.entity, depth=query.depth, at=at, include_past=query.include_past
        )
        return NeighborsView.of(query.entity, team, found)
    view, ids = read_access(request, service, caller).at(query.scope())
    found = await view.graph.neighbors(
        query.entity,
        **ids,
        depth=query.depth,
        at=at,
        as_of=_moment(query.as_of, "as_of"),
        include_past=query.include_past,
    )
    return NeighborsView.of(query.entity, None, found)


@router.get("/v1/graph/queue-status", summary="Status of the graph's job queue")
async def queue_status(
    request: Request, service: CurrentService, caller: CurrentCaller, query: Annotated[QueueQuery, Query()]
) -> QueueView:
    """Count the jobs that bring the caller's memories, or a team's, into the graph."""
    if caller.walls.team_id is not None:
        query.refuse_owner()
        return QueueView.of(await member(service, caller).queue_status())
    view, ids = read_access(request, service, caller).at(query.scope())
    return QueueView.of(await view.graph.queue_status(**ids))


@router.post("/v1/graph/revive", response_model=described(RevivedJobs), summary="Retry failed graph jobs")
async def revive(request: Request, service: CurrentService, caller: CurrentCaller) -> dict[str, int]:
    """Retry all waiting and failed jobs now; needs an admin key without a scope."""
    need_admin(service, caller)
    if caller.walls.team_id is not None:
        raise ForbiddenError("the work of all teams is revived, which takes an admin of the server")
    return {"revived": await write_access(request, service, caller).memory.graph.revive()}


def _moment(value: float | str | None, field: str) -> datetime | None:
    return None if value is None else read_time(value, field)
