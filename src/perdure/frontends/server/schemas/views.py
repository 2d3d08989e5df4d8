"""Views of memories, events and pages in answers: the library's fields, and mem0's names for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from perdure.domain.event import AddResult, HistoryRecord, MemoryEvent
from perdure.domain.memory import MemoryItem
from perdure.frontends.server.schemas.memories import ListForm
from perdure.frontends.server.schemas.times import last_day

CATEGORIES = "categories"
"""The key of a memory's metadata that mem0 shows as a field of its own."""


def memory_view(item: MemoryItem) -> dict[str, Any]:
    """A memory: `model_dump()`, with mem0's names for its scope, its categories and its end."""
    scope = item.scope
    return item.model_dump() | {
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "app_id": scope.world_id,
        "run_id": scope.run_id,
        "session_id": scope.run_id,
        "categories": item.metadata.get(CATEGORIES),
        "expiration_date": last_day(item.expires_at),
        "lifecycle_state": "superseded" if item.valid_to is not None else "active",
        "replaced_by": item.replaced_by,
    }


def select_fields(view: dict[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    """The fields that were asked for, with the id; all of them where none was."""
    return view if not fields else {name: value for name, value in view.items() if name == "id" or name in fields}


def event_view(event: MemoryEvent) -> dict[str, Any]:
    """What an `add` did to one memory: `model_dump()`, with the text where mem0's programs look for it."""
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
    """One page of a list, and how many memories there are on all pages."""

    items: list[MemoryItem]
    count: int


def page_view(request: Request, form: ListForm, listed: NumberedPage) -> dict[str, Any]:
    """One page, how many memories there are, and where the pages beside it are."""
    results = [select_fields(memory_view(item), form.fields) for item in listed.items]
    return numbered(request, results, listed.count, form.page or 1, form.size)


def numbered(request: Request, results: Sequence[Any], count: int, page: int, size: int) -> dict[str, Any]:
    """`{"count", "next", "previous", "results"}`."""

    def at(number: int) -> str:
        return str(request.url.include_query_params(page=number, page_size=size))

    return {
        "count": count,
        "next": at(page + 1) if page * size < count else None,
        "previous": at(page - 1) if page > 1 else None,
        "results": list(results),
    }
