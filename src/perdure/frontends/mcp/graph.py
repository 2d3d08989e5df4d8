"""The profile `graph`: who and what is related, and when. It needs a `graph_store`, else a call is `unsupported`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from perdure.frontends.mcp.tool import Arguments, Tool, ToolAnswer, ToolCall

MOST = 100
"""Relations or neighbours in an answer."""


class EntityArguments(Arguments):
    """Arguments of relations and neighbors."""

    entity: Annotated[str, Field(min_length=1)] = Field(description="a name, such as 'Ana' or 'Apollo'")
    depth: Annotated[int, Field(ge=1, le=3)] = 1
    at: str | None = Field(None, description="ISO time: what held then")
    include_past: bool = Field(False, description="also what no longer holds")


class Related(ToolAnswer):
    """A relation with the period in which it holds."""

    source: str
    relation: str
    target: str
    valid_from: str | None = None
    valid_until: str | None = None
    memory_ids: list[str]


class Relations(ToolAnswer):
    """Answer of relations."""

    relations: list[Related]
    note: str | None = None


async def relations(call: ToolCall, given: EntityArguments) -> Relations:
    """List the relations around an entity; NotFoundError if no memory names it."""
    found = await call.memory.graph.relations(
        given.entity, depth=given.depth, at=given.at, include_past=given.include_past
    )
    return Relations(
        relations=[
            Related(
                source=edge.source,
                relation=edge.relation,
                target=edge.target,
                valid_from=edge.valid_from,
                valid_until=edge.valid_until,
                memory_ids=list(edge.memory_ids),
            )
            for edge in found[:MOST]
        ],
        note=left_out(len(found)),
    )


class Near(ToolAnswer):
    """An entity near another."""

    name: str
    type: str
    relationship: str
    direction: str
    depth: int
    valid_from: str | None = None
    valid_until: str | None = None
    memory_ids: list[str]


class Neighbors(ToolAnswer):
    """Answer of neighbors."""

    neighbors: list[Near]
    note: str | None = None


async def neighbors(call: ToolCall, given: EntityArguments) -> Neighbors:
    """List the entities near another, nearest first; NotFoundError if no memory names it."""
    found = await call.memory.graph.neighbors(
        given.entity, depth=given.depth, at=given.at, include_past=given.include_past
    )
    return Neighbors(
        neighbors=[
            Near(
                name=each.name,
                type=each.type,
                relationship=each.relationship,
                direction=each.direction,
                depth=each.depth,
                valid_from=each.valid_from,
                valid_until=each.valid_until,
                memory_ids=list(each.memory_ids),
            )
            for each in found[:MOST]
        ],
        note=left_out(len(found)),
    )


def left_out(count: int) -> str | None:
    """Return the note about what does not fit into an answer, if anything does not."""
    return f"{count - MOST} more are not shown: ask with a smaller depth" if count > MOST else None


TOOLS = (
    Tool(
        name="relations",
        title="Relations of an entity",
        description="List how a person or thing is related to others, with the time in which each relation holds.",
        arguments=EntityArguments,
        answer=Relations,
        run=relations,
        reads=True,
    ),
    Tool(
        name="neighbors",
        title="Neighbours of an entity",
        description="List the people and things near another, by relations and by memories that name both.",
        arguments=EntityArguments,
        answer=Neighbors,
        run=neighbors,
        reads=True,
    ),
)
