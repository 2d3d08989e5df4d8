"""TeamMemory: what a team remembers, for callers without an event loop; each method is AsyncTeamMemory's."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Self

from perdure.domain.access import AuditEntry, Role
from perdure.domain.event import HistoryRecord, ListResult, SearchResult
from perdure.domain.memory import MemoryItem
from perdure.domain.promotion import Promotion
from perdure.engine.team.reading import SystemAddendum
from perdure.frontends.library.async_team import AsyncTeamMemory
from perdure.frontends.library.closing import Closing
from perdure.frontends.library.memory import Memory
from perdure.frontends.library.portal import PORTAL
from perdure.frontends.library.team_graph import TeamGraph


class TeamMemory(TeamGraph, Closing):
    """AsyncTeamMemory without `await`: usable from any thread, and inside a running event loop (which it blocks)."""

    _memory: AsyncTeamMemory

    def __init__(
        self,
        memory: Memory,
        *,
        team: str,
        member: str,
        role: Role = "member",
        projects: Collection[str] = (),
    ) -> None:
        self._memory = AsyncTeamMemory(memory._memory, team=team, member=member, role=role, projects=projects)

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
        """The embedded set in one folder, which closes with this."""
        self = cls.__new__(cls)
        self._memory = AsyncTeamMemory.local(path, team=team, member=member, role=role, projects=projects)
        return self

    # ------------------------------------------------------------------ writing
    def upsert(self, item: Mapping[str, Any]) -> str:
        """Store `content` with all of the seven tags, in the place of what has the same source; answers the id."""
        return PORTAL.call(self._memory.upsert(item))

    def patch(self, id: str, changes: Mapping[str, Any]) -> MemoryItem:
        """Change content, project_scope, visibility, confidence, validation_status or metadata (which is merged)."""
        return PORTAL.call(self._memory.patch(id, changes))

    def delete(self, id: str, *, erase: bool = False) -> None:
        """Remove a memory from every read of the present; with `erase` from history and versions too."""
        return PORTAL.call(self._memory.delete(id, erase=erase))

    def sweep(self) -> int:
        """Delete the team's EPHEMERAL memories whose time is over, which no read shows any more; how many."""
        return PORTAL.call(self._memory.sweep())

    # ------------------------------------------------------------------ reading
    def search(
        self,
        query: str,
        *,
        truth_level_min: str = "EPHEMERAL",
        project_scope: str | None = None,
        visibility: str | None = "team",
        limit: int = 10,
    ) -> SearchResult:
        """The memories that answer a query, best first; `visibility=None` is all that the member sees."""
        return PORTAL.call(
            self._memory.search(
                query,
                truth_level_min=truth_level_min,
                project_scope=project_scope,
                visibility=visibility,
                limit=limit,
            )
        )

    def public_search(
        self,
        query: str,
        *,
        project_scope: str | None = None,
        limit: int = 10,
    ) -> SearchResult:
        """What any team has published that answers a query, best first."""
        return PORTAL.call(self._memory.public_search(query, project_scope=project_scope, limit=limit))

    def get(self, id: str) -> MemoryItem | None:
        """The memory with this id, or None where the member sees none."""
        return PORTAL.call(self._memory.get(id))

    def get_all(
        self,
        *,
        truth_level_min: str = "EPHEMERAL",
        project_scope: str | None = None,
        visibility: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListResult:
        """A page of what the member sees, oldest first; `next_cursor` of one page is the `cursor` of the next."""
        return PORTAL.call(
            self._memory.get_all(
                truth_level_min=truth_level_min,
                project_scope=project_scope,
                visibility=visibility,
                limit=limit,
                cursor=cursor,
            )
        )

    def history(self, id: str) -> list[HistoryRecord]:
        """What happened to a memory as far as the member sees it, oldest first; empty for what they do not see."""
        return PORTAL.call(self._memory.history(id))

    def system_addendum(self, query: str, *, top_k: int = 5, min_level: str = "CANONICAL") -> SystemAddendum:
        """What the team holds for true about a query, as a block for a system prompt: quoted data, delimited."""
        return PORTAL.call(self._memory.system_addendum(query, top_k=top_k, min_level=min_level))

    # ------------------------------------------------------------------ promotions
    def request_promotion(self, item_id: str, target_level: str, justification: str) -> Promotion:
        """Ask for a memory's next truth level; levels that want no approval (WORKING by default) are given at once."""
        return PORTAL.call(self._memory.request_promotion(item_id, target_level, justification))

    def decide(self, promotion_id: str, decision: str, *, note: str | None = None) -> Promotion:
        """Approve or reject a promotion, as an admin; ConflictError where that was done already."""
        return PORTAL.call(self._memory.decide(promotion_id, decision, note=note))

    def promotions(
        self,
        *,
        status: str | None = None,
        item_id: str | None = None,
        limit: int = 100,
        after: str = "",
    ) -> list[Promotion]:
        """Promotions of memories that the member sees, oldest first, those that come after an id."""
        return PORTAL.call(self._memory.promotions(status=status, item_id=item_id, limit=limit, after=after))

    def audit(self, *, subject_id: str | None = None, limit: int = 100, after: str = "") -> list[AuditEntry]:
        """Who did what in the team, oldest first, those lines that come after an id; for admins."""
        return PORTAL.call(self._memory.audit(subject_id=subject_id, limit=limit, after=after))

    # ------------------------------------------------------------------ life
    def close(self) -> None:
        """Let go of every file, where this was opened by `local`; closing twice is no error."""
        PORTAL.call(self._memory.close())
