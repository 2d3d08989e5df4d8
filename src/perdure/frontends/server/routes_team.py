"""Spec 004 over HTTP: a team's memory for its members, its promotions and audit, and what is PUBLIC for everybody.

The door has answered 401 and 403 by the time a route is asked (X26); then comes the schema, then what the body says
against X-Team-Scope. Below /v1/memory a request that names a team is here and any other is spec 001's.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError, ForbiddenError, InvalidInputError, NotFoundError
from perdure.domain.memory import read_id
from perdure.domain.stored_memory import shown_id
from perdure.domain.text import shown
from perdure.frontends.library.async_team import AsyncTeamMemory, public_search
from perdure.frontends.server.callers import Asking, caller
from perdure.frontends.server.credentials import TEAM_HEADER
from perdure.frontends.server.service import Service, Serving, service
from perdure.frontends.server.team_forms import (
    Asked,
    Decided,
    DecisionBody,
    Found,
    Lines,
    PatchBody,
    PromotionBody,
    Promotions,
    Searching,
    UpsertBody,
    Upserted,
    line_view,
    promotion_view,
    record_view,
)


class TeamRoute(APIRoute):
    """A route that is there for requests that name a team alone."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match where the request names no team: the next router has the same path."""
        if TEAM_HEADER not in Headers(scope=scope):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(tags=["teams (004)"])
_shared = APIRouter(route_class=TeamRoute)
"""Paths that spec 001 has too."""

