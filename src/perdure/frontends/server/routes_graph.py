"""The graph over HTTP: 000 §12's entities and relations, and 004's neighbours and queue, of a person or of a team.

Below /v1/graph a request that names a team in X-Team-Scope asks that team's graph as one of its members; any other asks
personal memory, and says whose.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from perdure.domain.errors import ForbiddenError
from perdure.frontends.server.callers import Asking, need_admin
from perdure.frontends.server.facts_examples import answers
from perdure.frontends.server.graph_forms import (
    ENTITIES,
    RELATIONS,
    EntitiesBody,
    NeighborsQuery,
    NeighborsView,
    QueueQuery,
    QueueView,
    RelationsQuery,
)
from perdure.frontends.server.mem0.times import read_time
from perdure.frontends.server.personal import Reading, reading, writing
from perdure.frontends.server.routes_team import member
from perdure.frontends.server.service import Serving

_NONE: dict[int | str, dict[str, Any]] = {501: {"description": "This server has no graph"}}
router = APIRouter(tags=["graph"], responses=_NONE)

Name = Annotated[str, Path(description="In whatever case", examples=["Alice"])]


# ------------------------------------------------------------------ 000
@router.post("/v1/entities", summary="Entities that a scope's memories name", responses=answers(ENTITIES))
async def entities(body: EntitiesBody, personal: Reading) -> dict[str, Any]:
    """Those first that most memories name."""
    view, ids = personal.at(body.scope())
    found = await view.graph.entities(**ids, names=body.names, limit=body.limit, as_of=_moment(body.as_of, "as_of"))
    return {"results": [entity.model_dump() for entity in found]}


@router.get("/v1/entities/{name:path}/relations", summary="Relations of an entity", responses=answers(RELATIONS))
async def relations(name: Name, query: Annotated[RelationsQuery, Query()], personal: Reading) -> dict[str, Any]:
    """The relations from and to it, in the order of their time; 404 where no memory names it."""
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


# ------------------------------------------------------------------ 004
@router.get("/v1/graph/neighbors", summary="Who lies around an entity")
async def neighbors(
    request: Request, service: Serving, caller: Asking, query: Annotated[NeighborsQuery, Query()]
) -> NeighborsView:
    """Entities that it is related to at a moment, or named beside; 404 where no memory names it (X59, X60, X66)."""
    at, team = _moment(query.at, "at"), caller.walls.team_id
    if team is not None:
        query.refuse_owner()
        found = await member(service, caller).neighbors(
            query.entity, depth=query.depth, at=at, include_past=query.include_past
        )
        return NeighborsView.of(query.entity, team, found)
    view, ids = reading(request, service, caller).at(query.scope())
    found = await view.graph.neighbors(
        query.entity,
        **ids,
        depth=query.depth,
        at=at,
        as_of=_moment(query.as_of, "as_of"),
        include_past=query.include_past,
    )
    return NeighborsView.of(query.entity, None, found)


@router.get("/v1/graph/queue-status", summary="How much work waits for the graph")
async def queue_status(
    request: Request, service: Serving, caller: Asking, query: Annotated[QueueQuery, Query()]
) -> QueueView:
    """What of the caller's memories, or of a team's, the graph does not hold yet (X64)."""
    if caller.walls.team_id is not None:
        query.refuse_owner()
        return QueueView.of(await member(service, caller).queue_status())
    view, ids = reading(request, service, caller).at(query.scope())
    return QueueView.of(await view.graph.queue_status(**ids))


@router.post("/v1/graph/revive", summary="Try again what failed too often")
async def revive(request: Request, service: Serving, caller: Asking) -> dict[str, int]:
    """Make all waiting work due at once; for an admin of the server, whose key is held to nothing."""
    need_admin(service, caller)
    if caller.walls.team_id is not None:
        raise ForbiddenError("the work of all teams is revived, which takes an admin of the server")
    return {"revived": await writing(request, service, caller).memory.graph.revive()}


def _moment(value: float | str | None, field: str) -> datetime | None:
    return None if value is None else read_time(value, field)
