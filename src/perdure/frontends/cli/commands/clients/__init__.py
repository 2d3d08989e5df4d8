"""Commands for clients of MCP. Their scope options are here, which may also be in the environment, and a client's first
words."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import Annotated, Any

import typer

from perdure.domain.errors import PerdureError

CHECK_SECONDS = 30.0


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


def tools_of(command: list[str]) -> list[str]:
    """Start a server as a client does, and return the names of its tools; PerdureError if it does not answer."""
    hello = {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "perdure-check", "version": "1"},
    }  # fmt: skip
    said = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    import subprocess  # a client that starts perdure mcp waits for these modules

    try:
        server = subprocess.Popen(  # noqa: S603 - what a client would start, and no shell
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
        )
    except OSError as error:
        raise PerdureError(f"{command[0]} cannot be started: {error}") from error
    late = threading.Timer(CHECK_SECONDS, server.kill)
    late.start()
    try:
        with server, suppress(BrokenPipeError):
            assert server.stdin is not None and server.stdout is not None
            server.stdin.write("".join(json.dumps(each) + "\n" for each in said))
            server.stdin.flush()
            for line in server.stdout:
                with suppress(ValueError):  # what is no JSON is not the protocol
                    answer = json.loads(line)
                    if isinstance(answer, dict) and answer.get("id") == len(said) - 1 and "result" in answer:
                        return sorted(tool["name"] for tool in answer["result"]["tools"])
    finally:
        late.cancel()
    raise PerdureError(f"it ended without an answer, run it to see why: {' '.join(command)}")
