"""The files by which registries and clients find perdure's MCP server; docs/generate.py writes and checks them.

Name, version, command and events are the code's own, so that no file of these can say something else.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from perdure.frontends.cli.commands.clients.install import EVENTS, HOOK_SECONDS
from perdure.frontends.cli.commands.clients.settings_text import NAME as ENTRY
from perdure.frontends.mcp.server import NAME
from perdure.frontends.mcp.tool import tools_of

ROOT = Path(__file__).parents[1]
REGISTERED = "io.github.perdure/perdure"
"""The server's name in the MCP registry: who publishes it must own the namespace. README.md repeats it."""
SUMMARY = "Long-term memory for AI agents on your own machine: kept, corrected, recalled, forgotten. No key."
"""At most 100 characters, as the registry asks."""
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
USER = "${USER:-me}"
"""The person of this machine, as Claude Code and a shell read it; `perdure install` takes the same name."""


def discovery_files() -> dict[Path, str]:
    """Return each file and its text."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    author = {"name": project["authors"][0]["name"]}
    about = {"name": ENTRY, "version": project["version"], "description": SUMMARY, "author": author}
    about |= {"license": project["license"], "keywords": project["keywords"]}
    plugin = ROOT / "plugins/perdure"
    found: dict[Path, Any] = {
        ROOT / "server.json": registry_entry(project["version"]),
        ROOT / ".claude-plugin/marketplace.json": {
            "name": NAME,
            "owner": author,
            "metadata": {"description": SUMMARY, "version": project["version"]},
            "plugins": [{**about, "source": "./plugins/perdure", "category": "productivity"}],
        },
        plugin / ".claude-plugin/plugin.json": about,
        plugin / ".mcp.json": {"mcpServers": {ENTRY: {"command": NAME, "args": ["mcp", "--user-id", USER]}}},
        plugin / "hooks/hooks.json": {"description": "Recall and capture without a tool call", "hooks": hooks()},
        ROOT / "plugins/mcpb/manifest.json": bundle(about),
    }
    texts = {file: json.dumps(value, ensure_ascii=False, indent=2) + "\n" for file, value in found.items()}
    requirement = f"{project['name']}[minilm,mcp]=={project['version']}"
    texts[ROOT / "plugins/mcpb/pyproject.toml"] = (
        f'[project]\nname = "{ENTRY}-bundle"\nversion = "{project["version"]}"\n'
        f'requires-python = "{project["requires-python"]}"\ndependencies = ["{requirement}"]\n'
    )
    return texts


def registry_entry(version: str) -> dict[str, Any]:
    """Return what the MCP registry is told."""
    user = {"description": "Whose memories the client reaches", "isRequired": True, "placeholder": "ana"}
    return {
        "$schema": SERVER_SCHEMA,
        "name": REGISTERED,
        "title": "perdure memory",
        "description": SUMMARY,
        "version": version,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": NAME,
                "version": version,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {"type": "positional", "value": "mcp"},
                    {"type": "named", "name": "--user-id", **user},
                ],
                "environmentVariables": [
                    {"name": "PERDURE_PATH", "description": "Folder of the memory", "format": "filepath"}
                ],
            }
        ],
    }


def hooks() -> dict[str, Any]:
    """Return the plugin's hooks: where perdure is not installed, they do nothing."""
    command = f'if command -v {NAME} >/dev/null; then {NAME} hook --user-id "{USER}"; fi'
    hook = {"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]}
    return {event: [hook] for event in EVENTS}


def bundle(about: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of the `.mcpb`, whose needs uv installs when it is started first."""
    run = ["run", "--directory", "${__dirname}", "server.py", "--user-id", "${user_config.user_id}"]
    return {
        "manifest_version": "0.4",
        **about,
        "display_name": "perdure memory",
        "server": {"type": "uv", "entry_point": "server.py", "mcp_config": {"command": "uv", "args": run, "env": {}}},
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools_of(("core",))],
        "user_config": {
            "user_id": {
                "type": "string",
                "title": "Your name",
                "description": "Whose memories this client reaches",
                "required": True,
                "default": "me",
            }
        },
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": ">=3.11"}},
    }
