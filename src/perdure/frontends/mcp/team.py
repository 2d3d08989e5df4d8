"""The profile `team`: a team's memories with their truth levels, as one of its members sees them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perdure.domain.access import Promotion
from perdure.domain.memory import MemoryItem
from perdure.frontends.mcp.answers import WITHHELD
from perdure.frontends.mcp.core import Query
from perdure.frontends.mcp.tool import Arguments, TeamCall, Tool, ToolAnswer

Level = Literal["EPHEMERAL", "WORKING", "VALIDATED", "CANONICAL", "PUBLIC"]
Target = Literal["WORKING", "VALIDATED", "CANONICAL", "PUBLIC"]
Status = Literal["pending", "approved", "rejected"]


class TeamSearchArguments(Arguments):
    """Arguments of team_search."""

    query: Query
    limit: Annotated[int, Field(ge=1, le=50)] = 8
    truth_level_min: Level = "EPHEMERAL"


class TeamMemory(ToolAnswer):
    """A memory of a team."""

    id: str
    memory: str
    truth_level: str
    source: str
    confidence: float | None = None
    score: float | None = None

    @classmethod
    def of(cls, item: MemoryItem) -> TeamMemory:
        """Build it from a memory; a quarantined one does not show its text."""
        assert item.tags is not None, "the engine's guard sees to that"
        return cls(
            id=item.id,
            memory=WITHHELD if item.quarantined is not None else item.memory,
            truth_level=item.tags.truth_level,
            source=item.source,
            confidence=item.confidence,
            score=None if item.score is None else round(item.score, 3),
        )


class TeamFound(ToolAnswer):
    """Answer of team_search."""

    results: list[TeamMemory]


async def team_search(call: TeamCall, given: TeamSearchArguments) -> TeamFound:
    """Find the team's memories that the member sees."""
    found = await call.team.search(
        given.query, limit=given.limit, truth_level_min=given.truth_level_min, visibility=None
    )
    return TeamFound(results=[TeamMemory.of(item) for item in found.results])


class UpsertArguments(Arguments):
    """Arguments of team_upsert."""

    content: Annotated[str, Field(min_length=1)] = Field(description="one fact, clear alone")
    source: str = Field(description="what it rests on, as `prefix:id`; the same source replaces its memory")
    confidence: Annotated[float, Field(ge=0, le=1)]
    project_scope: str | None = Field(None, description="a project; by default the whole team")
    visibility: Literal["team", "project", "private"] = "team"
    truth_level: Literal["EPHEMERAL", "WORKING"] = "WORKING"


class Upserted(ToolAnswer):
    """Answer of team_upsert."""

    id: str


async def team_upsert(call: TeamCall, given: UpsertArguments) -> Upserted:
    """Store a team's memory, or replace the one of the same source."""
    item = {**given.model_dump(), "team_scope": call.team._member.team, "validation_status": "pending"}
    return Upserted(id=await call.team.upsert(item))


class PromoteArguments(Arguments):
    """Arguments of promote."""

    id: str
    target_level: Target
    justification: Annotated[str, Field(min_length=1)]


class Requested(ToolAnswer):
    """A promotion."""

    promotion_id: str
    item_id: str
    from_level: str
    target_level: str
    status: str
    requested_by: str
    justification: str

    @classmethod
    def of(cls, found: Promotion) -> Requested:
        """Build it from a promotion."""
        return cls(
            promotion_id=found.id,
            item_id=found.item_id,
            from_level=found.from_level,
            target_level=found.target_level,
            status=found.status,
            requested_by=found.requested_by,
            justification=found.justification,
        )


async def promote(call: TeamCall, given: PromoteArguments) -> Requested:
    """Request a memory's next truth level."""
    return Requested.of(await call.team.request_promotion(given.id, given.target_level, given.justification))


class PromotionsArguments(Arguments):
    """Arguments of promotions."""

    status: Status | None = None
    limit: Annotated[int, Field(ge=1, le=50)] = 20


class Promotions(ToolAnswer):
    """Answer of promotions."""

    promotions: list[Requested]


async def promotions(call: TeamCall, given: PromotionsArguments) -> Promotions:
    """List promotions, oldest first."""
    found = await call.team.promotions(status=given.status, limit=given.limit)
    return Promotions(promotions=[Requested.of(each) for each in found])


TOOLS = (
    Tool(
        name="team_search",
        title="Search the team's memory",
        description="Search what the team knows, with each memory's truth level and source.",
        arguments=TeamSearchArguments,
        answer=TeamFound,
        run=team_search,
        of_team=True,
        reads=True,
    ),
    Tool(
        name="team_upsert",
        title="Store a team's memory",
        description="Store a fact for the team. A memory of the same source is replaced.",
        arguments=UpsertArguments,
        answer=Upserted,
        run=team_upsert,
        of_team=True,
        repeatable=True,
    ),
    Tool(
        name="promote",
        title="Request a promotion",
        description="Request a memory's next truth level; higher levels wait for an admin's approval.",
        arguments=PromoteArguments,
        answer=Requested,
        run=promote,
        of_team=True,
    ),
    Tool(
        name="promotions",
        title="List promotions",
        description="List the team's requested, approved and rejected promotions.",
        arguments=PromotionsArguments,
        answer=Promotions,
        run=promotions,
        of_team=True,
        reads=True,
    ),
)
