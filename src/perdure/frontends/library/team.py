"""AsyncTeamMemory and TeamMemory: a team's memory as one of its members sees it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from perdure.domain.access import AuditEntry, Promotion, Role
from perdure.domain.errors import NotFoundError
from perdure.domain.event import HistoryRecord, ListResult, SearchResult
from perdure.domain.graph import Entity, Neighbor
from perdure.domain.job import QueueStatus
from perdure.domain.memory import MemoryItem
from perdure.engine.requests import (
    MAX_LIMIT,
    Moment,
    read_depth,
    read_flag,
    read_graph_query,
    read_limit,
    read_memory_id,
    read_text,
    read_texts,
)
from perdure.engine.team.items import read_item, read_member, read_patch
from perdure.engine.team.reads import MOST_RESULTS, SystemAddendum, TeamSearchOptions, read_team_search
from perdure.engine.team.teams import Teams
from perdure.frontends.library.closing import AsyncClosing, Closing
from perdure.frontends.library.memory import AsyncMemory, Memory
from perdure.frontends.library.portal import blocking


class AsyncTeamMemory(AsyncClosing):
    """A team's memory for one member: what they may see, and what they may do.

    Construct it over an open memory, which it does not close, or with `local`. `role` is reader, member, admin or
    service; `projects` are the member's projects. This class trusts the given member; a server checks credentials. All
    errors are PerdureError.
    """

    def __init__(
        self, memory: AsyncMemory, *, team: str, member: str, role: Role = "member", projects: Collection[str] = ()
    ) -> None:
        self._member = read_member(team=team, member=member, role=role, projects=projects, walls=memory._walls)
        self._memory = memory
        self._teams = _teams(memory)
        self._is_own = False

    @classmethod
    def local(
        cls,
        path: str | os.PathLike[str] = "~/.memory",
        *,
        team: str,
        member: str,
        role: Role = "member",
        projects: Collection[str] = (),
    ) -> Self:
        """Open a team's memory with the embedded providers in one folder, which closes with it."""
        self = cls(AsyncMemory.local(path), team=team, member=member, role=role, projects=projects)
        self._is_own = True
        return self

    async def upsert(self, item: Mapping[str, Any]) -> str:
        """Store `content` with all of the seven tags, replacing an item with the same source; return the id.

        InvalidInputError names every missing or wrong tag. PromotionRequiredError if the memory of this source has
        another truth level, ForbiddenError if this role may not write at the level.
        """
        return await self._teams.write.upsert(self._member, read_item(item, self._member.team))

    async def patch(self, id: str, changes: Mapping[str, Any]) -> MemoryItem:
        """Change content, project_scope, visibility, confidence, validation_status or metadata (which is merged)."""
        return await self._teams.write.patch(self._member, read_memory_id(id), read_patch(changes))

    async def delete(self, id: str, *, erase: bool = False) -> None:
        """Delete a memory from all current reads; with `erase` also from history and versions."""
        memory_id = read_memory_id(id)
        if read_flag(erase, "erase"):
            await self._teams.write.erase(self._member, memory_id)
        else:
            await self._teams.write.delete(self._member, memory_id)

    async def sweep(self) -> int:
        """Delete the team's expired EPHEMERAL memories, which reads skip already; return how many."""
        return await self._teams.expiry.sweep(self._member.team)

    async def search(
        self,
        query: str,
        *,
        truth_level_min: str = "EPHEMERAL",
        project_scope: str | None = None,
        visibility: str | None = "team",
        limit: int = 10,
    ) -> SearchResult:
        """Return the memories that answer a query, best first; `visibility=None` is all that the member sees.

        `limit` is from 1 to 100, `project_scope` one project (else all of the team's).
        """
        options = _search_options(truth_level_min, project_scope, visibility, limit)
        return await self._teams.read.search(self._member, query, options)

    async def public_search(self, query: str, *, project_scope: str | None = None, limit: int = 10) -> SearchResult:
        """Return the PUBLIC memories of any team that answer a query, best first."""
        return await public_search(self._memory, query, project_scope=project_scope, limit=limit)

    async def get(self, id: str) -> MemoryItem | None:
        """Return the memory with this id, or None if the member sees none."""
        return await self._teams.read.get(self._member, id)

    async def get_all(
        self,
        *,
        truth_level_min: str = "EPHEMERAL",
        project_scope: str | None = None,
        visibility: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListResult:
        """Return a page of what the member sees, oldest first; pass its `next_cursor` as the next `cursor`."""
        options = _search_options(truth_level_min, project_scope, visibility, limit, most=MAX_LIMIT)
        return await self._teams.read.get_all(self._member, options, cursor)

    async def history(self, id: str) -> list[HistoryRecord]:
        """Return a memory's history as far as the member sees it, oldest first; else an empty list."""
        try:
            memory_id = read_memory_id(id)
        except NotFoundError:
            return []
        return await self._teams.read.history(self._member, memory_id)

    async def system_addendum(self, query: str, *, top_k: int = 5, min_level: str = "CANONICAL") -> SystemAddendum:
        """Return the team's facts about a query as a block for a system prompt: quoted data, delimited."""
        return await self._teams.read.system_addendum(self._member, query, top_k=top_k, min_level=min_level)

    async def request_promotion(self, item_id: str, target_level: str, justification: str) -> Promotion:
        """Request a memory's next truth level; levels without approval (WORKING by default) are set at once."""
        return await self._teams.promote.request(self._member, read_memory_id(item_id), target_level, justification)

    async def decide(self, promotion_id: str, decision: str, *, note: str | None = None) -> Promotion:
        """Approve or reject a promotion, as an admin; ConflictError if it was decided already."""
        return await self._teams.promote.decide(self._member, promotion_id, decision, note)

    async def promotions(
        self, *, status: str | None = None, item_id: str | None = None, limit: int = 100, after: str = ""
    ) -> list[Promotion]:
        """Return promotions of memories that the member sees, oldest first, after an id."""
        return await self._teams.promote.list(
            self._member,
            status=status,
            item_id=None if item_id is None else read_memory_id(item_id),
            limit=read_limit(limit),
            after=after,
        )

    async def audit(self, *, subject_id: str | None = None, limit: int = 100, after: str = "") -> list[AuditEntry]:
        """Return who did what in the team, oldest first, after an id; for admins."""
        return await self._teams.audit(self._member, subject_id=subject_id, limit=read_limit(limit), after=after)

    async def entities(self, *, names: Sequence[str] | None = None, limit: int = 100) -> list[Entity]:
        """Return the entities in the team's memories, the most mentioned first; with `names` only these."""
        return await self._memory._engine.graph.entities(
            read_graph_query(self._member.walls, sees=self._member.sees()),
            names=None if names is None else read_texts(names, "names"),
            limit=read_limit(limit),
        )

    async def neighbors(
        self, entity: str, *, depth: int = 1, at: Moment | None = None, include_past: bool = False
    ) -> list[Neighbor]:
        """Return entities at most `depth` edges (1 to 3) away, and those mentioned together with it, nearest first.

        `at` is the time at which relations must hold, now by default; `include_past` adds those that held before.
        NotFoundError if no memory that the member sees names it.
        """
        asked = read_graph_query(self._member.walls, at=at, include_past=include_past, sees=self._member.sees())
        return await self._memory._engine.graph.neighbors(asked, read_text(entity, "entity"), depth=read_depth(depth))

    async def queue_status(self) -> QueueStatus:
        """Return how much work waits for the team's graph, of all members together."""
        return await self._memory._engine.graph.queue_status(self._member.walls)

    async def close(self) -> None:
        """Close every file if this was opened by `local`; closing twice is no error."""
        if self._is_own:
            await self._memory.close()


async def public_search(
    memory: AsyncMemory, query: str, *, project_scope: str | None = None, limit: int = 10
) -> SearchResult:
    """Return the PUBLIC memories of any team that answer a query, best first, for any caller."""
    options = _search_options("PUBLIC", project_scope, None, limit)
    return await _teams(memory).read.public_search(query, options)


async def sweep(memory: AsyncMemory) -> int:
    """Delete the expired EPHEMERAL memories of all teams; return how many."""
    return await _teams(memory).expiry.sweep()


def _search_options(
    level: str, project: str | None, visibility: str | None, limit: int, most: int = MOST_RESULTS
) -> TeamSearchOptions:
    return read_team_search(truth_level_min=level, project_scope=project, visibility=visibility, limit=limit, most=most)


def _teams(memory: AsyncMemory) -> Teams:
    engine = memory._engine
    return Teams(engine.kernel, engine.read, engine.forget)


class TeamMemory(Closing[AsyncTeamMemory]):
    """AsyncTeamMemory over a Memory, without `await`: usable from any thread, and inside a running event loop."""

    def __init__(
        self, memory: Memory, *, team: str, member: str, role: Role = "member", projects: Collection[str] = ()
    ) -> None:
        self._asynchronous = AsyncTeamMemory(memory._memory, team=team, member=member, role=role, projects=projects)

    @classmethod
    def local(
        cls,
        path: str | os.PathLike[str] = "~/.memory",
        *,
        team: str,
        member: str,
        role: Role = "member",
        projects: Collection[str] = (),
    ) -> Self:
        """Open a team's memory with the embedded providers in one folder, which closes with it."""
        return cls._over(AsyncTeamMemory.local(path, team=team, member=member, role=role, projects=projects))

    upsert = blocking(AsyncTeamMemory.upsert)
    patch = blocking(AsyncTeamMemory.patch)
    delete = blocking(AsyncTeamMemory.delete)
    sweep = blocking(AsyncTeamMemory.sweep)
    search = blocking(AsyncTeamMemory.search)
    public_search = blocking(AsyncTeamMemory.public_search)
    get = blocking(AsyncTeamMemory.get)
    get_all = blocking(AsyncTeamMemory.get_all)
    history = blocking(AsyncTeamMemory.history)
    system_addendum = blocking(AsyncTeamMemory.system_addendum)
    request_promotion = blocking(AsyncTeamMemory.request_promotion)
    decide = blocking(AsyncTeamMemory.decide)
    promotions = blocking(AsyncTeamMemory.promotions)
    audit = blocking(AsyncTeamMemory.audit)
    entities = blocking(AsyncTeamMemory.entities)
    neighbors = blocking(AsyncTeamMemory.neighbors)
    queue_status = blocking(AsyncTeamMemory.queue_status)
