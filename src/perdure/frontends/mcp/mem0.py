"""The profile `mem0`: the eleven tools of mem0's hosted MCP server, by their names, for prompts that call them.

Their owner arguments (`user_id`, `agent_id`, `run_id`) are not here: the scope is the server's. Every write is finished
when its answer arrives, so an event has always succeeded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import mcp_types as types
from pydantic import Field

from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import TRUSTED, MemoryItem
from perdure.engine.read.overview import Overview
from perdure.engine.requests import MAX_LIMIT
from perdure.frontends.mcp.answers import WITHHELD, Changes
from perdure.frontends.mcp.consent import Act, Decision
from perdure.frontends.mcp.core import Query, Said, noted
from perdure.frontends.mcp.tool import Arguments, Tool, ToolAnswer, ToolCall

DELETE_ALL = Act(
    name="delete_all",
    heading="Delete every memory in this scope, among them:",
    yes="Delete all",
    explanation="Yes deletes, and `undo` can restore; no keeps all.",
)
ASK = "Nothing is deleted yet. Show this to the user; if they say yes, call again with `confirm` added."

Id = Annotated[str, Field(min_length=1)]


class AddArguments(Arguments):
    """Arguments of add_memory."""

    text: str | None = None
    messages: Annotated[list[Said], Field(min_length=1, max_length=200)] | None = Field(
        None, description="instead of text: a conversation"
    )
    metadata: dict[str, Any] | None = None
    infer: bool = Field(True, description="false stores the text as it is")


async def add_memory(call: ToolCall, given: AddArguments) -> Changes:
    """Extract facts from a text or a conversation and store them."""
    if (given.text is None) == (given.messages is None):
        raise InvalidInputError("give either text or messages", field="text", value=given.text)
    said: Any = (
        given.text if given.messages is None else [each.model_dump(exclude_none=True) for each in given.messages]
    )
    result = await call.memory.add(said, metadata=noted(call, given.metadata), infer=given.infer)
    return Changes.of(result, nothing="no fact was found; the words are kept and can be searched")


class StoredMemory(ToolAnswer):
    """A memory with mem0's fields."""

    id: str
    memory: str
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    score: float | None = None

    @classmethod
    def of(cls, item: MemoryItem) -> StoredMemory:
        """Build it from a memory; a quarantined one shows neither text nor metadata."""
        is_held = item.quarantined is not None
        return cls(
            id=item.id,
            memory=WITHHELD if is_held else item.memory,
            metadata={} if is_held else dict(item.metadata),
            created_at=item.created_at,
            updated_at=item.updated_at,
            score=None if item.score is None else round(item.score, 3),
        )


class StoredMemories(ToolAnswer):
    """Answer of search_memories and get_memories."""

    results: list[StoredMemory]
    next_page: int | None = None


class SearchArguments(Arguments):
    """Arguments of search_memories."""

    query: Query
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    filters: dict[str, Any] | None = Field(None, description="by metadata, such as {'topic': 'travel'}")


async def search_memories(call: ToolCall, given: SearchArguments) -> StoredMemories:
    """Find memories; quarantined ones stay out."""
    found = await call.memory.search(given.query, limit=given.limit, filters=_trusted(given.filters))
    return StoredMemories(results=[StoredMemory.of(item) for item in found.results])


class PageArguments(Arguments):
    """Arguments of get_memories."""

    page: Annotated[int, Field(ge=1, le=1000)] = 1
    page_size: Annotated[int, Field(ge=1, le=100)] = 50
    filters: dict[str, Any] | None = None


async def get_memories(call: ToolCall, given: PageArguments) -> StoredMemories:
    """Return a page of memories, oldest first."""
    cursor = None
    for number in range(1, given.page + 1):
        page = await call.memory.get_all(limit=given.page_size, cursor=cursor, filters=_trusted(given.filters))
        cursor = page.next_cursor
        if cursor is None and number < given.page:
            return StoredMemories(results=[])
    return StoredMemories(
        results=[StoredMemory.of(item) for item in page.results], next_page=None if cursor is None else given.page + 1
    )


class MemoryArguments(Arguments):
    """Arguments of get_memory and delete_memory."""

    memory_id: Id


async def get_memory(call: ToolCall, given: MemoryArguments) -> StoredMemory:
    """Return one memory; NotFoundError for an unknown id."""
    item = await call.memory.get(given.memory_id)
    if item is None:
        raise NotFoundError(f"there is no memory with the id {given.memory_id!r}")
    return StoredMemory.of(item)


class UpdateArguments(Arguments):
    """Arguments of update_memory."""

    memory_id: Id
    text: Annotated[str, Field(min_length=1)]
    metadata: dict[str, Any] | None = None


async def update_memory(call: ToolCall, given: UpdateArguments) -> StoredMemory:
    """Replace a memory's text; metadata is merged."""
    return StoredMemory.of(await call.memory.update(given.memory_id, given.text, metadata=given.metadata))


class Told(ToolAnswer):
    """A message, with the handle that a deletion of everything needs."""

    message: str
    confirm: str | None = None


async def delete_memory(call: ToolCall, given: MemoryArguments) -> Told:
    """Delete one memory; its history stays."""
    await call.memory.delete(given.memory_id)
    return Told(message="Memory deleted successfully!")


class DeleteAllArguments(Arguments):
    """Arguments of delete_all_memories and delete_entities."""

    confirm: str | None = Field(None, description="handle from the first answer")


