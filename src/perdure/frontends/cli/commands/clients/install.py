"""The command install, which puts perdure into the settings of an agent's client, and takes it out again."""

from __future__ import annotations

import base64
import getpass
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.scope import Scope
from perdure.frontends.cli.commands.clients import AgentOption, ProjectOption, RunOption, UserOption, tools_of
from perdure.frontends.cli.commands.clients.settings_text import (
    NAME,
    Edit,
    Entry,
    json_put,
    json_take,
    parse_json,
    parse_toml,
    parse_yaml,
    toml_put,
    toml_take,
    yaml_put,
    yaml_take,
)
from perdure.frontends.cli.options import DEFAULT_FOLDER, JsonOption, PathOption, folder
from perdure.frontends.cli.output import note, print_json, print_text
from perdure.frontends.hooks.events import DIALECTS

EVENTS = tuple(DIALECTS["claude-code"].events)
"""Events of Claude Code that `perdure hook` answers (docs/hooks.md)."""
CLAUDE_FOLDER = "CLAUDE_CONFIG_DIR"  # where Claude Code keeps a person's settings instead of their home
HOOK_SECONDS = 5  # when Claude Code gives up on a hook, which ends by itself long before
OWN_COMMAND_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Where a client keeps its MCP servers, and the form of an entry.

    Files and forms are those that npm `add-mcp` 2.4.0 writes, checked against its output.
    """

    user: tuple[str, ...]
    """Files of a person, below the home folder; the first that exists is meant, else the first."""
    key: str = "mcpServers"
    project: tuple[str, ...] = ()
    """Files of a project, below the working folder."""
    form: Callable[[list[str]], Entry] = lambda command: {"command": command[0], "args": command[1:]}
    own: Callable[[str, list[str]], list[list[str]]] | None = None
    """The client's own commands that add (a command) or remove (no command) the entry, for "user" or "project"."""


def _zed(command: list[str]) -> Entry:
    return {"source": "custom", "command": command[0], "args": command[1:], "env": {}}


def _opencode(command: list[str]) -> Entry:
    return {"type": "local", "command": command, "environment": {}, "enabled": True}


def _goose(command: list[str]) -> Entry:
    return {
        "name": NAME, "description": "", "cmd": command[0], "args": command[1:],
        "enabled": True, "envs": {}, "type": "stdio", "timeout": 300,
    }  # fmt: skip


def _copilot(command: list[str]) -> Entry:
    return {"type": "stdio", "command": command[0], "args": command[1:], "tools": ["*"]}


def _cline(command: list[str]) -> Entry:
    return {"command": command[0], "args": command[1:], "disabled": False}


def _claude(scope: str, command: list[str]) -> list[list[str]]:
    remove = ["claude", "mcp", "remove", "--scope", scope, NAME]
    return [remove, ["claude", "mcp", "add", "--scope", scope, NAME, "--", *command]] if command else [remove]


def _codex(scope: str, command: list[str]) -> list[list[str]]:
    remove = ["codex", "mcp", "remove", NAME]
    return [] if scope != "user" else [remove, ["codex", "mcp", "add", NAME, "--", *command]] if command else [remove]


_CONFIG = "Library/Application Support" if sys.platform == "darwin" else ".config"
CLIENTS = {
    "claude-code": Client(user=(".claude.json",), project=(".mcp.json",), own=_claude),
    "claude-desktop": Client(user=(f"{_CONFIG}/Claude/claude_desktop_config.json",)),
    "cursor": Client(user=(".cursor/mcp.json",), project=(".cursor/mcp.json",)),
    "vscode": Client(user=(f"{_CONFIG}/Code/User/mcp.json",), project=(".vscode/mcp.json",), key="servers"),
    "codex": Client(user=(".codex/config.toml",), project=(".codex/config.toml",), key="mcp_servers", own=_codex),
    "gemini-cli": Client(user=(".gemini/settings.json",), project=(".gemini/settings.json",)),
    "opencode": Client(
        user=(".config/opencode/opencode.jsonc", ".config/opencode/opencode.json"),
        project=("opencode.jsonc", "opencode.json"),
        key="mcp",
        form=_opencode,
    ),
    "windsurf": Client(user=(".codeium/windsurf/mcp_config.json",)),
    "zed": Client(
        user=(".config/zed/settings.json",), project=(".zed/settings.json",), key="context_servers", form=_zed
    ),
    "cline": Client(
        user=(f"{_CONFIG}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",),
        form=_cline,
    ),
    "copilot-cli": Client(user=(".copilot/mcp-config.json",), project=(".mcp.json",), form=_copilot),
    "goose": Client(user=(".config/goose/config.yaml",), key="extensions", form=_goose),
}


