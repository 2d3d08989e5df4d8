"""Bodies and queries of /v1/memories: the library's arguments, and those of mem0's oldest clients.

Unknown fields are rejected (422) to catch typos. The `...Form` classes are the lenient bases that mem0's routes use.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from perdure.frontends.server.schemas.fields import Form, Names, ScopeFields, Strict, Time
from perdure.frontends.server.schemas.filters import object_of

PAGE_SIZE = 100  # default number of memories on a numbered page


def _object(value: object) -> object:
    """Parse a query string's JSON."""
    return object_of(value) if isinstance(value, str) else value


Expression = dict[str, Any] | str  # a filter expression; in a query string its JSON


class IgnoredFields(BaseModel):
    """Fields that mem0's clients before v3 send with every request; they have no effect."""

    org_id: str | None = Field(None, exclude=True)
    version: str | None = Field(None, exclude=True)
    output_format: str | None = Field(None, exclude=True)
    api_version: str | None = Field(None, exclude=True)
    async_mode: bool | None = Field(None, exclude=True)
    enable_graph: bool | None = Field(None, exclude=True)
    source: str | None = Field(None, exclude=True)
    keyword_search: bool | None = Field(None, exclude=True)
    filter_memories: bool | None = Field(None, exclude=True)


class AddForm(ScopeFields):
    """A conversation to extract facts from."""

    messages: str | dict[str, Any] | list[dict[str, Any]] = Field(
        examples=[[{"role": "user", "content": "I moved to Lisbon"}]]
    )
    filters: dict[str, Any] | None = Field(None, examples=[{"user_id": "alice"}])
    metadata: dict[str, Any] | None = None
    infer: bool | None = None
    timestamp: Time | None = None
    expiration_date: Time | None = Field(None, examples=["2027-01-31"])
    prompt: str | None = None
    custom_instructions: str | None = None
    agent_custom_instructions: str | None = None
    includes: str | None = None
    excludes: str | None = None
    custom_categories: Any = None
    structured_data_schema: Any = None
    immutable: bool | None = None
    memory_type: str | None = None
    type: str | None = Field(None, description="perdure's name of `memory_type`")
    expires_at: Time | None = Field(None, description="The time at which it expires, to the second")
    idempotency_key: str | None = None


class ReadForm(ScopeFields):
    """The common fields of search and list."""

    filters: dict[str, Any] | str | None = Field(None, examples=[{"AND": [{"user_id": "alice"}]}])
    categories: Names | None = None
    metadata: dict[str, Any] | None = None
    fields: Names | None = Field(None, description="Fields of each memory to return")
    show_expired: bool | None = None
    latest_only: bool | None = None
    start_date: Time | None = None
    end_date: Time | None = None


class ListForm(ReadForm):
    """A page of memories."""

    page: int | None = Field(None, ge=1, le=1_000_000)
    page_size: int | None = Field(None, ge=1, le=1_000)
    top_k: int | None = Field(None, ge=1, le=1_000)

    @property
    def size(self) -> int:
        """Number of memories on a numbered page."""
        return self.page_size or self.top_k or PAGE_SIZE


class UpdateForm(Form):
    """Changes of a memory; `expiration_date: null` clears it."""

    text: str | None = Field(None, examples=["User lives in Porto"])
    metadata: dict[str, Any] | None = None
    timestamp: Time | None = None
    expiration_date: Time | None = None


class ResetForm(Form):
    """The confirmation that everything is to be cleared."""

    confirm: Literal[True] = Field(description="Must be true, so that nothing is cleared by accident")


class FactsAdd(AddForm, IgnoredFields, Strict):
    """A conversation to extract facts from, and its scope."""


class FactsSearch(ScopeFields, IgnoredFields, Strict):
    """A query, and its scope."""

    query: str | None = Field(None, examples=["Where does she live?"])
    q: str | None = Field(None, description="Another name of `query`", examples=["Where does she live?"])
    limit: int = Field(100, description="Maximum number of memories")
    top_k: int | None = Field(None, description="Another name of `limit`")
    filters: Expression | None = Field(None, examples=['{"field": "tag", "operator": "eq", "value": "work"}'])
    threshold: float | None = Field(None, description="The least `score`, from 0 to 1")
    types: Names | None = None
    rerank: bool = False
    as_of: Time | None = Field(None, description="Use only what was known at this time", examples=["2026-03-01"])
    include_past: bool = False
    preset: str | None = Field(None, examples=["best"])
    explain: bool = False
    hydrate: bool = False
    reference_time: Time | None = Field(None, description='The time that "last week" is relative to')
    order: Literal["score", "time"] = Field(
        "score", description="`score`: best first; `time`: the same memories, oldest first"
    )
    fields: Names | None = Field(None, description="Fields of each memory to return")

    @model_validator(mode="after")
    def _has_a_question(self) -> FactsSearch:
        if self.query is None and self.q is None:
            raise ValueError("a search needs q")
        return self

    @property
    def text(self) -> str:
        """The query."""
        return self.query if self.query is not None else self.q or ""


