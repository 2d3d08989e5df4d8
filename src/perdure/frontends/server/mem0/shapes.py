"""What answers look like: the library's own fields, and beside them those by which mem0's programs know the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.domain.event import AddResult, HistoryRecord, MemoryEvent
from perdure.domain.memory import MemoryItem
from perdure.domain.owner import Owner
from perdure.frontends.server.mem0.times import last_day

CATEGORIES = "categories"
"""The key of a memory's metadata that mem0 shows as a field of its own."""
ENTITY_TYPES = {"user": "user_id", "agent": "agent_id", "app": "world_id", "run": "run_id"}
"""mem0's names of who memories are kept for."""

_TYPE_OF = {axis: name for name, axis in ENTITY_TYPES.items()}


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


def picked(view: dict[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    """The fields that were asked for, with the id; all of them where none was."""
    return view if not fields else {name: value for name, value in view.items() if name == "id" or name in fields}


def event_view(event: MemoryEvent) -> dict[str, Any]:
    """What an `add` did to one memory: `model_dump()`, with the text where mem0's programs look for it."""
    return event.model_dump() | {"data": {"memory": event.memory}}


def added_view(result: AddResult) -> Any:
    """The answer to an `add`: a bare list for "v1.0", else an object (U26)."""
    results = [event_view(event) for event in result.results]
    return results if result.bare else result.model_dump() | {"results": results}


def history_view(record: HistoryRecord) -> dict[str, Any]:
    """One event of a memory's history under 000's names and mem0's."""
    return record.model_dump() | {
        "old_memory": record.old_value,
        "new_memory": record.new_value,
        "created_at": record.timestamp,
        "updated_at": record.timestamp,
        "input": None,
        "metadata": None,
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


def entity_view(owner: Owner) -> dict[str, Any]:
    """Somebody that memories are kept for."""
    return {
        "id": f"{_TYPE_OF[owner.axis]}:{owner.name}",
        "name": owner.name,
        "type": _TYPE_OF[owner.axis],
        "total_memories": owner.memories,
        "created_at": owner.created_at,
        "updated_at": owner.updated_at,
        "owner": None,
        "metadata": None,
    }
