"""Files that change while memory is in use, by an editor's hand or another process's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import AsyncMemory, Memory
from perdure.backends.markdown.scan import may_be_memory
from perdure.engine.markdown import file_sync
from tests.engine.markdown.work import WORK, config

pytestmark = pytest.mark.covers("A29", "K61")

PATIENCE = 60.0
"""Seconds after which a test says that nothing happened; usually it is half of one."""
HOME = "entries/work@user-alice/facts"


def watched(path: Path) -> AsyncMemory:
    return AsyncMemory(
        config(str(path), vector_store={"provider": "markdown", "config": {"watch": True, "git": False}})
    )


async def texts(memory: AsyncMemory) -> list[str]:
    return sorted(item.memory for item in (await memory.get_all(limit=1000, **WORK)).results)


async def until(memory: AsyncMemory, wanted: Callable[[list[str]], bool]) -> list[str]:
    """The texts, once they are as wanted."""
    deadline = time.monotonic() + PATIENCE
    while not wanted(found := await texts(memory)):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.05)
    return found


def note(root: Path, name: str, text: str) -> Path:
    path = root / HOME / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nmood: good\n---\n{text}\n")
    return path


@pytest.mark.covers("K61")
def test_create_modify_rename_and_delete(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path) as memory:
            await memory.add("User likes tea", infer=False, **WORK)
            path = note(tmp_path, "note", "User likes rain")
            assert await until(memory, lambda found: len(found) == 2) == ["User likes rain", "User likes tea"]
            # As many editors do: a file beside it, which then takes its name.
            beside = path.with_name("note.md~")
            beside.write_text(path.read_text().replace("rain", "snow"))
            beside.replace(path)
            await until(memory, lambda found: "User likes snow" in found)
            path.unlink()
            assert await until(memory, lambda found: len(found) == 1) == ["User likes tea"]

    asyncio.run(scene())


def test_a_new_conversation_made_by_hand_is_seen_and_a_moved_folder_too(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path) as memory:
            assert await texts(memory) == []
            note(tmp_path, "one", "User likes rain")
            await until(memory, lambda found: found == ["User likes rain"])
            (tmp_path / HOME).parent.rename(tmp_path / "entries/home@user-alice")
            await until(memory, lambda found: not found)
            found = await memory.get_all(user_id="alice", run_id="home")
            deadline = time.monotonic() + PATIENCE
            while not found.results:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
                found = await memory.get_all(user_id="alice", run_id="home")

    asyncio.run(scene())


@pytest.mark.parametrize("given", ["memory_db", "./memory_db", "../here/memory_db"])
def test_edits_below_a_relative_path_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    async def scene() -> None:
        async with watched(Path(given)) as memory:
            await memory.add("User likes tea", infer=False, **WORK)
            path = note(Path("memory_db"), "note", "User likes rain")
            await until(memory, lambda found: found == ["User likes rain", "User likes tea"])
            monkeypatch.chdir(tmp_path)  # what is open stays where it is
            path = tmp_path / "here" / path
            path.write_text(path.read_text().replace("rain", "snow"))
            await until(memory, lambda found: "User likes snow" in found)

    asyncio.run(scene())


def test_our_own_writes_are_not_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = file_sync.sync_files

    async def counted(*args: object) -> object:
        found = await real(*args)  # type: ignore[arg-type]
        seen.append(found.rows)
        return found

    monkeypatch.setattr(file_sync, "sync_files", counted)

    async def scene() -> None:
        async with watched(tmp_path) as memory:
            ids = [(await memory.add(f"User likes tea {n}", infer=False, **WORK)).results[0].id for n in range(3)]
            await memory.update(ids[0], "User likes coffee")
            await memory.delete(ids[1])
            deadline = time.monotonic() + PATIENCE
            while not seen:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            assert [len(await memory.history(id)) for id in ids] == [2, 2, 1]

    asyncio.run(scene())
    assert set(seen) == {0}


def test_many_files_at_once_are_taken_in_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sync, "MANY", 50)
    calls: list[object] = []
    real = file_sync.sync_files

    async def counted(kernel: object, paths: object = None) -> object:
        calls.append(paths)
        return await real(kernel, paths)  # type: ignore[arg-type]

    monkeypatch.setattr(file_sync, "sync_files", counted)

    async def scene() -> None:
        async with watched(tmp_path) as memory:
            assert await texts(memory) == []
            for number in range(300):
                note(tmp_path, str(number), f"User likes tea {number}")
            await until(memory, lambda found: len(found) == 300)

    asyncio.run(scene())
    assert len(calls) < 30
    assert None in calls


def test_a_memory_without_a_watcher_takes_changes_in_at_the_next_opening(tmp_path: Path) -> None:
    with Memory(config(str(tmp_path))) as memory:
        memory.add("User likes tea", infer=False, **WORK)
        note(tmp_path, "note", "User likes rain")
        assert len(memory.get_all(**WORK).results) == 1
    with Memory(config(str(tmp_path))) as memory:
        assert len(memory.get_all(**WORK).results) == 2


@pytest.mark.covers("A26")
@pytest.mark.parametrize("name", [".x.md", "x.md.tmp", "x.md~", ".x.md.swp", ".obsidian"])
def test_files_that_are_being_written_wake_nobody(name: str) -> None:
    assert not may_be_memory(name)


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    count = 8
    program = (
        "import sys; from perdure import Memory; from tests.engine.markdown.work import WORK, config\n"
        "with Memory(config(sys.argv[1])) as memory:\n"
        f"    for number in range({count}):\n"
        "        memory.add(f'User likes tea {sys.argv[2]} {number}', infer=False, **WORK)\n"
        "    print(len(memory.get_all(**WORK).results))\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in ("a", "b")]
    assert [other.wait() for other in others] == [0, 0]
    assert len(list((tmp_path / HOME).glob("*.md"))) == 2 * count
    with Memory(config(str(tmp_path))) as memory:
        found = memory.get_all(**WORK).results
        assert len(found) == 2 * count
        assert {len(memory.history(item.id)) for item in found} == {1}


def test_two_processes_that_see_one_edit_write_one_history(tmp_path: Path) -> None:
    with Memory(config(str(tmp_path))) as memory:
        id = memory.add("User likes tea", infer=False, **WORK).results[0].id
    (path,) = (tmp_path / HOME).glob("*.md")
    path.write_text(path.read_text().replace("tea", "rain"))
    program = (
        "import sys; from perdure import Memory; from tests.engine.markdown.work import WORK, config\n"
        "with Memory(config(sys.argv[1])) as memory:\n"
        "    assert [item.memory for item in memory.get_all(**WORK).results] == ['User likes rain']\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(3)]
    assert [other.wait() for other in others] == [0, 0, 0]
    with Memory(config(str(tmp_path))) as memory:
        assert [record.event for record in memory.history(id)] == ["ADD", "UPDATE"]
