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
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.frontends.cli.commands.clients import AgentOption, ProjectOption, RunOption, UserOption, tools_of
from perdure.frontends.cli.options import DEFAULT_FOLDER, JsonOption, PathOption, folder
from perdure.frontends.cli.output import note, print_json, print_text

NAME = "perdure"
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
"""Events of Claude Code that `perdure hook` answers (docs/hooks.md)."""
BACKUP = ".before-perdure"
"""Ending of the copy of a file as it was before perdure changed it."""
CLAUDE_FOLDER = "CLAUDE_CONFIG_DIR"  # where Claude Code keeps a person's settings instead of their home
HOOK_SECONDS = 5  # when Claude Code gives up on a hook, which ends by itself long before
OWN_COMMAND_SECONDS = 60.0

Entry = dict[str, Any]


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
    hooks: Annotated[bool, typer.Option("--hooks", help="Claude Code's hooks too: memory without tool calls.")] = False,
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

    A file that is changed is copied beside itself first; other entries and comments stay. --remove restores the file
    byte for byte if nobody changed it since, and otherwise takes out perdure's entry alone. Without a scope the
    memories are those of your user name on this machine.

    Example: perdure install claude-code --hooks

    Example: perdure install cursor --user-id ana --scope project

    Example: perdure install vscode --print
    """
    found = _client(client, scope, hooks)
    if not (user_id or agent_id or run_id):
        user_id = getpass.getuser()
    ids = {"user": user_id, "agent": agent_id, "run": run_id, "project": project_id}
    options = [part for axis, value in ids.items() if value for part in (f"--{axis}-id", value)]
    place = folder(path).expanduser().absolute()
    if place != DEFAULT_FOLDER.expanduser().absolute():
        options += ["--path", str(place)]
    server, hook = ([*_program(), verb, *options] for verb in ("mcp", "hook"))
    edits = [_server_edit(found, scope, server)]
    if hooks:
        edits.append(_hooks_edit(scope, hook))
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
    if hooks and client != "claude-code":
        raise InvalidInputError(f"--hooks are for claude-code: perdure hook does not speak to {client} yet")
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


# ---------------------------------------------------------------- a file and what is put into it


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one settings file that can be taken back; both functions return a file's new text."""

    file: Path
    put: Callable[[str], str]
    take: Callable[[str], str]
    holds: Callable[[str], bool]

    def fresh(self) -> str:
        """Return the text of the file if it had nothing else."""
        return self.put("")

    def check(self) -> None:
        """Raise PerdureError if the file has a form that cannot be changed."""
        self.put(self._text() or "")

    def install(self) -> str:
        """Write the entry; "written", or "unchanged" if it is there as it should be."""
        old = self._text()
        new = self.put(old or "")
        if new == old:
            return "unchanged"
        if old is not None and not self.holds(old):  # a second install keeps the copy of the first
            self._write(self.backup, old)
        self._write(self.file, new)
        return "written"

    def remove(self) -> str:
        """Take the entry out: "removed", "restored" byte for byte, or "not there"."""
        now = self._text()
        if now is None or not self.holds(now):
            return "not there"
        before = self.backup.read_bytes().decode("utf-8", "replace") if self.backup.is_file() else None
        if before is not None and not self.holds(before) and self._is_ours(before, now):
            self._write(self.file, before)
            self.backup.unlink()
            return "restored"
        if before is None and self._is_ours("", now):
            self.file.unlink()
            return "removed with its file, which had nothing else"
        self._write(self.file, self.take(now))
        return "removed"

    @property
    def backup(self) -> Path:
        """The file's copy."""
        return self.file.with_name(self.file.name + BACKUP)

    def _is_ours(self, before: str, now: str) -> bool:
        """Whether a text is the one before and the entry that stands in it now, whatever its options."""
        try:
            return self.take(self.put(before)) == self.take(now)
        except PerdureError:
            return False

    def _text(self) -> str | None:
        try:
            return self.file.read_bytes().decode("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise PerdureError(f"{self.file} cannot be read: {error}; nothing was changed") from error

    def _write(self, file: Path, text: str) -> None:
        try:
            target = file.resolve()  # a link to a folder of dotfiles stays one
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            part.write_bytes(text.encode("utf-8"))
            if target.exists():
                shutil.copymode(target, part)
            elif self.file.exists():
                shutil.copymode(self.file, part)
            part.replace(target)
        except OSError as error:
            raise PerdureError(f"{file} cannot be written: {error}") from error


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
                    parse = {".toml": _parse_toml, ".yaml": _parse_yaml}.get(file.suffix, _parse_json)
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
        put, take, parse = _toml_put, _toml_take, _parse_toml
    elif file.suffix == ".yaml":
        put, take, parse = _yaml_put, _yaml_take, _parse_yaml
    else:
        put, take, parse = _json_put, _json_take, _parse_json

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


def _hooks_edit(scope: str, command: list[str]) -> Edit:
    own = os.environ.get(CLAUDE_FOLDER) if scope == "user" else None
    file = Path(own or (Path.home() if scope == "user" else Path.cwd()) / ".claude") / "settings.json"
    line = " ".join(part if re.fullmatch(r"[\w@%+=:,./-]+", part) else json.dumps(part) for part in command)
    hook = {"hooks": [{"type": "command", "command": line, "timeout": HOOK_SECONDS}]}

    def is_ours(group: Any) -> bool:
        held = group.get("hooks", []) if isinstance(group, dict) else []
        return any(re.search(r"perdure\S* hook\b", str(each.get("command"))) for each in held if isinstance(each, dict))

    def edited(text: str, add: bool) -> str:
        data = _parse_json(text)
        if "//" in re.sub(r'"(?:\\.|[^"\\])*"', "", text) or "/*" in re.sub(r'"(?:\\.|[^"\\])*"', "", text):
            raise PerdureError(f"{file} has comments, which would be lost: add the hooks by hand (--print)")
        held = data.get("hooks", {})
        if not isinstance(held, dict) or not all(isinstance(groups, list) for groups in held.values()):
            raise PerdureError(f"hooks in {file} are no table of lists: correct it; nothing was changed")
        events: dict[str, Any] = {name: [each for each in held[name] if not is_ours(each)] for name in held}
        for event in EVENTS if add else ():
            events[event] = [*events.get(event, []), hook]
        found = {**data, "hooks": {name: groups for name, groups in events.items() if groups or name not in EVENTS}}
        if not found["hooks"]:
            del found["hooks"]
        return text if found == data else json.dumps(found, ensure_ascii=False, indent=2) + "\n"

    def has(text: str) -> bool:
        held = _parse_json(text).get("hooks")
        return isinstance(held, dict) and any(
            is_ours(each) for groups in held.values() if isinstance(groups, list) for each in groups
        )

    return Edit(file, lambda text: edited(text, True), lambda text: edited(text, False), has)


# ---------------------------------------------------------------- JSON with comments

_TOKENS = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[\s\S]*?\*/|[{}\[\],:]|[^\s{}\[\],:"/]+|\S')
Token = re.Match[str]


def _tokens(text: str) -> list[Token]:
    return [token for token in _TOKENS.finditer(text) if not token.group().startswith(("//", "/*"))]


def _parse_json(text: str) -> dict[str, Any]:
    """Return the object of a text that may have comments and a comma after the last member."""
    tokens = [token.group() for token in _tokens(text)]
    plain = " ".join(
        part for part, after in zip(tokens, [*tokens[1:], ""], strict=False) if part != "," or after not in ("}", "]")
    )
    try:
        found = json.loads(plain or "{}")
    except ValueError as error:
        raise PerdureError(f"the settings are not JSON: {error}; correct them first, nothing was changed") from error
    if not isinstance(found, dict):
        raise PerdureError("the settings are no JSON object; correct them first, nothing was changed")
    return found


def _members(tokens: list[Token], at: int) -> Iterator[tuple[int, int, int]]:
    """Yield the places of each member's name, first and last token, of the object that opens at a place."""
    place = at + 1
    while tokens[place].group() != "}":
        if tokens[place].group() == ",":
            place += 1
            continue
        first = last = place + 2
        depth = 0
        while True:
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(tokens[last].group(), 0)
            if depth == 0:
                break
            last += 1
        yield place, first, last
        place = last + 1


def _member(tokens: list[Token], at: int, name: str) -> tuple[int, int, int] | None:
    return next((each for each in _members(tokens, at) if json.loads(tokens[each[0]].group()) == name), None)


def _json_put(text: str, key: str, entry: Entry) -> str:
    if not text.strip():
        return json.dumps({key: {NAME: entry}}, ensure_ascii=False, indent=2) + "\n"
    tokens = _tokens(text)
    first = next(iter(_members(tokens, 0)), None)
    start = text.rfind("\n", 0, tokens[first[0]].start()) + 1 if first is not None else 0
    lead = text[start : tokens[first[0]].start()] if first is not None else ""
    unit = lead if lead and not lead.strip() else "  "
    servers = _member(tokens, 0, key)
    if servers is None:
        return _inserted(text, tokens[0].end(), f"{json.dumps(key)}: {_lines({NAME: entry}, unit, 1)}", (unit, 1))
    held = _member(tokens, servers[1], NAME)
    value = _lines(entry, unit, 2)
    if held is not None:
        return text[: tokens[held[1]].start()] + value + text[tokens[held[2]].end() :]
    return _inserted(text, tokens[servers[1]].end(), f'"{NAME}": {value}', (unit, 2))


def _lines(value: Any, unit: str, depth: int) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + unit * depth)


def _inserted(text: str, at: int, member: str, indent: tuple[str, int]) -> str:
    """Return a text with a member put first into the object that opens just before a place."""
    unit, depth = indent
    line, rest = "\n" + unit * depth, text[at:]
    if _tokens(rest)[0].group() == "}":
        is_open = rest.startswith(("\n", "\r"))
        return text[:at] + line + member + (rest if is_open else "\n" + unit * (depth - 1) + rest.lstrip(" "))
    return text[:at] + line + member + "," + ("" if rest.startswith(("\n", "\r")) else line) + rest


def _json_take(text: str, key: str) -> str:
    tokens = _tokens(text)
    servers = _member(tokens, 0, key)
    held = _member(tokens, servers[1], NAME) if servers is not None else None
    if held is None:
        return text
    name, _, last = held
    if tokens[last + 1].group() == ",":
        return text[: tokens[name - 1].end()] + text[tokens[last + 1].end() :]
    start = tokens[name - 1].start() if tokens[name - 1].group() == "," else tokens[name - 1].end()
    return text[:start] + text[tokens[last].end() :]


# ---------------------------------------------------------------- TOML and YAML, a block of lines


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PerdureError(f"the settings are not TOML: {error}; correct them first, nothing was changed") from error


_TOML_BLOCK = r'^\n?\[KEY\.(?:perdure|"perdure")(?:\.[^\]\n]*)?\][^\n]*(?:\n(?!\s*\[)[^\n]*)*\n?'


def _toml_put(text: str, key: str, entry: Entry) -> str:
    text = _toml_take(text, key)
    block = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in entry.items())
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{key}.{NAME}]\n{block}"


