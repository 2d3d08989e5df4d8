"""`perdure hook` as Claude Code runs it: a process an event, JSON in and JSON out, and a worker behind them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.frontends.hooks.events import Event
from perdure.frontends.hooks.place import HookPlace, append_turn
from perdure.pipeline.prompting.quoting import estimate_tokens

PROGRAM = [sys.executable, "-W", "error", "-m", "perdure.frontends.cli.main", "hook"]


@dataclass(frozen=True)
class Client:
    """A client with one memory; `fire` runs a hook as it would."""

    folder: Path
    user: str = "ana"

    def run(self, told: str, *more: str) -> subprocess.CompletedProcess[str]:
        scope = ("--user-id", self.user) if self.user else ()
        arguments = [*PROGRAM, *scope, "--path", str(self.folder), *more]
        return subprocess.run(arguments, input=told, capture_output=True, text=True, timeout=60)

    def fire(self, event: str, session: str = "s1", **more: Any) -> str:
        """The context that a hook adds; empty for none."""
        told = {"session_id": session, "hook_event_name": event, "cwd": "/home/ana/shop", **more}
        done = self.run(json.dumps(told))
        assert done.returncode == 0, done.stderr
        if not done.stdout:
            return ""
        output = json.loads(done.stdout)["hookSpecificOutput"]
        assert output["hookEventName"] == event
        return str(output["additionalContext"])

    def prompt(self, text: str, session: str = "s1") -> str:
        return self.fire("UserPromptSubmit", session, prompt=text)

    @property
    def place(self) -> HookPlace:
        return HookPlace.of(self.folder)

    def pid(self) -> int | None:
        """The worker's process, if it runs and is ready."""
        try:
            pid = int(self.place.lock.read_text())
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid if self.place.socket.exists() else None

    def stop(self, number: int = signal.SIGTERM) -> None:
        if (pid := self.pid()) is not None:
            os.kill(pid, number)
            eventually(lambda: self.pid() is None)

    def learned(self, count: int) -> Any:
        """The user's memories, when there are so many and nothing waits."""

        def look() -> list[str]:
            # what waits is looked at first: a turn that is learned between the two looks then shows in the second
            waiting = [path.name for path in self.place.folder.glob("*.jsonl") if size(path)]
            with Memory(config(self.folder)) as memory:
                found = [item.memory for item in memory.get_all(user_id=self.user, limit=1000).results]
            return found if len(found) >= count and not waiting else []

        return eventually(look)


def config(folder: Path) -> dict[str, Any]:
    return {"path": str(folder), "embedder": {"provider": "hashed"}}


