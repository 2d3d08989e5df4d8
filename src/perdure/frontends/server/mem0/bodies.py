"""Bodies and queries of mem0's own routes; fields that perdure does not know are ignored."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from perdure.frontends.server.schemas.memories import ReadForm
from perdure.frontends.server.schemas.scope_fields import Form, ScopeFields, Time


class SearchForm(ReadForm):
    """A question."""

    query: str = Field(examples=["Where does she live?"])
    top_k: int | None = Field(None, description="Memories to answer with, 10 by default")
    limit: int | None = Field(None, description="Another name of `top_k`")
    threshold: float | None = None
    rerank: bool | None = None
    reference_date: Time | None = None
    explain: bool | None = None


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


class ExportForm(ScopeFields):
    """Which memories to export, and the properties that each is to have."""

    schema_: dict[str, Any] | str | None = Field(None, alias="schema")
    filters: dict[str, Any] | str | None = None


class ExportedForm(ScopeFields):
    """Which export to answer with: that of an id, or that of a filter."""

    memory_export_id: str | None = None
    filters: dict[str, Any] | str | None = None


class ExportedQuery(ScopeFields):
    """The same in a query string, as clients before 0.1.70 ask."""

    memory_export_id: str | None = None
    filters: str | None = Field(None, description="JSON")


class SummaryForm(ScopeFields):
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


class OpenListQuery(ScopeFields):
    """Whose memories to list, as mem0's open server is asked."""

    top_k: int | None = Field(None, ge=1, le=1_000)
    show_expired: bool | None = None