class FactsSearchBody(FactsSearch):
    """A query in a body, with further options."""

    filters: Expression | None = Field(None, examples=[{"field": "tag", "operator": "eq", "value": "work"}])
    history: list[dict[str, Any]] | None = Field(None, description="Messages before the question")
    time_window: tuple[Time | None, Time | None] | None = Field(None, description="The period of the question")
    metadata: dict[str, Any] | None = Field(None, description="Keys and values that the metadata must contain")


class FactsList(ListForm, IgnoredFields, Strict):
    """A scope, and the page to list."""

    limit: int = Field(100, description="Number of memories on a page")
    cursor: str | None = Field(None, description="`next_cursor` of the previous page")
    as_of: Time | None = None
    include_past: bool = False
    kind: Literal["facts", "notes"] | None = Field(
        None, description="Notes are sentences as they were said; by default facts, and of deleted memories both"
    )
    deleted: bool = Field(False, description="List what was deleted, the last first, and not what stands")
    filters: str | None = Field(None, examples=['{"tag": "work"}'])
    metadata: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = Field(
        None, description="JSON of keys and values that the metadata must contain"
    )

    @model_validator(mode="after")
    def _pages_of_deleted(self) -> FactsList:
        if self.deleted and self.is_numbered:
            raise ValueError("deleted memories are listed by cursor: leave page and page_size out")
        return self

    @property
    def is_numbered(self) -> bool:
        """Whether pages are requested by number, as mem0's clients do."""
        return self.page is not None or self.page_size is not None


class UpdateBody(UpdateForm, IgnoredFields, Strict):
    """Changes of a memory."""

    project_id: str | None = Field(None, exclude=True, description="The required project")


class DeleteQuery(IgnoredFields, Strict):
    """How to delete one memory."""

    project_id: str | None = Field(None, description="The required project")
    erase: bool = Field(False, description="Also erase its history, versions and source messages")
    delete_linked: bool = Field(False, description="Also delete the older memories that it may have replaced")


class DeleteAllQuery(ScopeFields, IgnoredFields, Strict):
    """Which memories to delete."""

    filters: str | None = Field(None, description="JSON, or Python literals as mem0's client sends them")
    metadata: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = None
    erase: bool = False


class ForgetBody(ScopeFields, Strict):
    """What to forget: one memory, the matches of a query in a scope, or a whole scope."""

    id: str = Field("", description="one memory")
    query: str = Field("", description="what goes; without it and an id, the whole scope", examples=["my old address"])
    threshold: float = Field(0.75, description="the score from which what lacks a word of the query goes")
    erase: bool = True
    dry_run: bool = False

    @model_validator(mode="after")
    def _names_what_goes(self) -> ForgetBody:
        if "threshold" in self.model_fields_set and "query" not in self.model_fields_set:
            raise ValueError("threshold is of a query: give one, or leave it out to forget the whole scope")
        return self


class ContextQuery(ScopeFields, Strict):
    """The topic of a prompt, and its maximum size."""

    query: str = Field(examples=["Plan a dinner for us"])
    max_tokens: int = 2000
    order: Literal["score", "time"] = Field(
        "score", description="Best first, or with `time` the same memories oldest first"
    )


class DistrustBody(Strict):
    """The reason for a quarantine."""

    reason: str = Field("distrusted", description="At most 200 characters, shown with the memory")


class UndoBody(Strict):
    """The event to undo."""

    event_id: str = Field(description="The `id` of a history record")


class FeedbackBody(Strict):
    """A rating of a memory."""

    verdict: str | None = Field(
        description="positive, negative or very_negative; null withdraws the rating", examples=["positive"]
    )
    reason: str | None = Field(None, description="The reason, for people")


class ConsolidateBody(ScopeFields, Strict):
    """Which memories to merge: the named ones, or related ones of a scope."""

    memory_ids: list[str] | None = Field(None, description="At least two memories of one scope and one type")
    at_least: int = Field(2, description="Do nothing if the scope has fewer memories")
    dry_run: bool = Field(False, description="Only return the result, without changes")


class ReflectBody(ScopeFields, Strict):
    """The scope to reflect on."""

    about: str | None = Field(None, description="Only insights with one of these words", examples=["deployment"])
    dry_run: bool = Field(False, description="Only return the insights, without storing them")
