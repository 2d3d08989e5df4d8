"""The profile `chatgpt`: search and fetch, the two tools that ChatGPT's connectors ask of a server."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from perdure.domain.errors import NotFoundError
from perdure.domain.memory import TRUSTED, MemoryItem
from perdure.frontends.mcp.answers import WITHHELD
from perdure.frontends.mcp.core import Query
from perdure.frontends.mcp.tool import Arguments, Tool, ToolAnswer, ToolCall
from perdure.pipeline.prompting.quoting import one_line

HITS = 10
LONGEST_TITLE = 80


class SearchArguments(Arguments):
    """Arguments of search."""

    query: Query


class Hit(ToolAnswer):
    """A memory by title."""

    id: str
    title: str
    url: str


class Hits(ToolAnswer):
    """Answer of search."""

    results: list[Hit]


async def search(call: ToolCall, given: SearchArguments) -> Hits:
    """Find memories; quarantined ones stay out."""
    found = await call.memory.search(given.query, limit=HITS, filters=TRUSTED)
    return Hits(results=[Hit(id=item.id, title=title_of(item), url=url_of(item)) for item in found.results])


class FetchArguments(Arguments):
    """Arguments of fetch."""

    id: Annotated[str, Field(min_length=1)]


class Fetched(ToolAnswer):
    """Answer of fetch."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


async def fetch(call: ToolCall, given: FetchArguments) -> Fetched:
    """Return one memory whole; NotFoundError for an unknown id."""
    item = await call.memory.get(given.id)
    if item is None:
        raise NotFoundError(f"there is no memory with the id {given.id!r}")
    times = {"told_at": item.told_at, "valid_from": item.valid_from, "valid_to": item.valid_to}
    return Fetched(
        id=item.id,
        title=title_of(item),
        text=item.memory if item.quarantined is None else WITHHELD,
        url=url_of(item),
        metadata={name: value for name, value in {**times, "type": item.type}.items() if value is not None},
    )


def title_of(item: MemoryItem) -> str:
    """Return the beginning of a memory's text on one line; a quarantined one does not show it."""
    if item.quarantined is not None:
        return WITHHELD
    line = one_line(item.memory)
    return line if len(line) <= LONGEST_TITLE else f"{line[:LONGEST_TITLE]}…"


def url_of(item: MemoryItem) -> str:
    """Return the address of a memory's resource."""
    return f"perdure://memory/{item.id}"


TOOLS = (
    Tool(
        name="search",
        title="Search memories",
        description="Search what is remembered about the user and earlier work. Fetch a result to read it whole.",
        arguments=SearchArguments,
        answer=Hits,
        run=search,
        reads=True,
    ),
    Tool(
        name="fetch",
        title="Fetch a memory",
        description="Return one memory whole, by an id from search.",
        arguments=FetchArguments,
        answer=Fetched,
        run=fetch,
        reads=True,
    ),
)
