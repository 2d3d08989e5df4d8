"""Routes of team memory: a team's memories for its members, promotions, audit, and PUBLIC facts for everybody.

Checks run in this order: authentication and authorisation (401, 403), the schema, then the body against X-Team-Scope.
Below /v1/memory these routes take requests that name a team; `explicit_memories` takes the others.
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
from perdure.domain.text.readable import shown
from perdure.frontends.library.team import AsyncTeamMemory, public_search
from perdure.frontends.server.auth.credentials import TEAM_HEADER
from perdure.frontends.server.dependencies import CurrentCaller, caller
from perdure.frontends.server.schemas.responses import AuditLog, Promotion, Promotions, SystemAddendum, described
from perdure.frontends.server.schemas.teams import (
    AuditQuery,
    Decided,
    DecisionBody,
    PatchBody,
    PromotionBody,
    PromotionsQuery,
    SystemPromptQuery,
    TeamMemoryView,
    TeamSearchQuery,
    UpsertBody,
    Upserted,
    audit_view,
    promotion_view,
    record_view,
)
from perdure.frontends.server.state import CurrentService, Service, service


class TeamRoute(APIRoute):
    """A route that matches only requests that name a team."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request with X-Team-Scope only; another router has the same path for the others."""
        if TEAM_HEADER not in Headers(scope=scope):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(tags=["teams"])
_shared = APIRouter(route_class=TeamRoute)
"""Paths that `explicit_memories` has too."""

MemoryId = Annotated[str, Path(description="With or without `mem_`", examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"])]


def member(service: Service, caller: Caller) -> AsyncTeamMemory:
    """Return the team's memory for the caller; ForbiddenError if the request names no team."""
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
    """Return `member` of a request."""
    return member(service(request), caller(request))


# ------------------------------------------------------------------ memory
@router.post("/v1/memory/upsert", summary="Store a team's memory, or update it in place")
async def upsert(service: CurrentService, caller: CurrentCaller, body: UpsertBody) -> Upserted:
    """Store the item, or update the team's item of the same source. A truth level cannot be changed here: 405."""
    team = member(service, caller)
    return Upserted(id=shown_id(await team.upsert(body.item.model_dump(exclude_unset=True))))


@router.get("/v1/memory/search", summary="Search a team's memory, or what is PUBLIC")
async def search(
    service: CurrentService, caller: CurrentCaller, query: Annotated[TeamSearchQuery, Query()]
) -> list[TeamMemoryView]:
    """Search the team's memory, best match first; without X-Team-Scope, the PUBLIC facts of all teams."""
    if caller.walls.team_id is None:
        found = await public_search(service.memory, query.q, project_scope=query.project_scope, limit=query.limit)
        return [TeamMemoryView.of(item, for_members=False) for item in found.results]
    found = await member(service, caller).search(
        query.q,
        truth_level_min=query.truth_level_min,
        project_scope=query.project_scope,
        visibility=query.visibility,
        limit=query.limit,
    )
    return [TeamMemoryView.of(item) for item in found.results]


@router.patch("/v1/memory/{memory_id}", summary="Change a team's memory")
async def patch(service: CurrentService, caller: CurrentCaller, memory_id: MemoryId, body: PatchBody) -> TeamMemoryView:
    """Change the given fields. The truth level cannot be changed here: 405."""
    return TeamMemoryView.of(await member(service, caller).patch(memory_id, body.changes()))


@_shared.get("/v1/memory/{memory_id}", summary="One memory of a team", response_model=TeamMemoryView)
async def team_get(request: Request, memory_id: MemoryId) -> Response:
    """Return the memory; 404 if the member can see none with this id."""
    found = await member_of(request).get(memory_id)
    if found is None:
        raise _missing(memory_id)
    return JSONResponse(TeamMemoryView.of(found).model_dump())


@_shared.delete("/v1/memory/{memory_id}", summary="Delete a team's memory")
async def team_delete(request: Request, memory_id: MemoryId) -> Response:
    """Delete the memory; `?erase=true` erases its text from the history too."""
    erase = request.query_params.get("erase", "false")
    if erase not in ("true", "false"):
        raise InvalidInputError(f"erase must be true or false, not {shown(erase)}", field="erase", value=erase)
    await member_of(request).delete(memory_id, erase=erase == "true")
    return JSONResponse({"success": True, "message": "Memory deleted successfully"})


@_shared.get("/v1/memory/{memory_id}/history", summary="What happened to a team's memory")
async def team_history(request: Request, memory_id: MemoryId) -> Response:
    """List the memory's events that the member may see, oldest first."""
    records = await member_of(request).history(memory_id)
    if not records:
        raise _missing(memory_id)
    return JSONResponse({"history": [record_view(record) for record in records]})


def _missing(memory_id: str) -> NotFoundError:
    return NotFoundError(f"there is no memory with the id {shown(memory_id)} in this team")


router.include_router(_shared)


# ------------------------------------------------------------------ promotions
@router.post(
    "/v1/promotions",
    response_model=described(Promotion),
    status_code=201,
    summary="Request a memory's next truth level",
)
async def request_promotion(service: CurrentService, caller: CurrentCaller, body: PromotionBody) -> dict[str, Any]:
    """Request a higher truth level; one that needs no approval, such as WORKING by default, is granted at once."""
    team = member(service, caller)
    return promotion_view(await team.request_promotion(body.item_id, body.target_level, body.justification))


@router.get("/v1/promotions", response_model=described(Promotions), summary="List promotions")
async def list_promotions(
    service: CurrentService, caller: CurrentCaller, query: Annotated[PromotionsQuery, Query()]
) -> dict[str, Any]:
    """List promotions of memories that the member may see, oldest first."""
    found = await member(service, caller).promotions(
        status=query.status, item_id=query.item_id, limit=query.limit, after=query.after
    )
    return {"promotions": [promotion_view(promotion) for promotion in found]}


@router.patch("/v1/promotions/{promotion_id}", summary="Approve or reject a promotion")
async def decide(service: CurrentService, caller: CurrentCaller, promotion_id: str, body: DecisionBody) -> Decided:
    """Approve or reject a promotion (admins only). The last approval that the level needs grants it."""
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
@router.get("/v1/audit", response_model=described(AuditLog), summary="The audit log of a team")
async def audit(
    service: CurrentService, caller: CurrentCaller, query: Annotated[AuditQuery, Query()]
) -> dict[str, Any]:
    """List the audit log (admins only), oldest first; it holds no text of memories."""
    subject = query.subject_id
    found = await member(service, caller).audit(
        subject_id=None if subject is None else read_id(subject) or subject, limit=query.limit, after=query.after
    )
    return {"entries": [audit_view(entry) for entry in found]}


@router.get(
    "/v1/system-prompt",
    response_model=described(SystemAddendum),
    summary="A team's facts for a system prompt",
    responses={200: {"content": {"application/json": {}, "text/plain": {}}}},
)
async def system_prompt(
    request: Request, service: CurrentService, caller: CurrentCaller, query: Annotated[SystemPromptQuery, Query()]
) -> Response:
    """Return the team's facts about a question, quoted as data; `Accept: text/plain` gets plain text."""
    found = await member(service, caller).system_addendum(query.query, top_k=query.top_k, min_level=query.min_level)
    if request.headers.get("accept", "").partition(";")[0].strip() == "text/plain":
        return PlainTextResponse(found.system_addendum)
    return JSONResponse(found.model_dump())
