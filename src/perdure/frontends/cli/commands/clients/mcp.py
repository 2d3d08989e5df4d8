"""The command mcp, which serves a memory to one MCP client over standard input and output."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Annotated

import typer

from perdure.domain.errors import ScopeError
from perdure.domain.scope import Scope
from perdure.frontends.cli.commands.clients.scope import AgentOption, ProjectOption, RunOption, UserOption
from perdure.frontends.cli.open_memory import read_settings
from perdure.frontends.cli.options import PathOption, folder

ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile", metavar="NAMES", envvar="PERDURE_MCP_PROFILE", help="Sets of tools, separated by commas."
    ),
]


def mcp(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    project_id: ProjectOption = None,
    profile: ProfileOption = "core",
    path: PathOption = None,
) -> None:
    """Serve a memory to an MCP client, which starts this command and speaks to it over standard input and output.

    The scope is given here or in the environment (PERDURE_MCP_USER_ID, ...), and the client's model cannot change it.
    Needs no key, no server and no download. Standard output has nothing but the protocol, so there is no --json. The
    command ends when the client closes its standard input.

    Example: perdure mcp --user-id ana

    Example: claude mcp add perdure -- perdure mcp --user-id ana
    """
    scope = Scope(user_id=user_id, agent_id=agent_id, run_id=run_id, project_id=project_id)
    if not (user_id or agent_id or run_id):
        raise ScopeError(f"{ScopeError.TEXT}: perdure mcp --user-id NAME, or PERDURE_MCP_USER_ID")
    place = folder(path)
    try:
        import_module("mcp.server.lowlevel")  # heavy: `perdure --help` must not wait for it
    except ImportError as error:
        from perdure.backends.registry import missing_driver

        raise missing_driver("mcp", error) from error
    from perdure.frontends.mcp.stdio import serve_stdio

    asyncio.run(serve_stdio(lambda: read_settings(place), scope, [name.strip() for name in profile.split(",")]))
