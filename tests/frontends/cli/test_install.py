"""`perdure install`: entries as clients read them, foreign entries and comments kept, and everything taken back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.errors import PerdureError
from perdure.frontends.cli.commands.clients.install import CLIENTS, HOOKS, Client
from perdure.frontends.cli.commands.clients.settings_text import BACKUP, NAME, Edit, json_put, json_take, parse_json
from perdure.frontends.hooks.events import DIALECTS
from tests.frontends.cli.runs import Ran, perdure

SERVERS = {"other": {"command": "npx", "args": ["-y", "other"]}}
JSON = """{
    // what I like
    "theme": "dark", /* and "mcpServers" here is no key */
    "KEY": {
        "other": {"command": "npx", "args": ["-y", "other"]}, // keep
    },
    "last": [1, 2, {"a": "}"}],
}
"""
TOML = """model = "o5"  # mine

[mcp_servers.other]
command = "npx"
args = ["-y", "other"]

[profiles.work]
model = "o4"
"""
YAML = """GOOSE_MODEL: x  # mine
extensions:
    other:
        cmd: npx
        args:
            - -y
        enabled: true
later: 1
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without a client's own programs."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def install(*arguments: str) -> Ran:
    done = perdure("install", *arguments)
    assert done.status == 0, done.err
    return done


def file_of(home: Path, client: Client) -> Path:
    return home / client.user[0]


def parsed(file: Path) -> Any:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".toml":
        return tomllib.loads(text)
    if file.suffix == ".yaml":
        return pytest.importorskip("yaml").safe_load(text)
    return parse_json(text)


def foreign(client: Client) -> str:
    """Settings with a foreign server, comments and other matters."""
    suffix = Path(client.user[0]).suffix
    return {".toml": TOML, ".yaml": YAML}.get(suffix, JSON.replace('"KEY"', json.dumps(client.key)))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_file_is_made_and_goes_again(home: Path, name: str) -> None:
    client = CLIENTS[name]
    install(name, "--user-id", "ana")
    entry = parsed(file_of(home, client))[client.key][NAME]
    command = entry.get("command", entry.get("cmd"))
    whole = command if isinstance(command, list) else [command, *entry["args"]]
    assert whole[-3:] == ["mcp", "--user-id", "ana"]
    assert Path(whole[0]).is_absolute()
    assert "unchanged" in install(name, "--user-id", "ana").out
    install(name, "--remove", "--user-id", "ana")
    assert not file_of(home, client).exists()
    assert "not there" in install(name, "--remove").out


@pytest.mark.parametrize("name", CLIENTS)
def test_what_else_is_there_stays_and_comes_back_byte_for_byte(home: Path, name: str) -> None:
    client = CLIENTS[name]
    file = file_of(home, client)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = foreign(client)
    file.write_bytes(before.encode())
    file.chmod(0o600)
    install(name, "--user-id", "ana")
    assert parsed(file)[client.key].keys() == {NAME, "other"}
    assert all(line.strip() in file.read_text() for line in before.splitlines())
    assert file.with_name(file.name + BACKUP).read_text() == before
    assert {path.stat().st_mode & 0o777 for path in (file, file.with_name(file.name + BACKUP))} == {0o600}
    assert "restored" in install(name, "--remove", "--user-id", "ben").out, "other options, the same entry"
    assert file.read_bytes() == before.encode()
    assert sorted(path.name for path in file.parent.iterdir() if path.is_file()) == [file.name]


@pytest.mark.parametrize("name", CLIENTS)
def test_what_was_changed_since_stays_when_the_entry_goes(home: Path, name: str) -> None:
    client = CLIENTS[name]
    file = file_of(home, client)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(foreign(client))
    install(name)
    changed = file.read_text().replace("npx", "uvx")
    file.write_text(changed)
    assert "removed" in install(name, "--remove").out
    assert parsed(file)[client.key].keys() == {"other"}
    assert file.read_text().count("uvx") == 1


def test_a_second_install_with_other_options_replaces_the_first(home: Path) -> None:
    for who in ("ana", "ben"):
        install("cursor", "--user-id", who)
    servers = parsed(home / ".cursor/mcp.json")["mcpServers"]
    assert list(servers) == [NAME]
    assert servers[NAME]["args"][-1] == "ben"


