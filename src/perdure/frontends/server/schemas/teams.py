"""Bodies, queries and responses of the team routes; the engine checks their meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.domain.access import AuditEntry
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import MemoryItem
from perdure.domain.promotion import Promotion
from perdure.domain.stored_memory import shown_id

Level = Literal["EPHEMERAL", "WORKING", "VALIDATED", "CANONICAL", "PUBLIC"]
Visible = Literal["team", "project", "private"]
Validation = Literal["pending", "approved", "rejected"]
Confidence = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]
Content = Annotated[str, Field(min_length=1, examples=["The Q2 fundraising target is 2M€"])]
Project = Annotated[str, Field(min_length=1, max_length=1024, examples=["fundraising"])]
ID = "mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ItemBody(_Body):
    """A memory with all of its seven tags."""

    content: Content
    team_scope: str = Field(examples=["excalibur"])
    project_scope: Project | None = Field(description="null is the whole team")
    visibility: Visible
    confidence: Confidence = Field(examples=[0.9])
    truth_level: Level = Field(examples=["WORKING"])
    source: str = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]*:\S+$",
        description="Who or what wrote it, as `prefix:id`",
        examples=["librechat:conv_abc123"],
    )
    validation_status: Validation
    metadata: dict[str, Any] | None = Field(
        None, examples=[{"entities": [{"name": "Alice", "type": "person"}]}], description="An item that is there keeps"
        " its own where none is given",
    )  # fmt: skip


class UpsertBody(_Body):
    """One item, in the place of the team's item of the same source if there is one."""

    item: ItemBody


class Upserted(BaseModel):
    """The memory's id."""

    id: str = Field(examples=[ID])


class Changes(_Body):
    """What is to be changed of a memory; what is left out stays."""

    content: Content | None = None
    project_scope: Project | None = None
    visibility: Visible | None = None
    confidence: Confidence | None = None
    validation_status: Validation | None = None
    metadata: dict[str, Any] | None = Field(None, description="Merged with what is there; new keys win")
    truth_level: Any = Field(None, description="Refused with 405: a promotion moves it")


class PatchBody(Changes):
    """The changes, or an object of them under `patch`."""

    patch: Changes | None = None

    def changes(self) -> dict[str, Any]:
        """What was given."""
        return self.model_dump(exclude_unset=True)


class TeamSearchQuery(_Body):
    """A search of a team's memory."""

    q: str = Field(min_length=1, description="The question", examples=["fundraising target"])
    truth_level_min: Level = Field("EPHEMERAL", description="The least level")
    project_scope: Project | None = Field(None, description="One project; left out, all of the team's")
    limit: int = Field(10, ge=1, le=100)
    visibility: Visible = Field("team", description="This visibility exactly; of no account without a team")


class TeamMemoryView(BaseModel):
    """A memory of a team; `score` in search results. Only members see `written_by` and `metadata`."""

    id: str = Field(examples=[ID])
    content: str = Field(examples=["The Q2 fundraising target is 2M€"])
    score: float | None = Field(None, examples=[0.82])
    team_scope: str = Field(examples=["excalibur"])
    project_scope: str | None = Field(examples=["fundraising"])
    visibility: Visible
    confidence: float | None = Field(examples=[0.9])
    truth_level: Level
    source: str = Field(examples=["librechat:conv_abc123"])
    validation_status: Validation
    written_by: str | None = Field(None, examples=["alice"])
    metadata: dict[str, Any] | None = None
    created_at: str = Field(examples=["2026-03-15T09:30:00.000000+00:00"])
    updated_at: str = Field(examples=["2026-03-20T10:00:00.000000+00:00"])
    expires_at: str | None = Field(None, description="When it goes, unless it is promoted")
    quarantined: str | None = Field(None, description="Why it is kept out of prompts, if it is", examples=[None])

    @classmethod
    def of(cls, item: MemoryItem, *, for_members: bool = True) -> TeamMemoryView:
        """Build the view of a memory for members, or for everybody else."""
        assert item.tags is not None and item.scope.team_id is not None, "the engine's guard sees to that"
        mark = {} if item.quarantined is None else {"quarantined": item.quarantined}
        inner = {"written_by": item.tags.written_by, "metadata": dict(item.metadata)} if for_members else {}
        return cls.model_validate(
            {
                "id": shown_id(item.id),
                "content": item.memory,
                "score": item.score,
                "team_scope": item.scope.team_id,
                "project_scope": item.scope.project_id,
                "visibility": item.tags.visibility,
                "confidence": item.confidence,
                "truth_level": item.tags.truth_level,
                "source": item.source,
                "validation_status": item.tags.validation_status,
                "created_at": item.created_at,
                "updated_at": item.updated_at,
                "expires_at": item.expires_at,
                **mark,
                **inner,
            }
        )


class PromotionBody(_Body):
    """A memory's next truth level, and why."""

    item_id: str = Field(examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"])
    target_level: Level = Field(examples=["VALIDATED"])
    justification: str = Field(min_length=1, examples=["Confirmed with the client on 2026-05-01"])


class DecisionBody(_Body):
    """An admin's word on a promotion."""

    decision: Literal["approved", "rejected"]
    note: str | None = Field(None, min_length=1, examples=["Verified against signed contract doc"])


class Decided(BaseModel):
    """What became of it: `pending` while its level takes more approvals."""

    promotion_id: str
    decision: Literal["approved", "rejected"]
    item_id: str = Field(examples=[ID])
    status: Validation
    new_truth_level: Level = Field(description="The memory's level now", examples=["VALIDATED"])


class PageQuery(_Body):
    """A page of a list."""

    limit: int = Field(100, ge=1, le=1000)
    after: str = Field("", description="The id of the last one of the page before")


class PromotionsQuery(PageQuery):
    """A page of promotions."""

    status: Validation | None = None
    item_id: str | None = Field(None, examples=[ID])


class AuditQuery(PageQuery):
    """A page of the audit log."""

    subject_id: str | None = Field(None, description="Of this memory or promotion", examples=[ID])


class SystemPromptQuery(_Body):
    """The question of a prompt."""

    query: str = Field(min_length=1, examples=["fundraising target"])
    top_k: int = Field(5, ge=1, le=100)
    min_level: Level = "CANONICAL"


def promotion_view(promotion: Promotion) -> dict[str, Any]:
    """A promotion as plain values."""
    return promotion.model_dump() | {"item_id": shown_id(promotion.item_id)}


def audit_view(entry: AuditEntry) -> dict[str, Any]:
    """A line of the audit as plain values."""
    return entry.model_dump()


def record_view(record: HistoryRecord) -> dict[str, Any]:
    """One event of a memory as plain values."""
    names = ("id", "event", "old_value", "new_value", "timestamp", "actor", "reason", "team_id", "project_id")
    return {name: getattr(record, name) for name in names} | {"memory_id": shown_id(record.memory_id)}
