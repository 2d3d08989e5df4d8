"""Bodies and queries of spec 000's routes: the library's arguments, and what mem0's oldest clients send there.

What is neither is refused, so that a misspelt argument is seen.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from perdure.frontends.server.mem0.filters import object_of
from perdure.frontends.server.mem0.forms import AddForm, Ids, ListForm, Names, Time, UpdateForm


def _object(value: object) -> object:
    """What a query string's JSON says."""
    return object_of(value) if isinstance(value, str) else value


_STRICT = ConfigDict(extra="forbid", coerce_numbers_to_str=False)

Expression = dict[str, Any] | str
"""A filter as spec 000 §7.1 writes it; in a query string its JSON."""


class Ignored(BaseModel):
    """What mem0's clients before v3 send with every request, and what makes no difference here."""

    org_id: str | None = Field(None, exclude=True)
    project_id: str | None = Field(None, exclude=True)
    version: str | None = Field(None, exclude=True)
    output_format: str | None = Field(None, exclude=True)
    api_version: str | None = Field(None, exclude=True)
    async_mode: bool | None = Field(None, exclude=True)
    enable_graph: bool | None = Field(None, exclude=True)
    source: str | None = Field(None, exclude=True)
    keyword_search: bool | None = Field(None, exclude=True)
    filter_memories: bool | None = Field(None, exclude=True)


class FactsAdd(AddForm, Ignored):
    """A conversation to remember, and who it is of."""

    model_config = _STRICT


class FactsSearch(Ids, Ignored):
    """A question, and whose memories may answer it."""

    model_config = _STRICT

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


class FactsList(ListForm, Ignored):
    """Whose memories to list, and which page of them."""

    model_config = _STRICT

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


class UpdateBody(UpdateForm, Ignored):
    """What of a memory is to change."""

    model_config = _STRICT


class DeleteQuery(Ignored):
    """How one memory is to go."""

    model_config = _STRICT

    erase: bool = Field(False, description="Out of its history and versions too, with the messages that it came from")
    delete_linked: bool = Field(False, description="With the older memories that it may have replaced")


class DeleteAllQuery(Ids, Ignored):
    """Whose memories are to go, and which of them."""

    model_config = _STRICT

    filters: str | None = Field(None, description="JSON, or the Python of mem0's client")
    metadata: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = None
    erase: bool = False


class ForgetBody(Ids):
    """What to forget: one memory, what a question finds in a scope, or all of a scope."""

    model_config = _STRICT

    id: str | None = None
    query: str | None = Field(None, examples=["my old address"])
    threshold: float = 0.75
    erase: bool = True
    dry_run: bool = False


class ContextQuery(Ids):
    """What a prompt is about, and how much room it has."""

    model_config = _STRICT

    query: str = Field(examples=["Plan a dinner for us"])
    max_tokens: int = 2000


class DistrustBody(BaseModel):
    """Why a memory is kept out of prompts."""

    model_config = _STRICT

    reason: str = Field("distrusted", description="At most 200 characters, shown with the memory")


class UndoBody(BaseModel):
    """Which event to take back."""

    model_config = _STRICT

    event_id: str = Field(description="The `id` of a history record")


class FeedbackBody(BaseModel):
    """What a memory is worth to who asks."""

    model_config = _STRICT

    verdict: str | None = Field(
        description="positive, negative or very_negative; null takes back what was said", examples=["positive"]
    )
    reason: str | None = Field(None, description="Why, for people")


class ConsolidateBody(Ids):
    """Which memories are to be one: those that are named, or what belongs together in a scope."""

    model_config = _STRICT

    memory_ids: list[str] | None = Field(None, description="Two memories at least, of one scope and one type")
    at_least: int = Field(2, description="Do nothing where the scope has fewer memories")
    dry_run: bool = Field(False, description="Only say what would become of them")


class ReflectBody(Ids):
    """Whose memories are read together."""

    model_config = _STRICT

    about: str | None = Field(None, description="Tell only what has one of these words", examples=["deployment"])
    dry_run: bool = Field(False, description="Only tell the insights, and keep none")