MemoryId = Annotated[str, Path(description="With or without `mem_`", examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"])]


def member(service: Service, caller: Caller) -> AsyncTeamMemory:
    """The team's memory as the caller has it; ForbiddenError where the request names no team (X36)."""
    team = caller.walls.team_id
    if team is None:
        if not caller.is_known:
            raise AuthenticationError("a team's memory needs a token or a key: send Authorization: Bearer")
        raise ForbiddenError("a team's memory is asked for by its name: send X-Team-Scope")
    project = caller.walls.project_id
    return AsyncTeamMemory(
        service.memory if project is None else service.memory.within(project_id=project),
        team=team,
        member=caller.subject or caller.name,
        role=caller.role,
        projects=caller.projects,
    )


def member_of(request: Request) -> AsyncTeamMemory:
    """`member`, for what has only the request."""
    return member(service(request), caller(request))


# ------------------------------------------------------------------ memory
@router.post("/v1/memory/upsert", summary="Store a team's memory, or update it in place")
async def upsert(service: Serving, caller: Asking, body: UpsertBody) -> Upserted:
    """Keeps the item under one id for each source of the team. A level is not changed by this: 405."""
    team = member(service, caller)
    return Upserted(id=shown_id(await team.upsert(body.item.model_dump(exclude_unset=True))))


@router.get("/v1/memory/search", summary="Search a team's memory, or what is PUBLIC")
async def search(service: Serving, caller: Asking, query: Annotated[Searching, Query()]) -> list[Found]:
    """What answers the question, best first; without X-Team-Scope what any team has published."""
    if caller.walls.team_id is None:
        found = await public_search(service.memory, query.q, project_scope=query.project_scope, limit=query.limit)
        return [Found.of(item, for_members=False) for item in found.results]
    found = await member(service, caller).search(
        query.q,
        truth_level_min=query.truth_level_min,
        project_scope=query.project_scope,
        visibility=query.visibility,
        limit=query.limit,
    )
    return [Found.of(item) for item in found.results]


@router.patch("/v1/memory/{memory_id}", summary="Change a team's memory")
async def patch(service: Serving, caller: Asking, memory_id: MemoryId, body: PatchBody) -> Found:
    """Sets the fields that are given. The truth level is not one of them: 405."""
    return Found.of(await member(service, caller).patch(memory_id, body.changes()))


@_shared.get("/v1/memory/{memory_id}", summary="One memory of a team", response_model=Found)
async def team_get(request: Request, memory_id: MemoryId) -> Response:
    """The memory; 404 where the member sees none with this id."""
    found = await member_of(request).get(memory_id)
    if found is None:
        raise _missing(memory_id)
    return JSONResponse(Found.of(found).model_dump())


@_shared.delete("/v1/memory/{memory_id}", summary="Delete a team's memory")
async def team_delete(request: Request, memory_id: MemoryId) -> Response:
    """Takes the memory out of every read; `?erase=true` takes its text out of the history too."""
    erase = request.query_params.get("erase", "false")
    if erase not in ("true", "false"):
        raise InvalidInputError(f"erase must be true or false, not {shown(erase)}", field="erase", value=erase)
    await member_of(request).delete(memory_id, erase=erase == "true")
    return JSONResponse({"success": True, "message": "Memory deleted successfully"})


@_shared.get("/v1/memory/{memory_id}/history", summary="What happened to a team's memory")
async def team_history(request: Request, memory_id: MemoryId) -> Response:
    """Every event that the member sees, oldest first."""
    records = await member_of(request).history(memory_id)
    if not records:
        raise _missing(memory_id)
    return JSONResponse({"history": [record_view(record) for record in records]})


def _missing(memory_id: str) -> NotFoundError:
    return NotFoundError(f"there is no memory with the id {shown(memory_id)} in this team")


router.include_router(_shared)


# ------------------------------------------------------------------ promotions
@router.post("/v1/promotions", status_code=201, summary="Ask for a memory's next truth level")
async def request_promotion(service: Serving, caller: Asking, body: PromotionBody) -> dict[str, Any]:
    """A level that takes no approval, such as WORKING by default, is given at once."""
    team = member(service, caller)
    return promotion_view(await team.request_promotion(body.item_id, body.target_level, body.justification))


@router.get("/v1/promotions", summary="Promotions of memories that the member sees")
async def list_promotions(service: Serving, caller: Asking, query: Annotated[Promotions, Query()]) -> dict[str, Any]:
    """Oldest first."""
    found = await member(service, caller).promotions(
        status=query.status, item_id=query.item_id, limit=query.limit, after=query.after
    )
    return {"promotions": [promotion_view(promotion) for promotion in found]}


@router.patch("/v1/promotions/{promotion_id}", summary="Approve or reject a promotion")
async def decide(service: Serving, caller: Asking, promotion_id: str, body: DecisionBody) -> Decided:
    """For admins. With the last approval that its level takes, the memory has that level."""
    done = await member(service, caller).decide(promotion_id, body.decision, note=body.note)
    return Decided.model_validate(
        {
            "promotion_id": done.id,
            "decision": body.decision,
            "item_id": shown_id(done.item_id),
            "status": done.status,
            "new_truth_level": done.target_level if done.status == "approved" else done.from_level,
        }
    )


# ------------------------------------------------------------------ audit, system prompt
@router.get("/v1/audit", summary="Who did what in the team")
async def audit(service: Serving, caller: Asking, query: Annotated[Lines, Query()]) -> dict[str, Any]:
    """For admins; oldest first, without a word of the memories."""
    subject = query.subject_id
    found = await member(service, caller).audit(
        subject_id=None if subject is None else read_id(subject) or subject, limit=query.limit, after=query.after
    )
    return {"entries": [line_view(entry) for entry in found]}


@router.get(
    "/v1/system-prompt",
    summary="What the team holds for true, for a system prompt",
    responses={200: {"content": {"application/json": {}, "text/plain": {}}}},
)
async def system_prompt(
    request: Request, service: Serving, caller: Asking, query: Annotated[Asked, Query()]
) -> Response:
    """The facts that bear on a question, quoted and delimited as data; as `text/plain` where that is accepted alone."""
    found = await member(service, caller).system_addendum(query.query, top_k=query.top_k, min_level=query.min_level)
    if request.headers.get("accept", "").partition(";")[0].strip() == "text/plain":
        return PlainTextResponse(found.system_addendum)
    return JSONResponse(found.model_dump())