async def delete_all(call: ToolCall, given: DeleteAllArguments) -> Told | types.InputRequiredResult:
    """Delete every memory in the scope, after the person's yes."""
    items = (await call.memory.get_all(limit=MAX_LIMIT, include_past=True)).results
    if not items:
        return Told(message="There is nothing to delete.")
    decision = await call.decide(DELETE_ALL, items, given.confirm)
    if isinstance(decision, types.InputRequiredResult):
        return decision
    if decision is Decision.YES:
        await call.memory.delete_all()
        return Told(message="Memories deleted successfully!")
    if decision is Decision.NO:
        return Told(message="The user did not agree, so nothing is deleted.")
    handle = call.consent.handle(DELETE_ALL, call.access.caller, items)
    return Told(message=f"{ASK} {len(items)} memories would go.", confirm=handle)


class NoArguments(Arguments):
    """Arguments of list_entities: none."""


class EntityOwner(ToolAnswer):
    """A user, an agent or a run with memories."""

    type: Literal["user", "agent", "run"]
    name: str
    total_memories: int
    created_at: str
    updated_at: str


class Entities(ToolAnswer):
    """Answer of list_entities."""

    results: list[EntityOwner]


async def list_entities(call: ToolCall, given: NoArguments) -> Entities:
    """List users, agents and runs inside the scope."""
    found = await _overview(call).owners(call.memory._walls)
    return Entities(
        results=[
            EntityOwner.model_validate(
                {
                    "type": owner.axis.removesuffix("_id"),
                    "name": owner.name,
                    "total_memories": owner.memories,
                    "created_at": owner.created_at,
                    "updated_at": owner.updated_at,
                }
            )
            for owner in found
        ]
    )


class EventsArguments(Arguments):
    """Arguments of list_events."""

    limit: Annotated[int, Field(ge=1, le=100)] = 50
    after: Annotated[int, Field(ge=0)] = Field(0, description="`sequence` of the last event of the previous page")


class EventView(ToolAnswer):
    """One event."""

    id: str
    event_type: str
    status: Literal["SUCCEEDED"] = "SUCCEEDED"
    memory_id: str
    created_at: str
    sequence: int | None = None

    @classmethod
    def of(cls, record: HistoryRecord) -> EventView:
        """Build it from a history record."""
        return cls(
            id=record.id,
            event_type=record.event,
            memory_id=record.memory_id,
            created_at=record.timestamp,
            sequence=record.sequence,
        )


class Events(ToolAnswer):
    """Answer of list_events."""

    results: list[EventView]


async def list_events(call: ToolCall, given: EventsArguments) -> Events:
    """List events of the scope, in order."""
    found = await _overview(call).events(call.memory._walls, limit=given.limit, after=given.after)
    return Events(results=[EventView.of(record) for record in found])


class EventArguments(Arguments):
    """Arguments of get_event_status."""

    event_id: Id


async def get_event_status(call: ToolCall, given: EventArguments) -> EventView:
    """Return one event; NotFoundError for an unknown id."""
    record = await _overview(call).event(given.event_id, call.memory._walls)
    if record is None:
        raise NotFoundError(f"there is no event with the id {given.event_id!r}")
    return EventView.of(record)


def _trusted(filters: dict[str, Any] | None) -> dict[str, Any]:
    return {"AND": [*([filters] if filters else []), TRUSTED, {"kind": {"ne": "messages"}}]}  # mem0 has no messages


def _overview(call: ToolCall) -> Overview:
    return Overview(call.memory._engine.kernel)


def _tool(name: str, description: str, **told: Any) -> Tool:
    return Tool(name=name, title=name.replace("_", " ").capitalize(), description=description, **told)


TOOLS = (
    _tool(
        "add_memory",
        "Extract lasting facts from a text or a conversation and store them.",
        arguments=AddArguments,
        answer=Changes,
        run=add_memory,
    ),
    _tool(
        "search_memories",
        "Find the memories that answer a question.",
        arguments=SearchArguments,
        answer=StoredMemories,
        run=search_memories,
        reads=True,
    ),
    _tool(
        "get_memories",
        "Return a page of memories, oldest first.",
        arguments=PageArguments,
        answer=StoredMemories,
        run=get_memories,
        reads=True,
    ),
    _tool(
        "get_memory",
        "Return one memory.",
        arguments=MemoryArguments,
        answer=StoredMemory,
        run=get_memory,
        reads=True,
    ),
    _tool(
        "update_memory",
        "Replace the text of a memory.",
        arguments=UpdateArguments,
        answer=StoredMemory,
        run=update_memory,
        repeatable=True,
    ),
    _tool(
        "delete_memory",
        "Delete one memory; its history stays.",
        arguments=MemoryArguments,
        answer=Told,
        run=delete_memory,
        destroys=True,
    ),
    _tool(
        "delete_all_memories",
        "Delete every memory of this user. The first call asks the user.",
        arguments=DeleteAllArguments,
        answer=Told,
        run=delete_all,
        destroys=True,
    ),
    _tool(
        "delete_entities",
        "The same as delete_all_memories: the server has one user in its scope.",
        arguments=DeleteAllArguments,
        answer=Told,
        run=delete_all,
        destroys=True,
    ),
    _tool(
        "list_entities",
        "List the users, agents and runs that have memories in the scope.",
        arguments=NoArguments,
        answer=Entities,
        run=list_entities,
        reads=True,
    ),
    _tool(
        "list_events",
        "List what was changed, in order.",
        arguments=EventsArguments,
        answer=Events,
        run=list_events,
        reads=True,
    ),
    _tool(
        "get_event_status",
        "Return one event by its id; an event has always succeeded.",
        arguments=EventArguments,
        answer=EventView,
        run=get_event_status,
        reads=True,
    ),
)
