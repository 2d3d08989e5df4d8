"""Tool: the declaration of one tool, and what its handler is given: the call, and what its caller may reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, get_args

import mcp_types as types
from mcp.server.context import ServerRequestContext

from perdure.domain.errors import ConfigError
from perdure.frontends.mcp import Profile
from perdure.frontends.mcp.schema import Arguments, ToolAnswer, schema_of

if TYPE_CHECKING:
    from perdure.frontends.library.memory import AsyncMemory
    from perdure.frontends.library.team import AsyncTeamMemory
    from perdure.frontends.mcp.consent import Consent

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call, for a tool's handler."""

    access: CallerAccess
    context: RequestContext
    params: types.CallToolRequestParams
    consent: Consent

    @property
    def memory(self) -> AsyncMemory:
        """The memory, limited to the caller's scope."""
        return self.access.memory

    @property
    def client(self) -> str | None:
        """The name that the client gave itself, such as `claude-code`."""
        told = self.context.session.client_params
        return told.client_info.name if told is not None and told.client_info is not None else None


@dataclass(frozen=True, slots=True)
class TeamCall:
    """One call of a team's tool, for its handler."""

    team: AsyncTeamMemory


Answer = ToolAnswer | types.InputRequiredResult
"""A handler's answer: the result, or a question to the person, after which the client calls again."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool: its name, its text for the model, its arguments, its answer, and the function that runs it."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[ToolAnswer]
    run: Callable[[Any, Any], Awaitable[Answer]]
    reads: bool = False
    """Changes nothing, so readers may call it."""
    destroys: bool = False
    of_team: bool = False
    """Is about a team's memory: its handler is given a TeamCall."""
    repeatable: bool = field(default=False)
    """Calling it again with the same arguments changes nothing more."""

    @cached_property
    def declaration(self) -> types.Tool:
        """The tool as clients see it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.arguments),
            output_schema=schema_of(self.answer),
            annotations=types.ToolAnnotations(
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                idempotent_hint=self.reads or self.repeatable,
                open_world_hint=False,
            ),
        )


def tools_of(names: Sequence[str]) -> tuple[Tool, ...]:
    """Return the tools of profiles, in the order of `Profile`; ConfigError for an unknown name, or a tool name twice.

    A profile's module is imported only if it is asked for: clients do not wait for a server.
    """
    known = get_args(Profile)
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no profile {name!r}; there is {', '.join(known)}", field="profile", value=name)
    modules = [import_module(f"{__package__}.{name.replace('-', '_')}") for name in known if name in names]
    tools = tuple(tool for module in modules for tool in module.TOOLS)
    counts = Counter(tool.name for tool in tools)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ConfigError(
            f"two of the profiles {', '.join(names)} have a tool {twice[0]!r}: serve them apart", field="profile"
        )
    return tools
