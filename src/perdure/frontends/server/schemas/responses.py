"""Response models of the routes: clients may rely on these fields, and more may be added."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perdure.domain.event import ErasedPlace
from perdure.domain.maintenance import Insight
from perdure.domain.memory import Deleted


@dataclass(frozen=True, slots=True)
class _Described:
    """Show a model's schema in the OpenAPI document for a value of any type."""

    model: Any

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found: Any = TypeAdapter(self.model).core_schema
        if isinstance(self.model, type):  # a component of the document, not repeated at each route
            inner, parts = (found["schema"], found["definitions"]) if found["type"] == "definitions" else (found, [])
            named = {**inner, "ref": f"{self.model.__module__}.{self.model.__qualname__}:{id(self.model)}"}
            found = {"type": "definitions", "schema": named, "definitions": parts}
        return handler(found)


def described(model: Any) -> Any:
    """Build a route's `response_model` that documents `model` and sends the result as it is, unvalidated."""
    return Annotated[Any, _Described(model)]


def answers(model: Any, example: object = None) -> dict[str, Any]:
    """Build the arguments of a route that returns a `described` model, with an example of it."""
    shown = {"responses": {200: {"content": {"application/json": {"example": example}}}}} if example else {}
    return {"response_model": described(model), **shown}


# Memories.


class Memory(BaseModel):
    """A memory; if `fields` were requested, only its id and these."""

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
    kind: Literal["facts", "notes", "messages"] | None = None
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
    lifecycle_state: Literal["active", "superseded", "deleted"] | None = None
    replaced_by: str | None = None
    deleted: Deleted | None = Field(None, description="On lists of deleted memories: when, why and what `undo` takes")


class EventData(BaseModel):
    """A memory's text in the place where mem0's programs expect it."""

    memory: str | None = None


class MemoryEvent(BaseModel):
    """The effect of an `add` on one memory; pass `event_id` to `undo`, null for NONE."""

    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    id: str
    memory: str
    old_memory: str | None
    new_memory: str | None
    metadata: dict[str, Any]
    event_id: str | None
    data: EventData


class AddResult(BaseModel):
    """The result of an `add` or an `undo`, event by event; `warnings` list what failed."""

    results: list[MemoryEvent]
    warnings: list[str] = []
    usage: dict[str, Any] = {}
    notes: int = 0
    waiting: int = 0


class AddAccepted(AddResult):
    """The same in the form of mem0's platform."""

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
    """A page of memories, oldest first; `next_cursor` is null on the last page."""

    results: list[Memory]
    next_cursor: str | None = None


class NumberedPage(BaseModel):
    """A page as mem0 numbers them: the total number, and the addresses of the next and previous pages."""

    count: int
    next: str | None
    previous: str | None


class MemoryPage(NumberedPage):
    """A numbered page of memories."""

    results: list[Memory]


class HistoryEvent(BaseModel):
    """One event of a memory's history; an erased one has no values.

    `timestamp` is when it was recorded, `told_at` when it was said: earlier, if the messages had times of their own.
    """

    id: str
    memory_id: str
    event: Literal["ADD", "UPDATE", "DELETE"]
    old_value: str | None
    new_value: str | None
    timestamp: str
    told_at: str | None
    is_deleted: bool
    old_memory: str | None
    new_memory: str | None
    created_at: str
    updated_at: str


class Message(BaseModel):
    """A confirmation."""

    message: str


class Deletion(Message):
    """The id of a deleted memory, or of the deletion's event."""

    id: str | None = None
    cascade_count: int | None = None
    event_id: str | None = None


class Context(BaseModel):
    """A block for a prompt."""

    context: str


class ForgetReport(BaseModel):
    """What was forgotten, with the result for each place."""

    results: list[Memory]
    places: list[ErasedPlace]
    dry_run: bool
    erase: bool
    reasons: dict[str, Literal["matched", "value", "sentence", "merged", "derived", "message"]] = Field(
        description="Why each of the results goes, by its id"
    )
    unsourced: list[Memory] = Field(description="Memories that stay, without the message that they came from")


class Consolidation(BaseModel):
    """Several memories merged into one."""

    memory: Memory
    removed: list[Memory]
    by: Literal["rules", "llm"]
    dry_run: bool
    warnings: list[str] = []


class Consolidations(BaseModel):
    """The results of merging related memories."""

    results: list[Consolidation]


class Reflection(BaseModel):
    """The insights of a scope, and the changes of the stored ones."""

    results: list[Insight]
    added: int
    updated: int
    removed: int
    by: Literal["rules", "llm"]
    warnings: list[str] = []


# Example answers for the OpenAPI document.

EXAMPLES: dict[str, Any] = json.loads(files(__package__).joinpath("examples.json").read_bytes())
MEMORY: dict[str, Any] = EXAMPLES["memory"]  # one memory, with the fields that every dialect has
ADDED: dict[str, Any] = EXAMPLES["added"]  # the answer to an `add`
FOUND: dict[str, Any] = {"results": [{**MEMORY, "score": 0.82, "similarity": 0.61}], "coverage": 0.9, "held_back": 0}
LISTED: dict[str, Any] = {"results": [MEMORY], "next_cursor": None}  # a page of a list
PAGE: dict[str, Any] = {"count": 1, "next": None, "previous": None, "results": [MEMORY]}  # a page in mem0's form
HISTORY: list[dict[str, Any]] = EXAMPLES["history"]
_BUDGET = {**MEMORY, "memory": "Hawaii budget is $12,000 (updated from initial $10,000)"}
_BUDGETS = [{**MEMORY, "memory": f"Budget for Hawaii is {amount}"} for amount in ("$10,000", "$12,000")]
CONSOLIDATED: dict[str, Any] = {"results": [{"memory": _BUDGET, "removed": _BUDGETS, "by": "rules", "dry_run": False}]}
REFLECTED: dict[str, Any] = EXAMPLES["reflected"]
