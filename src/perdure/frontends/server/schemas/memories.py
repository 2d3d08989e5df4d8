"""Bodies and queries of /v1/memories: the library's arguments, and those of mem0's oldest clients.

Unknown fields are rejected (422) to catch typos. The `...Form` classes are the lenient bases that mem0's routes use.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from perdure.frontends.server.schemas.fields import Form, Names, ScopeFields, Strict, Time
from perdure.frontends.server.schemas.filters import object_of

PAGE_SIZE = 100
"""Memories on a numbered page where the request names no size."""


def _object(value: object) -> object:
    """What a query string's JSON says."""
    return object_of(value) if isinstance(value, str) else value


Expression = dict[str, Any] | str
"""A filter expression; in a query string its JSON."""


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
    """Conversation to remember."""

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
    type: str | None = Field(None, description="Perdure's name of `memory_type`")
    expires_at: Time | None = Field(None, description="The moment at which it ends, to the second")
    idempotency_key: str | None = None


class ReadForm(ScopeFields):
    """What search and list have in common."""

    filters: dict[str, Any] | str | None = Field(None, examples=[{"AND": [{"user_id": "alice"}]}])
    categories: Names | None = None
    metadata: dict[str, Any] | None = None
    fields: Names | None = Field(None, description="Fields of each memory to answer with")
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
        """Memories on a numbered page."""
        return self.page_size or self.top_k or PAGE_SIZE


class UpdateForm(Form):
    """What of a memory is to change; `expiration_date: null` clears it."""

    text: str | None = Field(None, examples=["User lives in Porto"])
    metadata: dict[str, Any] | None = None
    timestamp: Time | None = None
    expiration_date: Time | None = None


class ResetForm(Form):
    """The word that everything is to be cleared."""

    confirm: Literal[True] = Field(description="true, so that nothing clears a memory by the way")


class FactsAdd(AddForm, IgnoredFields, Strict):
    """A conversation to remember, and who it is of."""


class FactsSearch(ScopeFields, IgnoredFields, Strict):
    """A question, and whose memories may answer it."""

    query: str | None = Field(None, examples=["Where does she live?"])
    q: str | None = Field(None, description="Another name of `query`", examples=["Where does she live?"])
    limit: int = Field(100, description="Memories to answer with")
    top_k: int | None = Field(None, description="Another name of `limit`")
    filters: Expression | None = Field(None, examples=['{"field": "tag", "operator": "eq", "value": "work"}'])
    threshold: float | None = Field(None, description="The least `score`, from 0 to 1")
    types: Names | None = None
    rerank: bool = False
    as_of: Time | None = Field(None, description="Read what had been told by then", examples=["2026-03-01"])
    include_past: bool = False
    preset: str | None = Field(None, examples=["best"])
    explain: bool = False
    hydrate: bool = False
    reference_time: Time | None = Field(None, description='The now of "last week"')
    fields: Names | None = Field(None, description="Fields of each memory to answer with")

    @model_validator(mode="after")
    def _has_a_question(self) -> FactsSearch:
        if self.query is None and self.q is None:
            raise ValueError("a search needs q")
        return self

    @property
    def text(self) -> str:
        """The question."""
        return self.query if self.query is not None else self.q or ""


class FactsSearchBody(FactsSearch):
    """The same in a body, where more has room."""

    filters: Expression | None = Field(None, examples=[{"field": "tag", "operator": "eq", "value": "work"}])
    history: list[dict[str, Any]] | None = Field(None, description="What was said before the question")
    time_window: tuple[Time | None, Time | None] | None = Field(None, description="The stretch that is asked about")
    metadata: dict[str, Any] | None = Field(None, description="Keys and values that the metadata must have")


class FactsList(ListForm, IgnoredFields, Strict):
    """Whose memories to list, and which page of them."""

    limit: int = Field(100, description="Memories on a page")
    cursor: str | None = Field(None, description="`next_cursor` of the page before")
    as_of: Time | None = None
    include_past: bool = False
    filters: str | None = Field(None, examples=['{"tag": "work"}'])
    metadata: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = Field(
        None, description="JSON of keys and values that the metadata must have"
    )

    @property
    def is_numbered(self) -> bool:
        """Whether pages are asked for by number, as mem0's clients do."""
        return self.page is not None or self.page_size is not None


class UpdateBody(UpdateForm, IgnoredFields, Strict):
    """What of a memory is to change."""

    project_id: str | None = Field(None, exclude=True, description="The project that it must be of")


class DeleteQuery(IgnoredFields, Strict):
    """How one memory is to go."""

    project_id: str | None = Field(None, description="The project that it must be of")
    erase: bool = Field(False, description="Out of its history and versions too, with the messages that it came from")
    delete_linked: bool = Field(False, description="With the older memories that it may have replaced")


class DeleteAllQuery(ScopeFields, IgnoredFields, Strict):
    """Whose memories are to go, and which of them."""

    filters: str | None = Field(None, description="JSON, or the Python of mem0's client")
    metadata: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = None
    erase: bool = False


class ForgetBody(ScopeFields, Strict):
    """What to forget: one memory, what a question finds in a scope, or all of a scope."""

    id: str | None = None
    query: str | None = Field(None, examples=["my old address"])
    threshold: float = 0.75
    erase: bool = True
    dry_run: bool = False


class ContextQuery(ScopeFields, Strict):
    """What a prompt is about, and how much room it has."""

    query: str = Field(examples=["Plan a dinner for us"])
    max_tokens: int = 2000


class DistrustBody(Strict):
    """Why a memory is kept out of prompts."""

    reason: str = Field("distrusted", description="At most 200 characters, shown with the memory")


class UndoBody(Strict):
    """Which event to take back."""

    event_id: str = Field(description="The `id` of a history record")


class FeedbackBody(Strict):
    """What a memory is worth to who asks."""

    verdict: str | None = Field(
        description="positive, negative or very_negative; null takes back what was said", examples=["positive"]
    )
    reason: str | None = Field(None, description="Why, for people")


class ConsolidateBody(ScopeFields, Strict):
    """Which memories are to be one: those that are named, or what belongs together in a scope."""

    memory_ids: list[str] | None = Field(None, description="Two memories at least, of one scope and one type")
    at_least: int = Field(2, description="Do nothing where the scope has fewer memories")
    dry_run: bool = Field(False, description="Only say what would become of them")


class ReflectBody(ScopeFields, Strict):
    """Whose memories are read together."""

    about: str | None = Field(None, description="Tell only what has one of these words", examples=["deployment"])
    dry_run: bool = Field(False, description="Only tell the insights, and keep none")
