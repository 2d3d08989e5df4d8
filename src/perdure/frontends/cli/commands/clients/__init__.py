"""Commands for clients of MCP. Their scope options are here: they may also be in the environment."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def _scope_option(axis: str, who: str) -> Any:
    return typer.Option(
        f"--{axis}-id",
        f"--{axis}",
        metavar="ID",
        envvar=f"PERDURE_MCP_{axis.upper()}_ID",
        help=f"The {who} whose memories the client reaches.",
        rich_help_panel="Scope",
    )


UserOption = Annotated[str | None, _scope_option("user", "user")]
AgentOption = Annotated[str | None, _scope_option("agent", "agent")]
RunOption = Annotated[str | None, _scope_option("run", "session")]
ProjectOption = Annotated[str | None, _scope_option("project", "project")]
