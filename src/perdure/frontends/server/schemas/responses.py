"""Response models of the routes, for the OpenAPI document.

A client may rely on these fields, and more may be added. Schemathesis holds the routes to
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class _Described:
    """Show a model's schema in the OpenAPI document for a value of any type."""

    model: Any

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found: Any = TypeAdapter(self.model).core_schema
        if isinstance(self.model, type):  # a component of the document, and not written out at each route
            inner, parts = (found["schema"], found["definitions"]) if found["type"] == "definitions" else (found, [])
            named = {**inner, "ref": f"{self.model.__module__}.{self.model.__qualname__}:{id(self.model)}"}
            found = {"type": "definitions", "schema": named, "definitions": parts}
        return handler(found)


def described(model: Any) -> Any:
    """Build a route's `response_model` that documents `model` and sends what the route returns unchanged.

    Answers are the library's own `model_dump` and views of it, so that validating them again would only cost time.
    """
    return Annotated[Any, _Described(model)]


# Memories.


class Memory(BaseModel):
    """A memory; where `fields` were asked for, the id and these."""

    id: str
    memory: str | None = None
    hash: str | None = None
    metadata: dict[str, Any] | None = None
    score: float | None = None
    similarity: float | None = None
    explanation: dict[str, Any] | None = None
    created_at: str | None = None
    updated_at: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    kind: Literal["facts", "messages"] | None = None
    type: str | None = None
    importance: float | None = None
    access_count: int | None = None
    last_accessed_at: str | None = None
    expires_at: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    sources: list[str] | None = None
    source: str | None = None
    categories: Any = None
    expiration_date: str | None = None
    lifecycle_state: Literal["active", "superseded"] | None = None
    replaced_by: str | None = None


class EventData(BaseModel):
    """The text of a memory where mem0's programs look for it."""

    memory: str | None = None


class MemoryEvent(BaseModel):
    """What an `add` did to one memory; `event_id` is what `undo` takes, and null for NONE."""

    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    id: str
    memory: str
    old_memory: str | None
    new_memory: str | None
    metadata: dict[str, Any]
    event_id: str | None
    data: EventData


class AddResult(BaseModel):
    """What an `add` or an `undo` did, event by event; `warnings` say what was given up."""

    results: list[MemoryEvent]
    warnings: list[str] = []
    usage: dict[str, Any] = {}


class AddAccepted(AddResult):
    """The same as mem0's platform tells it."""

    message: str
    status: Literal["PENDING", "SUCCEEDED"]
    event_id: str


class SearchResults(BaseModel):
    """Memories that answer a question, best first."""

    results: list[Memory]
    coverage: float | None = None
    held_back: int | None = None
    facets: dict[str, Any] = {}
    warnings: list[str] = []


class MemoryList(BaseModel):
    """A page of memories, oldest first; there is no further one where `next_cursor` is null."""

    results: list[Memory]
    next_cursor: str | None = None


class NumberedPage(BaseModel):
    """A page as mem0 numbers them: how many there are, and the addresses of the pages beside it."""

    count: int
    next: str | None
    previous: str | None


class MemoryPage(NumberedPage):
    """A numbered page of memories."""

    results: list[Memory]


class HistoryEvent(BaseModel):
    """One event of a memory's history; an erased one has no values."""

    id: str
    memory_id: str
    event: Literal["ADD", "UPDATE", "DELETE"]
    old_value: str | None
    new_value: str | None
    timestamp: str
    is_deleted: bool
    old_memory: str | None
    new_memory: str | None
    created_at: str
    updated_at: str


class Message(BaseModel):
    """That it is done."""

    message: str


class Deletion(Message):
    """Which memory, or which event, a deletion was."""

    id: str | None = None
    cascade_count: int | None = None
    event_id: str | None = None


class Context(BaseModel):
    """A block for a prompt."""

    context: str


class ForgottenPlace(BaseModel):
    """How much of a forgotten text one place held, and whether its bytes are gone."""

    place: str
    count: int
    status: Literal["erased", "pending", "kept", "found", "none"]
    note: str


