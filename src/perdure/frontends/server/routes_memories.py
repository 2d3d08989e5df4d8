"""Spec 000 §12 over HTTP: the library's calls with all of their arguments, and mem0's oldest routes beside them.

mem0 has some of the same paths. Its fields are in every answer beside the library's, and its arguments are taken.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request

from perdure.domain.clock import parse_moment
from perdure.domain.errors import FilterError
from perdure.domain.filter import Filter, parse_filter
from perdure.domain.text import utf8_of
from perdure.frontends.server.callers import need_admin
from perdure.frontends.server.facts_examples import ADDED, FOUND, HISTORY, LISTED, MEMORY, answers
from perdure.frontends.server.facts_forms import (
    ContextQuery,
    DeleteAllQuery,
    DeleteQuery,
    DistrustBody,
    FactsAdd,
    FactsList,
    FactsSearch,
    FactsSearchBody,
    FeedbackBody,
    ForgetBody,
    UndoBody,
    UpdateBody,
)
from perdure.frontends.server.mem0 import calls, events, lists
from perdure.frontends.server.mem0.filters import object_of, read_filters
from perdure.frontends.server.mem0.prompts import prompt_of
from perdure.frontends.server.mem0.reach import one_reach, reaches
from perdure.frontends.server.mem0.shapes import added_view, history_view, memory_view, picked
from perdure.frontends.server.mem0.times import read_time
from perdure.frontends.server.personal import Personal, Reading, Writing
from perdure.frontends.server.service import Serving

router = APIRouter(tags=["memories"])

IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description="A repeated one changes nothing")]
"""The header by which a client may send the same request again."""


@router.post("/v1/memories", summary="Remember a conversation", responses=answers(ADDED))
async def add(body: FactsAdd, personal: Writing, idempotency_key: IdempotencyKey = None) -> Any:
    """Read a conversation and keep its facts: each is added, updates or retires another, or was known."""
    reach = one_reach(body.scope(), _filters(body.filters), personal.walls)
    prompt = await prompt_of(personal, body, reach.scope)
    told = None if idempotency_key is None else utf8_of(idempotency_key, "Idempotency-Key")
    key = body.idempotency_key if body.idempotency_key is not None else told
    return added_view(await calls.add(personal, body, reach, prompt=prompt, idempotency_key=key))


@router.get("/v1/memories/search", summary="Search memories", responses=answers(FOUND))
async def search(query: Annotated[FactsSearch, Query()], personal: Reading) -> dict[str, Any]:
    """The memories that answer a question, best first."""
    return await _search(personal, query, {})


@router.post("/v1/memories/search", summary="Search memories, with a body", responses=answers(FOUND))
async def search_by_body(body: FactsSearchBody, personal: Reading) -> dict[str, Any]:
    """The same, with filters, earlier messages and a window of time as JSON."""
    window = None if body.time_window is None else tuple(_moment(each, "time_window") for each in body.time_window)
    return await _search(personal, body, {"history": body.history, "time_window": window})


async def _search(personal: Personal, form: FactsSearch, more: dict[str, Any]) -> dict[str, Any]:
    filters = _filters(form.filters)
    metadata = (
        read_filters({"metadata": form.metadata}) if isinstance(form, FactsSearchBody) and form.metadata else None
    )
    found = await calls.search_in(
        personal,
        [reach.also(metadata) for reach in reaches(form.scope(), filters, personal.walls)],
        form.text,
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
        **more,
    )
    return found.model_dump() | {"results": [picked(memory_view(item), form.fields) for item in found.results]}


@router.get("/v1/memories", summary="List memories", responses=answers(LISTED))
async def get_all(request: Request, query: Annotated[FactsList, Query()], personal: Reading) -> dict[str, Any]:
    """A page of a scope's memories, oldest first: by `cursor`, or by `page` as mem0's clients ask."""
    filters = _filters(query.filters)
    if query.is_numbered:
        return lists.page_view(request, query, await calls.list_page(personal, query, filters))
    asked = calls.asked(personal, query, filters)
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
    )
    results = [picked(memory_view(item), query.fields) for item in found.results]
    return {"results": results, "next_cursor": found.next_cursor}


@router.get("/v1/memories/{id}", summary="Get a memory", responses=answers(MEMORY))
async def get(id: str, personal: Reading) -> dict[str, Any]:
    """One memory by its id."""
    return memory_view(await personal.standing(id))


@router.put("/v1/memories/{id}", summary="Change a memory", responses=answers(MEMORY))
async def update(id: str, body: UpdateBody, personal: Writing) -> dict[str, Any]:
    """Overwrite a memory's text, add to its metadata, or set when it began to hold and when it ends."""
    return memory_view(await calls.update(personal, id, body))