def test_the_folder_and_the_project_are_given_on(home: Path) -> None:
    done = install("gemini-cli", "--user-id", "ana", "--scope", "project", "--path", "memo", "--json")
    file = Path.cwd() / ".gemini/settings.json"
    assert done.json["changes"] == {str(file): "written"}
    args = parsed(file)["mcpServers"][NAME]["args"]
    assert args[-2:] == ["--path", str(Path.cwd() / "memo")]
    assert not (home / ".gemini").exists()


def test_without_a_scope_it_is_the_person_of_this_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "frida")
    install("cursor")
    assert parsed(home / ".cursor/mcp.json")["mcpServers"][NAME]["args"] == ["mcp", "--user-id", "frida"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["emacs"], "CLIENT must be one of claude-code"),
        (["cursor", "--scope", "world"], "--scope must be user or project, not 'world'"),
        (["windsurf", "--scope", "project"], "no settings of a project"),
        (["zed", "--hooks"], "--hooks are for claude-code, codex"),
        (["cursor", "--user-id", ""], "user_id must have 1 to 1024 characters"),
    ],
)
def test_what_cannot_be_is_refused(home: Path, arguments: list[str], said: str) -> None:
    done = perdure("install", *arguments)
    assert done.status != 0
    assert said in done.err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("cursor", "{", "not JSON"),
        ("cursor", "[]", "no JSON object"),
        ("cursor", '{"mcpServers": []}', "no table"),
        ("cursor", '{"mcpServers": {"a": 1} "b": 2}', "not JSON"),
        ("codex", "a = [", "not TOML"),
        ("goose", "extensions: {other: {cmd: npx}}\n", "on one line"),
        ("cursor", b"\xff\xfe{}", "cannot be read"),
    ],
)
def test_a_file_that_is_not_understood_stays(home: Path, name: str, text: str | bytes, said: str) -> None:
    file = file_of(home, CLIENTS[name])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = perdure("install", name)
    assert done.status != 0
    assert said in done.err and str(file) in done.err
    assert file.read_bytes() == (text if isinstance(text, bytes) else text.encode())
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_print_changes_nothing(home: Path) -> None:
    assert '"mcpServers"' in install("claude-code", "--hooks", "--print").out
    assert "cursor://anysphere.cursor-deeplink/mcp/install?name=perdure&config=" in install("cursor", "--print").out
    assert install("vscode", "--print", "--json").json["link"].startswith("vscode:mcp/install?%7B")
    assert list(home.iterdir()) == []


def test_hooks_stand_beside_other_hooks(home: Path) -> None:
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    before = json.dumps({"model": "x", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}})
    file.write_text(before)
    for _ in range(2):
        install("claude-code", "--hooks", "--user-id", "ana")
    held = json.loads(file.read_text())
    assert held["model"] == "x"
    assert {event: len(groups) for event, groups in held["hooks"].items()} == {
        "Stop": 2, "SessionStart": 1, "UserPromptSubmit": 1, "SessionEnd": 1,
    }  # fmt: skip
    assert held["hooks"]["Stop"][1]["hooks"][0]["command"].endswith("hook --user-id ana")
    install("claude-code", "--remove")  # all that it put in, and none of what others did
    assert file.read_text() == before


def test_claude_codes_own_folder_is_where_it_reads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "settings"))
    install("claude-code", "--hooks")
    assert sorted(path.name for path in (home / "settings").iterdir()) == [".claude.json", "settings.json"]
    install("claude-code", "--hooks", "--scope", "project")
    assert (Path.cwd() / ".claude/settings.json").is_file()
    assert [path.name for path in home.iterdir()] == ["settings"]


def test_hooks_do_not_cost_a_comment(home: Path) -> None:
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text('{"a": "http://x"} // mine\n')
    done = perdure("install", "claude-code", "--hooks")
    assert done.status != 0
    assert "comments" in done.err
    assert file.read_text() == '{"a": "http://x"} // mine\n'
    assert not (home / ".claude.json").exists(), "all or nothing"


