"""Routes of /v1/memories: the library's calls with all of their arguments.

mem0's platform has some of the same paths: its arguments are accepted, and answers have its fields beside the
library's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request

from perdure.domain.clock import parse_moment
from perdure.domain.errors import FilterError
from perdure.domain.filter import Filter, parse_filter
from perdure.domain.text.readable import utf8_of
from perdure.engine.requests import SearchOptions
from perdure.frontends.server.dependencies import PersonalMemory, ReadAccess, WriteAccess, need_admin
from perdure.frontends.server.routes import operations
from perdure.frontends.server.routes.scope_resolver import resolve_one_scope, resolve_scopes
from perdure.frontends.server.schemas import memories
from perdure.frontends.server.schemas.fields import read_time
from perdure.frontends.server.schemas.filters import object_of, read_filters
from perdure.frontends.server.schemas.responses import (
    ADDED,
    FOUND,
    HISTORY,
    LISTED,
    MEMORY,
    AddResult,
    Context,
    Deletion,
    ForgetReport,
    HistoryEvent,
    Memory,
    MemoryEvent,
    MemoryList,
    MemoryPage,
    Message,
    SearchResults,
    answers,
)
from perdure.frontends.server.schemas.views import (
    added_view,
    deletion_id,
    history_view,
    memory_view,
    page_view,
    select_fields,
)
from perdure.frontends.server.state import CurrentService

router = APIRouter(tags=["memories"])
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description="A repeated key changes nothing")]
"""The header that lets a client repeat a request safely."""


@router.post("/v1/memories", summary="Remember a conversation", **answers(AddResult | list[MemoryEvent], ADDED))
async def add(body: memories.FactsAdd, personal: WriteAccess, idempotency_key: IdempotencyKey = None) -> Any:
    """Extract facts from a conversation and store them: each is new, changes or ends another, or is known already."""
    reach = resolve_one_scope(body.scope(), _filters(body.filters), personal.walls)
    told = None if idempotency_key is None else utf8_of(idempotency_key, "Idempotency-Key")
    key = body.idempotency_key if body.idempotency_key is not None else told
    return added_view(await operations.add(personal, body, reach, idempotency_key=key))


@router.get("/v1/memories/search", summary="Search memories", **answers(SearchResults, FOUND))
async def search(query: Annotated[memories.FactsSearch, Query()], personal: ReadAccess) -> dict[str, Any]:
    """Search for memories that answer a question, best first."""
    return await _search(personal, query)


@router.post("/v1/memories/search", summary="Search memories, with a body", **answers(SearchResults, FOUND))
async def search_by_body(body: memories.FactsSearchBody, personal: ReadAccess) -> dict[str, Any]:
    """Search with a JSON body, which may hold filters, earlier messages and a time window."""
    return await _search(personal, body)


async def _search(personal: PersonalMemory, form: memories.FactsSearch) -> dict[str, Any]:
    filters = _filters(form.filters)
    options = SearchOptions(
        limit=form.limit if form.top_k is None else form.top_k,
        threshold=form.threshold,
        types=form.types,
        rerank=form.rerank,
        as_of=_moment(form.as_of, "as_of"),
        include_past=form.include_past,
        preset=form.preset,
        explain=form.explain,
        hydrate=form.hydrate,
        reference_time=_moment(form.reference_time, "reference_time"),
        order=form.order,
    )
    metadata = None
    if isinstance(form, memories.FactsSearchBody):
        window = form.time_window
        if window is not None:
            start, end = (_moment(each, "time_window") for each in window)
            options = replace(options, time_window=(start, end))
        options = replace(options, history=form.history)
        metadata = read_filters({"metadata": form.metadata}) if form.metadata else None
    places = [reach.also(metadata) for reach in resolve_scopes(form.scope(), filters, personal.walls)]
    found = await operations.search_in(personal, places, form.text, options)
    return found.model_dump() | {"results": [select_fields(memory_view(item), form.fields) for item in found.results]}


@router.get("/v1/memories", summary="List memories", **answers(MemoryList | MemoryPage, LISTED))
async def get_all(
    request: Request, query: Annotated[memories.FactsList, Query()], personal: ReadAccess
) -> dict[str, Any]:
    """List one page of a scope's memories, oldest first, by `cursor` or by `page` number.

    With `deleted` it lists what was deleted, the last first. `deleted` of each says when, why and what `undo` takes;
    what was erased is not there.
    """
    filters = _filters(query.filters)
    if query.is_numbered:
        return page_view(request, query, await operations.list_page(personal, query, filters))
    asked = operations.scopes_to_read(personal, query, filters)
    if len(asked) != 1:
        raise FilterError(f"a cursor is of one scope, and the filter names {len(asked)}: use page", field="filters")
    (reach,) = asked
    view, ids = personal.at(reach.scope)
    found = await view.get_all(
        **ids,
        limit=query.limit if query.top_k is None else query.top_k,
        filters=reach.expression(),
        cursor=query.cursor,
        as_of=_moment(query.as_of, "as_of"),
        include_past=query.include_past or bool(query.show_expired),
        kind=query.kind,
        deleted=query.deleted,
    )
    results = [select_fields(memory_view(item), query.fields) for item in found.results]
    return {"results": results, "next_cursor": found.next_cursor}


@router.get("/v1/memories/{id}", summary="Get a memory", **answers(Memory, MEMORY))
async def get(id: str, personal: ReadAccess) -> dict[str, Any]:
    """Return a memory by its id."""
    return memory_view(await personal.existing(id))


@router.put("/v1/memories/{id}", summary="Change a memory", **answers(Memory, MEMORY))
async def update(id: str, body: memories.UpdateBody, personal: WriteAccess) -> dict[str, Any]:
    """Replace a memory's text, add to its metadata, or set when it becomes valid and when it ends."""
    return memory_view(await operations.update(personal.of_project(body.org_id, body.project_id), id, body))


