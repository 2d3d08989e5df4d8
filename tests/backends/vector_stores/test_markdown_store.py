"""The `markdown` store: files are the truth, the index is made of them, unchanged files are not read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure.backends.markdown import scan
from perdure.backends.markdown.layout import place_of
from perdure.backends.markdown.memory_file import render
from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.markdown.store import MarkdownVectorStore
from perdure.domain.errors import InvalidInputError, VectorStoreError
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.scope import Scope

pytestmark = pytest.mark.covers("K60", "U1")

DAY = "2025-11-20T14:06:01.123456+00:00"
UNIT = np.array([1.0, 0.0], np.float32)
IDS = [f"0b8f3f0c-8d64-4f0e-9b1a-0a2b3c4d5e{number:02}" for number in range(20)]


def fact(number: int, text: str = "", run: str = "work", **fields: Any) -> Point:
    text = text or f"User likes tea number {number}"
    item = MemoryItem(
        **{
            "id": IDS[number],
            "memory": text,
            "hash": text_hash(text),
            "scope": Scope(run_id=run),
            "created_at": DAY,
            "updated_at": DAY,
            "told_at": DAY,
            "valid_from": DAY,
            **fields,
        }
    )
    return Point(item.id, UNIT, item.to_payload())


class Vault:
    """A store in a folder, called without await; `again` closes it and opens another one there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loop = asyncio.new_event_loop()
        self.store = self._open()

    def _open(self) -> MarkdownVectorStore:
        store = MarkdownVectorStore(MarkdownVectorStore.Settings(path=self.root))
        self.run(store.open())
        self.run(store.create_collection("memories", 2))
        return store

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def again(self, between: Callable[[], None] = lambda: None) -> None:
        self.run(self.store.close())
        between()
        self.store = self._open()

    def close(self) -> None:
        self.run(self.store.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def put(self, *points: Point, collection: str = "memories") -> None:
        self.run(self.store.apply(collection, points))

    def absorb(self, *paths: str) -> tuple[list[str], list[str], list[str], list[str]]:
        found = self.run(self.store.absorb("memories", [self.root / path for path in paths] or None))
        return found.added, found.changed, found.removed, found.moved

    def texts(self, collection: str = "memories") -> list[str]:
        return sorted(point.payload["memory"] for point in self.run(self.store.list(collection)).points)

    def files(self) -> list[str]:
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return sorted(path for path in found if not path.startswith("index/"))

    def memories(self) -> list[str]:
        return [path for path in self.files() if path.endswith(".md")]

    def row(self, number: int) -> Point:
        return self.run(self.store.get("memories", IDS[number]))


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = Vault(tmp_path / "vault")
    yield made
    made.close()


def at(number: int, run: str = "work") -> str:
    return f"entries/{place_of(IDS[number], fact(number, run=run).payload)}"


# ------------------------------------------------------------------ writing
@pytest.mark.covers("K12", "K13")
def test_each_row_is_a_file(vault: Vault) -> None:
    vault.put(fact(0), fact(1, run="home"))
    assert vault.memories() == sorted([at(0), at(1, "home")])
    assert (vault.root / at(0)).read_text() == render(IDS[0], fact(0).payload)
    assert vault.store.path_of(IDS[0]) == vault.root / at(0)


@pytest.mark.covers("K14")
def test_a_superseded_fact_moves_to_the_tombstones(vault: Vault) -> None:
    vault.put(fact(0))
    old = fact(0, id="version-0", state="version", version_of=IDS[0], replaced_by=IDS[1], untold_at=DAY)
    vault.run(vault.store.apply("memories", [fact(1), old], [IDS[0]]))
    tombstone = at(0).replace("/facts/", "/deleted/facts/")
    assert vault.memories() == sorted([at(1), tombstone])
    assert f"replaced_by: {IDS[1]}" in (vault.root / tombstone).read_text()


@pytest.mark.covers("K14")
def test_tombstones_of_one_name_get_numbers_and_go_one_by_one(vault: Vault) -> None:
    for number in range(3):
        version = fact(0, f"text {number}", id=f"v{number}", kind="summaries", role="summary", state="version",
                       version_of=IDS[0], untold_at=DAY)  # fmt: skip
        vault.put(version)
    folder = "entries/work/deleted/summaries"
    assert vault.memories() == [f"{folder}/summary.2.md", f"{folder}/summary.3.md", f"{folder}/summary.md"]
    vault.again()
    vault.run(vault.store.apply("memories", (), ["v1"]))
    assert vault.memories() == [f"{folder}/summary.3.md", f"{folder}/summary.md"]
    vault.run(vault.store.apply("memories", (), ["v0", "v2"]))
    assert vault.memories() == []
    assert not (vault.root / "entries/work").exists()


def test_a_row_whose_walls_change_moves(vault: Vault) -> None:
    vault.put(fact(0))
    vault.put(fact(0, run="home"))
    assert vault.memories() == [at(0, "home")]
    assert not (vault.root / "entries/work").exists()


def test_a_file_that_people_named_keeps_its_name(vault: Vault) -> None:
    note = vault.root / "entries/work/facts/note.md"
    note.parent.mkdir(parents=True)
    note.write_text(render(IDS[0], fact(0).payload))
    assert vault.absorb() == ([IDS[0]], [], [], [])
    vault.put(fact(0, "User likes coffee"))
    assert vault.memories() == ["entries/work/facts/note.md"]
    assert "coffee" in note.read_text()


def test_reading_a_memory_more_often_writes_no_file(vault: Vault) -> None:
    vault.put(fact(0))
    before = (vault.root / at(0)).stat().st_mtime_ns
    vault.put(fact(0, access_count=7, last_accessed_at=DAY))
    assert (vault.root / at(0)).stat().st_mtime_ns == before
    assert vault.row(0).payload["access_count"] == 7


def test_what_is_wrong_with_a_row_is_told_before_any_file_is_written(vault: Vault) -> None:
    with pytest.raises(InvalidInputError):
        vault.put(fact(0), Point(IDS[1], np.zeros(3, np.float32), fact(1).payload))
    with pytest.raises(InvalidInputError):
        vault.put(fact(0), Point(IDS[1], UNIT, {"memory": object()}))
    assert vault.memories() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_store_error(vault: Vault) -> None:
    (vault.root / "entries").chmod(0o500)
    with pytest.raises(VectorStoreError, match="cannot be written"):
        vault.put(fact(0))
    (vault.root / "entries").chmod(0o700)


def test_a_file_in_the_way_of_a_folder_is_a_store_error(vault: Vault) -> None:
    (vault.root / "entries/work").write_text("in the way")
    with pytest.raises(VectorStoreError, match="cannot be written"):
        vault.put(fact(0))
    assert vault.texts() == []


# ------------------------------------------------------------------ collections
def test_generations_share_the_files_and_other_collections_lie_apart(vault: Vault) -> None:
    vault.put(fact(0))
    vault.run(vault.store.create_collection("memories--2", 3))
    vault.put(Point(IDS[0], None, fact(0).payload), Point(IDS[1], None, fact(1).payload), collection="memories--2")
    vault.run(vault.store.apply("memories--2", (), [IDS[1]]))
    vault.run(vault.store.create_collection("others", 2))
    vault.put(fact(2), collection="others")
    assert vault.memories() == [f"collections/others/{at(2)}", at(0)]
    vault.run(vault.store.delete_collection("memories"))
    assert at(0) in vault.memories()
    vault.put(Point(IDS[3], None, fact(3).payload), collection="memories--2")
    assert at(3) in vault.memories()
    vault.run(vault.store.delete_collection("memories--2"))
    vault.run(vault.store.delete_collection("others"))
    assert vault.memories() == []


# ------------------------------------------------------------------ files that others change
@pytest.mark.covers("K5", "U1")
def test_edits_are_taken_in(vault: Vault) -> None:
    vault.put(fact(0), fact(1), fact(2))
    path = vault.root / at(0)
    path.write_text(path.read_text().replace("tea", "coffee"))
    (vault.root / at(1)).unlink()
    (vault.root / "entries/work/facts/new.md").write_text("---\nmood: good\n---\nUser likes rain\n")
    added, changed, removed, moved = vault.absorb()
    assert (len(added), changed, removed, moved) == (1, [IDS[0]], [IDS[1]], [])
    assert vault.texts() == ["User likes coffee number 0", "User likes rain", "User likes tea number 2"]
    assert vault.row(0).vector is None
    assert vault.row(0).payload["hash"] == text_hash("User likes coffee number 0")
    assert path.read_text().count("coffee") == 1
    assert vault.absorb() == ([], [], [], [])


@pytest.mark.covers("K61")
def test_a_file_that_comes_or_goes_while_it_is_taken_in_is_left_so(vault: Vault) -> None:
    """As under a checkout there and one back: neither is undone, and the next look sees it."""
    vault.put(fact(0), fact(1))
    path, data = vault.root / at(0), (vault.root / at(0)).read_bytes()
    path.unlink()
    found = vault.run(vault.store.differences("memories")).foreign
    path.write_bytes(data)
    vault.run(vault.store.take("memories", found))
    assert (path.read_bytes(), vault.texts()) == (data, ["User likes tea number 1"])
    assert vault.absorb(at(0)) == ([IDS[0]], [], [], [])
    path.write_bytes(data.replace(b"tea", b"rain"))
    found = vault.run(vault.store.differences("memories")).foreign
    path.unlink()
    vault.run(vault.store.take("memories", found))
    assert (path.exists(), vault.absorb(at(0))) == (False, ([], [], [IDS[0]], []))
    assert (vault.texts(), vault.memories()) == (["User likes tea number 1"], [at(1)])


@pytest.mark.covers("K60")
def test_a_text_that_stays_keeps_its_vector(vault: Vault) -> None:
    vault.put(fact(0), fact(1))
    path = vault.root / at(0)
    path.write_text(path.read_text().replace("role: memory", "role: memory\nmood: good"))
    other = vault.root / "entries/work/facts/renamed.md"
    (vault.root / at(1)).rename(other)
    assert vault.absorb() == ([], [IDS[0]], [], [IDS[1]])
    assert vault.row(0).payload["metadata"] == {"mood": "good"}
    assert vault.row(0).vector is not None
    assert vault.row(1).vector is not None
    assert vault.store.path_of(IDS[1]) == other


def test_walls_are_edited_by_hand(vault: Vault) -> None:
    vault.put(fact(0))
    path = vault.root / at(0)
    path.write_text(path.read_text().replace("conversation_id: work", "conversation_id: home\nuser_id: bob"))
    assert vault.absorb() == ([], [IDS[0]], [], [])
    assert {name: vault.row(0).payload[name] for name in ("run_id", "user_id")} == {"run_id": "home", "user_id": "bob"}


@pytest.mark.covers("K60")
def test_unchanged_files_are_not_read(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.put(*[fact(number) for number in range(5)])
    read: list[str] = []
    real = scan.look
    monkeypatch.setattr(scan, "look", lambda root, home, path: read.append(path) or real(root, home, path))

    def edit() -> None:
        (vault.root / at(3)).write_text((vault.root / at(3)).read_text().replace("tea", "coffee"))

    vault.again(edit)
    assert vault.absorb() == ([], [IDS[3]], [], [])
    assert read == [at(3)]
    os.utime(vault.root / at(2))
    assert vault.absorb() == ([], [], [], [])
    assert vault.absorb() == ([], [], [], [])
    assert read == [at(3), at(2)]


@pytest.mark.covers("A27")
@pytest.mark.parametrize("broken", [None, "", "[]", "{", '{"files": {"a": 1}, "identity": 3}', "[" * 100_000])
def test_the_snapshot_only_saves_reading(vault: Vault, broken: str | None) -> None:
    vault.put(fact(0), fact(1))
    index = vault.root / "memory_index.json"

    def damage() -> None:
        if broken is None:
            index.unlink()
        else:
            index.write_text(broken)
        (vault.root / at(1)).unlink()

    identity = vault.run(vault.store.identity())
    vault.again(damage)
    assert vault.run(vault.store.identity()) == identity
    assert vault.absorb() == ([], [], [IDS[1]], [])
    assert vault.texts() == ["User likes tea number 0"]


@pytest.mark.covers("K18")
@pytest.mark.covers("K18")
def test_the_snapshot_names_the_row_of_each_file(vault: Vault) -> None:
    vault.put(fact(0), fact(1))
    vault.run(vault.store.sync())
    told = json.loads((vault.root / "memory_index.json").read_text())
    assert {path: one["id"] for path, one in told["files"].items()} == {at(0): IDS[0], at(1): IDS[1]}


@pytest.mark.covers("U1")
def test_a_lost_index_is_made_from_the_files(vault: Vault) -> None:
    version = fact(4, id="v4", state="version", version_of=IDS[4], untold_at=DAY)
    rows = [fact(0), fact(1, metadata={"a b": [1]}), version, Point("odd/row", None, {"memory": "x", "z": 1})]
    vault.put(*rows)
    identity = vault.run(vault.store.identity())
    vault.again(lambda: [path.unlink() for path in (vault.root / "index").iterdir()] and None)
    vault.absorb()
    assert vault.run(vault.store.identity()) == identity
    for row in rows:
        assert vault.run(vault.store.get("memories", row.id)).payload == row.payload


def test_no_folder_at_all_is_no_deletion_of_everything(vault: Vault) -> None:
    vault.put(fact(0))
    (vault.root / "entries").rename(vault.root / "elsewhere")
    found = vault.run(vault.store.absorb("memories"))
    assert (found.removed, vault.texts()) == ([], ["User likes tea number 0"])
    assert "the folder is missing" in found.problems[0].sentence
    vault.again()
    assert vault.absorb()[2] == []
    assert (vault.texts(), (vault.root / "entries").exists()) == (["User likes tea number 0"], False)
    (problem,) = vault.run(vault.store.problems())
    assert (problem.path, problem.read) == ("entries", False)
    (vault.root / "elsewhere").rename(vault.root / "entries")
    assert vault.absorb() == ([], [], [], [])
    assert vault.run(vault.store.problems()) == []


def test_some_paths_alone_are_looked_at(vault: Vault) -> None:
    vault.put(fact(0), fact(1), fact(2), fact(3, run="home"))
    for number in (0, 1):
        path = vault.root / at(number)
        path.write_text(path.read_text().replace("tea", "coffee"))
    (vault.root / at(2)).unlink()
    assert vault.absorb(at(0)) == ([], [IDS[0]], [], [])
    assert vault.absorb(at(2), "README.md", "../outside.md") == ([], [], [IDS[2]], [])
    (vault.root / "entries/home").rename(vault.root / "entries/office")
    assert vault.absorb("entries/home", "entries/office") == ([], [], [], [IDS[3]])
    assert vault.absorb() == ([], [IDS[1]], [], [])


# ------------------------------------------------------------------ files that are none of memories
@pytest.mark.covers("A26")
def test_problems_are_told_and_break_nothing(vault: Vault, tmp_path: Path) -> None:
    vault.put(fact(0))
    folder = vault.root / "entries/work/facts"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(render(IDS[9], fact(9).payload))
    (folder / "plain.md").write_text("no front matter")
    (folder / "latin.md").write_bytes("---\nid: x\n---\ncafé".encode("latin-1"))
    (folder / "broken.md").write_text("---\nid: [\n---\nx")
    (folder / "copy.md").write_text(render(IDS[0], fact(0).payload))
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "folder.md").mkdir()
    (vault.root / "entries/linked").symlink_to(outside, target_is_directory=True)
    os.mkfifo(folder / "pipe.md")
    with (folder / "huge.md").open("wb") as file:
        file.truncate(scan.LARGEST + 1)
    (folder / ".hidden.md").write_text("---\nid: h\n---\nx")
    (folder / "x.md.tmp").write_text("---\nid: t\n---\nx")
    assert vault.absorb() == ([], [], [], [])
    told = {problem.path.rpartition("/")[2]: problem.sentence for problem in vault.run(vault.store.problems())}
    assert {name: told.get(name, "")[-40:] for name in told} == {
        "plain.md": "the file has no front matter",
        "latin.md": "the file is not in UTF-8",
        "broken.md": "line 3: did not find expected node content"[-40:],
        "copy.md": f"{at(0)}, which counts"[-40:],
        "link.md": "symbolic link, and these are not followed"[-40:],
        "linked": "symbolic link, and these are not followed"[-40:],
        "folder.md": "it is a folder, and no file",
        "pipe.md": "it is no file",
        "huge.md": f"the file is larger than {scan.LARGEST} bytes",
    }
    assert vault.absorb("entries/linked/secret.md") == ([], [], [], [])
    assert vault.texts() == ["User likes tea number 0"]


def test_a_file_that_only_has_the_file_systems_time_is_not_foreign_when_touched(vault: Vault) -> None:
    note = vault.root / "entries/work/facts/note.md"
    note.parent.mkdir(parents=True)
    note.write_text("---\nmood: good\n---\nUser likes rain\n")
    (added, *_) = vault.absorb()
    created = vault.run(vault.store.get("memories", added[0])).payload["created_at"]
    os.utime(note, (1, 1))
    assert vault.absorb() == ([], [], [], [])
    note.write_text("---\nmood: good\n---\nUser likes snow\n")
    assert vault.absorb() == ([], added, [], [])
    assert vault.run(vault.store.get("memories", added[0])).payload["created_at"] == created


def test_what_a_dead_process_was_writing_is_removed(vault: Vault) -> None:
    vault.put(fact(0))
    old, new = vault.root / "entries/work/facts/x.md.1.tmp", vault.root / "entries/work/facts/y.md.2.tmp"
    old.write_text("half")
    new.write_text("half")
    os.utime(old, (1, 1))
    vault.again()
    assert (old.exists(), new.exists()) == (False, True)
