"""Memories of mem0's platform (v3, v2): add, search, list, batches, feedback, and the events that tell of changes.

Filters name the scope. An add is finished before it is answered, so every event has succeeded when it is read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.event import HistoryRecord
from perdure.domain.filter import eq
from perdure.domain.memory import check_metadata
from perdure.domain.scope import Scope
from perdure.domain.text.readable import utf8_of
from perdure.engine.requests import SearchOptions, read_text
from perdure.frontends.server.dependencies import PersonalMemory, ReadAccess, WriteAccess
from perdure.frontends.server.routes import operations
from perdure.frontends.server.routes.scope_resolver import resolve_one_scope
from perdure.frontends.server.schemas import views
from perdure.frontends.server.schemas.fields import Form, ScopeFields, Time, read_time
from perdure.frontends.server.schemas.filters import read_filters
from perdure.frontends.server.schemas.memories import AddForm, ListForm, ReadForm, UpdateForm
from perdure.frontends.server.schemas.responses import (
    FOUND,
    PAGE,
    AddAccepted,
    MemoryPage,
    Message,
    NumberedPage,
    SearchResults,
    answers,
)

router = APIRouter(tags=["mem0"])
TOP_K = 10  # mem0's default number of search results


class SearchForm(ReadForm):
    """A search."""

    query: str = Field(examples=["Where does she live?"])
    top_k: int | None = Field(None, description="Maximum number of memories, 10 by default")
    limit: int | None = Field(None, description="Another name of `top_k`")
    threshold: float | None = None
    rerank: bool | None = None
    reference_date: Time | None = None
    explain: bool | None = None


class BatchEntry(Form):
    """One memory of a batch."""

    memory_id: str
    text: str | None = None
    metadata: dict[str, Any] | None = None


class BatchForm(Form):
    """Memories to change or delete together, at most 1000."""

    memories: list[BatchEntry] = Field(
        min_length=1, max_length=1000, examples=[[{"memory_id": "0b6f2c1e-9a4d-4a53-8f0e-2f1c7f6f3a10"}]]
    )


class FeedbackForm(Form):
    """A rating of a memory; null withdraws it."""

    memory_id: str
    feedback: str | None = Field(None, examples=["POSITIVE"])
    feedback_reason: str | None = None


class FeedbackResult(BaseModel):
    """The stored rating of a memory."""

    id: str
    feedback: str | None
    feedback_reason: str | None


Page = Annotated[int | None, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int | None, Query(ge=1, le=1_000)]


@router.post("/v3/memories/add", summary="Remember a conversation (mem0)", **answers(AddAccepted))
async def add(
    form: AddForm, personal: WriteAccess, idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, Any]:
    """Extract facts from a conversation and store them before the response is sent; its event lists them."""
    reach = resolve_one_scope(form.scope(), read_filters(form.filters), personal.walls)
    header = None if idempotency_key is None else utf8_of(idempotency_key, "Idempotency-Key")
    key = form.idempotency_key or header or f"mem0:{uuid4()}"  # the event id needs one
    result = await operations.add(personal, form, reach, idempotency_key=key)
    infers = form.infer is not False
    return {
        "message": "The event tells what became of it" if infers else "Memories were added",
        "status": "PENDING" if infers else "SUCCEEDED",
        "event_id": views.addition_id(key, personal.inside(reach.scope)),
        "results": [views.event_view(each) for each in result.results],
        **({"warnings": result.warnings} if result.warnings else {}),
    }


@router.post(
    "/v2/memories/search",
    summary="Search memories (mem0, v2)",
    deprecated=True,
    name="search_v2",
    **answers(SearchResults),
)
@router.post("/v3/memories/search", summary="Search memories (mem0)", **answers(SearchResults, FOUND))
async def search(form: SearchForm, personal: ReadAccess) -> dict[str, Any]:
    """Search the scopes that the filters name, best match first."""
    return await search_view(personal, form)


@router.post(
    "/v2/memories", summary="List memories (mem0, v2)", deprecated=True, name="get_all_v2", **answers(MemoryPage)
)
@router.post("/v3/memories", summary="List memories (mem0)", **answers(MemoryPage, PAGE))
async def get_all(
    request: Request, form: ListForm, personal: ReadAccess, page: Page = None, page_size: PageSize = None
) -> dict[str, Any]:
    """List one page of the memories of the scopes that the filters name, oldest first."""
    given = {name: value for name, value in (("page", page), ("page_size", page_size)) if value is not None}
    asked = form.model_copy(update=given)
    return views.page_view(request, asked, await operations.list_page(personal, asked, read_filters(asked.filters)))


async def search_view(personal: PersonalMemory, form: SearchForm) -> dict[str, Any]:
    """Search all the scopes that a request names; warn if it asks for a reranker and there is none."""
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
    scopes = operations.scopes_to_read(personal, form, read_filters(form.filters))
    scopes = [reach.also(eq("kind", "facts")) for reach in scopes]  # mem0 has no notes
    found = await operations.search_in(personal, scopes, form.query, options)
    warnings += found.warnings
    results = [views.select_fields(views.memory_view(item), form.fields) for item in found.results]
    return {"results": results, **({"warnings": warnings} if warnings else {})}


@router.post("/v1/feedback", summary="Rate a memory (mem0)", **answers(FeedbackResult))
async def feedback(form: FeedbackForm, personal: WriteAccess) -> dict[str, Any]:
    """Rate a memory: POSITIVE, NEGATIVE or VERY_NEGATIVE changes its importance; null removes the rating."""
    item = await personal.memory.feedback(form.memory_id, form.feedback, reason=form.feedback_reason)
    return {"id": item.id, "feedback": item.metadata.get("feedback"), "feedback_reason": form.feedback_reason}


@router.put("/v1/batch", summary="Change many memories (mem0)", **answers(Message))
async def update(form: BatchForm, personal: WriteAccess) -> dict[str, str]:
    """Change several memories; if one does not exist, or its change is invalid, none is changed."""
    for place, entry in enumerate(form.memories):
        if entry.text is None and entry.metadata is None:
            raise InvalidInputError(f"memories[{place}] has no text and no metadata", field=f"memories[{place}].text")
        if entry.text is not None:
            read_text(entry.text, f"memories[{place}].text")
        check_metadata(entry.metadata)
    await _ids(form, personal)
    for entry in form.memories:
        given = {name: value for name in ("text", "metadata") if (value := getattr(entry, name)) is not None}
        await operations.update(personal, entry.memory_id, UpdateForm(**given))
    return {"message": f"Successfully updated {len(form.memories)} memories"}


@router.delete("/v1/batch", summary="Delete many memories (mem0)", **answers(Message))
async def delete(form: BatchForm, personal: WriteAccess) -> dict[str, str]:
    """Delete several memories; if one does not exist, none is deleted."""
    ids = await _ids(form, personal)
    for id in ids:
        await personal.memory.delete(id)
    return {"message": f"Successfully deleted {len(ids)} memories"}


async def _ids(form: BatchForm, personal: PersonalMemory) -> list[str]:
    """Return the ids of the memories, each once; NotFoundError for one outside the caller's scope."""
    return list(dict.fromkeys([(await personal.existing(entry.memory_id)).id for entry in form.memories]))


