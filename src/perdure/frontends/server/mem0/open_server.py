"""The routes of mem0's own open server: `/memories`, `/search`, `/reset`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from perdure.frontends.server.dependencies import ReadAccess, WriteAccess, need_admin
from perdure.frontends.server.mem0.memories import SearchForm, search_view
from perdure.frontends.server.routes import operations
from perdure.frontends.server.routes.scope_resolver import resolve_one_scope
from perdure.frontends.server.schemas.fields import ScopeFields
from perdure.frontends.server.schemas.filters import read_filters
from perdure.frontends.server.schemas.memories import AddForm, ListForm, ResetForm, UpdateForm
from perdure.frontends.server.schemas.responses import (
    AddResult,
    HistoryEvent,
    Memory,
    MemoryEvent,
    MemoryList,
    Message,
    SearchResults,
    answers,
)
from perdure.frontends.server.schemas.views import added_view, history_view, memory_view
from perdure.frontends.server.state import CurrentService

router = APIRouter(tags=["mem0 open server"])


class OpenListQuery(ScopeFields):
    """The scope to list, in the form of mem0's open server."""

    top_k: int | None = Field(None, ge=1, le=1_000)
    show_expired: bool | None = None


@router.post("/memories", summary="Remember a conversation", **answers(AddResult | list[MemoryEvent]))
async def add(form: AddForm, personal: WriteAccess) -> Any:
    """Extract facts from a conversation and store them."""
    reach = resolve_one_scope(form.scope(), read_filters(form.filters), personal.walls)
    return added_view(await operations.add(personal, form, reach, idempotency_key=form.idempotency_key))


@router.get("/memories", summary="List memories", **answers(MemoryList))
async def get_all(query: Annotated[OpenListQuery, Query()], personal: ReadAccess) -> dict[str, Any]:
    """List the memories of a user, an agent or a run; the request must name one."""
    listed = await operations.list_page(personal, ListForm(**query.model_dump()), None)
    return {"results": [memory_view(item) for item in listed.items]}


@router.get("/memories/{id}", summary="Get a memory", **answers(Memory))
async def get(id: str, personal: ReadAccess) -> dict[str, Any]:
    """Return a memory by its id."""
    return memory_view(await personal.existing(id))


@router.put("/memories/{id}", summary="Change a memory", **answers(Memory))
async def update(id: str, form: UpdateForm, personal: WriteAccess) -> dict[str, Any]:
    """Replace a memory's text, or add to its metadata."""
    return memory_view(await operations.update(personal, id, form)) | {"message": "Memory updated successfully!"}


@router.delete("/memories/{id}", summary="Delete a memory", **answers(Message))
async def delete(id: str, personal: WriteAccess) -> dict[str, str]:
    """Delete a memory."""
    await operations.delete(personal, id)
    return {"message": "Memory deleted successfully!"}


@router.delete("/memories", summary="Delete the memories of a scope", **answers(Message))
async def delete_all(query: Annotated[ScopeFields, Query()], personal: WriteAccess) -> dict[str, str]:
    """Delete all memories of one scope."""
    await operations.delete_all(personal, query.scope(), None)
    return {"message": "All relevant memories deleted"}


@router.get("/memories/{id}/history", summary="Get the history of a memory", **answers(list[HistoryEvent]))
async def history(id: str, personal: ReadAccess) -> list[dict[str, Any]]:
    """List the events of a memory, oldest first."""
    return [history_view(record) for record in await operations.history(personal, id)]


@router.post("/search", summary="Search memories", **answers(SearchResults))
async def search(form: SearchForm, personal: ReadAccess) -> dict[str, Any]:
    """Search for memories that answer a question, best first."""
    return await search_view(personal, form)


@router.post("/reset", summary="Clear everything", **answers(Message))
async def reset(form: ResetForm, service: CurrentService, personal: WriteAccess) -> dict[str, str]:
    """Clear memories, history and messages of this server; keys stay. An admin key is needed if keys exist.

    The body must be `{"confirm": true}`, so that nothing is cleared by accident.
    """
    need_admin(service, personal.caller)
    await personal.memory.reset()
    return {"message": "All memories reset"}
