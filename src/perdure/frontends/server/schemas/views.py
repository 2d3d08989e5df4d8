"""Views of memories, events and pages in responses: the library's fields, and mem0's names for them.

Some ids encode what they name: an `add`, a deletion, an export. The server looks it up within the caller's scope, so
that a guessed id gives no access. No table is needed, so that every replica can answer.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from perdure.domain.event import AddResult, HistoryRecord, MemoryEvent
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.frontends.server.schemas.fields import last_day
from perdure.frontends.server.schemas.memories import ListForm

CATEGORIES = "categories"  # the metadata key that mem0 shows as a field of its own


def memory_view(item: MemoryItem) -> dict[str, Any]:
    """Build the view of a memory: `model_dump()`, with mem0's names for scope, categories and expiry."""
    scope = item.scope
    return item.model_dump() | {
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "app_id": scope.world_id,
        "run_id": scope.run_id,
        "session_id": scope.run_id,
        "categories": item.metadata.get(CATEGORIES),
        "expiration_date": last_day(item.expires_at),
        "lifecycle_state": "deleted" if item.deleted else "superseded" if item.valid_to is not None else "active",
        "replaced_by": item.replaced_by,
    }


def select_fields(view: dict[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    """Return the requested fields with the id; all of them if none is requested."""
    return view if not fields else {name: value for name, value in view.items() if name == "id" or name in fields}


def event_view(event: MemoryEvent) -> dict[str, Any]:
    """Build the view of an `add` event: `model_dump()`, with the text where mem0's programs expect it."""
    return event.model_dump() | {"data": {"memory": event.memory}}


def added_view(result: AddResult) -> Any:
    """Build the answer to an `add`: a bare list for "v1.0", else an object."""
    results = [event_view(event) for event in result.results]
    return results if result.bare else result.model_dump() | {"results": results}


def history_view(record: HistoryRecord) -> dict[str, Any]:
    """Build one event of a memory's history, with mem0's names beside the library's."""
    return record.model_dump() | {
        "old_memory": record.old_value,
        "new_memory": record.new_value,
        "created_at": record.timestamp,
        "updated_at": record.timestamp,
        "input": None,
        "metadata": None,
    }


@dataclass(frozen=True, slots=True)
class NumberedPage:
    """One page of a list, and the total number of memories."""

    items: list[MemoryItem]
    count: int


def page_view(request: Request, form: ListForm, listed: NumberedPage) -> dict[str, Any]:
    """Build a page with the total number and the addresses of the next and previous pages."""
    results = [select_fields(memory_view(item), form.fields) for item in listed.items]
    return numbered(request, results, listed.count, form.page or 1, form.size)


def numbered(request: Request, results: Sequence[Any], count: int, page: int, size: int) -> dict[str, Any]:
    """Return `{"count", "next", "previous", "results"}`."""

    def at(number: int) -> str:
        return str(request.url.include_query_params(page=number, page_size=size))

    return {
        "count": count,
        "next": at(page + 1) if page * size < count else None,
        "previous": at(page - 1) if page > 1 else None,
        "results": list(results),
    }


# Ids that encode their content.

ADD = "ADD"
DELETE_ALL = "DELETE_ALL"
MAX_LENGTH = 16_000  # maximum characters of an id


def seal(kind: str, **values: Any) -> str:
    """Build an id that encodes a kind and its values."""
    text = json.dumps([kind, values], separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unseal(id: str) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and the values of an id, or None if it encodes none."""
    if len(id) > MAX_LENGTH:
        return None
    try:
        kind, values = json.loads(base64.b64decode(id + "=" * (-len(id) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        return None
    return (kind, values) if isinstance(kind, str) and isinstance(values, dict) else None


def scope_of(value: object) -> Scope:
    """Return the scope in an id; InvalidInputError if there is none."""
    if not isinstance(value, dict):
        return Scope()
    return Scope(**{name: value[name] for name in SCOPE_FIELDS if name in value})


def addition_id(key: str, scope: Scope) -> str:
    """Return the event id of an `add`."""
    return seal(ADD, key=key, scope=scope.given())


def deletion_id(scope: Scope) -> str:
    """Return the event id of the deletion of a scope."""
    return seal(DELETE_ALL, scope=scope.given())