@router.delete("/v1/memories/{id}", summary="Delete a memory", **answers(Deletion))
async def delete(id: str, query: Annotated[memories.DeleteQuery, Query()], personal: WriteAccess) -> dict[str, Any]:
    """Delete a memory; its history stays unless `erase` is true."""
    count = await operations.delete(personal, id, erase=query.erase, linked=query.delete_linked)
    cascade = {"cascade_count": count} if query.delete_linked else {}
    return {"message": "Memory deleted successfully!", "id": id, **cascade}


@router.delete("/v1/memories", summary="Delete the memories of a scope", **answers(Deletion))
async def delete_all(query: Annotated[memories.DeleteAllQuery, Query()], personal: WriteAccess) -> dict[str, Any]:
    """Delete all memories of one scope, or those that match a filter."""
    filters = read_filters(query.filters)
    if query.metadata is not None:
        metadata = read_filters({"metadata": query.metadata})
        filters = parse_filter({"AND": [each for each in (filters, metadata) if each is not None]})
    scope = await operations.delete_all(personal, query.scope(), filters, erase=query.erase)
    return {"message": "Memories deleted successfully!", "event_id": deletion_id(scope)}


@router.get("/v1/memories/{id}/history", summary="Get the history of a memory", **answers(list[HistoryEvent], HISTORY))
async def history(id: str, personal: ReadAccess) -> list[dict[str, Any]]:
    """List the events of a memory, oldest first, its deletion included."""
    return [history_view(record) for record in await operations.history(personal, id)]


@router.post("/v1/memories/{id}/feedback", summary="Rate a memory", **answers(Memory, MEMORY))
async def feedback(id: str, body: memories.FeedbackBody, personal: WriteAccess) -> dict[str, Any]:
    """Rate a memory, which changes its importance and lifetime; the last verdict counts, null removes it."""
    return memory_view(await personal.memory.feedback(id, body.verdict, reason=body.reason))


@router.post("/v1/memories/{id}/trust", summary="Release a memory from quarantine", **answers(Memory, MEMORY))
async def trust(id: str, personal: WriteAccess) -> dict[str, Any]:
    """Take a memory out of quarantine; its provenance stays recorded, and undo reverts this."""
    return memory_view(await personal.memory.trust(id))


@router.post("/v1/memories/{id}/distrust", summary="Put a memory into quarantine", **answers(Memory, MEMORY))
async def distrust(id: str, personal: WriteAccess, body: memories.DistrustBody | None = None) -> dict[str, Any]:
    """Put a memory into quarantine: searches still find it, and no prompt contains it."""
    return memory_view(await personal.memory.distrust(id, (body or memories.DistrustBody()).reason))


@router.post("/v1/reset", summary="Clear everything", **answers(Message))
async def reset(body: memories.ResetForm, service: CurrentService, personal: WriteAccess) -> dict[str, str]:
    """Clear memories, history and messages of this server; keys stay. An admin key is needed if keys exist.

    The body must be `{"confirm": true}`, so that nothing is cleared by accident.
    """
    need_admin(service, personal.caller)
    await personal.memory.reset()
    return {"message": "Everything was cleared"}


@router.get("/v1/context", summary="Memories as a block for a prompt", **answers(Context))
async def context(query: Annotated[memories.ContextQuery, Query()], personal: ReadAccess) -> dict[str, str]:
    """Return the memories about a question as quoted data within `max_tokens`."""
    view, ids = personal.at(query.scope())
    block = await view.context(query.query, **ids, max_tokens=query.max_tokens, order=query.order)
    return {"context": block}


@router.post("/v1/forget", summary="Forget", **answers(ForgetReport))
async def forget(body: memories.ForgetBody, personal: WriteAccess) -> dict[str, Any]:
    """Remove a memory, the matches of a query, or a scope from every place that holds it; the report names each."""
    named = {name: getattr(body, name) for name in ("id", "query", "threshold") if name in body.model_fields_set}
    if not named:
        body.scope().require_owner()  # a key bound to a scope does not count as naming it
    view, ids = personal.at(body.scope())
    report = await view.forget(**named, **ids, erase=body.erase, dry_run=body.dry_run)
    return report.model_dump()


@router.post("/v1/undo", summary="Undo an event", **answers(AddResult | list[MemoryEvent]))
async def undo(body: memories.UndoBody, personal: WriteAccess) -> Any:
    """Undo one event; 409 if a later event depends on it."""
    return added_view(await personal.memory.undo(body.event_id))


def _filters(value: dict[str, Any] | str | None) -> Filter | None:
    read = object_of(value) if isinstance(value, str) else value
    return parse_filter(read)  # type: ignore[arg-type]  # what is no object is a FilterError


def _moment(value: float | str | None, field: str) -> Any:
    return None if value is None else parse_moment(read_time(value, field), field)