def _toml_take(text: str, key: str) -> str:
    return re.sub(_TOML_BLOCK.replace("KEY", re.escape(key)), "", text, flags=re.MULTILINE)


def _parse_yaml(text: str) -> dict[str, Any]:
    """Return the blocks below the top names, as lines: enough to see that only ours has changed."""
    found: dict[str, Any] = {}
    held: dict[str, Any] = found
    for block in re.split(r"^(?=[^\s#])", text, flags=re.MULTILINE):
        name, _, rest = block.partition(":")
        if name.strip() != "extensions":
            held[name] = rest
            continue
        if rest.split("\n")[0].split("#")[0].strip() not in ("", "{}"):
            raise PerdureError("extensions are on one line: give each a line of its own; nothing was changed")
        body = rest.partition("\n")[2]
        indent = re.search(r"^( +)[^\s#]", body, flags=re.MULTILINE)
        parts = re.split(rf"^{indent.group(1)}(?=[^\s#-])", body, flags=re.MULTILINE) if indent else []
        held["extensions"] = {
            each.partition(":")[0]: _yaml_entry(each.partition(":")[2]) for each in parts if ":" in each
        }
    return found


def _yaml_entry(body: str) -> dict[str, Any] | str:
    """Return an entry whose values are JSON, as ours are; else its text."""
    try:
        return {
            name.strip(): json.loads(value)
            for name, _, value in (line.partition(":") for line in body.strip().splitlines())
        }
    except ValueError:
        return body


def _yaml_put(text: str, key: str, entry: Entry) -> str:
    text = _yaml_take(text, key)
    head = re.search(rf"^{key}:[ \t]*(\{{\}})?[ \t]*(#[^\n]*)?(?:\n|\Z)", text, flags=re.MULTILINE)
    child = re.match(r"(?:[ \t]*(?:#[^\n]*)?\n)*( +)\S", text[head.end() :]) if head else None
    indent = child.group(1) if child else "  "
    lines = [f"{indent}{NAME}:", *(f"{indent}  {name}: {json.dumps(value)}" for name, value in entry.items())]
    block = "\n".join(lines) + "\n"
    if head is None:
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{key}:\n{block}"
    opening = head.group().replace("{}", "").rstrip() + "\n"
    return text[: head.start()] + opening + block + text[head.end() :]


def _yaml_take(text: str, key: str) -> str:
    found = re.search(rf"^( +){NAME}:[ \t]*\n(?:\1 +[^\n]*\n?)*", text, flags=re.MULTILINE)
    return text if found is None else text[: found.start()] + text[found.end() :]
