"""mem0's v3 routes of memories, and v2's: identities stand in the filters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request

from perdure.domain.text import utf8_of
from perdure.frontends.server.facts_examples import FOUND, PAGE, answers
from perdure.frontends.server.mem0 import calls, events, lists
from perdure.frontends.server.mem0.filters import read_filters
from perdure.frontends.server.mem0.forms import AddForm, ListForm, SearchForm
from perdure.frontends.server.mem0.prompts import prompt_of
from perdure.frontends.server.mem0.reach import one_reach
from perdure.frontends.server.mem0.shapes import event_view, memory_view, picked
from perdure.frontends.server.personal import Personal, Reading, Writing

router = APIRouter(tags=["mem0"])

Page = Annotated[int | None, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int | None, Query(ge=1, le=1_000)]


@router.post("/v3/memories/add", summary="Remember a conversation (mem0)")
async def add(
    form: AddForm, personal: Writing, idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, Any]:
    """Read a conversation and keep its facts; they can be read when the answer comes, and its event tells of them."""
    reach = one_reach(form.scope(), read_filters(form.filters), personal.walls)
    prompt = await prompt_of(personal, form, reach.scope)
    told = None if idempotency_key is None else utf8_of(idempotency_key, "Idempotency-Key")
    key = form.idempotency_key or told or events.new_key()
    result = await calls.add(personal, form, reach, prompt=prompt, idempotency_key=key)
    infers = form.infer is not False
    return {
        "message": "The event tells what became of it" if infers else "Memories were added",
        "status": "PENDING" if infers else "SUCCEEDED",
        "event_id": events.addition_id(key, personal.inside(reach.scope)),
        "results": [event_view(each) for each in result.results],
        **({"warnings": result.warnings} if result.warnings else {}),
    }


@router.post("/v3/memories/search", summary="Search memories (mem0)", responses=answers(FOUND))
async def search(form: SearchForm, personal: Reading) -> dict[str, Any]:
    """The best memories of the scopes that the filters name."""
    return await search_view(personal, form)


@router.post("/v2/memories/search", summary="Search memories (mem0, v2)", deprecated=True)
async def search_v2(form: SearchForm, personal: Reading) -> dict[str, Any]:
    """The same."""
    return await search_view(personal, form)


@router.post("/v3/memories", summary="List memories (mem0)", responses=answers(PAGE))
async def get_all(
    request: Request, form: ListForm, personal: Reading, page: Page = None, page_size: PageSize = None
) -> dict[str, Any]:
    """One page of the memories of the scopes that the filters name, oldest first."""
    return await _list(request, form, personal, page, page_size)


@router.post("/v2/memories", summary="List memories (mem0, v2)", deprecated=True)
async def get_all_v2(
    request: Request, form: ListForm, personal: Reading, page: Page = None, page_size: PageSize = None
) -> dict[str, Any]:
    """The same."""
    return await _list(request, form, personal, page, page_size)


async def _list(
    request: Request, form: ListForm, personal: Personal, page: int | None, page_size: int | None
) -> dict[str, Any]:
    given = {name: value for name, value in (("page", page), ("page_size", page_size)) if value is not None}
    asked = form.model_copy(update=given)
    return lists.page_view(request, asked, await calls.list_page(personal, asked, read_filters(asked.filters)))


async def search_view(personal: Personal, form: SearchForm) -> dict[str, Any]:
    """The answer to a search."""
    found = await calls.search(personal, form, read_filters(form.filters))
    warned = {"warnings": found.warnings} if found.warnings else {}
    return {"results": [picked(memory_view(item), form.fields) for item in found.results], **warned}