class ForgetReport(BaseModel):
    """What was forgotten, and what became of each place that held it."""

    results: list[Memory]
    places: list[ForgottenPlace]
    dry_run: bool
    erase: bool


class Consolidation(BaseModel):
    """Several memories that became one."""

    memory: Memory
    removed: list[Memory]
    by: Literal["rules", "llm"]
    dry_run: bool
    warnings: list[str] = []


class Consolidations(BaseModel):
    """What became of memories that belong together."""

    results: list[Consolidation]


class Insight(BaseModel):
    """What several memories show together."""

    id: str | None
    content: str
    pattern: str
    count: int
    memory_ids: list[str]


class Reflection(BaseModel):
    """The insights of a scope, and what became of the memories that keep them."""

    results: list[Insight]
    added: int
    updated: int
    removed: int
    by: Literal["rules", "llm"]
    warnings: list[str] = []


# mem0's own routes, teams and the graph.


class Ping(BaseModel):
    """The organization, and the project that a key is bound to."""

    status: Literal["ok"]
    org_id: str
    project_id: str
    user_email: str | None


class Project(BaseModel):
    """A project's settings, or those of them that were asked for."""

    id: str | None = None
    org_id: str | None = None
    name: str | None = None
    custom_instructions: str | None = None
    agent_custom_instructions: str | None = None
    custom_categories: list[Any] | None = None
    memory_depth: str | None = None
    usecase_setting: Any = None
    decay: bool | None = None
    multilingual: bool | None = None


class ProjectChanged(Message):
    """What of it changes nothing here is in `warnings`."""

    warnings: list[str] = Field(default_factory=list)


class Event(BaseModel):
    """An `add`, a deletion, or a line of a memory's history; it has succeeded whenever it is told of."""

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


class OwnerSummary(BaseModel):
    """A user, agent, app or run that memories are kept for."""

    id: str
    name: str
    type: Literal["user", "agent", "app", "run"]
    total_memories: int
    created_at: str | None
    updated_at: str | None
    owner: None
    metadata: None


class Owners(NumberedPage):
    """All that memories are kept for."""

    results: list[OwnerSummary]
    total_users: int
    total_agents: int
    total_apps: int
    total_runs: int


class FeedbackResult(BaseModel):
    """What a memory was judged to be worth."""

    id: str
    feedback: str | None
    feedback_reason: str | None


class ExportCreated(Message):
    """The id by which an export is had."""

    id: str


class Export(BaseModel):
    """The memories of an export, whole or with the properties that were asked for."""

    memories: list[dict[str, Any]]


class Summary(BaseModel):
    """The newest memories of one scope, in lines."""

    summary: str
    memory_count: int


class Entity(BaseModel):
    """Something that memories name."""

    name: str
    type: str
    description: str
    memory_ids: list[str]
    updated_at: str


class Entities(BaseModel):
    """The entities of a scope."""

    results: list[Entity]


class Edge(BaseModel):
    """A relation, and when it held."""

    source: str
    relation: str
    target: str
    valid_from: str | None
    valid_until: str | None
    memory_ids: list[str]
    closed_by: str | None


class Relations(BaseModel):
    """The relations of an entity, in the order of their time."""

    entity: str
    results: list[Edge]


class RevivedJobs(BaseModel):
    """How much work was made due."""

    revived: int


class Promotion(BaseModel):
    """A step to another truth level that was asked for."""

    id: str
    item_id: str
    promotion_id: str
    team_scope: str
    from_level: str
    target_level: str
    justification: str | None
    requested_by: str
    status: str
    created_at: str
    decided_at: str | None
    votes: list[dict[str, Any]]


class Promotions(BaseModel):
    """Promotions, oldest first."""

    promotions: list[Promotion]


class AuditEntry(BaseModel):
    """Who did what, without a word of the memory."""

    id: str
    action: str


class AuditLog(BaseModel):
    """Lines of a team's audit, oldest first."""

    entries: list[AuditEntry]


class SystemAddendum(BaseModel):
    """What a team holds for true, as quoted data."""

    system_addendum: str
    fact_count: int
