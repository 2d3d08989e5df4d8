"""Routes of team memory: a team's memories for its members, promotions, audit, and PUBLIC facts for everybody.

Checks run in this order: authentication and authorisation (401, 403), the schema, then the body against X-Team-Scope.
Below /v1/memory these routes take requests that name a team; `explicit_memories` takes the others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from perdure.domain.access import AuditEntry, Caller
from perdure.domain.access import Promotion as RequestedPromotion
from perdure.domain.errors import AuthenticationError, ForbiddenError, InvalidInputError, NotFoundError
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import MemoryItem, read_id
from perdure.domain.stored_memory import shown_id
from perdure.domain.text.readable import shown
from perdure.engine.team.reads import SystemAddendum
from perdure.frontends.gateway.request_context import caller_of
from perdure.frontends.library.team import AsyncTeamMemory, public_search
from perdure.frontends.server.auth.api_keys import TEAM_HEADER
from perdure.frontends.server.dependencies import CurrentCaller
from perdure.frontends.server.schemas.responses import answers
from perdure.frontends.server.state import CurrentService, Service, service

Level = Literal["EPHEMERAL", "WORKING", "VALIDATED", "CANONICAL", "PUBLIC"]
Visible = Literal["team", "project", "private"]
Validation = Literal["pending", "approved", "rejected"]
Confidence = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]
Content = Annotated[str, Field(min_length=1, examples=["The Q2 fundraising target is 2M€"])]
Project = Annotated[str, Field(min_length=1, max_length=1024, examples=["fundraising"])]
ID = "mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ItemBody(_Body):
    """A memory with all of its seven tags."""

    content: Content
    team_scope: str = Field(examples=["excalibur"])
    project_scope: Project | None = Field(description="null means the whole team")
    visibility: Visible
    confidence: Confidence = Field(examples=[0.9])
    truth_level: Level = Field(examples=["WORKING"])
    source: str = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]*:\S+$",
        description="Its author or source, as `prefix:id`",
        examples=["librechat:conv_abc123"],
    )
    validation_status: Validation
    metadata: dict[str, Any] | None = Field(
        None,
        description="An existing item keeps its own if none is given",
        examples=[{"entities": [{"name": "Alice", "type": "person"}]}],
    )


class UpsertBody(_Body):
    """One item, which replaces the team's item of the same source."""

    item: ItemBody


class Upserted(BaseModel):
    """The memory's id."""

    id: str = Field(examples=[ID])


class Changes(_Body):
    """Changes of a memory; fields that are left out stay."""

    content: Content | None = None
    project_scope: Project | None = None
    visibility: Visible | None = None
    confidence: Confidence | None = None
    validation_status: Validation | None = None
    metadata: dict[str, Any] | None = Field(None, description="Merged with the existing metadata; new keys win")
    truth_level: Any = Field(None, description="Rejected with 405: only a promotion changes it")


class PatchBody(Changes):
    """The changes, or an object of them under `patch`."""

    patch: Changes | None = None

    def changes(self) -> dict[str, Any]:
        """Return the given fields."""
        return self.model_dump(exclude_unset=True)


class TeamSearchQuery(_Body):
    """A search of a team's memory."""

    q: str = Field(min_length=1, description="The question", examples=["fundraising target"])
    truth_level_min: Level = Field("EPHEMERAL", description="The least level")
    project_scope: Project | None = Field(None, description="One project; by default all of the team's")
    limit: int = Field(10, ge=1, le=100)
    visibility: Visible = Field("team", description="Exactly this visibility; ignored without a team")