def test_a_clients_own_command_comes_first(home: Path) -> None:
    programs, log = home.parent / "programs", home.parent / "log"
    programs.mkdir()
    script = programs / "claude"
    script.write_text(
        f'#!{sys.executable}\nimport sys\nopen({str(log)!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")\n'
    )
    script.chmod(0o755)
    install("claude-code", "--user-id", "ana")
    remove, add = log.read_text().splitlines()
    assert remove == "mcp remove --scope user perdure"
    assert add.startswith("mcp add --scope user perdure -- /") and add.endswith("mcp --user-id ana")
    assert not (home / ".claude.json").exists()
    script.write_text(f"#!{sys.executable}\nraise SystemExit('no such scope')\n")
    done = perdure("install", "claude-code")
    assert done.status != 0
    assert "claude mcp add failed: no such scope" in done.err
    assert "no such scope" in install("claude-code", "--remove").out, "nothing to remove is no failure"


def test_a_link_to_a_file_stays_a_link(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles/mcp.json").write_text("{}\n")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(home / "dotfiles/mcp.json")
    install("cursor")
    assert (home / ".cursor/mcp.json").is_symlink()
    assert NAME in parsed(home / "dotfiles/mcp.json")["mcpServers"]
    install("cursor", "--user-id", "another")
    assert "restored" in install("cursor", "--remove").out, "also after a second install"
    assert (home / ".cursor/mcp.json").is_symlink()
    assert (home / "dotfiles/mcp.json").read_text() == "{}\n"


def test_doctor_starts_each_entry(home: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    perdure("add", "I live in Lisbon", "--user-id", "ana", "--path", str(memory))
    for name in CLIENTS:
        install(name, "--user-id", "ana", "--path", str(memory))
    install("cursor", "--user-id", "ben", "--scope", "project", "--path", str(memory))
    done = perdure("doctor", "--json", "--path", str(memory))
    assert done.status == 0, done.out
    told = done.json["clients"]
    assert sorted(each["client"] for each in told) == sorted([*CLIENTS, "cursor"])
    assert {each["tools"] for each in told} == {8}
    assert {each["error"] for each in told} == {None}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/perdure", "mcp"], "cannot be started"),
        ([sys.executable, "-c", "print('hello')"], "ended without an answer"),
    ],
)
def test_doctor_fails_for_an_entry_that_does_not_answer(
    home: Path, tmp_path: Path, command: list[str], said: str
) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    perdure("add", "I live in Lisbon", "--user-id", "ana", "--path", str(memory))
    (home / ".cursor").mkdir()
    servers = {"mcpServers": {NAME: {"command": command[0], "args": command[1:]}, "other": {"command": "/bin/false"}}}
    (home / ".cursor/mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text("no JSON", encoding="utf-8")
    done = perdure("doctor", "--path", str(memory))
    assert done.status == 1
    (line,) = [line for line in done.out.splitlines() if line.startswith("cursor ")]
    assert said in line


def test_doctor_starts_no_program_that_a_folders_file_names(home: Path, tmp_path: Path) -> None:
    """The working folder may be a repository of anybody's."""
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    perdure("add", "I live in Lisbon", "--user-id", "ana", "--path", str(memory))
    servers = {"mcpServers": {NAME: {"command": "/bin/sh", "args": ["-c", f"touch {tmp_path}/started"]}}}
    (Path.cwd() / ".mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    done = perdure("doctor", "--path", str(memory))
    assert (done.status, (tmp_path / "started").exists()) == (0, False)
    assert "claude-code" in done.out and "not started" in done.out


def test_check_speaks_to_the_server_as_a_client_does(home: Path) -> None:
    pytest.importorskip("mcp")
    tools = install("cursor", "--check", "--user-id", "ana", "--json").json["tools"]
    assert {"recall", "remember", "forget"} <= set(tools)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda held: st.lists(held, max_size=3) | st.dictionaries(st.text(max_size=5), held, max_size=3),
    max_leaves=8,
)


@given(
    other=st.dictionaries(st.text(max_size=6).filter(lambda name: name != "mcpServers"), VALUES, max_size=4),
    servers=st.none() | st.dictionaries(st.text(max_size=6).filter(lambda name: name != NAME), VALUES, max_size=3),
    indent=st.sampled_from([None, 1, 2, "\t"]),
    is_first=st.booleans(),
)
def test_any_json_keeps_what_it_holds(
    other: dict[str, Any], servers: dict[str, Any] | None, indent: int | str | None, is_first: bool
) -> None:
    mine = {} if servers is None else {"mcpServers": servers}
    data = {**mine, **other} if is_first else {**other, **mine}
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    put = json_put(text, "mcpServers", {"command": "x", "args": ["}", '"']})
    assert json.loads(put) == {**data, "mcpServers": {**(servers or {}), NAME: {"command": "x", "args": ["}", '"']}}}
    again = json_put(put, "mcpServers", {"command": "y"})
    assert json.loads(again)["mcpServers"][NAME] == {"command": "y"}
    assert json.loads(json_take(again, "mcpServers")) == {**data, "mcpServers": servers or {}}


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.json"
    file.write_text("old")
    same: Callable[[str], str] = lambda text: text  # noqa: E731 - a function without a name is plainest here

    def broken(self: Path, target: Path) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(PerdureError, match="no space"):
        Edit(file, lambda _: "new", same, lambda _: False).install()
    assert file.read_text() == "old"


@pytest.mark.skipif(shutil.which("add-mcp") is None, reason="no add-mcp on this machine (npm install -g add-mcp@2.4.0)")
@pytest.mark.parametrize("name", CLIENTS)
def test_entries_equal_those_of_add_mcp(tmp_path: Path, name: str) -> None:
    env = {**os.environ, "HOME": str(tmp_path / "theirs")}
    (tmp_path / "theirs").mkdir()
    theirs = {"copilot-cli": "github-copilot-cli"}.get(name, name)
    command = ["add-mcp", "/opt/perdure", "-n", NAME, "-g", "-y", "-a", theirs]
    for part in ("mcp", "--user-id", "ana"):
        command += [f"--args={part}"]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=60, cwd=tmp_path)
    client = CLIENTS[name]
    entry = client.form(["/opt/perdure", "mcp", "--user-id", "ana"])
    assert parsed(tmp_path / "theirs" / client.user[0])[client.key][NAME] == entry


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_hooks_of_a_client_come_with_its_server_and_go_with_it(home: Path, name: str, scope: str) -> None:
    form, events = HOOKS[name], tuple(DIALECTS[name].events)
    file = (home if scope == "user" else home.parent / "project") / (form.user if scope == "user" else form.project)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = json.dumps({**form.head, "hooks": {events[2]: [form.entry("say done")], "another": [{"x": 1}]}})
    file.write_text(before, encoding="utf-8")
    for _ in range(2):
        install(name, "--hooks", "--user-id", "ana", "--scope", scope)
    held = json.loads(file.read_text(encoding="utf-8"))
    assert {event: len(each) for event, each in held["hooks"].items()} == {
        **dict.fromkeys(events, 1), events[2]: 2, "another": 1,
    }  # fmt: skip
    told = json.dumps(held["hooks"][events[1]])
    assert "hook --user-id ana" in told
    assert ("--client" in told) == (name != "claude-code")
    assert (f"--event {events[1]}" in told) == form.is_told
    install(name, "--hooks", "--remove", "--scope", scope)
    assert file.read_text(encoding="utf-8") == before
    install(name, "--hooks", "--scope", scope)
    install(name, "--remove", "--scope", scope)
    assert file.read_text(encoding="utf-8") == before
    file.unlink()
    install(name, "--hooks", "--scope", scope)
    assert file.is_file()
    install(name, "--remove", "--scope", scope)
    assert not file.exists()


def test_a_hooks_file_without_ours_does_not_keep_the_server_from_going(home: Path) -> None:
    install("claude-code", "--user-id", "ana")
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    for text in ('{"a": 1} // mine\n', "no settings at all", '{"hooks": []}'):
        file.write_text(text)
        install("claude-code", "--user-id", "ana")
        told = install("claude-code", "--remove", "--json").json["changes"]
        assert [*told] == [str(home / ".claude.json")]
        assert file.read_text() == text


def test_codex_keeps_its_hooks_where_it_is_told_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    install("codex", "--hooks")
    assert "Stop" in json.loads((home / "elsewhere/hooks.json").read_text())["hooks"]


def test_hooks_that_are_no_table_stay_as_they_are(home: Path) -> None:
    (home / ".cursor").mkdir()
    for wrong in ('{"hooks": []}', '{"hooks": {"sessionStart": 1}}'):
        (home / ".cursor/hooks.json").write_text(wrong)
        done = perdure("install", "cursor", "--hooks")
        assert done.status == 1 and "no table of lists" in done.err
        assert (home / ".cursor/hooks.json").read_text() == wrong
        assert not (home / ".cursor/mcp.json").exists()
