"""What hands do to files that nobody expected: no read breaks, nothing is lost, nothing stands twice."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentRuntime, AsyncMemory, Memory, Scope
from perdure.domain.errors import LedgerError
from perdure.engine.markdown.sync import sync_files
from tests.engine.markdown.memories import findings
from tests.engine.markdown.work import WORK, config

pytestmark = pytest.mark.covers("A25", "K5", "K14")

HOME = "entries/work@user-alice"
TEA, COFFEE = "User likes tea", "User likes coffee"


def opened(root: Path, **more: Any) -> Memory:
    return Memory(config(str(root), **more))


def texts(memory: Memory, **scope: str) -> list[str]:
    return sorted(item.memory for item in memory.get_all(**(scope or WORK)).results)


def bodies(root: Path, below: str) -> list[str]:
    return sorted(path.read_text().split("---\n")[2].strip() for path in (root / HOME / below).glob("*.md"))


def only(root: Path, below: str = "facts") -> Path:
    (path,) = (root / HOME / below).glob("*.md")
    return path


def replace(old: str, new: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(path.read_text().replace(old, new)) and None


def kept(root: Path, text: str = TEA) -> str:
    """The id of the one memory of a new folder."""
    with opened(root) as memory:
        return memory.add(text, infer=False, **WORK).results[0].id


# ------------------------------------------------------------------ edits that nobody has taken in yet
@pytest.mark.covers("K5", "K14")
@pytest.mark.parametrize("way", ["update", "delete", "reconcile", "undo"])
def test_an_edit_that_a_change_comes_before_stays_as_a_tombstone(tmp_path: Path, way: str) -> None:
    with opened(tmp_path) as memory:
        id = memory.add("I live in Oslo.", **WORK).results[0].id
        replace("Oslo", "Oslo, near the lake")(only(tmp_path))
        if way == "update":
            memory.update(id, "User lives in Bergen")
        elif way == "delete":
            memory.delete(id)
        elif way == "undo":
            memory.undo(memory.history(id)[0].id)
        else:
            memory.add("I moved to Bergen.", **WORK)
        assert bodies(tmp_path, "deleted/facts") == ["User lives in Oslo", "User lives in Oslo, near the lake"]
        assert all("Oslo" not in text for text in texts(memory))
        assert {finding.kind for finding in findings(memory)} == {"unembedded"}, "until it is opened again"
        memory.forget(id=id)
        assert bodies(tmp_path, "deleted/facts") == []
    assert not [path for path in tmp_path.rglob("*.db") if b"near the lake" in path.read_bytes()]


@pytest.mark.covers("K5")
def test_a_change_that_is_applied_again_after_a_crash_leaves_a_later_edit_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        async with AsyncMemory(config(str(tmp_path))) as memory:
            id = (await memory.add(TEA, infer=False, **WORK)).results[0].id
            kernel = memory._engine.kernel
            replace("tea", "coffee")(only(tmp_path))
            rows = await kernel.store.get_many(kernel.collection, [id])
            await kernel.store.apply(kernel.collection, rows)  # as the journal does
            assert bodies(tmp_path, "facts") == [COFFEE]
            assert (await sync_files(kernel)).changed == [id]
            assert [record.event for record in await memory.history(id)] == ["ADD", "UPDATE"]

    asyncio.run(scene())


@pytest.mark.covers("K5")
def test_an_edit_that_could_not_be_taken_in_is_taken_in_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise LedgerError("the disk is full")

    async def scene() -> None:
        async with AsyncMemory(config(str(tmp_path))) as memory:
            id = (await memory.add(TEA, infer=False, **WORK)).results[0].id
            kernel = memory._engine.kernel
            replace("tea", "coffee")(only(tmp_path))
            assert kernel.ledger is not None
            with monkeypatch.context() as patch:
                patch.setattr(kernel.ledger, "write", full)
                (problem,) = (await sync_files(kernel)).problems
            assert "was refused" in problem.sentence
            assert (await sync_files(kernel)).changed == [id]
            await memory.update(id, "User likes milk")
            assert bodies(tmp_path, "facts") == ["User likes milk"]

    asyncio.run(scene())


@pytest.mark.covers("K19", "K20")
@pytest.mark.covers("K19", "K20")
def test_the_index_says_what_the_front_matter_does_and_keeps_conversations_apart(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.add(TEA, infer=False, **WORK)
        memory.add(TEA, infer=False, user_id="alice", run_id="home")
        replace("role: user", "role: memory\nmood: good")(only(tmp_path))
    with opened(tmp_path) as memory:
        (item,) = memory.search("tea", filters={"mood": "good", "role": "memory"}, **WORK).results
        told = dict(line.split(": ", 1) for line in only(tmp_path).read_text().split("---\n")[1].splitlines())
        assert (item.id, item.role, item.scope.run_id) == (told["id"], told["role"], told["conversation_id"])
        assert f'"{item.created_at}"' == told["created_at"]
        assert memory.search("tea", filters={"mood": "good"}, user_id="alice", run_id="home").results == []


# ------------------------------------------------------------------ files that cannot be read, and copies
@pytest.mark.covers("A26")
@pytest.mark.parametrize(
    "damage",
    [
        replace("role: user", "role: user\nnote: a: b"),
        replace("\n---\nUser", "\n--\nUser"),
        replace("conversation_id: work", "conversation_id: [1]"),
        lambda path: path.write_bytes(path.read_bytes().replace(b"tea", b"th\xe9")),
        lambda path: path.parent.rename(path.parents[3] / "away") and path.parent.symlink_to(path.parents[3] / "away"),
    ],
    ids=["no YAML", "no end", "no walls", "no UTF-8", "link"],
)
def test_a_slip_deletes_nothing_and_is_told(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    id = kept(tmp_path)
    damage(only(tmp_path))
    with opened(tmp_path) as memory:
        assert (texts(memory), len(memory.history(id))) == ([TEA], 1)
        (finding,) = findings(memory)
        assert finding.kind == "file" and "tea" not in finding.sentence
    assert not (tmp_path / HOME / "deleted").exists()


@pytest.mark.covers("A26")
def test_a_file_with_an_id_that_no_command_takes_is_told_and_changes_nothing(tmp_path: Path) -> None:
    id = kept(tmp_path)
    file = only(tmp_path)
    file.with_name("new.md").write_text("---\nid: ../../etc\n---\nUser keeps bees\n")
    replace(f"id: {id}", "id: ../../etc")(file)
    with opened(tmp_path) as memory:
        assert texts(memory) == [TEA]
        told = sorted(finding.sentence for finding in findings(memory))
        assert len(told) == 2 and all("has an id that is no UUID" in each for each in told)
        assert file.name in told[0] and "its memory stays" in told[0] and "new.md" in told[1]
    file.with_name("new.md").write_text("---\ncreated_at: 2026-03-01\n---\nUser keeps bees\n")
    with opened(tmp_path) as memory:
        assert texts(memory) == ["User keeps bees", TEA]


@pytest.mark.covers("A26")
@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_names_and_folders_that_cannot_be_break_no_opening(tmp_path: Path) -> None:
    kept(tmp_path)
    folder = tmp_path / HOME / "facts"
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text(f"---\nmood: x\n---\n{COFFEE}\n")
    (folder / Path(*["a"] * 200)).mkdir(parents=True)
    (folder / "note.md").write_text("---\nhash:\ntold_at:\nkind: ~\nupdated_at: null\n---\nUser likes rain\n")
    with opened(tmp_path) as memory:
        assert texts(memory) == ["User likes rain", TEA]
        assert memory.search("rain", **WORK).results[0].memory == "User likes rain"
        assert sorted(each.sentence.rpartition(": ")[2] for each in findings(memory)) == [
            "it lies in more than 64 folders", "its name is not in UTF-8",
        ]  # fmt: skip


@pytest.mark.parametrize("name", ["zz.md", "{} copy.md"])
@pytest.mark.parametrize("everything", [True, False])
def test_a_copy_that_is_edited_is_no_edit_of_the_first(tmp_path: Path, name: str, everything: bool) -> None:
    async def scene() -> None:
        async with AsyncMemory(config(str(tmp_path))) as memory:
            await memory.add(TEA, infer=False, **WORK)
            first = only(tmp_path)
            copy = first.with_name(name.format(first.stem))
            copy.write_text(first.read_text().replace("tea", "coffee"))
            found = await sync_files(memory._engine.kernel, None if everything else [copy])
            assert (found.rows, len(found.problems)) == (0, 1)
            assert [item.memory for item in (await memory.get_all(**WORK)).results] == [TEA]
            (finding,) = findings(Memory(config(str(tmp_path))))
            assert finding.id == copy.relative_to(tmp_path).as_posix()

    asyncio.run(scene())


@pytest.mark.covers("A28")
@pytest.mark.parametrize("walls", [{"run_id": "chat:42"}, {"user_id": "ana@example.com"}], ids=str)
def test_a_file_is_of_its_folders_conversation_whatever_that_had_to_be_called(
    tmp_path: Path, walls: dict[str, str]
) -> None:
    with opened(tmp_path) as memory:
        memory.add(TEA, infer=False, **walls)
    (folder,) = (tmp_path / "entries").iterdir()
    (folder / "facts/note.md").write_text(f"---\nmood: x\n---\n{COFFEE}\n")
    (tmp_path / "entries/diary-20251123/facts").mkdir(parents=True)
    (tmp_path / "entries/diary-20251123/facts/note.md").write_text("---\nmood: x\n---\nUser likes rain\n")
    with opened(tmp_path) as memory:
        assert texts(memory, **walls) == [COFFEE, TEA]
        assert texts(memory, run_id="diary-20251123") == ["User likes rain"]
        for item in memory.get_all(**walls).results:
            memory.update(item.id, f"{item.memory} a lot")
        assert len(list((folder / "facts").iterdir())) == 2
        assert findings(memory) == []


# ------------------------------------------------------------------ what is deleted, and comes back
@pytest.mark.covers("K14")
def test_a_tombstone_that_is_moved_back_stands_again(tmp_path: Path) -> None:
    id = kept(tmp_path)
    with opened(tmp_path) as memory:
        memory.delete(id)
    path = only(tmp_path, "deleted/facts")
    (tmp_path / HOME / "facts").mkdir()
    path.rename(tmp_path / HOME / "facts" / path.name)
    with opened(tmp_path) as memory:
        assert [item.id for item in memory.get_all(**WORK).results] == [id]
        assert [record.event for record in memory.history(id)] == ["ADD", "DELETE", "ADD"]
        assert findings(memory) == []


@pytest.mark.covers("A25")
def test_tombstones_of_agent_cli_stay_deleted_and_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / HOME / "facts" / "2025__0b8f3f0c-8d64-4f0e-9b1a-0a2b3c4d5e01.md"
    fields = "conversation_id: work\nuser_id: alice\nrole: memory\ncreated_at: 2025-11-20T14:06:01+00:00"
    for place, text in (
        (path, TEA),
        (tmp_path / "entries/deleted/work/facts/a.md", COFFEE),
        (tmp_path / HOME / "deleted/facts/b.md", "User likes rain"),
    ):
        place.parent.mkdir(parents=True)
        place.write_text(f"---\nid: {place.stem[-36:]}\n{fields}\nreplaced_by: {path.stem[-36:]}\n---\n{text}\n")
    with opened(tmp_path) as memory:
        assert texts(memory) == [TEA]
        assert findings(memory) == []


@pytest.mark.covers("K5")
def test_the_words_of_a_turn_whose_file_is_deleted_are_shown_no_more(tmp_path: Path) -> None:
    with opened(tmp_path, episodes="search") as memory:
        memory.add("I live in Oslo.", **WORK)
    path = only(tmp_path, "turns/user")
    said = path.read_text()

    def words(memory: Memory) -> list[str]:
        (fact, *turns) = sorted(memory.search("Oslo", hydrate=True, **WORK).results, key=lambda item: item.kind)
        return [*(message["content"] for message in fact.messages or ()), *(turn.memory for turn in turns)]

    path.unlink()
    with opened(tmp_path, episodes="search") as memory:
        assert words(memory) == [] and findings(memory) == []
        assert bodies(tmp_path, "deleted/turns/user") == ["I live in Oslo."]
    path.write_text(said)
    with opened(tmp_path, episodes="search") as memory:
        assert words(memory) == ["I live in Oslo."] * 2
        memory.forget(**WORK)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"Oslo" in path.read_bytes()]


@pytest.mark.covers("U4", "U20")
@pytest.mark.parametrize("way", ["expires", "deleted by hand"])
def test_what_was_cut_from_a_document_goes_with_it(tmp_path: Path, way: str) -> None:
    async def scene() -> None:
        async with AsyncMemory(config(str(tmp_path))) as memory:
            runtime, kernel = AgentRuntime("agent", memory), memory._engine.kernel
            ids = [await runtime.process_document("Lakes. " * 400, "Lakes", room_id=room) for room in ("a", "b")]
            (path,) = (tmp_path / "entries").rglob(f"*{ids[0]}.md")
            if way == "expires":
                path.write_text(path.read_text().replace("---\n", "---\nexpires_at: 2020-01-01\n", 1))
            else:
                path.unlink()
            await sync_files(kernel)
            if way == "expires":
                assert (await memory._engine.maintenance.expire(Scope())).count == 1
            left = [await runtime.get_memories(table_name="fragments", document_id=id) for id in ids]
            assert left[0] == [] and len(left[1]) > 1

    asyncio.run(scene())


# ------------------------------------------------------------------ the folder
def test_what_is_its_owners_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "src/draft.tmp"
    own.parent.mkdir()
    own.write_text("mine")
    os.utime(own, (1, 1))
    kept(tmp_path)
    assert own.read_text() == "mine"


@pytest.mark.covers("K61")
@pytest.mark.parametrize("pause", [0.0, 2.0])
def test_a_folder_that_goes_and_comes_back_is_watched_again(tmp_path: Path, pause: float) -> None:
    async def scene() -> None:
        store = {"provider": "markdown", "config": {"watch": True, "git": False}}
        async with AsyncMemory(config(str(tmp_path), vector_store=store)) as memory:
            await memory.add(TEA, infer=False, **WORK)
            await asyncio.sleep(0.3)
            shutil.copytree(tmp_path / "entries", tmp_path / "aside")
            shutil.rmtree(tmp_path / "entries")
            await asyncio.sleep(pause)
            shutil.copytree(tmp_path / "aside", tmp_path / "entries")
            await asyncio.sleep(0.5)
            (tmp_path / HOME / "facts/note.md").write_text(f"---\nmood: x\n---\n{COFFEE}\n")
            while len((found := await memory.get_all(**WORK)).results) < 2:
                await asyncio.sleep(0.05)
            assert [len(await memory.history(item.id)) for item in found.results] == [1, 1]

    asyncio.run(asyncio.wait_for(scene(), 60))
