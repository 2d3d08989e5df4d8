"""Bodies, queries and responses of the graph routes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from perdure.domain.errors import InvalidInputError
from perdure.domain.graph import Neighbor
from perdure.domain.job import QueueStatus
from perdure.domain.stored_memory import shown_id
from perdure.frontends.server.schemas.scope_fields import ScopeFields, Time

_STRICT = ConfigDict(extra="forbid", coerce_numbers_to_str=False)
_OF_PERSONS = ("user_id", "agent_id", "app_id", "run_id", "session_id", "as_of")
"""What is asked of personal memory alone: a team's has no owner, and is read as it stands."""


class _Owned(ScopeFields):
    """Whose graph is asked; a request that names a team asks the team's, and gives none of these."""

    model_config = _STRICT

    def refuse_owner(self) -> None:
        """InvalidInputError where something is given that a team's graph is not asked by."""
        for name in _OF_PERSONS:
            if getattr(self, name, None) is not None:
                raise InvalidInputError(f"{name} is asked of personal memory, and this asks a team's", field=name)


class EntitiesBody(ScopeFields):
    """Whose entities, and which of them."""

    model_config = _STRICT

    names: list[str] | None = Field(None, description="Only these", examples=[["Alice"]])
    limit: int = Field(100, description="Entities to answer with")
    as_of: Time | None = Field(None, description="Read what had been told by then", examples=["2026-03-01"])


class RelationsQuery(ScopeFields):
    """Whose relations, and of which time."""

    model_config = _STRICT

    at: Time | None = Field(None, description="When they are to hold; now by default", examples=["2026-02-01"])
    as_of: Time | None = Field(None, description="Read what had been told by then")
    include_past: bool = Field(False, description="Those too that held before")
    depth: int = Field(1, ge=1, le=3, description="How many edges away from the entity")


class NeighborsQuery(_Owned):
    """Of which entity, and at which time; `user_id` and the like where no team is named."""

    entity: str = Field(pattern=r"\S", description="In whatever case", examples=["Alice"])
    at: Time | None = Field(None, description="When relations are to hold; now by default", examples=["2026-02-01"])
    as_of: Time | None = Field(None, description="Read what had been told by then (personal memory)")
    include_past: bool = Field(False, description="Relations too that held before")
    depth: int = Field(1, ge=1, le=3, description="How many edges away")


class QueueQuery(_Owned):
    """Whose work; all that the caller may ask for by default."""


class NeighborView(BaseModel):
    """An entity, and how it is related."""

    name: str = Field(examples=["fundraising"])
    type: str = Field(examples=["project"])
    relationship: str = Field(
        description="The relation; `mentioned_with` where one memory names both and relates them in no way",
        examples=["leads"],
    )
    direction: str = Field(description="`out`: leads to it; `in`: comes from it; `both`", examples=["out"])
    depth: int = Field(description="Edges away from the entity that was asked for", examples=[1])
    valid_from: str | None = Field(examples=["2026-01-01T00:00:00.000000+00:00"])
    valid_until: str | None = Field(description="null is still", examples=["2026-04-01T00:00:00.000000+00:00"])
    memory_ids: list[str] = Field(description="Memories that say so")


class NeighborsView(BaseModel):
    """Who lies around an entity, nearest first."""

    entity: str = Field(examples=["Alice"])
    team_scope: str | None = Field(description="null for personal memory", examples=["excalibur"])
    neighbors: list[NeighborView]

    @classmethod
    def of(cls, entity: str, team: str | None, found: list[Neighbor]) -> NeighborsView:
        """What was found, with ids as the route's memories show them."""
        views = [each.model_dump() for each in found]
        if team is not None:
            for view in views:
                view["memory_ids"] = [shown_id(id) for id in view["memory_ids"]]
        return cls(entity=entity, team_scope=team, neighbors=[NeighborView(**view) for view in views])


class QueueView(BaseModel):
    """The jobs that wait for the graph."""

    pending: int = Field(examples=[2])
    processing: int = Field(examples=[0])
    failed: int = Field(description="Failed too often, and waits for `POST /v1/graph/revive`", examples=[0])
    oldest_pending_at: str | None = Field(examples=["2026-03-01T09:30:00.000000+00:00"])
    by_kind: dict[str, int] = Field(
        description="Work of each kind that is not done, parked or not: `entities` are those that callers list, "
        "`temporal` what texts say; `erase` is there while forgotten memories are still to go",
        examples=[{"entities": 1, "temporal": 1}],
    )

    @classmethod
    def of(cls, status: QueueStatus) -> QueueView:
        """The state of a queue."""
        return cls(
            pending=status.pending,
            processing=status.processing,
            failed=status.failed,
            oldest_pending_at=status.oldest_pending_at,
            by_kind=dict(status.by_kind),
        )


_ID = "0b6f2c1e-9a4d-4a53-8f0e-2f1c7f6f3a10"
ENTITIES: dict[str, Any] = {
    "results": [
        {
            "name": "Alice",
            "type": "person",
            "description": "",
            "memory_ids": [_ID],
            "updated_at": "2026-03-01T09:30:00.000000+00:00",
        }
    ]
}
"""Entities of a scope."""
RELATIONS: dict[str, Any] = {
    "entity": "Alice",
    "results": [
        {
            "source": "Alice",
            "relation": "works_at",
            "target": "Google",
            "valid_from": "2026-03-01T09:30:00.000000+00:00",
            "valid_until": None,
            "memory_ids": [_ID],
            "closed_by": None,
        }
    ],
}
"""Relations of an entity."""
