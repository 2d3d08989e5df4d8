"""mem0's exports and summaries: the memories of a scope in one answer.

An export is computed when it is fetched: its id names the memories, which are then read in their current state, within
the scope of the caller who fetches it.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from perdure.domain.errors import FilterError, NotFoundError
from perdure.domain.memory import MemoryItem
from perdure.frontends.server.dependencies import PersonalMemory, ReadAccess, WriteAccess
from perdure.frontends.server.routes import operations
from perdure.frontends.server.schemas.fields import ScopeFields
from perdure.frontends.server.schemas.filters import object_of
from perdure.frontends.server.schemas.responses import Message, answers
from perdure.frontends.server.schemas.views import MAX_LENGTH, memory_view, scope_of, seal, unseal

router = APIRouter(tags=["mem0"])
EXPORT = "EXPORT"
SUMMED_UP = 100  # maximum memories in a summary, the newest


class ExportForm(ScopeFields):
    """The memories to export, and the properties of each."""

    schema_: dict[str, Any] | str | None = Field(None, alias="schema")
    filters: dict[str, Any] | str | None = None


class ExportedForm(ScopeFields):
    """The export to fetch, by its id or by a filter."""

    memory_export_id: str | None = None
    filters: dict[str, Any] | str | None = None


class ExportedQuery(ScopeFields):
    """The same in a query string, as clients before 0.1.70 send it."""

    memory_export_id: str | None = None
    filters: str | None = Field(None, description="JSON")


class SummaryForm(ScopeFields):
    """The scope to summarise."""

    filters: dict[str, Any] | str | None = None


class ExportCreated(Message):
    """The id of an export."""

    id: str


class Export(BaseModel):
    """The memories of an export, whole or with the requested properties."""

    memories: list[dict[str, Any]]


class Summary(BaseModel):
    """The newest memories of one scope, one a line."""

    summary: str
    memory_count: int


@router.post("/v1/exports", status_code=201, summary="Create an export (mem0)", **answers(ExportCreated))
async def create(form: ExportForm, personal: WriteAccess) -> dict[str, str]:
    """Return the id of an export of the named scopes."""
    operations.named_scopes(personal, form, form.filters)  # errors in it are reported now
    filters = object_of(form.filters) if isinstance(form.filters, str) else form.filters
    schema = object_of(form.schema_) if isinstance(form.schema_, str) else form.schema_
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = list(properties) if isinstance(properties, dict) else None
    id = seal(EXPORT, scope=form.scope().given(), filters=filters, properties=names)
    if len(id) > MAX_LENGTH:
        raise FilterError("filters and schema are too long for an export", field="filters")
    return {"message": "Memory export request received. The export will be ready in a few seconds.", "id": id}


@router.post("/v1/exports/get", summary="Get an export (mem0)", **answers(Export))
async def get(form: ExportedForm, personal: ReadAccess) -> dict[str, Any]:
    """Return the memories of an export, by its id or by ids and filters."""
    if form.memory_export_id is None:
        return {"memories": await _rows(personal, form, form.filters, None)}
    opened = unseal(form.memory_export_id)
    if opened is None or opened[0] != EXPORT:
        raise NotFoundError("Memory export not found!")
    values = opened[1]
    scope = scope_of(values.get("scope"))
    ids = ExportedForm(
        user_id=scope.user_id,
        agent_id=scope.agent_id,
        app_id=scope.world_id,
        run_id=scope.run_id,
        project_id=scope.project_id,
    )
    return {"memories": await _rows(personal, ids, values.get("filters"), values.get("properties"))}


@router.get("/v1/exports", summary="Get an export (mem0, by query string)", deprecated=True, **answers(Export))
async def get_by_query(query: Annotated[ExportedQuery, Query()], personal: ReadAccess) -> dict[str, Any]:
    """Return the memories of an export, by ids in the address."""
    return await get(ExportedForm(**query.model_dump()), personal)


@router.post("/v1/summary", summary="Summarise memories (mem0)", **answers(list[Summary]))
async def summary(form: SummaryForm, personal: ReadAccess) -> list[dict[str, Any]]:
    """Return, for each named scope, its newest memories in lines, the oldest of these first."""
    answer = []
    for reach in operations.named_scopes(personal, form, form.filters):
        items = await operations.all_memories(personal, [reach])
        lines = "\n".join(f"- {item.memory}" for item in items[-SUMMED_UP:])
        answer.append({"summary": lines, "memory_count": len(items), **personal.inside(reach.scope).given()})
    return answer


async def _rows(
    personal: PersonalMemory, ids: ExportedForm, filters: object, properties: object
) -> list[dict[str, Any]]:
    items = await operations.all_memories(personal, operations.named_scopes(personal, ids, filters))
    return [_row(item, properties) for item in items]


def _row(item: MemoryItem, properties: object) -> dict[str, Any]:
    """Return a memory as an object of the schema's properties, from its fields or metadata; whole without a schema."""
    view = memory_view(item)
    if not isinstance(properties, list) or not properties:
        return view
    return {name: view.get(name, item.metadata.get(name)) for name in properties if isinstance(name, str)}
