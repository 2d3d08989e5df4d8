"""mcpscore and the Inspector, on `perdure mcp` and on `/mcp` of a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.programs import QUIET, needs, program
from tests.frontends.mcp.clients import PROGRAM
from tests.frontends.server.running import Running, running

SCORE, INSPECTOR = program("mcpscore"), program("mcp-inspector")
PATH = os.environ["PATH"]
KNOWN = {
    "server_websiteurl_present": "there is no site",
    "server_icons_present": "an icon would be sent with every answer",
    "capability_tools_list_changed": "the lists do not change",
    "capability_prompts_list_changed": "the lists do not change",
    "capability_resources_list_changed": "the lists do not change",
    "security_tls_enabled": "the tests' server is on loopback, without TLS",
    "transport_invalid_request_error_code": "the SDK's",
}
"""Rules that are not kept, and why."""


def stdio(folder: Path) -> list[str]:
    folder.mkdir()
    (folder / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    return [sys.executable, *PROGRAM, "--user-id", "ana", "--path", str(folder)]


def run(*command: str) -> str:
    # PYTHONPATH reaches the server that the judge starts, where the checkout is not installed.
    told = {**os.environ, **QUIET, "PATH": PATH}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=told, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def score(*target: str) -> float:
    """The points that mcpscore gives, in percent; no rule is broken but those that are known."""
    assert SCORE is not None
    passed_on = [part for name in ("PYTHONPATH", "PATH", "HOME") if name in os.environ for part in ("--env", name)]
    options = passed_on if target[0] == "--stdio" else []
    told = json.loads(run(SCORE, "--no-config", "--json", *options, *target))
    assert not told["partial"] and not told["listing_errors"], told["partial_reason"]
    results = [*told["results"], *told["readiness"].get("results", ())]
    broken = {each["rule_id"] for each in results if each["passed"] is False}
    assert broken <= KNOWN.keys()
    points = 100 * told["score"] / told["max_score"]
    print(f"\nmcpscore: {told['score']} of {told['max_score']}, {points:.1f} %")
    return points


@needs("mcpscore", SCORE)
def test_the_score_of_the_command(tmp_path: Path) -> None:
    assert score("--stdio", *stdio(tmp_path / "memory")) >= 97


@needs("mcpscore", SCORE)
def test_the_score_of_the_server(tmp_path: Path) -> None:
    with running(tmp_path / "memory") as server:
        assert score(f"{server.url}/mcp/ana") >= 95


def inspect(target: list[str], *options: str) -> Any:
    assert INSPECTOR is not None
    return json.loads(run(INSPECTOR, "--cli", *target, *options))


def called(target: list[str], tool: str, **arguments: str) -> dict[str, Any]:
    options = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
    answer = inspect(target, "--method", "tools/call", "--tool-name", tool, *options)
    assert not answer.get("isError"), answer
    found = answer["structuredContent"]
    assert isinstance(found, dict)
    return found


@needs("mcp-inspector", INSPECTOR)
@pytest.mark.parametrize("over", ["stdio", "http"])
def test_the_inspector_lists_and_calls(tmp_path: Path, over: str) -> None:
    if over == "stdio":
        look(stdio(tmp_path / "memory"))
        return
    server: Running
    with running(tmp_path / "memory") as server:
        look([f"{server.url}/mcp/ana", "--transport", "http"])


def look(target: list[str]) -> None:
    tools = [tool["name"] for tool in inspect(target, "--method", "tools/list")["tools"]]
    assert tools == ["recall", "remember", "learn", "correct", "forget", "undo", "history", "context"]
    assert inspect(target, "--method", "resources/list")["resources"]
    assert inspect(target, "--method", "prompts/list")["prompts"]
    (told,) = called(target, "remember", facts='["User lives in Lisbon"]')["results"]
    assert told["event"] == "ADD"
    (found,) = called(target, "recall", query="Where does the user live?")["results"]
    assert found["memory"] == "User lives in Lisbon"
    read = inspect(target, "--method", "resources/read", "--uri", f"perdure://memory/{found['id']}")
    assert "Lisbon" in read["contents"][0]["text"]
