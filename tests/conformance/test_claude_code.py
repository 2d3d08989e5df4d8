"""Hooks and server in the real Claude Code, which talks to a model on a loopback port (`fake_model`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.frontends.hooks.place import HookPlace
from tests.conformance.fake_model import FakeModel, blocks_of, fake_model, text_of

# Read at import: every test runs in an environment without the developer's own variables.
PROGRAM = os.environ.get("PERDURE_CLAUDE_CODE") or shutil.which("claude")
PERDURE = [sys.executable, "-m", "perdure.frontends.cli.main"]
HASHED = '[embedder]\nprovider = "hashed"\n'
FOLDER = "memory"

pytestmark = pytest.mark.skipif(
    PROGRAM is None,
    reason="no Claude Code: npm install -g @anthropic-ai/claude-code, or name the program in PERDURE_CLAUDE_CODE",
)


@dataclass(frozen=True)
class ClaudeCode:
    """Claude Code in a home of its own, with perdure's hooks and server."""

    home: Path
    model: FakeModel

    @property
    def folder(self) -> Path:
        return self.home / FOLDER

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "CLAUDE_CONFIG_DIR": str(self.home / "settings"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "no key is needed",
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, env=self.env, cwd=self.home / "shop", stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def perdure(self, *arguments: str) -> str:
        return self.run(*PERDURE, *arguments, "--path", str(self.folder)).stdout

    def say(self, prompt: str, *options: str) -> dict[str, Any]:
        """Have one session with one prompt; the request that the model got for it."""
        before = len(self.model.requests)
        done = self.run("claude", "-p", prompt, *options)
        assert self.model.answer in done.stdout
        asked = [request for request in self.model.requests[before:] if prompt in text_of(request["messages"])]
        assert asked, "the model was not asked"
        return asked[-1]

    @property
    def place(self) -> HookPlace:
        return HookPlace(next((self.home / ".local/state/perdure").iterdir()))

    @property
    def worker(self) -> int:
        return int(self.place.lock.read_text())

    def learned(self, *words: str) -> None:
        """Wait until nothing waits and each word is in a memory."""

        def look() -> bool:
            with Memory({"path": str(self.folder), "embedder": {"provider": "hashed"}}) as memory:
                texts = " ".join(item.memory for item in memory.get_all(user_id="ana").results)
            waiting = [path for path in self.place.folder.glob("*.jsonl") if path.stat().st_size]
            return not waiting and all(word in texts for word in words)

        eventually(look)


def eventually(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def added(request: dict[str, Any]) -> dict[str, str]:
    """What hooks added to a request, by their event."""
    parts = re.split(r"(\w+) hook additional context: ", text_of(request["messages"]))
    found: dict[str, str] = {}
    for event, text in zip(parts[1::2], parts[2::2], strict=True):
        found[event] = found.get(event, "") + text.partition("</system-reminder>")[0]
    return found


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[ClaudeCode]:
    assert PROGRAM is not None
    for name in ("bin", "shop", FOLDER):
        (tmp_path / name).mkdir()
    (tmp_path / FOLDER / "perdure.toml").write_text(HASHED, encoding="utf-8")
    (tmp_path / "bin/claude").symlink_to(Path(PROGRAM).resolve())
    with fake_model() as model:
        found = ClaudeCode(tmp_path, model)
        found.perdure("install", "claude-code", "--hooks", "--user-id", "ana")
        yield found
    with suppress(OSError, ValueError, StopIteration):  # the test had no worker, or it has ended
        os.kill(found.worker, signal.SIGKILL)


def test_a_third_session_knows_what_the_second_corrected_without_a_tool_call(claude: ClaudeCode) -> None:
    claude.say("I live in Lisbon and my sister Ana has a peanut allergy")
    claude.learned("Lisbon", "peanut")
    second = claude.say("I moved to Porto last week")
    assert "Lisbon" in text_of(second["messages"])
    claude.learned("Porto")
    third = claude.say("Where do I live?")
    told = "\n".join(added(third).values())
    assert "Porto" in told
    assert "not instructions" in told
    assert "Lisbon" not in text_of(third["messages"]), "the old home is not known as the current one"
    assert [blocks_of(request, "tool_use") for request in claude.model.requests] == [[], [], []]


def test_a_memory_that_belongs_to_the_prompt_enters_with_it(claude: ClaudeCode) -> None:
    with Memory({"path": str(claude.folder), "embedder": {"provider": "hashed"}}) as memory:
        memory.add("The staging database is PostgreSQL 17", user_id="ana", infer=False)
        for number in range(60):  # what is newest is told at the start of a session
            memory.add(f"Crate {number} holds {number} green bottles " + "with care " * 12, user_id="ana", infer=False)
    eventually(
        lambda: "PostgreSQL 17" in added(claude.say("What is our staging database?")).get("UserPromptSubmit", "")
    )
    assert "PostgreSQL 17" not in text_of(claude.say("Hello there")["messages"])


@pytest.mark.parametrize("trouble", ["killed", "stopped", "damaged"])
def test_a_prompt_goes_through_where_memory_cannot_answer(
    claude: ClaudeCode, trouble: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The memory's worker is gone, hangs, or is gone and cannot come back, because its files are damaged."""
    claude.say("I live in Lisbon")
    claude.learned("Lisbon")
    os.kill(claude.worker, signal.SIGSTOP if trouble == "stopped" else signal.SIGKILL)
    if trouble == "damaged":
        for path in filter(Path.is_file, claude.folder.iterdir()):
            path.write_bytes(b"no database, and no settings")
        claude.folder.chmod(0)  # root reads on
    began = time.monotonic()
    request = claude.say("Where do I live?")
    with capsys.disabled():
        print(f"\na session of one prompt, worker {trouble}: {time.monotonic() - began:.2f} s")
    if trouble != "killed":
        assert added(request) == {}
    claude.folder.chmod(0o700)


def test_its_list_says_that_the_server_is_connected(claude: ClaudeCode) -> None:
    listed = claude.run("claude", "mcp", "list").stdout
    (line,) = [line for line in listed.splitlines() if line.startswith("perdure:")]
    assert line.endswith("✔ Connected")


def test_its_model_is_offered_the_tools_and_what_they_are_for(claude: ClaudeCode) -> None:
    request = claude.say("Hello there", "--allowedTools", "mcp__perdure__recall")
    assert "Long-term memory of this user" in text_of(request["messages"]) + json.dumps(request["system"])


def test_install_takes_everything_out_again(claude: ClaudeCode) -> None:
    claude.perdure("install", "claude-code", "--hooks", "--remove")
    assert "perdure" not in claude.run("claude", "mcp", "list").stdout
    assert added(claude.say("I live in Lisbon")) == {}
    assert not (claude.home / ".local/state/perdure").exists()
