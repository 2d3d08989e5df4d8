"""What mem0's clients send, as pydantic reads it; keys that are unknown here are theirs to send, and are ignored."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from perdure.domain.scope import Scope

Time = float | str
"""Seconds since 1970, or ISO 8601 text."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
"""Some words, or one."""


class Form(BaseModel):
    """A request of one of mem0's clients."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, protected_namespaces=())


class Ids(Form):
    """Who a request is about, named beside its filters, as clients before v3 do."""

    user_id: str | None = Field(None, examples=["alice"])
    agent_id: str | None = None
    app_id: str | None = Field(None, description="Perdure's `world_id`; beside a user, an agent or a run")
    run_id: str | None = None
    session_id: str | None = Field(None, description="Another name of `run_id`")

    def scope(self) -> Scope:
        """The scope that they name."""
        run = self.run_id if self.run_id is not None else self.session_id
        return Scope(user_id=self.user_id, agent_id=self.agent_id, run_id=run, world_id=self.app_id)


class AddForm(Ids):
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


class ReadForm(Ids):
    """What search and list have in common."""

    filters: dict[str, Any] | str | None = Field(None, examples=[{"AND": [{"user_id": "alice"}]}])
    categories: Names | None = None
    metadata: dict[str, Any] | None = None
    fields: Names | None = Field(None, description="Fields of each memory to answer with")
    show_expired: bool | None = None
    latest_only: bool | None = None
    start_date: Time | None = None
    end_date: Time | None = None


class SearchForm(ReadForm):
    """A question."""

    query: str = Field(examples=["Where does she live?"])
    top_k: int | None = Field(None, description="Memories to answer with, 10 by default")
    limit: int | None = Field(None, description="Another name of `top_k`")
    threshold: float | None = None
    rerank: bool | None = None
    reference_date: Time | None = None
    explain: bool | None = None


class ListForm(ReadForm):
    """A page of memories."""

    page: int | None = Field(None, ge=1, le=1_000_000)
    page_size: int | None = Field(None, ge=1, le=1_000)
    top_k: int | None = Field(None, ge=1, le=1_000)


class UpdateForm(Form):
    """What of a memory is to change; `expiration_date: null` clears it."""

    text: str | None = Field(None, examples=["User lives in Porto"])
    metadata: dict[str, Any] | None = None
    timestamp: Time | None = None
    expiration_date: Time | None = None


class BatchEntry(Form):
    """One memory of a batch."""

    memory_id: str
    text: str | None = None
    metadata: dict[str, Any] | None = None


class BatchForm(Form):
    """Memories to change or remove together, at most 1000."""

    memories: list[BatchEntry] = Field(
        min_length=1, max_length=1000, examples=[[{"memory_id": "0b6f2c1e-9a4d-4a53-8f0e-2f1c7f6f3a10"}]]
    )


class FeedbackForm(Form):
    """What a reader thinks of a memory; null takes it back."""

    memory_id: str
    feedback: str | None = Field(None, examples=["POSITIVE"])
    feedback_reason: str | None = None


class ExportForm(Ids):
    """Which memories to export, and the properties that each is to have."""

    schema_: dict[str, Any] | str | None = Field(None, alias="schema")
    filters: dict[str, Any] | str | None = None


class ExportedForm(Ids):
    """Which export to answer with: that of an id, or that of a filter."""

    memory_export_id: str | None = None
    filters: dict[str, Any] | str | None = None


class SummaryForm(Ids):
    """Whose memories to sum up."""

    filters: dict[str, Any] | str | None = None


class ProjectForm(Form):
    """What of a project's settings is to change; null takes one away."""

    custom_instructions: str | None = Field(None, examples=["Keep only what concerns cooking"])
    agent_custom_instructions: str | None = None
    custom_categories: list[Any] | None = None
    memory_depth: str | None = None
    usecase_setting: Any = None
    decay: bool | None = None
    multilingual: bool | None = None


class OpenListQuery(Ids):
    """Whose memories to list, as mem0's open server is asked."""

    top_k: int | None = Field(None, ge=1, le=1_000)
    show_expired: bool | None = None
