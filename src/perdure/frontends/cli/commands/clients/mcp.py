"""The command mcp, which serves a memory to one MCP client over standard input and output."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from perdure.domain.errors import DependencyError, InvalidInputError, ScopeError
from perdure.domain.scope import Scope
from perdure.frontends.cli.commands.clients import AgentOption, ProjectOption, RunOption, UserOption
from perdure.frontends.cli.open_memory import read_settings
from perdure.frontends.cli.options import PathOption, folder
from perdure.frontends.mcp import Profile
from perdure.frontends.mcp.front import FirstWords, Front

if TYPE_CHECKING:
    from perdure.domain.access import Role
    from perdure.engine.config.config import MemoryConfig

ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAMES",
        envvar="PERDURE_MCP_PROFILE",
        help=f"Sets of tools, separated by commas: {', '.join(get_args(Profile))}.",
    ),
]
TeamOption = Annotated[
    str | None,
    typer.Option("--team", metavar="NAME", envvar="PERDURE_MCP_TEAM", help="The team, for the profile `team`."),
]
RoleOption = Annotated[
    str,
    typer.Option("--role", metavar="ROLE", envvar="PERDURE_MCP_ROLE", help="In the team: reader, member or admin."),
]


def mcp(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    project_id: ProjectOption = None,
    profile: ProfileOption = "core",
    team: TeamOption = None,
    role: RoleOption = "member",
    path: PathOption = None,
) -> None:
    """Serve a memory to an MCP client, which starts this command and speaks to it over standard input and output.

    The scope is given here or in the environment (PERDURE_MCP_USER_ID, ...), and the client's model cannot change it.
    Needs no key, no server and no download. Standard output has nothing but the protocol, so there is no --json. The
    command ends when the client closes its standard input.

    Example: perdure mcp --user-id ana

    Example: claude mcp add perdure -- perdure mcp --user-id ana

    Example: perdure mcp --user-id ana --profile core,graph
    """
    scope = Scope(user_id=user_id, agent_id=agent_id, run_id=run_id, project_id=project_id)
    if not (user_id or agent_id or run_id):
        raise ScopeError(f"{ScopeError.TEXT}: perdure mcp --user-id NAME, or PERDURE_MCP_USER_ID")
    place = folder(path)
    role_there = team_role(role)
    profiles = [name.strip() for name in profile.split(",")]
    if find_spec("mcp") is None:
        raise no_driver(ImportError("mcp"))
    front = Front(FirstWords.of(profiles))
    front.start()
    gc.disable()  # a tenth of the start would go into looking for garbage among modules, which stay
    try:
        import_module("mcp.server.lowlevel")  # heavy: the client has its list of tools by now
    except ImportError as error:
        raise no_driver(error) from error
    import asyncio

    from perdure.frontends.mcp.stdio import serve_stdio

    gc.freeze()
    gc.enable()
    settings = partial(settings_for, profiles, place)
    asyncio.run(serve_stdio(settings, scope, profiles, front, team=team, role=role_there, folder=place))


def no_driver(error: ImportError) -> DependencyError:
    """Return the error for a missing SDK, with the line that installs it."""
    from perdure.backends.registry import missing_driver  # heavy: only where it is needed

    return missing_driver("mcp", error)


def settings_for(profiles: Sequence[str], place: Path) -> MemoryConfig:
    """Return a folder's settings; the profile `graph` turns the graph on, unless they say none."""
    config = read_settings(place)
    if "graph" not in profiles or config.graph_store is not None or "graph_store" in config.model_fields_set:
        return config
    from perdure.engine.config.config import GraphStoreConfig  # heavy: the tools are listed first

    return config.model_copy(update={"graph_store": GraphStoreConfig()})


def team_role(name: str) -> Role:
    """Read the role of a team's member; InvalidInputError for another word."""
    roles: tuple[Role, ...] = ("reader", "member", "admin")
    for role in roles:
        if role == name:
            return role
    raise InvalidInputError(f"role must be reader, member or admin, not {name!r}", field="role", value=name)
