"""Routes of the graph: entities, relations, neighbours and queue status, of personal memory or of a team.

Below /v1/graph a request with X-Team-Scope reads that team's graph as a member; any other reads personal memory and
names its scope.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from perdure.domain.errors import ForbiddenError, InvalidInputError
from perdure.domain.graph import Entity, Neighbor
from perdure.domain.job import QueueStatus
from perdure.domain.stored_memory import shown_id
from perdure.frontends.server.dependencies import CurrentCaller, ReadAccess, need_admin, read_access, write_access
from perdure.frontends.server.routes.teams import member
from perdure.frontends.server.schemas.fields import ScopeFields, Strict, Time, read_time
from perdure.frontends.server.schemas.responses import EXAMPLES, answers
from perdure.frontends.server.state import CurrentService

_OF_PERSONS = ("user_id", "agent_id", "app_id", "run_id", "session_id", "as_of")
"""Fields of personal memory only: a team's memory has no owner, and its graph no earlier states."""


class _Owned(ScopeFields, Strict):
    """The scope of a graph; a request for a team's graph gives none of these fields."""

    def refuse_owner(self) -> None:
        """Raise InvalidInputError if a field is given that a team's graph does not accept."""
        for name in _OF_PERSONS:
            if getattr(self, name, None) is not None:
                raise InvalidInputError(f"{name} is asked of personal memory, and this asks a team's", field=name)


class EntitiesBody(ScopeFields, Strict):
    """A scope, and which of its entities."""

    names: list[str] | None = Field(None, description="Only these names", examples=[["Alice"]])
    limit: int = Field(100, description="Maximum number of entities")
    as_of: Time | None = Field(None, description="Use only what was known at this time", examples=["2026-03-01"])


class RelationsQuery(ScopeFields, Strict):
    """A scope, and the time of the relations."""

    at: Time | None = Field(None, description="Time at which they must hold; default now", examples=["2026-02-01"])
    as_of: Time | None = Field(None, description="Use only what was known at this time")
    include_past: bool = Field(False, description="Include those that held before")
    depth: int = Field(1, ge=1, le=3, description="Maximum number of edges from the entity")


class NeighborsQuery(_Owned):
    """An entity and a time; `user_id` and the like if no team is named."""

    entity: str = Field(pattern=r"\S", description="In any case", examples=["Alice"])
    at: Time | None = Field(None, description="Time at which relations must hold; default now", examples=["2026-02-01"])
    as_of: Time | None = Field(None, description="Use only what was known at this time (personal memory)")
    include_past: bool = Field(False, description="Include relations that held before")
    depth: int = Field(1, ge=1, le=3, description="Maximum number of edges")


class QueueQuery(_Owned):
    """A scope; by default everything that the caller may see."""


class NeighborView(BaseModel):
    """An entity, and its relation."""

    name: str = Field(examples=["fundraising"])
    type: str = Field(examples=["project"])
    relationship: str = Field(
        description="The relation; `mentioned_with` if a memory names both without relating them",
        examples=["leads"],
    )
    direction: str = Field(description="`out`: leads to it; `in`: comes from it; `both`", examples=["out"])
    depth: int = Field(description="Number of edges from the requested entity", examples=[1])
    valid_from: str | None = Field(examples=["2026-01-01T00:00:00.000000+00:00"])
    valid_until: str | None = Field(description="null if it still holds", examples=["2026-04-01T00:00:00.000000+00:00"])
    memory_ids: list[str] = Field(description="Memories that state it")


class NeighborsView(BaseModel):
    """The neighbours of an entity, nearest first."""

    entity: str = Field(examples=["Alice"])
    team_scope: str | None = Field(description="null for personal memory", examples=["excalibur"])
    neighbors: list[NeighborView]

    @classmethod
    def of(cls, entity: str, team: str | None, found: list[Neighbor]) -> NeighborsView:
        """Build the view, with ids in the route's form."""
        views = [each.model_dump() for each in found]
        if team is not None:
            for view in views:
                view["memory_ids"] = [shown_id(id) for id in view["memory_ids"]]
        return cls(entity=entity, team_scope=team, neighbors=[NeighborView(**view) for view in views])


class QueueView(BaseModel):
    """The jobs that wait for the graph."""

    pending: int = Field(examples=[2])
    processing: int = Field(examples=[0])
    failed: int = Field(description="Failed too often; retried by `POST /v1/graph/revive`", examples=[0])
    oldest_pending_at: str | None = Field(examples=["2026-03-01T09:30:00.000000+00:00"])
    by_kind: dict[str, int] = Field(
        description="Unfinished jobs of each kind, parked ones too: `entities` from callers' lists, `temporal` from "
        "texts; `erase` while forgotten memories wait to be removed",
        examples=[{"entities": 1, "temporal": 1}],
    )

    @classmethod
    def of(cls, status: QueueStatus) -> QueueView:
        """Build the view of a queue's state."""
        return cls(
            pending=status.pending,
            processing=status.processing,
            failed=status.failed,
            oldest_pending_at=status.oldest_pending_at,
            by_kind=dict(status.by_kind),
        )


class Entities(BaseModel):
    """The entities of a scope."""

    results: list[Entity]


class Edge(BaseModel):
    """A relation, and when it held."""

    source: str
    relation: str
    target: str
    valid_from: str | None
    valid_until: str | None
    memory_ids: list[str]
    closed_by: str | None


class Relations(BaseModel):
    """The relations of an entity, ordered by time."""

    entity: str
    results: list[Edge]


class RevivedJobs(BaseModel):
    """Number of jobs that will be retried."""

    revived: int


_NONE: dict[int | str, dict[str, Any]] = {501: {"description": "This server has no graph"}}
router = APIRouter(tags=["graph"], responses=_NONE)
Name = Annotated[str, Path(description="In any case", examples=["Alice"])]


@router.post("/v1/entities", summary="Entities of a scope's memories", **answers(Entities, EXAMPLES["entities"]))
async def entities(body: EntitiesBody, personal: ReadAccess) -> dict[str, Any]:
    """List entities, those that most memories name first."""
    view, ids = personal.at(body.scope())
    found = await view.graph.entities(**ids, names=body.names, limit=body.limit, as_of=_moment(body.as_of, "as_of"))
    return {"results": [entity.model_dump() for entity in found]}


@router.get(
    "/v1/entities/{name:path}/relations", summary="Relations of an entity", **answers(Relations, EXAMPLES["relations"])
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


@router.post("/v1/graph/revive", summary="Retry failed graph jobs", **answers(RevivedJobs))
async def revive(request: Request, service: CurrentService, caller: CurrentCaller) -> dict[str, int]:
    """Retry all waiting and failed jobs now; needs an admin key without a scope."""
    need_admin(service, caller)
    if caller.walls.team_id is not None:
        raise ForbiddenError("the work of all teams is revived, which takes an admin of the server")
    return {"revived": await write_access(request, service, caller).memory.graph.revive()}


def _moment(value: float | str | None, field: str) -> datetime | None:
    return None if value is None else read_time(value, field)
