"""AsyncGraph and Graph: the entities that memories name and the relations between them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.errors import ForbiddenError
from perdure.domain.graph import Edge, Entity, Neighbor
from perdure.domain.job import QueueStatus
from perdure.domain.scope import Scope
from perdure.engine import requests
from perdure.engine.core.access import UNRESTRICTED, scoped
from perdure.engine.engine import Engine
from perdure.engine.requests import Moment, read_depth, read_graph_query
from perdure.frontends.library.portal import Synchronous, blocking


class AsyncGraph:
    """The graph of an AsyncMemory; each call sees everything written before it.

    NoGraphError without a configured `graph_store`, GraphDownError if it cannot be reached. `at` is the time at which
    relations must hold (now by default), `include_past` adds those that held before, and `as_of` leaves out what was
    said later. Times are aware datetimes or ISO 8601 text.
    """

    def __init__(self, engine: Engine, walls: Scope = UNRESTRICTED) -> None:
        self._engine = engine
        self._walls = walls

    async def entities(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        names: Sequence[str] | None = None,
        limit: int = 100,
        as_of: Moment | None = None,
    ) -> list[Entity]:
        """Return the entities in a scope's memories, the most mentioned first; with `names` only these."""
        return await self._engine.graph.entities(
            read_graph_query(self._scope(user_id, agent_id, run_id), as_of=as_of),
            names=None if names is None else requests.read_texts(names, "names"),
            limit=requests.read_limit(limit),
        )

    async def relations(
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
        """Return the edges from and to an entity, or at most `depth` (1 to 3) away, ordered by time.

        NotFoundError if no memory names it.
        """
        asked = read_graph_query(self._scope(user_id, agent_id, run_id), at=at, as_of=as_of, include_past=include_past)
        return await self._engine.graph.relations(asked, requests.read_text(name, "name"), depth=read_depth(depth))

    async def neighbors(
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
        """Return entities at most `depth` edges (1 to 3) away, and those mentioned together with it, nearest first.

        NotFoundError if no memory names it.
        """
        asked = read_graph_query(self._scope(user_id, agent_id, run_id), at=at, as_of=as_of, include_past=include_past)
        return await self._engine.graph.neighbors(asked, requests.read_text(name, "name"), depth=read_depth(depth))

    async def queue_status(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> QueueStatus:
        """Return how much work waits for the graph, in a scope or in all."""
        return await self._engine.graph.queue_status(scoped(self._walls, Scope(user_id, agent_id, run_id)))

    async def revive(self) -> int:
        """Retry jobs that failed too often; return how many. ForbiddenError on a view limited to a scope."""
        if self._walls != UNRESTRICTED:
            raise ForbiddenError("revive concerns what lies outside of these walls too")
        return await self._engine.graph.revive()

    def _scope(self, user_id: str | None, agent_id: str | None, run_id: str | None) -> Scope:
        return requests.read_scope(user_id, agent_id, run_id, self._walls)


class Graph(Synchronous[AsyncGraph]):
    """The graph of a Memory: AsyncGraph without `await`, usable from any thread and inside a running event loop."""

    entities = blocking(AsyncGraph.entities)
    relations = blocking(AsyncGraph.relations)
    neighbors = blocking(AsyncGraph.neighbors)
    queue_status = blocking(AsyncGraph.queue_status)
    revive = blocking(AsyncGraph.revive)
