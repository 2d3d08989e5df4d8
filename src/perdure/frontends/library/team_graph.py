"""TeamGraph: AsyncTeamGraph without `await`."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.graph import Entity, Neighbor
from perdure.domain.job import QueueStatus
from perdure.engine.requests import Moment
from perdure.frontends.library.async_team_graph import AsyncTeamGraph
from perdure.frontends.library.portal import PORTAL


class TeamGraph:
    """The questions to the graph of a team; a part of TeamMemory."""

    _memory: AsyncTeamGraph

    def entities(self, *, names: Sequence[str] | None = None, limit: int = 100) -> list[Entity]:
        """The entities that the team's memories name, those that most name first; with `names` only these."""
        return PORTAL.call(self._memory.entities(names=names, limit=limit))

    def neighbors(
        self, entity: str, *, depth: int = 1, at: Moment | None = None, include_past: bool = False
    ) -> list[Neighbor]:
        """Who is reached over at most `depth` edges (1 to 3), and who is named beside an entity, nearest first."""
        return PORTAL.call(self._memory.neighbors(entity, depth=depth, at=at, include_past=include_past))

    def queue_status(self) -> QueueStatus:
        """How much work waits for the team's graph, that of all members together."""
        return PORTAL.call(self._memory.queue_status())