@router.delete("/v1/memories/{id}", summary="Delete a memory")
async def delete(id: str, query: Annotated[DeleteQuery, Query()], personal: Writing) -> dict[str, Any]:
    """Remove one memory; its history stays unless `erase` is true."""
    count = await calls.delete(personal, id, erase=query.erase, linked=query.delete_linked)
    cascade = {"cascade_count": count} if query.delete_linked else {}
    return {"message": "Memory deleted successfully!", "id": id, **cascade}


@router.delete("/v1/memories", summary="Delete the memories of a scope")
async def delete_all(query: Annotated[DeleteAllQuery, Query()], personal: Writing) -> dict[str, Any]:
    """Remove all memories of one scope, or those of it that a filter lets through."""
    filters = read_filters(query.filters)
    if query.metadata is not None:
        metadata = read_filters({"metadata": query.metadata})
        filters = parse_filter({"AND": [each for each in (filters, metadata) if each is not None]})
    scope = await calls.delete_all(personal, query.scope(), filters, erase=query.erase)
    return {"message": "Memories deleted successfully!", "event_id": events.deletion_id(scope)}


@router.get("/v1/memories/{id}/history", summary="Get the history of a memory", responses=answers(HISTORY))
async def history(id: str, personal: Reading) -> list[dict[str, Any]]:
    """Everything that happened to a memory, oldest first, its deletion included."""
    return [history_view(record) for record in await calls.history(personal, id)]


@router.post("/v1/memories/{id}/feedback", summary="Say what a memory is worth", responses=answers(MEMORY))
async def feedback(id: str, body: FeedbackBody, personal: Writing) -> dict[str, Any]:
    """Judge a memory, which moves its importance and so how long it lasts; the last verdict counts, null is none."""
    return memory_view(await personal.memory.feedback(id, body.verdict, reason=body.reason))


@router.post("/v1/memories/{id}/trust", summary="Let a memory enter prompts", responses=answers(MEMORY))
async def trust(id: str, personal: Writing) -> dict[str, Any]:
    """Take one memory out of quarantine; where it came from stays known, and undo takes it back."""
    return memory_view(await personal.memory.trust(id))


@router.post("/v1/memories/{id}/distrust", summary="Keep a memory out of prompts", responses=answers(MEMORY))
async def distrust(id: str, personal: Writing, body: DistrustBody | None = None) -> dict[str, Any]:
    """Put one memory into quarantine: it is still found, and enters no prompt."""
    return memory_view(await personal.memory.distrust(id, (body or DistrustBody()).reason))


@router.post("/v1/reset", summary="Clear everything")
async def reset(service: Serving, personal: Writing) -> dict[str, str]:
    """Clear memories, history and messages of this server; keys stay. Where keys exist it needs an admin's."""
    need_admin(service, personal.caller)
    await personal.memory.reset()
    return {"message": "Everything was cleared"}


@router.get("/v1/context", summary="A block for a prompt")
async def context(query: Annotated[ContextQuery, Query()], personal: Reading) -> dict[str, str]:
    """What is remembered of a question, as quoted data within `max_tokens`."""
    view, ids = personal.at(query.scope())
    return {"context": await view.context(query.query, **ids, max_tokens=query.max_tokens)}


@router.post("/v1/forget", summary="Forget")
async def forget(body: ForgetBody, personal: Writing) -> dict[str, Any]:
    """Take one memory, what a question finds, or a scope out of every place that held it; the report names each."""
    if body.id is None and body.query is None:
        body.scope().require_owner()  # a key that is bound to one has not named it
    view, ids = personal.at(body.scope())
    report = await view.forget(
        id=body.id, query=body.query, **ids, threshold=body.threshold, erase=body.erase, dry_run=body.dry_run
    )
    return report.model_dump()


@router.post("/v1/undo", summary="Take back an event")
async def undo(body: UndoBody, personal: Writing) -> Any:
    """Take back one event by its inverse; 409 where a later one built on it."""
    return added_view(await personal.memory.undo(body.event_id))


def _filters(value: dict[str, Any] | str | None) -> Filter | None:
    """Spec 000's filters, which in a query string are JSON."""
    read = object_of(value) if isinstance(value, str) else value
    return parse_filter(read)  # type: ignore[arg-type]  # what is no object is a FilterError


def _moment(value: float | str | None, field: str) -> Any:
    return None if value is None else parse_moment(read_time(value, field), field)
