"""Graph: AsyncGraph without `await`."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.graph import Edge, Entity, Neighbor
from perdure.domain.job import QueueStatus
from perdure.engine.requests import Moment
from perdure.frontends.library.async_graph import AsyncGraph
from perdure.frontends.library.portal import PORTAL


class Graph:
    """The graph of a Memory; what was written before a call is in what the call reads."""

    def __init__(self, graph: AsyncGraph) -> None:
        self._graph = graph

    def entities(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        names: Sequence[str] | None = None,
        limit: int = 100,
        as_of: Moment | None = None,
    ) -> list[Entity]:
        """The entities that a scope's memories name, those that most name first; with `names` only these."""
        return PORTAL.call(
            self._graph.entities(
                user_id=user_id, agent_id=agent_id, run_id=run_id, names=names, limit=limit, as_of=as_of
            )
        )

    def relations(
        self,
        name: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        depth: int = 1,
        at: Moment | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
    ) -> list[Edge]:
        """The edges from and to an entity, or at most `depth` (1 to 3) away, by their time."""
        return PORTAL.call(
            self._graph.relations(
                name,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                depth=depth,
                at=at,
                as_of=as_of,
                include_past=include_past,
            )
        )

    def neighbors(
        self,
        name: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        depth: int = 1,
        at: Moment | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
    ) -> list[Neighbor]:
        """Who is reached over at most `depth` edges (1 to 3), and who is named beside an entity, nearest first."""
        return PORTAL.call(
            self._graph.neighbors(
                name,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                depth=depth,
                at=at,
                as_of=as_of,
                include_past=include_past,
            )
        )

    def queue_status(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> QueueStatus:
        """How much work waits for the graph, in a scope or in all."""
        return PORTAL.call(self._graph.queue_status(user_id=user_id, agent_id=agent_id, run_id=run_id))

    def revive(self) -> int:
        """Let what failed too often be tried again; how much that is. ForbiddenError behind walls."""
        return PORTAL.call(self._graph.revive())
