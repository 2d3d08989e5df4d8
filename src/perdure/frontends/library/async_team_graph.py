"""AsyncTeamGraph: what AsyncTeamMemory says of the team's entities and their relations, as one member sees them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.graph import Entity, Neighbor
from perdure.domain.job import QueueStatus
from perdure.engine.graph.asking import read_asked, read_depth
from perdure.engine.requests import Moment, read_limit, read_text, read_texts
from perdure.engine.team.member import Member
from perdure.frontends.library.async_memory import AsyncMemory


class AsyncTeamGraph:
    """The questions to the graph of a team; a part of AsyncTeamMemory.

    Only what memories state that the member sees is told: not a name, an edge, its end or its times come out of
    another's private memory (X35). NoGraphError where no `graph_store` is configured, GraphDownError where it cannot be
    reached.
    """

    _memory: AsyncMemory
    _member: Member

    async def entities(self, *, names: Sequence[str] | None = None, limit: int = 100) -> list[Entity]:
        """The entities that the team's memories name, those that most name first; with `names` only these."""
        return await self._memory._engine.graph.entities(
            read_asked(self._member.walls, sees=self._member.sees()),
            names=None if names is None else read_texts(names, "names"),
            limit=read_limit(limit),
        )

    async def neighbors(
        self, entity: str, *, depth: int = 1, at: Moment | None = None, include_past: bool = False
    ) -> list[Neighbor]:
        """Who is reached over at most `depth` edges (1 to 3), and who is named beside an entity, nearest first.

        `at` is the moment at which relations are to hold, now by default; `include_past` adds those that held before.
        NotFoundError where no memory that the member sees names it.
        """
        asked = read_asked(self._member.walls, at=at, include_past=include_past, sees=self._member.sees())
        return await self._memory._engine.graph.neighbors(asked, read_text(entity, "entity"), depth=read_depth(depth))

    async def queue_status(self) -> QueueStatus:
        """How much work waits for the team's graph, that of all members together."""
        return await self._memory._engine.graph.queue_status(self._member.walls)
