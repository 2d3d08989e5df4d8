"""Who calls a tool: which memory they reach, by which name, and whether they may write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp.server.context import ServerRequestContext

if TYPE_CHECKING:
    from perdure.frontends.library.memory import AsyncMemory
    from perdure.frontends.library.team import AsyncTeamMemory

RequestContext = ServerRequestContext[Any, Any]
"""One request, as the SDK describes it: the client, its revision of the protocol, and the HTTP request if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerAccess:
    """What one request may reach."""

    memory: AsyncMemory
    """A view that is limited to the caller's scope, so calls on it name no user."""
    caller: str
    """Identifies caller and scope; a confirmation is valid for the same one only."""


class AccessProvider(Protocol):
    """Decides what a request may reach. The scope comes from here, never from a tool's arguments."""

    def may_write(self, context: RequestContext) -> bool:
        """Return whether the caller may change memories; the list of tools depends on it."""

    def caller(self, context: RequestContext) -> str:
        """Return the text that identifies the caller."""

    async def open(self, context: RequestContext) -> CallerAccess:
        """Return the caller's access, opening the memory at the first call; PerdureError if there is none."""

    async def team(self, context: RequestContext) -> AsyncTeamMemory:
        """Return the caller's team memory; PerdureError if the caller is in no team."""