class TeamMemoryView(BaseModel):
    """A memory of a team; `score` in search results. Only members see `written_by` and `metadata`."""

    id: str = Field(examples=[ID])
    content: str = Field(examples=["The Q2 fundraising target is 2M€"])
    score: float | None = Field(None, examples=[0.82])
    team_scope: str = Field(examples=["excalibur"])
    project_scope: str | None = Field(examples=["fundraising"])
    visibility: Visible
    confidence: float | None = Field(examples=[0.9])
    truth_level: Level
    source: str = Field(examples=["librechat:conv_abc123"])
    validation_status: Validation
    written_by: str | None = Field(None, examples=["alice"])
    metadata: dict[str, Any] | None = None
    created_at: str = Field(examples=["2026-03-15T09:30:00.000000+00:00"])
    updated_at: str = Field(examples=["2026-03-20T10:00:00.000000+00:00"])
    expires_at: str | None = Field(None, description="When it expires unless it is promoted")
    quarantined: str | None = Field(None, description="Why it is in quarantine, if it is", examples=[None])

    @classmethod
    def of(cls, item: MemoryItem, *, for_members: bool = True) -> TeamMemoryView:
        """Build the view of a memory for members, or for everybody else."""
        assert item.tags is not None and item.scope.team_id is not None, "the engine's guard sees to that"
        mark = {} if item.quarantined is None else {"quarantined": item.quarantined}
        inner = {"written_by": item.tags.written_by, "metadata": dict(item.metadata)} if for_members else {}
        return cls.model_validate(
            {
                "id": shown_id(item.id),
                "content": item.memory,
                "score": item.score,
                "team_scope": item.scope.team_id,
                "project_scope": item.scope.project_id,
                "visibility": item.tags.visibility,
                "confidence": item.confidence,
                "truth_level": item.tags.truth_level,
                "source": item.source,
                "validation_status": item.tags.validation_status,
                "created_at": item.created_at,
                "updated_at": item.updated_at,
                "expires_at": item.expires_at,
                **mark,
                **inner,
            }
        )


class Promotion(BaseModel):
    """A request for a higher truth level."""

    id: str
    item_id: str
    promotion_id: str
    team_scope: str
    from_level: str
    target_level: str
    justification: str | None
    requested_by: str
    status: str
    created_at: str
    decided_at: str | None
    votes: list[dict[str, Any]]


class Promotions(BaseModel):
    """Promotions, oldest first."""

    promotions: list[Promotion]