# Events.

MISSING = "Event not found!"


class Event(BaseModel):
    """An `add`, a deletion, or an event of a memory's history; it always reads as succeeded."""

    id: str
    event_type: str
    status: Literal["SUCCEEDED"]
    payload: dict[str, str | None]
    results: list[dict[str, Any]]
    memory_id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    sequence: int | None = None


class Events(NumberedPage):
    """A page of events, in order."""

    results: list[Event]


class EventsQuery(ScopeFields):
    """The scope of the events, and where the page starts."""

    after: int = Field(0, ge=0, lt=2**63, description="`sequence` of the last event of the previous page")
    page_size: int = Field(50, ge=1, le=500)


@router.get("/v1/event/{id}", summary="Get an event", **answers(Event))
async def event(id: str, personal: ReadAccess) -> dict[str, Any]:
    """Return the result of an `add` of the last 24 hours, a deletion, or one event of a memory's history."""
    opened = views.unseal(id)
    if opened is None:
        record = await personal.overview.event(id, personal.walls)
        if record is None:
            raise NotFoundError(MISSING)
        return record_event_view(record)
    kind, values = opened
    scope = personal.inside(views.scope_of(values.get("scope")))
    found = {"id": id, "event_type": kind, "status": "SUCCEEDED", "payload": scope.given()}
    if kind == views.ADD:
        return found | {"results": await _results(personal, values.get("key"), scope)}
    if kind == views.DELETE_ALL:
        return found | {"results": []}
    raise NotFoundError(MISSING)


async def _results(personal: PersonalMemory, key: object, scope: Scope) -> list[dict[str, Any]]:
    answer = await personal.overview.answer(key, scope) if isinstance(key, str) and key else None
    if answer is None:
        raise NotFoundError(MISSING)
    return [views.event_view(each) for each in answer.results]


@router.get("/v1/events", summary="List events", **answers(Events))
async def events(request: Request, query: Annotated[EventsQuery, Query()], personal: ReadAccess) -> dict[str, Any]:
    """List the events of a scope, or of all that the caller may see, in order."""
    scope = personal.inside(query.scope())
    found = await personal.overview.events(scope, limit=query.page_size, after=query.after)
    full = len(found) == query.page_size
    following = str(request.url.include_query_params(after=found[-1].sequence)) if full else None
    return {
        "count": len(found),
        "next": following,
        "previous": None,
        "results": [record_event_view(record) for record in found],
    }


def record_event_view(record: HistoryRecord) -> dict[str, Any]:
    """Build the view of one event, which has succeeded by then."""
    result = {"id": record.memory_id, "event": record.event, "data": {"memory": record.new_value or record.old_value}}
    return {
        "id": record.id,
        "event_type": record.event,
        "status": "SUCCEEDED",
        "memory_id": record.memory_id,
        "payload": {name: getattr(record, name) for name in ("user_id", "agent_id", "run_id")},
        "results": [result],
        "created_at": record.timestamp,
        "updated_at": record.timestamp,
        "sequence": record.sequence,
    }
