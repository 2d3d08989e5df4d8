"""Memories in files under git, opened as a program opens them, and git as their user runs it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure import Memory
from perdure.engine.maintenance.doctor import Finding, examine
from perdure.frontends.library.portal import PORTAL
from tests.backends.git.folders import git

ANA = {"user_id": "ana"}


def config(path: Path, **more: Any) -> dict[str, Any]:
    store = {"provider": "markdown", **({"config": more.pop("store")} if "store" in more else {})}
    base = {"path": str(path), "vector_store": store, "embedder": {"provider": "hashed"}, "updates": "supersede"}
    return {**base, **more}


def opened(path: Path, **more: Any) -> Memory:
    return Memory(config(path, **more))


def settled(memory: Memory) -> list[str]:
    """The titles of the versions, newest first, once what changed is committed."""
    return [version.title for version in memory.versions.log(limit=100)]


def until(check: Callable[[], bool]) -> None:
    """Wait for what happens beside us; the test's own time limit ends what never does."""
    while not check():
        time.sleep(0.02)


def commits(path: Path) -> list[str]:
    return git(path, "log", "--format=%s").splitlines()


def texts(memory: Memory, **scope: str) -> list[str]:
    return sorted(item.memory for item in memory.get_all(**(scope or ANA)).results)


def found(memory: Memory, query: str) -> list[str]:
    return [item.memory for item in memory.search(query, **ANA, limit=5).results]


def events(memory: Memory, id: str) -> list[tuple[str, str]]:
    return [(record.event, record.actor) for record in memory.history(id)]


def findings(memory: Memory) -> list[Finding]:
    """What the doctor finds wrong."""
    return [each for each in PORTAL.call(examine(memory._memory._engine)).findings if not each.notice]


def files(path: Path) -> list[str]:
    """What the live files say."""
    live = [each for each in path.glob("entries/**/*.md") if "deleted" not in each.parts]
    return sorted(each.read_text().split("---\n", 2)[2].strip() for each in live)


def without_index(path: Path) -> None:
    """Take away all that is derived, as a clone has it."""
    shutil.rmtree(path / "index", ignore_errors=True)
    for each in path.glob("history.db*"):
        each.unlink()
