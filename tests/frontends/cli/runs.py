"""Running the program: what it prints, where, and with which status."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.frontends.cli.main import INTERRUPTED, main

PROGRAM = [sys.executable, "-W", "error", "-m", "perdure.frontends.cli.main"]
HASHED = '[embedder]\nprovider = "hashed"\n'
"""Settings for tests in which meaning plays no part: nothing has to be loaded."""
LISTENING = {"serve", "proxy"}
"""Commands that a process ends: they never run in the test's own."""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def perdure(
    *arguments: str, stdin: str | bytes | None = None, env: dict[str, str] | None = None, process: bool = False
) -> Ran:
    """Run the program: here, with streams of its own, or in a process where that, or an environment, is asked for.

    A process takes a second to start, which proves nothing a second time: what a process has of its own, its streams,
    signals and statuses, is proven in `test_cli_streams.py`.
    """
    data = (stdin.encode() if isinstance(stdin, str) else stdin) or b""
    if process or env is not None or LISTENING & set(arguments):
        done = subprocess.run([*PROGRAM, *arguments], input=data, capture_output=True, timeout=120, env=env)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    out, err = io.BytesIO(), io.BytesIO()
    with _streams(io.BytesIO(data), out, err):
        status = main(arguments)
    if status == INTERRUPTED:
        raise KeyboardInterrupt  # whoever runs the tests has had enough
    return Ran(status, out.getvalue().decode(), err.getvalue().decode())


@contextmanager
def _streams(*streams: io.BytesIO) -> Iterator[None]:
    """The process's streams are these, and its log is as bare as that of a process that has just begun."""
    kept, log = (sys.stdin, sys.stdout, sys.stderr), logging.getLogger()
    handlers, level = log.handlers[:], log.level
    mine = [io.TextIOWrapper(stream, encoding="utf-8", newline="\n") for stream in streams]
    log.handlers[:] = []
    sys.stdin, sys.stdout, sys.stderr = mine
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
        log.handlers[:] = handlers
        log.setLevel(level)
        for stream in mine[1:]:
            stream.detach()  # what it holds is written first, and the bytes below stay open


@dataclass(frozen=True)
class Folder:
    """A memory in a folder, spoken to by the program."""

    path: Path
    process: bool = False

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Ran:
        return perdure(*arguments, "--path", str(self.path), stdin=stdin, process=self.process)

    def ask(self, *arguments: str, stdin: str | bytes | None = None) -> Any:
        """A call that must succeed, and its JSON."""
        ran = self(*arguments, "--json", stdin=stdin)
        assert ran.status == 0, ran.err
        return ran.json

    def said(self, text: str, user: str = "ana") -> str:
        """Store a text as it is; the id of its memory."""
        return str(self.ask("add", text, "--user-id", user, "--no-infer")["results"][0]["id"])

    def texts(self, user: str = "ana", *more: str) -> list[str]:
        return [item["memory"] for item in self.ask("list", "--user-id", user, *more)["results"]]


def folder(path: Path, process: bool = False) -> Folder:
    path.mkdir(parents=True, exist_ok=True)
    (path / "perdure.toml").write_text(HASHED, encoding="utf-8")
    return Folder(path, process)