def install(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help=f"One of {', '.join(CLIENTS)}.")],
    *,
    scope: Annotated[
        str, typer.Option("--scope", metavar="user|project", help="Settings of the person, or of this folder.")
    ] = "user",
    hooks: Annotated[bool, typer.Option("--hooks", help="The client's hooks too: memory without tool calls.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print what would be written, and change nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take perdure out of the settings again.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Start the command and list its tools, as a client.")] = False,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    project_id: ProjectOption = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Put perdure into the settings of an agent's client, by the client's own command where it has one.

    A file that is changed is copied beside itself first; other entries and comments stay. --remove takes out the hooks
    too: it restores a file byte for byte if nobody changed it since, and otherwise takes out perdure's part alone.
    Without a scope the memories are those of your user name on this machine.

    Example: perdure install claude-code --hooks

    Example: perdure install cursor --user-id ana --scope project

    Example: perdure install vscode --print
    """
    found = _client(client, scope, hooks)
    Scope(user_id=user_id, agent_id=agent_id, run_id=run_id, project_id=project_id)  # an empty one is refused
    if user_id is None and agent_id is None and run_id is None:
        user_id = getpass.getuser()
    ids = {"user": user_id, "agent": agent_id, "run": run_id, "project": project_id}
    options = [part for axis, value in ids.items() if value for part in (f"--{axis}-id", value)]
    place = folder(path).expanduser().absolute()
    if place != DEFAULT_FOLDER.expanduser().absolute():
        options += ["--path", str(place)]
    server, hook = ([*_program(), verb, *options] for verb in ("mcp", "hook"))
    edits = [_server_edit(found, scope, server)]
    if hooks or (remove and _has_hooks(client, scope)):
        hook = hook if client == "claude-code" else [*hook, "--client", client]
        more = _hooks_edit(client, scope, hook)
        edits = [edits[0].with_more(more)] if more.file == edits[0].file else [edits[0], more]
    if show:
        _show(client, edits, server, as_json)
        return
    if check:
        _tell({"client": client, "command": server, "tools": tools_of(server)}, as_json)
        return
    if not remove and importlib.util.find_spec("mcp") is None:
        from perdure.backends.extras import extra_line  # heavy: `perdure --help` must not wait for it

        note(f"the client's start of perdure mcp fails until its driver is installed: {extra_line('mcp')}")
    for edit in edits:
        edit.check()  # all can be done, or nothing is
    files: dict[str, str] = {}
    own = found.own(scope, [] if remove else server) if found.own is not None else []
    if own and shutil.which(own[0][0]):
        files[own[0][0]] = _by_own_command(own, must_succeed=not remove)
        edits = edits[1:]
    for edit in edits:
        files[str(edit.file)] = edit.remove() if remove else edit.install()
    _tell({"client": client, "changes": files, "command": None if remove else server}, as_json)


def _client(client: str, scope: str, hooks: bool) -> Client:
    found = CLIENTS.get(client)
    if found is None:
        raise InvalidInputError(f"CLIENT must be one of {', '.join(CLIENTS)}, not {client!r}")
    if scope not in ("user", "project"):
        raise InvalidInputError(f"--scope must be user or project, not {scope!r}")
    if scope == "project" and not found.project:
        raise InvalidInputError(f"{client} has no settings of a project: leave out --scope")
    if hooks and client not in HOOKS:
        raise InvalidInputError(f"--hooks are for {', '.join(HOOKS)}: perdure hook does not speak to {client}")
    return found


def _program() -> list[str]:
    """Return how a client that knows no PATH starts this perdure."""
    script = Path(sys.executable).with_name("perdure")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "perdure.frontends.cli.main"]


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for file, change in found.get("changes", {}).items():
        print_text(f"{file}: {change}")
    if "tools" in found:
        print_text(f"{' '.join(found['command'])}: {len(found['tools'])} tools: {', '.join(found['tools'])}")
    elif found["command"]:
        note(f"restart {found['client']}; it starts: {' '.join(found['command'])}")


def _show(client: str, edits: list[Edit], server: list[str], as_json: bool) -> None:
    links = {}
    entry = {"command": server[0], "args": server[1:]}
    if client == "cursor":
        config = quote(base64.b64encode(json.dumps(entry).encode()).decode())
        links["link"] = f"cursor://anysphere.cursor-deeplink/mcp/install?name={NAME}&config={config}"
    if client == "vscode":
        links["link"] = f"vscode:mcp/install?{quote(json.dumps({'name': NAME, **entry}))}"
    if as_json:
        print_json({"client": client, "files": {str(edit.file): edit.fresh() for edit in edits}, **links})
        return
    for edit in edits:
        print_text(f"{edit.file}:\n{edit.fresh()}")
    if links:
        print_text(f"or open this link:\n{links['link']}")


def _by_own_command(commands: list[list[str]], *, must_succeed: bool) -> str:
    """Run a client's own commands; only the last one must succeed: what is removed before may not be there."""
    for command in commands:
        try:
            done = subprocess.run(  # noqa: S603 - the client's own program, and no shell
                command, capture_output=True, text=True, timeout=OWN_COMMAND_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PerdureError(f"{' '.join(command[:3])} cannot be run: {error}") from error
    said = (done.stderr or done.stdout).strip()
    if done.returncode and must_succeed:
        raise PerdureError(f"{' '.join(command[:3])} failed: {said}")
    return said if done.returncode else f"{' '.join(command[1:3])} done"


def _files(client: Client, scope: str) -> list[Path]:
    """Return the files of a client's settings, for "user" or "project"; none that exist need be."""
    names, base = (client.user, Path.home()) if scope == "user" else (client.project, Path.cwd())
    base = Path(os.environ.get(CLAUDE_FOLDER) or base) if client.own is _claude and scope == "user" else base
    return [base / name for name in names]


def installed() -> Iterator[tuple[str, Path, list[str], bool]]:
    """Yield each client that has an entry of perdure's: its name, the file, the command, and whether it may be started.

    A file of the working folder may come with a repository of anybody's: only this perdure is started from one. A file
    that cannot be read is none of perdure's: the client itself says what is wrong with it.
    """
    ours = _program()
    for name, client in CLIENTS.items():
        for scope in ("user", "project"):
            for file in _files(client, scope):
                with suppress(OSError, UnicodeDecodeError, PerdureError):
                    parse = {".toml": parse_toml, ".yaml": parse_yaml}.get(file.suffix, parse_json)
                    servers = parse(file.read_bytes().decode("utf-8")).get(client.key)
                    entry = servers.get(NAME) if isinstance(servers, dict) else None
                    if isinstance(entry, dict) and (command := _command_of(entry)):
                        yield name, file, command, scope == "user" or command[: len(ours) + 1] == [*ours, "mcp"]


def _command_of(entry: Entry) -> list[str]:
    first, more = entry.get("command", entry.get("cmd")), entry.get("args", [])
    parts = first if isinstance(first, list) else [first, *more] if isinstance(more, list) else []
    return parts if all(isinstance(part, str) for part in parts) else []


def _server_edit(client: Client, scope: str, command: list[str]) -> Edit:
    files = _files(client, scope)
    file = next((each for each in files if each.exists()), files[0])
    entry, key = client.form(command), client.key
    if scope == "project" and file.name == ".mcp.json" and "type" not in entry:
        entry = {"type": "stdio", **entry}  # as Claude Code writes it
    if file.suffix == ".toml":
        put, take, parse = toml_put, toml_take, parse_toml
    elif file.suffix == ".yaml":
        put, take, parse = yaml_put, yaml_take, parse_yaml
    else:
        put, take, parse = json_put, json_take, parse_json

    def checked(text: str, edited: str, wanted: Entry | None) -> str:
        if {key: {}, **parse(edited)} != _changed(parse(text), key, wanted):
            raise PerdureError(f"{file} has a form that is not understood: change it by hand (--print); it stays as is")
        return edited

    def has(text: str) -> bool:
        servers = parse(text).get(key)
        return isinstance(servers, dict) and NAME in servers

    def put_in(text: str) -> str:
        held = parse(text).get(key)
        if held is not None and not isinstance(held, dict):
            raise PerdureError(f"{key} in {file} is no table: correct it; nothing was changed")
        if isinstance(held, dict) and held.get(NAME) == entry:
            return text
        return checked(text, put(text, key, entry), entry)

    return Edit(file, put_in, lambda text: checked(text, take(text, key), None) if has(text) else text, has)


def _changed(data: dict[str, Any], key: str, entry: Entry | None) -> dict[str, Any]:
    servers = dict(data.get(key) or {})
    servers.pop(NAME, None)
    return {**data, key: servers if entry is None else {**servers, NAME: entry}}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookForm:
    """Where a client keeps its hooks, and the form of an entry for one command line."""

    user: str
    project: str
    entry: Callable[[str], Entry]
    head: Entry = field(default_factory=dict)
    """What else the file has to have."""
    folder: str | None = None
    """The variable that names the folder of `user` in place of the one in the home folder."""
    is_told: bool = False
    """Whether the command line must name the event, because the client's input does not."""

    def file(self, scope: str) -> Path:
        """Return the file for "user" or "project"."""
        if scope == "project":
            return Path.cwd() / self.project
        own = os.environ.get(self.folder) if self.folder else None
        return Path(own) / Path(self.user).name if own else Path.home() / self.user


def _grouped(seconds: float) -> Callable[[str], Entry]:
    return lambda line: {"hooks": [{"type": "command", "command": line, "timeout": seconds}]}


HOOKS = {
    "claude-code": HookForm(
        user=".claude/settings.json",
        project=".claude/settings.json",
        entry=_grouped(HOOK_SECONDS),
        folder=CLAUDE_FOLDER,
    ),
    "codex": HookForm(
        user=".codex/hooks.json",
        project=".codex/hooks.json",
        entry=_grouped(3),  # the most that Codex gives the end of a session
        folder="CODEX_HOME",
    ),
    "gemini-cli": HookForm(
        user=".gemini/settings.json",
        project=".gemini/settings.json",
        entry=_grouped(HOOK_SECONDS * 1000),  # milliseconds there
    ),
    "cursor": HookForm(
        user=".cursor/hooks.json",
        project=".cursor/hooks.json",
        entry=lambda line: {"command": line},
        head={"version": 1},
    ),
    "copilot-cli": HookForm(
        user=".copilot/hooks/perdure.json",
        project=".github/hooks/perdure.json",
        entry=lambda line: {"type": "command", "bash": line, "timeoutSec": HOOK_SECONDS},
        head={"version": 1},
        is_told=True,
    ),
}
"""Clients with hooks; docs/hooks.md says where the forms come from, and which were tried."""


def _has_hooks(client: str, scope: str) -> bool:
    """Whether perdure's hooks are in a client's file; one that cannot be read has none that could be taken out."""
    if client not in HOOKS:
        return False
    try:
        edit = _hooks_edit(client, scope, [])
        return edit.holds(edit.file.read_bytes().decode("utf-8"))
    except (OSError, UnicodeDecodeError, PerdureError):
        return False


def _hooks_edit(client: str, scope: str, command: list[str]) -> Edit:
    form, names = HOOKS[client], tuple(DIALECTS[client].events)
    file = form.file(scope)

    def line_for(event: str) -> str:
        parts = [*command, "--event", event] if form.is_told else command
        return " ".join(part if re.fullmatch(r"[\w@%+=:,./-]+", part) else json.dumps(part) for part in parts)

    def is_ours(group: Any) -> bool:
        return re.search(r"perdure\S* hook\b", json.dumps(group)) is not None

    def edited(text: str, add: bool) -> str:
        data = parse_json(text)
        if "//" in re.sub(r'"(?:\\.|[^"\\])*"', "", text) or "/*" in re.sub(r'"(?:\\.|[^"\\])*"', "", text):
            raise PerdureError(f"{file} has comments, which would be lost: add the hooks by hand (--print)")
        held = data.get("hooks", {})
        if not isinstance(held, dict):
            raise PerdureError(f"hooks in {file} are no table of lists: correct it; nothing was changed")
        if not all(isinstance(held.get(event, []), list) for event in names):
            raise PerdureError(f"hooks in {file} are no table of lists: correct it; nothing was changed")
        events: dict[str, Any] = dict(held)
        for event in names:
            ours = [form.entry(line_for(event))] if add else []
            events[event] = [*(each for each in held.get(event, []) if not is_ours(each)), *ours]
        kept = {name: groups for name, groups in events.items() if groups or name not in names}
        found = {**(form.head if add else {}), **data, "hooks": kept}
        if not kept:
            del found["hooks"]
        return text if found == data else json.dumps(found, ensure_ascii=False, indent=2) + "\n"

    def has(text: str) -> bool:
        held = parse_json(text).get("hooks")
        lists = [held.get(event) for event in names] if isinstance(held, dict) else []
        return any(is_ours(each) for groups in lists if isinstance(groups, list) for each in groups)

    return Edit(file, lambda text: edited(text, True), lambda text: edited(text, False), has)
