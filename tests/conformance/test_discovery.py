"""The files by which registries and clients find perdure: what they start answers, and validators of others agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from perdure.frontends.cli.commands.clients import tools_of as tools_behind
from perdure.frontends.cli.commands.clients.install import EVENTS
from perdure.frontends.mcp.tool import tools_of
from tests.conformance.programs import QUIET, needs, program

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins/perdure"
BUNDLE = ROOT / "plugins/mcpb"
CLAUDE, MCPB, LINT = program("claude"), program("mcpb"), program("skillsaw")
PATH = os.environ["PATH"]
CORE = sorted(tool.name for tool in tools_of(("core",)))
HASHED = {"PERDURE_EMBEDDER__PROVIDER": "hashed"}


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with this perdure, whose memory is in a home of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    own = folder / "perdure"
    own.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error -m perdure.frontends.cli.main "$@"\n')
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{PATH}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USER", "ana")
    for name, value in HASHED.items():
        monkeypatch.setenv(name, value)
    return folder


def expanded(text: str) -> str:
    """A text as Claude Code and a shell read it: `${NAME:-other}`."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: os.environ.get(found[1]) or found[2], text)


def test_the_plugins_server_answers(programs: Path) -> None:
    (entry,) = read(PLUGIN / ".mcp.json")["mcpServers"].values()
    command = [expanded(part) for part in (entry["command"], *entry["args"])]
    assert command == ["perdure", "mcp", "--user-id", "ana"]
    assert tools_behind(command) == CORE


def test_the_registrys_entry_starts_the_server(programs: Path) -> None:
    (package,) = read(ROOT / "server.json")["packages"]
    command = [package["identifier"]]
    for argument in package["packageArguments"]:
        given = argument.get("value") or argument["placeholder"]
        command += [given] if argument["type"] == "positional" else [argument["name"], given]
    assert tools_behind(command) == CORE


def test_the_readme_owns_the_registered_name() -> None:
    assert f"mcp-name: {read(ROOT / 'server.json')['name']} " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_registrys_limits_are_kept() -> None:
    entry = read(ROOT / "server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100


def test_the_bundle_is_the_same_twice_and_its_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    for name in ("one", "two"):
        command = [sys.executable, str(BUNDLE / "build.py"), str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        built.append(Path(done.stdout.strip()))
    assert built[0].read_bytes() == built[1].read_bytes()
    with zipfile.ZipFile(built[0]) as bundle:
        bundle.extractall(tmp_path / "unpacked")
    manifest = read(tmp_path / "unpacked/manifest.json")
    assert [tool["name"] for tool in manifest["tools"]] == [tool.name for tool in tools_of(("core",))]
    arguments = manifest["server"]["mcp_config"]["args"]
    at = arguments.index(manifest["server"]["entry_point"])
    given = [part.replace("${user_config.user_id}", "ana") for part in arguments[at + 1 :]]
    monkeypatch.setenv("HOME", str(tmp_path))
    server = str(tmp_path / "unpacked" / manifest["server"]["entry_point"])
    assert tools_behind([sys.executable, server, *given]) == CORE


def test_hooks_of_the_plugin_are_those_of_install_and_do_nothing_without_perdure(tmp_path: Path) -> None:
    hooks = read(PLUGIN / "hooks/hooks.json")["hooks"]
    assert tuple(hooks) == EVENTS
    (command,) = {hook["command"] for groups in hooks.values() for group in groups for hook in group["hooks"]}
    done = subprocess.run(
        ["/bin/sh", "-c", command], env={"PATH": str(tmp_path)}, input="{}", capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_skill_names_tools_that_there_are() -> None:
    text = (PLUGIN / "skills/memory/SKILL.md").read_text(encoding="utf-8")
    named = set(re.findall(r"call `(\w+)`", text))
    assert named and named <= set(CORE)


# ---------------------------------------------------------------- judges


def run(*command: str) -> str:
    told = {**os.environ, **QUIET}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=told, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs("claude", CLAUDE)
def test_claude_code_finds_no_fault(programs: Path) -> None:
    assert CLAUDE is not None
    run(CLAUDE, "plugin", "validate", "--strict", "--profile", "directory", str(PLUGIN))
    run(CLAUDE, "plugin", "validate", "--strict", str(ROOT))


@needs("claude", CLAUDE)
def test_claude_code_installs_the_plugin_and_reaches_its_server(programs: Path) -> None:
    assert CLAUDE is not None
    run(CLAUDE, "plugin", "marketplace", "add", str(ROOT))
    run(CLAUDE, "plugin", "install", "perdure@perdure")
    (line,) = [line for line in run(CLAUDE, "mcp", "list").splitlines() if "perdure" in line]
    assert line.endswith("✔ Connected")


@needs("mcpb", MCPB)
def test_the_bundle_is_valid(programs: Path) -> None:
    assert MCPB is not None
    assert "passes" in run(MCPB, "validate", str(BUNDLE / "manifest.json"))


@needs("skillsaw", LINT)
def test_the_schemas_of_registry_plugin_and_skill_are_kept(tmp_path: Path) -> None:
    assert LINT is not None
    for name in ("plugins", ".claude-plugin"):
        shutil.copytree(ROOT / name, tmp_path / name)
    entry = read(ROOT / "server.json")
    (tmp_path / "server.json").write_text(json.dumps(entry), encoding="utf-8")
    run(LINT, "lint", "--strict", str(tmp_path))
    del entry["packages"][0]["transport"]
    (tmp_path / "server.json").write_text(json.dumps(entry), encoding="utf-8")
    with pytest.raises(AssertionError, match="transport"):
        run(LINT, "lint", "--strict", str(tmp_path))
