"""mem0's v3 routes of memories, and v2's: identities stand in the filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request

from perdure.domain.event import SearchResult
from perdure.domain.filter import Filter
from perdure.domain.text.readable import utf8_of
from perdure.engine.arguments import SearchOptions
from perdure.frontends.server.dependencies import PersonalMemory, ReadAccess, WriteAccess
from perdure.frontends.server.mem0 import events
from perdure.frontends.server.mem0.bodies import SearchForm
from perdure.frontends.server.routes import operations
from perdure.frontends.server.routes.scope_resolver import resolve_one_scope
from perdure.frontends.server.schemas.examples import FOUND, PAGE, example_response
from perdure.frontends.server.schemas.filters import read_filters
from perdure.frontends.server.schemas.memories import AddForm, ListForm
from perdure.frontends.server.schemas.responses import AddAccepted, MemoryPage, SearchResults, described
from perdure.frontends.server.schemas.sealed_ids import addition_id
from perdure.frontends.server.schemas.times import read_time
from perdure.frontends.server.schemas.views import event_view, memory_view, page_view, select_fields

router = APIRouter(tags=["mem0"])

TOP_K = 10
"""Memories that a search answers with where it names no number; mem0's own."""

Page = Annotated[int | None, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int | None, Query(ge=1, le=1_000)]


@router.post("/v3/memories/add", response_model=described(AddAccepted), summary="Remember a conversation (mem0)")
async def add(
    form: AddForm, personal: WriteAccess, idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, Any]:
    """Read a conversation and keep its facts; they can be read when the answer comes, and its event tells of them."""
    reach = resolve_one_scope(form.scope(), read_filters(form.filters), personal.walls)
    told = None if idempotency_key is None else utf8_of(idempotency_key, "Idempotency-Key")
    key = form.idempotency_key or told or events.new_key()
    result = await operations.add(personal, form, reach, idempotency_key=key)
    infers = form.infer is not False
    return {
        "message": "The event tells what became of it" if infers else "Memories were added",
        "status": "PENDING" if infers else "SUCCEEDED",
        "event_id": addition_id(key, personal.inside(reach.scope)),
        "results": [event_view(each) for each in result.results],
        **({"warnings": result.warnings} if result.warnings else {}),
    }


@router.post(
    "/v3/memories/search",
    response_model=described(SearchResults),
    summary="Search memories (mem0)",
    responses=example_response(FOUND),
)
async def search(form: SearchForm, personal: ReadAccess) -> dict[str, Any]:
    """The best memories of the scopes that the filters name."""
    return await search_view(personal, form)


@router.post(
    "/v2/memories/search",
    response_model=described(SearchResults),
    summary="Search memories (mem0, v2)",
    deprecated=True,
)
async def search_v2(form: SearchForm, personal: ReadAccess) -> dict[str, Any]:
    """The same."""
    return await search_view(personal, form)


@router.post(
    "/v3/memories",
    response_model=described(MemoryPage),
    summary="List memories (mem0)",
    responses=example_response(PAGE),
)
async def get_all(
    request: Request, form: ListForm, personal: ReadAccess, page: Page = None, page_size: PageSize = None
) -> dict[str, Any]:
    """One page of the memories of the scopes that the filters name, oldest first."""
    return await _list(request, form, personal, page, page_size)


@router.post("/v2/memories", response_model=described(MemoryPage), summary="List memories (mem0, v2)", deprecated=True)
async def get_all_v2(
    request: Request, form: ListForm, personal: ReadAccess, page: Page = None, page_size: PageSize = None
) -> dict[str, Any]:
    """The same."""
    return await _list(request, form, personal, page, page_size)


async def _list(
    request: Request, form: ListForm, personal: PersonalMemory, page: int | None, page_size: int | None
) -> dict[str, Any]:
    given = {name: value for name, value in (("page", page), ("page_size", page_size)) if value is not None}
    asked = form.model_copy(update=given)
    return page_view(request, asked, await operations.list_page(personal, asked, read_filters(asked.filters)))


async def search_view(personal: PersonalMemory, form: SearchForm) -> dict[str, Any]:
    """The answer to a search."""
    found = await _search(personal, form, read_filters(form.filters))
    warned = {"warnings": found.warnings} if found.warnings else {}
    return {"results": [select_fields(memory_view(item), form.fields) for item in found.results], **warned}


async def _search(personal: PersonalMemory, form: SearchForm, filters: Filter | None) -> SearchResult:
    """The best memories of all the scopes that are asked about."""
    limit = next((each for each in (form.top_k, form.limit) if each is not None), TOP_K)
    can_rerank = personal.engine.kernel.reranker is not None
    warnings = ["no reranker is configured: the order is that of the search"] if form.rerank and not can_rerank else []
    options = SearchOptions(
        limit=limit,
        threshold=form.threshold,
        rerank=bool(form.rerank) and can_rerank,
        include_past=bool(form.show_expired),
        explain=bool(form.explain),
        reference_time=None if form.reference_date is None else read_time(form.reference_date, "reference_date"),
    )
    first = await operations.search_in(
        personal, operations.scopes_to_read(personal, form, filters), form.query, options
    )
    return replace(first, warnings=[*warnings, *first.warnings])
