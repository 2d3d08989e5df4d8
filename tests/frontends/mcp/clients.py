"""Real clients of `perdure mcp`: the official SDK's, over a process's standard input and output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult

PROGRAM = ["-W", "error", "-m", "perdure.frontends.cli.main", "mcp"]
ERAS = ("auto", "legacy")
"""`auto` speaks 2026-07-28 to a server that knows it, `legacy` 2025-11-25."""


def parameters(folder: Path, *more: str, env: dict[str, str] | None = None, user: str = "ana") -> StdioServerParameters:
    """How a client starts the server of a folder; its settings are the hashed embedder's, which loads nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "perdure.toml"
    if not settings.exists():
        settings.write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    scope = ("--user-id", user) if user else ()
    arguments = [*PROGRAM, *scope, "--path", str(folder), *more]
    return StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, **(env or {})})


@asynccontextmanager
async def client_of(folder: Path, *more: str, mode: str = "auto", **given: Any) -> AsyncIterator[Client]:
    """A client of the server of a folder; `given` are `parameters`' and the client's own."""
    own = {name: given.pop(name) for name in ("env", "user") if name in given}
    async with Client(parameters(folder, *more, **own), mode=mode, **given) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """A call that must succeed: its structured answer, which its text repeats."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """A call that must fail: the error in its answer."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    error = json.loads(text_of(result))["error"]
    assert isinstance(error, dict)
    return error


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def texts(client: Client, query: str, **arguments: Any) -> list[str]:
    """What a recall returns."""
    return [each["memory"] for each in (await ask(client, "recall", query=query, **arguments))["results"]]
