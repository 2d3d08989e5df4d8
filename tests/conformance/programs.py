"""Programs of other people that judge perdure: `make conformance` fetches them into a cache outside the checkout.

`python -m tests.conformance.programs` fetches what is missing, and prints the folder of the programs for PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

NPM = (
    "node@24.21.0",  # the suite needs fs.globSync, which Node 20 has not
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@anthropic-ai/mcpb@2.1.2",
    "@anthropic-ai/claude-code@2.1.332",
    "add-mcp@2.4.0",
)
PIP = ("mcpscore==1.29.0", "skillsaw==0.22.0")
LOWEST_NODE = 22
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DO_NOT_TRACK": "1",
}
"""Variables that keep programs from telling anybody that they ran."""


def place() -> Path:
    """Return the folder of fetched programs."""
    cache = os.environ.get("PERDURE_JUDGES")
    return (
        Path(cache) if cache else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "perdure-judges"
    )


def fetch() -> Path:
    """Install what is missing; return the folder of the programs. Without npm there is only what pip has."""
    found = place()
    found.mkdir(parents=True, exist_ok=True)
    wanted, told = "\n".join((*NPM, *PIP)), found / "fetched"
    programs = found / "bin"
    if told.is_file() and told.read_text(encoding="utf-8") == wanted:
        return programs
    programs.mkdir(exist_ok=True)
    npm = shutil.which("npm")
    if npm is None:
        sys.stderr.write("there is no npm: the judges that need Node are skipped\n")
    else:
        _run(npm, "install", "--prefix", str(found), "--no-audit", "--no-fund", "--loglevel=error", *NPM)
        _link(found / "node_modules/.bin", programs)
    venv.create(found / "venv", with_pip=True)
    _run(str(found / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--no-input", *PIP)
    _link(found / "venv/bin", programs, only=("mcpscore", "skillsaw"))
    if npm is not None:
        told.write_text(wanted, encoding="utf-8")
    return programs


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, **QUIET})


def _link(source: Path, programs: Path, only: tuple[str, ...] = ()) -> None:
    for each in source.iterdir():
        target = programs / each.name
        if (not only or each.name in only) and not target.exists():
            target.symlink_to(each)


def program(name: str) -> str | None:
    """Return the path of a program that is on PATH; without a Node that is new enough, of none."""
    return shutil.which(name) if name in ("mcpscore", "skillsaw") or _node_is_new() else None


def _node_is_new() -> bool:
    node = shutil.which("node")
    if node is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    return int(version.strip().removeprefix("v").partition(".")[0] or 0) >= LOWEST_NODE


def needs(name: str, path: str | None) -> pytest.MarkDecorator:
    """Return the mark that skips tests by the name of the program that they lack."""
    return pytest.mark.skipif(path is None, reason=f"no {name} on this machine: make conformance fetches it")


if __name__ == "__main__":
    print(fetch())
