"""An import tells how far it is, and on Ctrl-C how to go on: the real program, under a terminal and without one."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import Memory
from tests.frontends.cli.runs import HASHED, PROGRAM, Ran, perdure

if sys.platform == "win32":
    pytest.skip("a terminal of another kind", allow_module_level=True)

TALKS, FACTS = "talks.jsonl", "facts.jsonl"
MANY = 400
_KEPT = re.compile(r"import: (\d+) kept")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory's settings, and lines to take in."""
    place = tmp_path / "memory"
    place.mkdir()
    (place / "perdure.toml").write_text(HASHED, encoding="utf-8")
    talks = [
        {"messages": [{"role": "user", "content": f"I have a friend called Anna{place}."}], "user_id": f"u{place % 9}"}
        for place in range(MANY)
    ]
    (tmp_path / TALKS).write_text("".join(f"{json.dumps(each)}\n" for each in talks), encoding="utf-8")
    return place


@dataclass
class Watched:
    """What came of a program that was watched."""

    status: int
    out: str
    seen: str
    """What the terminal was sent."""


def watched(*arguments: str, interrupt_at: int | None = None) -> Watched:
    """Run the program with its errors on a terminal; Ctrl-C once it says that so many are kept."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=follower, stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(follower)
    seen, is_sent = b"", False
    while True:
        ready, _, _ = select.select([leader], [], [], 0.05)
        if ready:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
        kept = [int(each) for each in _KEPT.findall(seen.decode(errors="replace"))]
        if interrupt_at is not None and not is_sent and kept and kept[-1] >= interrupt_at:
            process.send_signal(signal.SIGINT)
            is_sent = True
    assert process.stdout is not None
    out = process.stdout.read().decode()
    process.stdout.close()
    os.close(leader)
    return Watched(process.wait(60), out, seen.decode(errors="replace"))


def texts(folder: Path) -> list[str]:
    """Every memory that is there."""
    settings = {"path": str(folder), "embedder": {"provider": "hashed"}}
    with Memory(settings) as memory:
        return [item.memory for user in range(9) for item in memory.get_all(user_id=f"u{user}", limit=1000).results]


def test_a_terminal_sees_a_line_that_moves_and_json_stays_pure(folder: Path) -> None:
    done = watched("import", str(folder.parent / TALKS), "--json", "--path", str(folder))
    assert done.status == 0, done.seen
    assert json.loads(done.out)["kinds"] == {"conversations": {"new": MANY, "skipped": 0}}
    counts = [int(each) for each in _KEPT.findall(done.seen)]
    assert len(set(counts)) >= 3 and counts == sorted(counts), "it moves, and never back"
    shares = {int(each) for each in re.findall(r"(\d+) %", done.seen)}
    assert len(shares) >= 2 and max(shares) <= 100


def test_ctrl_c_says_what_is_kept_and_the_command_it_names_goes_on(folder: Path) -> None:
    cut = watched("import", str(folder.parent / TALKS), "--json", "--path", str(folder), interrupt_at=MANY // 5)
    assert (cut.status, cut.out) == (130, ""), cut.seen
    assert "Traceback" not in cut.seen
    told = re.search(r"interrupted: (\d+) kept\. What is kept stays, and is not kept twice\. Go on with:", cut.seen)
    assert told is not None, cut.seen
    kept = int(told[1])
    assert 0 < kept < MANY
    assert len(texts(folder)) in (kept, kept + 1), "one may have been under way"

    (again,) = re.findall(r"^perdure:   (perdure import .*?)\r?$", cut.seen, re.MULTILINE)
    words = shlex.split(again)
    done = perdure(*words[1:], "--json", process=True)
    assert done.status == 0
    tally = done.json["kinds"]["conversations"]
    assert tally["new"] + tally["skipped"] == MANY and tally["skipped"] in (kept, kept + 1)
    found = texts(folder)
    assert len(found) == len(set(found)) == MANY

    once_more = perdure(*words[1:], "--json", process=True).json["kinds"]["conversations"]
    assert once_more == {"new": 0, "skipped": MANY}


def test_a_dry_run_that_is_interrupted_says_that_nothing_was_written(folder: Path) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "import", "-", "--dry-run", "--path", str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    lines = b'{"memory": "User likes tea", "user_id": "ana"}\n' * 1000
    written = 0
    with suppress(BrokenPipeError):
        while True:  # it reads as long as there is something, unless it is interrupted
            written += process.stdin.write(lines)
            if written // len(lines) == 40:
                process.send_signal(signal.SIGINT)
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdin = None
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines() == ["perdure: interrupted: nothing was written"]


def test_without_a_terminal_a_short_import_is_quiet_and_a_long_one_tells_now_and_then(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(text: str, *, process: bool) -> Ran:
        (folder.parent / FACTS).write_text(json.dumps({"memory": text, "user_id": "ana"}), encoding="utf-8")
        return perdure("import", str(folder.parent / FACTS), "--json", "--path", str(folder), process=process)

    quiet = told("User likes tea", process=True)
    assert quiet.json["kinds"]["facts"]["new"] == 1 and "import: " not in quiet.err
    monkeypatch.setattr("perdure.frontends.cli.commands.import_.SILENCE", 0.0)
    loud = told("User likes rain", process=False)
    assert "perdure: import: 1 kept; " in loud.err and loud.json["kinds"]["facts"]["new"] == 1
