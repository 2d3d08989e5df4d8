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
from perdure.domain.scope import Scope
from perdure.frontends.server.mem0 import tokens
from perdure.frontends.server.mem0.forms import Ids
from perdure.frontends.server.mem0.shapes import event_view, record_event_view
from perdure.frontends.server.personal import Personal, Reading

router = APIRouter(tags=["mem0"])

ADD = "ADD"
DELETE_ALL = "DELETE_ALL"
MISSING = "Event not found!"


class EventsQuery(Ids):
    """Whose events to tell of, and from where on."""

    after: int = Field(0, ge=0, lt=2**63, description="`sequence` of the last event of the page before")
    page_size: int = Field(50, ge=1, le=500)


def new_key() -> str:
    """An idempotency key for an `add` that came without one, so that its answer can be asked for again."""
    return f"mem0:{uuid4()}"


def addition_id(key: str, scope: Scope) -> str:
    """The id of the event that an `add` is."""
    return tokens.seal(ADD, key=key, scope=scope.given())


def deletion_id(scope: Scope) -> str:
    """The id of the event that the deletion of a scope is, once it has been done."""
    return tokens.seal(DELETE_ALL, scope=scope.given())


@router.get("/v1/event/{id}", summary="Get an event")
async def event(id: str, personal: Reading) -> dict[str, Any]:
    """What became of an `add` in the last 24 hours, or of a deletion; or one line of a memory's history."""
    opened = tokens.unseal(id)
    if opened is None:
        record = await personal.overview.event(id, personal.walls)
        if record is None:
            raise NotFoundError(MISSING)
        return record_event_view(record)
    kind, values = opened
    scope = personal.inside(tokens.scope_of(values.get("scope")))
    found = {"id": id, "event_type": kind, "status": "SUCCEEDED", "payload": scope.given()}
    if kind == ADD:
        return found | {"results": await _results(personal, values.get("key"), scope)}
    if kind == DELETE_ALL:
        return found | {"results": []}
    raise NotFoundError(MISSING)


async def _results(personal: Personal, key: object, scope: Scope) -> list[dict[str, Any]]:
    answer = await personal.overview.answer(key, scope) if isinstance(key, str) and key else None
    if answer is None:
        raise NotFoundError(MISSING)
    return [event_view(each) for each in answer.results]


@router.get("/v1/events", summary="List events")
async def events(request: Request, query: Annotated[EventsQuery, Query()], personal: Reading) -> dict[str, Any]:
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
