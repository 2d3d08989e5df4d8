"""mem0's events: what an `add` came to, and everything that happened.

An add is finished before it is answered, so that an event has succeeded whenever it is asked about.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request

from perdure.domain.errors import NotFoundError
from perdure.domain.event import HistoryRecord
from perdure.domain.scope import Scope
from perdure.frontends.server.dependencies import PersonalMemory, ReadAccess
from perdure.frontends.server.schemas.responses import Event, Events, described
from perdure.frontends.server.schemas.scope_fields import ScopeFields
from perdure.frontends.server.schemas.sealed_ids import ADD, DELETE_ALL, scope_of, unseal
from perdure.frontends.server.schemas.views import event_view

router = APIRouter(tags=["mem0"])

MISSING = "Event not found!"


class EventsQuery(ScopeFields):
    """Whose events to tell of, and from where on."""

    after: int = Field(0, ge=0, lt=2**63, description="`sequence` of the last event of the page before")
    page_size: int = Field(50, ge=1, le=500)


def new_key() -> str:
    """An idempotency key for an `add` that came without one, so that its answer can be asked for again."""
    return f"mem0:{uuid4()}"


@router.get("/v1/event/{id}", response_model=described(Event), summary="Get an event")
async def event(id: str, personal: ReadAccess) -> dict[str, Any]:
    """What became of an `add` in the last 24 hours, or of a deletion; or one line of a memory's history."""
    opened = unseal(id)
    if opened is None:
        record = await personal.overview.event(id, personal.walls)
        if record is None:
            raise NotFoundError(MISSING)
        return record_event_view(record)
    kind, values = opened
    scope = personal.inside(scope_of(values.get("scope")))
    found = {"id": id, "event_type": kind, "status": "SUCCEEDED", "payload": scope.given()}
    if kind == ADD:
        return found | {"results": await _results(personal, values.get("key"), scope)}
    if kind == DELETE_ALL:
        return found | {"results": []}
    raise NotFoundError(MISSING)


async def _results(personal: PersonalMemory, key: object, scope: Scope) -> list[dict[str, Any]]:
    answer = await personal.overview.answer(key, scope) if isinstance(key, str) and key else None
    if answer is None:
        raise NotFoundError(MISSING)
    return [event_view(each) for each in answer.results]


@router.get("/v1/events", response_model=described(Events), summary="List events")
async def events(request: Request, query: Annotated[EventsQuery, Query()], personal: ReadAccess) -> dict[str, Any]:
    """Everything that happened inside of a scope, or of all that the caller may see, in order."""
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
    """One event as `GET /v1/events` tells of it: by the time that it is told it has succeeded."""
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
