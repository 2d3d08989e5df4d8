"""MCP over standard input and output: one client, one folder, one scope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from perdure.domain.errors import InvalidInputError
from perdure.frontends.mcp.access import CallerAccess, RequestContext
from perdure.frontends.mcp.consent import Consent
from perdure.frontends.mcp.server import build_server
from perdure.frontends.mcp.tool import tools_of

if TYPE_CHECKING:
    from perdure.domain.access import Role
    from perdure.domain.scope import Scope
    from perdure.engine.config.config import MemoryConfig
    from perdure.frontends.library.memory import AsyncMemory
    from perdure.frontends.library.team import AsyncTeamMemory

NO_TEAM = "a team's tools need a team and a user: perdure mcp --team NAME --user-id NAME"
READY_AFTER_SECONDS = 0.02
"""Pause between the list of tools and the opening of the memory, in which the list is sent."""


class FolderAccess:
    """Access to one folder's memory inside one scope; it is opened once, at the first call or ahead of it."""

    def __init__(
        self, settings: Callable[[], MemoryConfig], scope: Scope, team: str | None = None, role: Role = "member"
    ) -> None:
        self._settings = settings
        self._scope = scope
        self._team, self._role = team, role
        self._opening: asyncio.Task[AsyncMemory] | None = None

    def may_write(self, context: RequestContext) -> bool:
        """Return True: the process runs as the person whose memory it is."""
        return True

    def caller(self, context: RequestContext) -> str:
        """Return the scope as text."""
        return repr(self._scope)

    async def open(self, context: RequestContext) -> CallerAccess:
        """Return the access, after opening the memory; the error of an attempt that failed does not stay."""
        memory = await self._opened()
        return CallerAccess(memory=memory.within(**self._scope.given()), caller=self.caller(context))

    async def team(self, context: RequestContext) -> AsyncTeamMemory:
        """Return the team's memory as the user sees it; InvalidInputError without a team or a user."""
        if self._team is None or self._scope.user_id is None:
            raise InvalidInputError(NO_TEAM, field="team", value=self._team)
        from perdure.frontends.library.team import AsyncTeamMemory  # heavy: it imports the engine

        memory, project = await self._opened(), self._scope.project_id
        within = memory if project is None else memory.within(project_id=project)
        return AsyncTeamMemory(within, team=self._team, member=self._scope.user_id, role=self._role)

    async def _opened(self) -> AsyncMemory:
        opening = self.prepare()
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done():
                self._opening = None
            raise

    def prepare(self) -> asyncio.Task[AsyncMemory]:
        """Start opening the memory, unless that has begun."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        return self._opening

    async def close(self) -> None:
        """Close the memory if it is open."""
        if self._opening is not None:
            opened = await asyncio.gather(self._opening, return_exceptions=True)
            for memory in opened:
                if not isinstance(memory, BaseException):
                    await memory.close()

    async def _open(self) -> AsyncMemory:
        memory = await asyncio.to_thread(self._build)
        await memory._engine.kernel.open()
        return memory

    def _build(self) -> AsyncMemory:
        """Import the engine, which takes longer than all that came before, and construct the memory."""
        from perdure.frontends.library.memory import AsyncMemory

        return AsyncMemory(self._settings())


async def serve_stdio(
    settings: Callable[[], MemoryConfig],
    scope: Scope,
    profiles: Sequence[str],
    *,
    team: str | None = None,
    role: Role = "member",
) -> None:
    """Serve until the client closes standard input; nothing but protocol is written to standard output."""
    access = FolderAccess(settings, scope, team, role)

    def prepare_soon() -> None:
        asyncio.get_running_loop().call_later(READY_AFTER_SECONDS, access.prepare)

    server = build_server(tools_of(profiles), access, Consent(), after_list=prepare_soon)
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await access.close()
