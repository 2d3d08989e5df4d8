"""Branches, merges, remotes and clones of a memory in files, with index and history that follow."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory, MemoryStore
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError
from tests.backends.git.folders import git
from tests.engine.markdown.memories import ANA, commits, events, files, findings, found, opened, settled, texts, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def agree(memory: Memory, path: Path, *expected: str) -> None:
    """Files, index and search hold the same, the doctor finds nothing, and nothing waits to be committed."""
    assert texts(memory) == files(path) == sorted(expected)
    assert findings(memory) == []
    settled(memory)
    assert git(path, "status", "--porcelain") == ""


def test_a_branch_is_another_memory_until_it_is_merged(path: Path) -> None:
    with opened(path) as memory:
        (oslo,) = memory.add("I live in Oslo", **ANA).results
        made = memory.versions.branch("trip")
        assert (made.outcome, made.results) == ("made", [])
        memory.add("I moved to Bergen", **ANA)
        back = memory.versions.branch("main")
        assert back.outcome == "switched"
        agree(memory, path, "User lives in Oslo")
        assert found(memory, "where") == ["User lives in Oslo"]
        assert [(each.name, each.is_current) for each in memory.versions.branches()] == [
            ("main", True),
            ("trip", False),
        ]
        count = len(settled(memory))
        merged = memory.versions.merge("trip")
        assert merged.outcome == "forwarded"
        assert [change.line for change in merged.results] == ["User's home: Oslo → Bergen"]
        agree(memory, path, "User moved to Bergen")
        assert len(settled(memory)) == count + 1
        assert [event for event, _ in events(memory, oslo.id)][-1] in ("DELETE", "UPDATE")
        assert memory.versions.merge("trip").outcome == "nothing"
        for bad in ("a b", "-x"):
            with pytest.raises(InvalidInputError):
                memory.versions.branch(bad)
        with pytest.raises(NotFoundError):
            memory.versions.merge("nowhere")


def test_what_left_with_a_branch_is_not_called_forgotten(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        memory.versions.branch("trip")
        memory.add("I have a dog named Rex", **ANA)
        (change,) = memory.versions.branch("main").results
        assert (change.change, change.line) == ("left", "Left with the branch: User has a dog named Rex")
        assert change.before == "User has a dog named Rex"
        (change,) = memory.versions.diff("trip", "main").results
        assert (change.change, change.line) == ("left", "Not there: User has a dog named Rex")
        back = memory.versions.branch("trip")
        assert [each.change for each in back.results] == ["learned"]
        agree(memory, path, "User has a dog named Rex", "User lives in Oslo")


CAT = "User has a cat named Tom"


def cat_forgotten_on_a_branch(path: Path, **more: Any) -> None:
    """Make a memory whose branch `side` has forgotten the cat, which `main` still knows, and leave it on `side`."""
    with opened(path, **more) as memory:
        memory.add("I live in Oslo", **ANA)
        (cat,) = memory.add("I have a cat named Tom", **ANA).results
        memory.versions.branch("side")
        memory.forget(id=cat.id)
        settled(memory)


@pytest.mark.covers("U4")
@pytest.mark.parametrize("episodes", ["words", "search"])
def test_what_is_forgotten_on_one_branch_is_erased_on_the_next(path: Path, episodes: str) -> None:
    cat_forgotten_on_a_branch(path, episodes=episodes)
    with opened(path, episodes=episodes) as memory:
        report = memory.versions.branch("main")
        assert [(each.change, each.line[:16]) for each in report.results] == [("forgotten", "Stays forgotten:")]
        assert texts(memory) == ["User lives in Oslo"]
        assert "Tom" not in str([*files(path), *found(memory, "cat named Tom")])
        assert findings(memory) == []
        assert settled(memory)[0].startswith("Forgot 1 memory")
    live = [each for each in path.rglob("*") if each.is_file() and ".git" not in each.parts]
    assert [each for each in live if b"Tom" in each.read_bytes()] == []


@pytest.mark.covers("U4")
def test_what_is_forgotten_stays_so_after_a_checkout_of_the_users_own(path: Path) -> None:
    cat_forgotten_on_a_branch(path)
    git(path, "checkout", "-q", "main")
    with opened(path) as memory:
        assert texts(memory) == files(path) == ["User lives in Oslo"]
        assert findings(memory) == []
        assert settled(memory)[0].startswith("Forgot 1 memory")


@pytest.mark.covers("U4")
def test_what_is_forgotten_stays_so_after_a_merge(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        memory.versions.branch("side")
        (cat,) = memory.add("I have a cat named Tom", **ANA).results
        memory.versions.branch("other")
        memory.versions.branch("side")
        memory.forget(id=cat.id)
        memory.versions.branch("main")
        memory.add("I have a dog named Rex", **ANA)
        report = memory.versions.merge("other")
        assert "Tom" not in str(report.model_dump())
        assert [each.line[:15] for each in report.results if each.change == "forgotten"] == ["Stays forgotten"]
        agree(memory, path, "User has a dog named Rex", "User lives in Oslo")
        assert git(path, "rev-parse", "HEAD").strip() == report.commit


def test_a_file_of_a_forgotten_memory_that_somebody_puts_back_counts(path: Path) -> None:
    cat_forgotten_on_a_branch(path)
    (name,) = [each for each in git(path, "ls-tree", "-r", "--name-only", "main").splitlines() if "facts" in each][1:]
    git(path, "checkout", "-q", "main", "--", name)
    with opened(path) as memory:
        assert CAT in texts(memory)


def test_undo_reaches_over_a_switch_to_another_branch_and_back(path: Path) -> None:
    with opened(path) as memory:
        ids = [memory.add(text, infer=False, **ANA).results[0].id for text in ("Rent is $900", "Rent is $1,000")]
        memory.versions.branch("side")
        (dog,) = memory.add("I have a dog named Rex", **ANA).results
        merged = MemoryStore(memory).consolidate(ids)
        for _ in range(2):
            memory.versions.branch("main")
            memory.versions.branch("side")
        memory.undo(memory.history(merged.id)[0].id)
        agree(memory, path, "Rent is $1,000", "Rent is $900", "User has a dog named Rex")
        memory.undo(str(dog.event_id))
        agree(memory, path, "Rent is $1,000", "Rent is $900")


def test_a_file_that_is_no_memory_stops_no_switch_and_no_merge(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        settled(memory)
        (file,) = path.glob("entries/*/facts/*.md")
        file.with_name("own.md").write_text("a note of my own\n")
        assert memory.versions.branch("side").outcome == "made"
        memory.add("I have a dog named Rex", **ANA)
        assert memory.versions.branch("main").outcome == "switched"
        assert memory.versions.merge("side").outcome == "forwarded"
        assert texts(memory) == ["User has a dog named Rex", "User lives in Oslo"]
        (finding,) = findings(memory)
        assert "own.md" in finding.sentence


def test_both_sides_learn_and_the_merge_has_it_all(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        memory.versions.branch("other")
        memory.add("I have a dog named Rex", **ANA)
        memory.versions.branch("main")
        memory.add("I love pizza", **ANA)
        merged = memory.versions.merge("other")
        assert (merged.outcome, merged.conflicts, merged.contradictions) == ("merged", [], [])
        agree(memory, path, "User has a dog named Rex", "User lives in Oslo", "User loves pizza")
        assert settled(memory)[0] == "Merged other"
        (rex,) = [item for item in memory.get_all(**ANA).results if "Rex" in item.memory]
        assert events(memory, rex.id)[-1] == ("ADD", "file")


def test_contradictory_facts_of_two_sides_are_told_and_the_later_told_stands(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I have a dog named Rex", **ANA)
        memory.versions.branch("other")
        memory.add("I live in Oslo", **ANA)
        memory.versions.branch("main")
        memory.add("I moved to Bergen", **ANA)
        (contradiction,) = memory.versions.merge("other").contradictions
        assert (contradiction["ours"]["memory"], contradiction["theirs"]["memory"], contradiction["stands"]) == (
            "User moved to Bergen", "User lives in Oslo", "ours",
        )  # fmt: skip
        agree(memory, path, "User has a dog named Rex", "User moved to Bergen")


def test_a_memory_that_both_sides_updated_keeps_the_newer_text(path: Path) -> None:
    with opened(path, updates="in_place") as memory:
        (age,) = memory.add("I am 30 years old", **ANA).results
        memory.versions.branch("other")
        memory.update(age.id, "User is 31 years old")
        memory.versions.branch("main")
        memory.update(age.id, "User is 32 years old")
        (conflict,) = memory.versions.merge("other").conflicts
        assert (conflict.before, conflict.after) == ("User is 31 years old", "User is 32 years old")
        agree(memory, path, "User is 32 years old")
        buried = [each.read_text() for each in path.glob("entries/**/deleted/**/*.md")]
        assert any("User is 31 years old" in text for text in buried)
        assert not any("<<<<<<<" in text for text in buried)


def test_two_machines_share_a_memory_by_a_remote(path: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        with pytest.raises(NotFoundError, match="no remote"):
            memory.versions.push()
        git(path, "remote", "add", "origin", str(tmp_path / "remote.git"))
        assert memory.versions.push() == "origin"
        elsewhere = tmp_path / "elsewhere"
        git(tmp_path, "clone", "-q", "remote.git", "elsewhere")
        with opened(elsewhere) as other:
            agree(other, elsewhere, "User lives in Oslo")
            assert found(other, "Oslo") == ["User lives in Oslo"]
            other.add("I have a dog named Rex", **ANA)
            assert other.versions.push() == "origin"
        memory.add("I love pizza", **ANA)
        with pytest.raises(ConflictError, match="pull first"):
            memory.versions.push()
        pulled = memory.versions.pull()
        assert [change.line for change in pulled.results] == ["Learned: User has a dog named Rex"]
        agree(memory, path, "User has a dog named Rex", "User lives in Oslo", "User loves pizza")
        memory.versions.push()
        assert memory.versions.pull().outcome == "nothing"


def test_a_memory_inside_a_project_follows_its_commits_and_leaves_branches_to_git(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    (project / "code.py").write_text("one\n")
    git(project, "add", "code.py")
    path = project / "memory"
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        assert settled(memory) == ["Learned: User lives in Oslo"]
        with pytest.raises(ConflictError, match="inside another repository"):
            memory.versions.branch("other")
        with pytest.raises(ConflictError, match="inside another repository"):
            memory.versions.push()
        memory.add("I moved to Bergen", **ANA)
        memory.versions.revert(memory.versions.log()[0].id)
        assert texts(memory) == files(path) == ["User lives in Oslo"]
    assert not (path / ".git").exists()
    assert git(project, "status", "--porcelain").splitlines() == ["A  code.py"]


def test_a_rollback_of_a_clone_goes_by_the_versions_of_the_files(path: Path, tmp_path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        memory.add("I have a dog named Rex", **ANA)
        settled(memory)
        at = git(path, "log", "-1", "--format=%ct").strip()
        until(lambda: time.time() >= int(at) + 2)  # git counts in seconds
        moment = datetime.fromtimestamp(int(at) + 1, UTC)
        memory.add("I moved to Bergen", **ANA)
        memory.add("I love pizza", **ANA)
        settled(memory)
    git(tmp_path, "clone", "-q", str(path), "elsewhere")
    with opened(tmp_path / "elsewhere") as other:
        assert texts(other) == ["User has a dog named Rex", "User loves pizza", "User moved to Bergen"]
        other.rollback(**ANA, to=moment)
        agree(other, tmp_path / "elsewhere", "User has a dog named Rex", "User lives in Oslo")
        assert settled(other)[0].startswith("Rolled back: ")


def test_a_checkout_of_the_users_own_is_followed_without_new_tombstones(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        settled(memory)
        memory.add("I moved to Bergen", **ANA)
        settled(memory)
    git(path, "checkout", "-q", "-b", "past", "HEAD~1")
    with opened(path) as memory:
        assert texts(memory) == ["User lives in Oslo"]
    git(path, "checkout", "-q", "main")
    with opened(path) as memory:
        assert texts(memory) == files(path) == ["User moved to Bergen"]
        assert found(memory, "Bergen") == ["User moved to Bergen"]


@pytest.mark.parametrize("watched", [True, False])
def test_what_a_checkout_removes_leaves_no_tombstone_and_what_a_hand_removes_does(path: Path, watched: bool) -> None:
    store = {"watch": watched}
    with opened(path, store=store) as memory:
        memory.add("I live in Oslo", **ANA)
        settled(memory)
        git(path, "branch", "small")
        for text in ("I have a dog named Rex", "I am allergic to peanuts"):
            memory.add(text, **ANA)
        (home,) = [item for item in memory.get_all(**ANA).results if "Oslo" in item.memory]
        memory.update(home.id, "User lives in Oslo and likes it")  # the same file, with a tombstone, on main alone
        settled(memory)
    main, small = commits(path), git(path, "rev-parse", "small")
    with opened(path, store=store) as memory:
        assert len(texts(memory)) == 3
        git(path, "checkout", "-q", "small")
        if watched:
            until(lambda: texts(memory) == ["User lives in Oslo"])
    with opened(path, store=store) as memory:
        assert texts(memory) == ["User lives in Oslo"]
        settled(memory)
    assert (git(path, "rev-parse", "HEAD"), git(path, "status", "--short")) == (small, "")
    git(path, "checkout", "-q", "main")
    with opened(path, store=store) as memory:
        assert len(texts(memory)) == 3
        settled(memory)
        assert commits(path) == main
        (rex,) = [each for each in path.glob("entries/*/facts/*.md") if "Rex" in each.read_text()]
        rex.unlink()
        if watched:
            until(lambda: len(texts(memory)) == 2)
    with opened(path, store=store) as memory:
        assert len(texts(memory)) == 2
        settled(memory)
        assert findings(memory) == []
    buried = [each.read_text() for each in path.glob("entries/*/deleted/facts/*.md")]
    assert sorted(text.strip().rpartition("\n")[2] for text in buried) == [
        "User has a dog named Rex",
        "User lives in Oslo",
    ]


def test_a_checkout_is_told_from_edits_though_memory_committed_after_it(path: Path) -> None:
    """An open memory that does not watch goes on learning, on the branch that somebody went to."""
    with opened(path) as memory:
        (home,) = memory.add("I live in Oslo", **ANA).results
        settled(memory)
        git(path, "branch", "small")
        memory.add("I have a dog named Rex", **ANA)
        memory.update(home.id, "User lives in Oslo and likes it")
        settled(memory)
    main, buried = commits(path), {each.name for each in path.glob("entries/*/deleted/facts/*.md")}
    assert len(buried) == 1
    with opened(path) as memory:
        assert len(texts(memory)) == 2
        git(path, "checkout", "-q", "small")
        memory.add("I love pizza", **ANA)
        settled(memory)
    with opened(path) as memory:
        agree(memory, path, "User lives in Oslo", "User loves pizza")
        assert list(path.glob("entries/*/deleted/facts/*.md")) == []
        assert commits(path)[0] == "Learned: User loves pizza"
        git(path, "checkout", "-q", "main")
        assert memory.add("I love tea", **ANA).results
        settled(memory)
    with opened(path) as memory:
        agree(memory, path, "User has a dog named Rex", "User lives in Oslo and likes it", "User loves tea")
    assert commits(path)[1:] == main
    assert {each.name for each in path.glob("entries/*/deleted/facts/*.md")} == buried
