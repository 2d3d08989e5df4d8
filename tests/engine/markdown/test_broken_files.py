"""A file that a hand broke deletes nothing, and versions, log and doctor tell what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import Memory
from tests.backends.git.folders import git
from tests.engine.markdown.memories import ANA, events, findings, found, opened, settled, texts, until
from tests.frontends.cli.runs import perdure

pytestmark = pytest.mark.covers("A26", "K5", "K22")

OSLO, STAYS = "User lives in Oslo", "Unreadable file, memory stays: User lives in Oslo"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def kept(path: Path) -> tuple[str, Path]:
    """The id and the file of the one memory of a new folder."""
    with opened(path) as memory:
        id = memory.add("I live in Oslo", **ANA).results[0].id
        settled(memory)
    return id, only(path)


def only(path: Path) -> Path:
    (file,) = (path / "entries/@user-ana/facts").glob("*.md")
    return file


def no_yaml(file: Path) -> None:
    file.write_text(file.read_text().replace("role: memory", "role: memory\nnote: a: b"))


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def half_saved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:70])


def bare(file: Path) -> None:
    file.write_text("User lives in Oslo, near the lake\n")


def latin(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"Oslo", b"Osl\xf8"))


SLIPS: list[Callable[[Path], None]] = [no_yaml, emptied, half_saved, bare, latin]


@pytest.mark.covers("K5")
@pytest.mark.parametrize("slip", SLIPS)
def test_a_broken_file_is_no_deletion_and_is_told_until_it_is_mended(
    path: Path, slip: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    id, file = kept(path)
    whole = file.read_text()
    slip(file)
    broken = file.read_bytes()
    with caplog.at_level(logging.WARNING, "perdure"), opened(path) as memory:
        assert texts(memory) == [OSLO] and found(memory, "Oslo") == [OSLO]
        until(lambda: settled(memory)[:1] == [STAYS])  # a busy machine looks at the file a little later
        assert settled(memory)[:2] == [STAYS, "Learned: User lives in Oslo"]
        (change,) = memory.versions.log(limit=1)[0].changes
        assert (change.change, change.id, change.line, change.learned_from) == ("unreadable", id, STAYS, ())
        assert events(memory, id) == [("ADD", "add")]
        (finding,) = findings(memory)
        name = file.relative_to(path).as_posix()
        assert (finding.kind, finding.id) == ("file", name)
        assert "its memory stays as it was: mend the file" in finding.sentence and "Oslo" not in finding.sentence
        assert memory.versions.revert("HEAD").results == [], "there is nothing to take back"
    assert [record.message for record in caplog.records] == [finding.sentence]
    assert file.read_bytes() == broken, "it is left as the hand wrote it"
    assert not list(path.glob("entries/**/deleted"))

    file.write_text(whole.replace("Oslo", "Bergen"))
    with opened(path) as memory:
        assert texts(memory) == ["User lives in Bergen"] and findings(memory) == []
        assert settled(memory)[1:3] == [STAYS, "Learned: User lives in Oslo"]
        (change,) = memory.versions.log(limit=1)[0].changes
        assert (change.change, change.before, change.after) == ("changed", OSLO, "User lives in Bergen")
        assert events(memory, id) == [("ADD", "add"), ("UPDATE", "file")]


@pytest.mark.covers("A26")
def test_what_yaml_says_is_told_with_the_line(path: Path) -> None:
    no_yaml(kept(path)[1])
    with opened(path) as memory:
        (finding,) = findings(memory)
    assert "no YAML, line 4: mapping values are not allowed in this context; its memory stays" in finding.sentence


@pytest.mark.covers("K22")
def test_a_file_that_is_mended_as_it_was_is_told_so(path: Path) -> None:
    id, file = kept(path)
    whole = file.read_bytes()
    no_yaml(file)
    with opened(path) as memory:
        settled(memory)
    file.write_bytes(whole)
    with opened(path) as memory:
        assert settled(memory)[:2] == ["File mended: User lives in Oslo", STAYS]
        assert [each.change for each in memory.versions.diff("HEAD~2", "HEAD").results] == []
        assert [each.change for each in memory.versions.diff("HEAD~2", "HEAD~1").results] == ["unreadable"]
        assert events(memory, id) == [("ADD", "add")]


@pytest.mark.covers("K5")
def test_a_file_that_is_moved_and_broken_at_once_deletes_nothing(path: Path) -> None:
    _, file = kept(path)
    no_yaml(file)
    file.rename(path / "entries/@user-ana/facts/home.md")
    with opened(path) as memory:
        assert texts(memory) == [OSLO]
        (finding,) = findings(memory)
    assert finding.id == "entries/@user-ana/facts/home.md" and "its memory stays" in finding.sentence


@pytest.mark.covers("K5")
def test_a_broken_file_deletes_nothing_where_what_was_noted_of_files_is_gone(path: Path) -> None:
    no_yaml(kept(path)[1])
    (path / "memory_index.json").unlink()
    with opened(path) as memory:
        assert texts(memory) == [OSLO]
        assert [each.kind for each in findings(memory)] == ["file"]


@pytest.mark.covers("K5")
def test_a_deleted_file_is_a_deletion_and_so_is_one_whose_text_was_taken_out(path: Path) -> None:
    for way in ("unlink", "text"):
        id, file = kept(path / way)
        if way == "unlink":
            file.unlink()
        else:
            file.write_text(file.read_text().rpartition("---\n")[0] + "---\n")
        with opened(path / way) as memory:
            assert texts(memory) == []
            assert settled(memory)[0] == "Deleted: User lives in Oslo"
            assert events(memory, id) == [("ADD", "add"), ("DELETE", "file")]


@pytest.mark.covers("K14")
def test_two_files_of_one_id_are_told_and_the_first_counts(path: Path) -> None:
    _, file = kept(path)
    copy = file.with_name("copy.md")
    copy.write_text(file.read_text().replace("Oslo", "Bergen"))
    with opened(path) as memory:
        assert texts(memory) == [OSLO]
        (finding,) = findings(memory)
        assert finding.id.endswith("/copy.md") and "which counts" in finding.sentence


def test_a_merge_keeps_a_memory_whose_file_one_side_broke(path: Path) -> None:
    _, file = kept(path)
    with opened(path) as memory:
        memory.versions.branch("other")
        memory.add("I have a dog named Rex", **ANA)
        memory.versions.branch("main")
        no_yaml(file)
        settled(memory)
        broken = file.read_bytes()
        memory.versions.merge("other")
        assert texts(memory) == ["User has a dog named Rex", OSLO]
    assert file.read_bytes() == broken


def test_a_clone_of_a_version_with_a_broken_file_says_so(path: Path, tmp_path: Path) -> None:
    no_yaml(kept(path)[1])
    with opened(path) as memory:
        settled(memory)
        assert [each.line for each in memory.versions.log("HEAD~1", limit=1)[0].changes] == [
            "Learned: User lives in Oslo"
        ]
    git(tmp_path, "clone", "-q", str(path), "clone")
    with opened(tmp_path / "clone") as memory:
        assert texts(memory) == []
        (finding,) = findings(memory)
        assert "no YAML" in finding.sentence and "its memory" not in finding.sentence


# ------------------------------------------------------------------ memory goes on while a file is broken
@pytest.mark.covers("K14")
@pytest.mark.parametrize("way", ["update", "delete", "correct"])
def test_a_broken_file_whose_memory_changes_is_set_aside_and_stands_never_again(path: Path, way: str) -> None:
    id, file = kept(path)
    whole = file.read_text()
    no_yaml(file)
    broken = file.read_bytes()

    def goes_on(memory: Memory) -> None:
        if way == "update":
            memory.update(id, "User lives in Bergen")
        elif way == "delete":
            memory.delete(id)
        else:
            memory.add("I moved to Bergen", **ANA)

    with opened(path) as memory:
        goes_on(memory)
        now = texts(memory)
        assert now == ([] if way == "delete" else [text for text in now if "Bergen" in text])
        title = settled(memory)[0]
        assert title.startswith("Deleted: User lives in Oslo" if way == "delete" else "User's home: Oslo → Bergen")
    aside = [each for each in path.glob("entries/*/deleted/facts/*.md") if each.read_bytes() == broken]
    assert len(aside) == 1
    aside[0].write_text(whole)
    with opened(path) as memory:
        assert texts(memory) == now
        memory.forget(id=id) if way != "delete" else memory.forget(**ANA)
    without_git = [each for each in path.rglob("*") if each.is_file() and ".git" not in each.parts]
    assert not [each for each in without_git if b"Oslo" in each.read_bytes() and each != aside[0]]


@pytest.mark.parametrize("is_aside", [False, True])
def test_what_is_forgotten_stands_in_no_broken_file(path: Path, is_aside: bool) -> None:
    id, file = kept(path)
    no_yaml(file)
    with opened(path) as memory:
        if is_aside:
            memory.update(id, "User lives in Bergen")
        memory.forget(id=id)
    without_git = [each for each in path.rglob("*") if each.is_file() and ".git" not in each.parts]
    assert not [each for each in without_git if b"lives in Oslo" in each.read_bytes()]


@pytest.mark.covers("K5")
def test_the_command_line_says_what_is_wrong_with_which_file(path: Path) -> None:
    _, file = kept(path)
    (path / "perdure.toml").write_text(
        '[vector_store]\nprovider = "markdown"\n\n[embedder]\nprovider = "hashed"\n', encoding="utf-8"
    )
    no_yaml(file)
    told = perdure("list", "--user-id", "ana", "--path", str(path))
    assert OSLO in told.out
    assert f"{file.relative_to(path).as_posix()}: the file has front matter that is no YAML, line 4: " in told.err
    assert "mend the file" in told.err
    title = perdure("log", "--limit", "1", "--path", str(path)).out.splitlines()[0]
    assert title.endswith(STAYS)


# ------------------------------------------------------------------ a hand's own words
@pytest.mark.covers("K5")
@pytest.mark.parametrize("is_signed", [True, False], ids=["this version's file", "an earlier version's file"])
def test_a_hand_edit_is_learned_from_no_message_and_told_as_one(path: Path, is_signed: bool) -> None:
    id, file = kept(path)
    with opened(path) as memory:
        (said,) = memory.get_all(**ANA).results[0].sources
    text = file.read_text().replace("Oslo", "Bergen")
    if not is_signed:
        text = "\n".join(line for line in text.split("\n") if not line.startswith("sources_of"))
    file.write_text(text)
    line = "Edited by hand: User lives in Oslo → User lives in Bergen"
    for _ in range(2):
        with opened(path) as memory:
            (item,) = memory.get_all(**ANA).results
            assert (item.memory, item.sources, item.source) == ("User lives in Bergen", (), "file")
            assert settled(memory)[:2] == [line, "Learned: User lives in Oslo"]
            (change,) = memory.versions.log(limit=1)[0].changes
            assert (change.change, change.line, change.learned_from) == ("changed", line, ())
            last = memory.history(id)[-1]
            assert (last.event, last.actor, last.reason) == ("UPDATE", "file", "edited by hand")
            assert memory.search("Bergen", hydrate=True, **ANA).results[0].messages in (None, ())
            assert len(memory.history(id)) == 2 and findings(memory) == []
    assert file.read_text() == text
    (tombstone,) = path.glob("entries/*/deleted/facts/*.md")
    assert said in tombstone.read_text() and "User lives in Oslo" in tombstone.read_text()

    with opened(path) as memory:
        memory.update(id, "User lives in Bergen", metadata={"mood": "good"})
    assert said not in only(path).read_text()
    with opened(path) as memory:
        memory.forget(id=id)
        without_git = [each for each in path.rglob("*") if each.is_file() and ".git" not in each.parts]
        assert not [each for each in without_git if b"live in Oslo" in each.read_bytes()]


@pytest.mark.covers("K5")
def test_an_edit_that_is_taken_back_is_learned_from_the_message_again(path: Path) -> None:
    id, file = kept(path)
    file.write_text(file.read_text().replace("Oslo", "Bergen"))
    with opened(path) as memory:
        memory.undo(memory.history(id)[-1].id)
        (item,) = memory.get_all(**ANA).results
        assert (item.memory, len(item.sources), item.source) == (OSLO, 1, "conversation")
    assert "sources_of" in file.read_text()


@pytest.mark.covers("K5")
def test_an_edit_of_what_stands_beside_the_text_leaves_where_it_came_from(path: Path) -> None:
    _, file = kept(path)
    file.write_text(file.read_text().replace("role: memory", "role: memory\nmood: good"))
    with opened(path) as memory:
        (item,) = memory.get_all(**ANA).results
        assert (item.metadata["mood"], len(item.sources), item.source) == ("good", 1, "conversation")


def test_log_says_of_no_text_that_it_was_learned_from_the_words_behind_another(path: Path) -> None:
    id, _ = kept(path)
    with opened(path) as memory:
        memory.update(id, "User lives in Bergen")
        settled(memory)
        (change,) = memory.versions.log(limit=1)[0].changes
        assert (change.line, change.learned_from) == ("User's home: Oslo → Bergen", ())
