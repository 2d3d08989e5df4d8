"""Running the real program: what it prints, where, and with which status."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-W", "error", "-m", "perdure.frontends.cli.main"]
HASHED = '[embedder]\nprovider = "hashed"\n'
"""Settings for tests in which meaning plays no part: nothing has to be loaded."""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def perdure(*arguments: str, stdin: str | bytes | None = None, env: dict[str, str] | None = None) -> Ran:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([*PROGRAM, *arguments], input=data or b"", capture_output=True, timeout=120, env=env)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass(frozen=True)
class Folder:
    """A memory in a folder, spoken to by the program."""

    path: Path

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Ran:
        return perdure(*arguments, "--path", str(self.path), stdin=stdin)

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


def folder(path: Path) -> Folder:
    path.mkdir(parents=True, exist_ok=True)
    (path / "perdure.toml").write_text(HASHED, encoding="utf-8")
    return Folder(path)
