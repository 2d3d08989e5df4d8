"""A process that dies between any two operations on files leaves a memory that is whole again when it is opened."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Memory, MemoryConfig
from perdure.backends.markdown.base import FileStore
from perdure.backends.markdown.memory_file import read
from perdure.domain.filter import eq
from perdure.domain.memory import LIVE
from perdure.engine.build import build
from perdure.engine.maintenance.doctor import examine
from tests.engine.markdown.work import KILLED, WORK, config

AFTER = {
    "add": ["User has a dog named Rex", "User lives in Oslo"],
    "supersede": ["User moved to Bergen"],
    "delete": [],
    "forget": [],
}


def opened(root: Path) -> tuple[list[str], list[str]]:
    """What memory says after it was opened again, and what files, index and history disagree on."""

    async def look() -> tuple[list[str], list[str]]:
        engine = build(MemoryConfig(**config(str(root))))
        try:
            found = [finding.sentence for finding in (await examine(engine)).findings]
            store, name = engine.kernel.store, engine.kernel.collection
            assert isinstance(store, FileStore)
            differences = await store.differences(name)
            live = [point.payload["memory"] for point in (await store.list(name, eq("state", LIVE))).points]
            return sorted(live), [*found, *map(str, differences.foreign), *map(str, differences.problems)]
        finally:
            await engine.close()

    return asyncio.run(look())


def texts_in_files(root: Path) -> list[str]:
    """Bodies of the live files."""
    return sorted(path.read_text().rstrip().rpartition("\n")[2] for path in root.glob("entries/*/facts/*.md"))


@pytest.mark.covers("U1")
@pytest.mark.parametrize("what", ["add", "supersede", "delete", "forget"])
def test_a_kill_before_any_file_operation(tmp_path: Path, what: str) -> None:
    before = tmp_path / "before"
    with Memory(config(str(before))) as memory:
        memory.add("I live in Oslo.", **WORK)
    number = 0
    while True:
        number += 1
        root = tmp_path / f"memory{number}"
        shutil.copytree(before, root)
        done = subprocess.run(
            [sys.executable, "-m", "tests.engine.markdown.work", str(root), what, str(number)], check=False
        )
        assert done.returncode in (0, KILLED)
        for path in root.rglob("*.md"):
            assert read(path.read_text(), path.relative_to(root / "entries").as_posix(), "").notes == []
        if what == "forget" and done.returncode == KILLED:
            with Memory(config(str(root))) as memory:
                memory.forget(**WORK)
        assert opened(root) == (AFTER[what], [])
        assert texts_in_files(root) == AFTER[what]
        if what == "forget":
            assert [path for path in root.rglob("*") if path.is_file() and b"Oslo" in path.read_bytes()] == []
        if done.returncode == 0:
            break
    assert number > 2, "nothing was interrupted"