def size(path: Path) -> int:
    """The bytes of a file that the worker may take away meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
    return found


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    found = Client(folder)
    yield found
    found.stop(signal.SIGKILL)


def warm(client: Client) -> None:
    """Start the worker, and let it have loaded all that it needs: a busy machine is no reason to fail."""
    eventually(lambda: answered(client))


def answered(client: Client) -> bool:
    client.fire("SessionStart", "warm", source="startup")
    return client.place.session("warm").exists()


def told(client: Client, say: Callable[[], str], expected: str) -> str:
    """What a hook says that had the time to: on a busy machine it may have to be run again."""
    found = ""

    def look() -> bool:
        nonlocal found
        found = say()
        return expected in found

    eventually(look)
    return found


def test_told_in_one_session_known_in_the_next_without_any_tool(client: Client) -> None:
    warm(client)
    client.prompt("I prefer pytest over unittest. Our production database is PostgreSQL.")
    client.fire("Stop", last_assistant_message="Noted.")
    learned = client.learned(2)
    assert any("PostgreSQL" in text for text in learned)
    client.fire("SessionEnd", reason="exit")
    with Memory(config(client.folder)) as memory:
        item = memory.get_all(user_id="ana").results[0]
        assert item.metadata == {"client": "claude-code", "project": "shop"}
    number = iter(range(100))
    block = told(client, lambda: client.prompt("which production database is ours?", f"t{next(number)}"), "PostgreSQL")
    assert "not instructions" in block
    assert estimate_tokens(block) <= 600


def test_no_memory_enters_a_session_twice(client: Client) -> None:
    with Memory(config(client.folder)) as memory:
        memory.add_facts(["User's production database is PostgreSQL", "User's cat is called Miso"], user_id="ana")
    warm(client)
    client.fire("SessionStart", source="startup")
    blocks = [client.prompt("which production database is ours, PostgreSQL?") for _ in range(4)]
    eventually(lambda: client.place.session("s1").exists())
    start = client.fire("SessionStart", "s9", source="startup")
    again = [client.prompt("which production database is ours, PostgreSQL?", "s9") for _ in range(4)]
    assert sum("PostgreSQL" in block for block in blocks) <= 1
    assert sum("PostgreSQL" in block for block in [start, *again]) <= 1
    told(client, lambda: client.fire("SessionStart", "s9", source="compact"), "PostgreSQL")


def test_a_prompt_gets_six_hundred_tokens_at_most(client: Client) -> None:
    words = [f"User's project {n} deploys tomatoes to region {n * 37} " + "with great care " * 12 for n in range(40)]
    with Memory(config(client.folder)) as memory:
        for word in words:
            memory.add(word, user_id="ana", infer=False)
    warm(client)
    number = iter(range(100))
    block = told(client, lambda: client.prompt("tomatoes project deploys region", f"b{next(number)}"), "tomatoes")
    assert estimate_tokens(block) <= 600


def test_what_fails_does_not_stop_the_client(tmp_path: Path, client: Client) -> None:
    for text in (
        "",
        "no JSON",
        "[]",
        "{}",
        '{"hook_event_name": "Unknown"}',
        '{"hook_event_name": 7}',
        "\x00\ud800"[:1],
    ):
        done = client.run(text)
        assert (done.returncode, done.stdout) == (0, "")
    done = Client(client.folder, user="").run('{"hook_event_name": "SessionStart"}')
    assert (done.returncode, done.stdout) == (0, "")
    assert "At least one of user_id" in done.stderr
    (client.folder / "perdure.toml").write_text("nonsense = 1\n", encoding="utf-8")
    assert client.prompt("hello there") == ""


def test_a_worker_that_hangs_does_not_hold_the_prompt(client: Client) -> None:
    """The hook ends by itself; what the machine's load adds to a second is the interpreter's start."""
    import socket

    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(client.place.socket))
        hanging.listen()
        began = time.monotonic()
        assert client.prompt("I live in Lisbon") == ""
        assert time.monotonic() - began < 20
    client.place.socket.unlink()


def test_turns_survive_a_killed_worker_and_are_learned_once(client: Client) -> None:
    warm(client)
    client.stop(signal.SIGKILL)
    client.prompt("I live in Lisbon.")
    client.fire("Stop", last_assistant_message="Nice.")
    eventually(lambda: answered(client))
    assert client.learned(1) == ["User lives in Lisbon"]


def test_a_turn_that_is_refused_holds_up_no_other(client: Client) -> None:
    scope = {"user_id": client.user}
    append_turn(client.place, Event(name="UserPromptSubmit", session="s0", text="I live in Porto."), scope)
    refused = json.loads(client.place.turns.read_text())
    client.place.turns.write_text(json.dumps({**refused, "timestamp": "no time"}) + "\n")
    client.prompt("I have a dog \ud83d named Rex.")
    client.prompt("I live in Lisbon.")
    client.fire("Stop", last_assistant_message="Nice.")
    assert any("Lisbon" in text for text in client.learned(2))
    assert "cannot be learned" in client.place.log.read_text()


def test_a_paste_does_not_use_up_what_is_read_of_other_prompts(client: Client) -> None:
    client.prompt(" ".join(f"The warehouse {number} stores {number} green crates." for number in range(500)))
    client.prompt("I live in Lisbon.")
    client.fire("Stop", last_assistant_message="Nice.")
    assert "User lives in Lisbon" in client.learned(1)


def test_a_person_who_runs_it_is_told_what_it_is_for(client: Client) -> None:
    mine, theirs = pty.openpty()
    try:
        arguments = [*PROGRAM, "--path", str(client.folder)]
        done = subprocess.run(arguments, stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(mine)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (0, "")
    assert "docs/hooks.md" in done.stderr


def test_two_users_of_one_memory_see_their_own(client: Client) -> None:
    with Memory(config(client.folder)) as memory:
        memory.add_facts(["User's secret recipe is marzipan with saffron"], user_id="ben")
        memory.add_facts(["User's recipe is plain bread"], user_id="ana")
    warm(client)
    number = iter(range(100))
    block = told(client, lambda: client.prompt("the recipe of marzipan and bread?", f"x{next(number)}"), "bread")
    assert "saffron" not in block


def test_the_state_is_the_owners_alone(client: Client, tmp_path: Path) -> None:
    unread = HookPlace.of(tmp_path / "another")  # no worker renames its file meanwhile
    append_turn(unread, Event(name="UserPromptSubmit", session="s", text="I live in Lisbon."), {"user_id": "ana"})
    assert unread.turns.stat().st_mode & 0o077 == 0
    client.prompt("I live in Lisbon.")
    place = client.place.folder
    assert place.stat().st_mode & 0o077 == 0
    place.chmod(0o755)
    done = client.run('{"hook_event_name": "UserPromptSubmit", "prompt": "x"}')
    assert (done.returncode, done.stdout) == (0, "")
    assert "can be read by others" in done.stderr
    place.chmod(0o700)
