"""The routes of mem0's own open server: `/memories`, `/search`, `/reset`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from perdure.frontends.server.callers import need_admin
from perdure.frontends.server.mem0 import calls
from perdure.frontends.server.mem0.filters import read_filters
from perdure.frontends.server.mem0.forms import AddForm, Ids, ListForm, OpenListQuery, SearchForm, UpdateForm
from perdure.frontends.server.mem0.memories import search_view
from perdure.frontends.server.mem0.prompts import prompt_of
from perdure.frontends.server.mem0.reach import one_reach
from perdure.frontends.server.mem0.shapes import added_view, history_view, memory_view
from perdure.frontends.server.personal import Reading, Writing
from perdure.frontends.server.service import Serving

router = APIRouter(tags=["mem0 open server"])


@router.post("/memories", summary="Remember a conversation")
async def add(form: AddForm, personal: Writing) -> Any:
    """Read a conversation and keep its facts."""
    reach = one_reach(form.scope(), read_filters(form.filters), personal.walls)
    prompt = await prompt_of(personal, form, reach.scope)
    return added_view(await calls.add(personal, form, reach, prompt=prompt, idempotency_key=form.idempotency_key))


@router.get("/memories", summary="List memories")
async def get_all(query: Annotated[OpenListQuery, Query()], personal: Reading) -> dict[str, Any]:
    """The memories of a user, an agent or a run; nobody lists everybody's."""
    listed = await calls.list_page(personal, ListForm(**query.model_dump()), None)
    return {"results": [memory_view(item) for item in listed.items]}


@router.get("/memories/{id}", summary="Get a memory")
async def get(id: str, personal: Reading) -> dict[str, Any]:
    """One memory by its id."""
    return memory_view(await personal.standing(id))


@router.put("/memories/{id}", summary="Change a memory")
async def update(id: str, form: UpdateForm, personal: Writing) -> dict[str, Any]:
    """Overwrite a memory's text, or add to its metadata."""
    return memory_view(await calls.update(personal, id, form)) | {"message": "Memory updated successfully!"}


@router.delete("/memories/{id}", summary="Delete a memory")
async def delete(id: str, personal: Writing) -> dict[str, str]:
    """Remove one memory."""
    await calls.delete(personal, id)
    return {"message": "Memory deleted successfully!"}


@router.delete("/memories", summary="Delete the memories of a scope")
async def delete_all(query: Annotated[Ids, Query()], personal: Writing) -> dict[str, str]:
    """Remove all memories of one scope."""
    await calls.delete_all(personal, query.scope(), None)
    return {"message": "All relevant memories deleted"}


@router.get("/memories/{id}/history", summary="Get the history of a memory")
async def history(id: str, personal: Reading) -> list[dict[str, Any]]:
    """Everything that happened to a memory, oldest first."""
    return [history_view(record) for record in await calls.history(personal, id)]


@router.post("/search", summary="Search memories")
async def search(form: SearchForm, personal: Reading) -> dict[str, Any]:
    """The memories that answer a question, best first."""
    return await search_view(personal, form)


@router.post("/reset", summary="Clear everything")
async def reset(service: Serving, personal: Writing) -> dict[str, str]:
    """Clear memories, history and messages of this server; keys stay. Where keys exist it needs an admin's."""
    need_admin(service, personal.caller)
    await personal.memory.reset()
    return {"message": "All memories reset"}