class PromotionBody(_Body):
    """A memory's next truth level, and the reason."""

    item_id: str = Field(examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"])
    target_level: Level = Field(examples=["VALIDATED"])
    justification: str = Field(min_length=1, examples=["Confirmed with the client on 2026-05-01"])


class DecisionBody(_Body):
    """An admin's decision on a promotion."""

    decision: Literal["approved", "rejected"]
    note: str | None = Field(None, min_length=1, examples=["Verified against signed contract doc"])


class Decided(BaseModel):
    """The result: `pending` while the level needs more approvals."""

    promotion_id: str
    decision: Literal["approved", "rejected"]
    item_id: str = Field(examples=[ID])
    status: Validation
    new_truth_level: Level = Field(description="The memory's current level", examples=["VALIDATED"])


class PageQuery(_Body):
    """A page of a list."""

    limit: int = Field(100, ge=1, le=1000)
    after: str = Field("", description="The id of the last entry of the previous page")


class PromotionsQuery(PageQuery):
    """A page of promotions."""

    status: Validation | None = None
    item_id: str | None = Field(None, examples=[ID])


class AuditQuery(PageQuery):
    """A page of the audit log."""

    subject_id: str | None = Field(None, description="Only of this memory or promotion", examples=[ID])


class AuditLog(BaseModel):
    """Lines of a team's audit, oldest first."""

    entries: list[AuditEntry]


class SystemPromptQuery(_Body):
    """The question of a prompt."""

    query: str = Field(min_length=1, examples=["fundraising target"])
    top_k: int = Field(5, ge=1, le=100)
    min_level: Level = "CANONICAL"


def promotion_view(requested: RequestedPromotion) -> dict[str, Any]:
    """Build the view of a promotion."""
    return requested.model_dump() | {"item_id": shown_id(requested.item_id)}


def record_view(record: HistoryRecord) -> dict[str, Any]:
    """Build the view of one event of a memory."""
    names = ("id", "event", "old_value", "new_value", "timestamp", "actor", "reason", "team_id", "project_id")
    return {name: getattr(record, name) for name in names} | {"memory_id": shown_id(record.memory_id)}


class TeamRoute(APIRoute):
    """A route that matches only requests that name a team."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request with X-Team-Scope only; another router has the same path for the others."""
        if TEAM_HEADER not in Headers(scope=scope):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(tags=["teams"])
_shared = APIRouter(route_class=TeamRoute)  # paths that `explicit_memories` also has
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
    return member(service(request), caller_of(request))


@router.post("/v1/memory/upsert", summary="Store a team's memory, or update it in place")
async def upsert(service: CurrentService, caller: CurrentCaller, body: UpsertBody) -> Upserted:
    """Store the item, or update the team's item of the same source. A truth level cannot be changed here: 405."""
    team = member(service, caller)
    return Upserted(id=shown_id(await team.upsert(body.item.model_dump(exclude_unset=True))))


@router.get("/v1/memory/search", summary="Search a team's memory, or PUBLIC facts")
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


@_shared.get("/v1/memory/{memory_id}/history", summary="Get the history of a team's memory")
async def team_history(request: Request, memory_id: MemoryId) -> Response:
    """List the memory's events that the member may see, oldest first."""
    records = await member_of(request).history(memory_id)
    if not records:
        raise _missing(memory_id)
    return JSONResponse({"history": [record_view(record) for record in records]})


def _missing(memory_id: str) -> NotFoundError:
    return NotFoundError(f"there is no memory with the id {shown(memory_id)} in this team")


router.include_router(_shared)


@router.post("/v1/promotions", status_code=201, summary="Request a memory's next truth level", **answers(Promotion))
async def request_promotion(service: CurrentService, caller: CurrentCaller, body: PromotionBody) -> dict[str, Any]:
    """Request a higher truth level; one that needs no approval, such as WORKING by default, is granted at once."""
    team = member(service, caller)
    return promotion_view(await team.request_promotion(body.item_id, body.target_level, body.justification))


@router.get("/v1/promotions", summary="List promotions", **answers(Promotions))
async def list_promotions(
    service: CurrentService, caller: CurrentCaller, query: Annotated[PromotionsQuery, Query()]
) -> dict[str, Any]:
    """List promotions of memories that the member may see, oldest first."""
    found = await member(service, caller).promotions(
        status=query.status, item_id=query.item_id, limit=query.limit, after=query.after
    )
    return {"promotions": [promotion_view(each) for each in found]}


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


@router.get("/v1/audit", summary="The audit log of a team", **answers(AuditLog))
async def audit(
    service: CurrentService, caller: CurrentCaller, query: Annotated[AuditQuery, Query()]
) -> dict[str, Any]:
    """List the audit log (admins only), oldest first; it holds no text of memories."""
    subject = query.subject_id
    found = await member(service, caller).audit(
        subject_id=None if subject is None else read_id(subject) or subject, limit=query.limit, after=query.after
    )
    return {"entries": [entry.model_dump() for entry in found]}


@router.get(
    "/v1/system-prompt",
    summary="A team's facts for a system prompt",
    responses={200: {"content": {"application/json": {}, "text/plain": {}}}},
    **answers(SystemAddendum),
)
async def system_prompt(
    request: Request, service: CurrentService, caller: CurrentCaller, query: Annotated[SystemPromptQuery, Query()]
) -> Response:
    """Return the team's facts about a question, quoted as data; `Accept: text/plain` gets plain text."""
    found = await member(service, caller).system_addendum(query.query, top_k=query.top_k, min_level=query.min_level)
    if request.headers.get("accept", "").partition(";")[0].strip() == "text/plain":
        return PlainTextResponse(found.system_addendum)
    return JSONResponse(found.model_dump())
