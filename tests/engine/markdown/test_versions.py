"""Versions of a memory in files: a commit a call, in memory's words, and what it does where git fails."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path

import pytest

from perdure.domain.errors import ConfigError, ConflictError, ForbiddenError, NotFoundError
from perdure.frontends.library.versions import AsyncVersions, Versions
from tests.backends.git.folders import git
from tests.engine.markdown.memories import (
    ANA,
    commits,
    config,
    events,
    files,
    findings,
    found,
    opened,
    settled,
    texts,
    until,
)

pytestmark = pytest.mark.covers("K21", "K22", "K23", "K24")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def test_the_sync_door_has_every_method_with_the_same_arguments() -> None:
    def methods(each: type) -> dict[str, str]:
        named = inspect.getmembers(each, inspect.isfunction)
        return {name: str(inspect.signature(method)) for name, method in named if not name.startswith("_")}

    assert methods(Versions) == methods(AsyncVersions)


@pytest.mark.covers("K21", "K22")
def test_each_call_is_a_version_that_says_what_changed(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        until(lambda: len(commits(path)) == 2)
        memory.add("I moved to Bergen", **ANA)
        until(lambda: len(commits(path)) == 3)
        (id,) = [item.id for item in memory.get_all(**ANA).results]
        memory.delete(id)
        until(lambda: len(commits(path)) == 4)
    assert commits(path) == [
        "Deleted: User moved to Bergen", "User's home: Oslo → Bergen", "Learned: User lives in Oslo", "Initial commit",
    ]  # fmt: skip
    assert git(path, "status", "--porcelain") == ""
    assert "history.db" not in git(path, "ls-files")


def test_log_reads_as_memory_with_the_words_that_it_was_learned_from(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        settled(memory)
        memory.add("I moved to Bergen!", **ANA)
        newest, first, _ = memory.versions.log()
        (change,) = newest.changes
        assert (change.change, change.line) == ("changed", "User's home: Oslo → Bergen")
        assert (change.before, change.after) == ("User lives in Oslo", "User moved to Bergen")
        assert [each["content"] for each in change.learned_from] == ["I moved to Bergen!"]
        assert [each.line for each in memory.versions.diff(first.id).results] == ["User's home: Oslo → Bergen"]
        assert [each.change for each in memory.versions.diff(newest.id, first.id).results] == ["learned", "left"]
        assert memory.versions.diff(newest.id).results == []
        assert memory.versions.diff("2999-01-01").results == []
        assert len(memory.versions.log(first.id)) == 2
        with pytest.raises(NotFoundError):
            memory.versions.diff("nowhere")
        with pytest.raises(NotFoundError, match="no version as old as '2001-01-01'"):
            memory.versions.log("2001-01-01")


def test_before_the_first_version_there_was_nothing(path: Path) -> None:
    with opened(path) as memory:
        assert memory.versions.diff("2001-01-01").results == [], "nor is there anything now"
        memory.add("I live in Oslo", **ANA)
        memory.add("I like tea", **ANA)
        since = memory.versions.diff("2001-01-01")
        assert since.before is None and since.after is None
        assert sorted(each.line for each in since.results) == ["Learned: User likes tea", "Learned: User lives in Oslo"]
        newest = memory.versions.log(limit=1)[0]
        assert {each.line for each in memory.versions.diff("2001-01-01", newest.id).results} == {
            each.line for each in since.results
        }


@pytest.mark.covers("K24")
def test_without_git_there_is_no_repository_and_nothing_is_committed(path: Path) -> None:
    with opened(path, store={"git": False}) as memory:
        memory.add("I live in Oslo", **ANA)
        with pytest.raises(ConfigError, match="only memories in files have versions"):
            memory.versions.log()
    assert not (path / ".git").exists()
    assert not (path / ".gitignore").exists()


def test_only_memories_in_files_have_versions_and_no_walls_show_them(path: Path) -> None:
    with opened(path, vector_store={"provider": "memory"}) as memory, pytest.raises(ConfigError):
        memory.versions.log()
    with opened(path / "files") as memory, pytest.raises(ForbiddenError):
        memory.within(user_id="ana").versions.log()


def test_a_missing_git_is_one_warning_and_memory_works_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(path))
    with caplog.at_level(logging.WARNING, "perdure"), opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        memory.add("I have a dog named Rex", **ANA)
    assert [record.message for record in caplog.records if "git" in record.message] == [
        "git is not installed: files are kept without versions"
    ]
    assert len(files(path)) == 2


def test_a_git_that_fails_fails_no_write_and_is_made_up_for_later(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(path) as memory:
        settled(memory)
        (path / ".git" / "HEAD").rename(path / ".git" / "HEAD.away")
        with caplog.at_level(logging.WARNING, "perdure"):
            memory.add("I live in Oslo", **ANA)
            until(lambda: any("not committed" in record.message for record in caplog.records))
        assert "Oslo" not in caplog.text
        (path / ".git" / "HEAD.away").rename(path / ".git" / "HEAD")
    with opened(path) as memory:
        assert texts(memory) == ["User lives in Oslo"]
    assert commits(path)[0] == "Learned: User lives in Oslo"


def test_what_a_process_that_died_left_over_is_committed_by_the_next(path: Path) -> None:
    with opened(path, store={"git": False}) as memory:
        memory.add("I live in Oslo", **ANA)
    with opened(path) as memory:
        assert texts(memory) == ["User lives in Oslo"]
        until(lambda: len(commits(path)) == 2)
        assert settled(memory) == ["Learned: User lives in Oslo", "Initial commit"]


@pytest.mark.covers("U4")
def test_what_is_forgotten_is_in_no_message_and_its_report_names_git(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        settled(memory)
        (id,) = [item.id for item in memory.get_all(**ANA).results]
        report = memory.forget(id=id)
        assert any("git" in place.note for place in report.places)
        assert settled(memory)[0] == "Forgot 1 memory"
        (version, *_) = memory.versions.log()
        assert "Oslo" not in str(version.model_dump())
        with pytest.raises(NotFoundError):
            memory.versions.revert("nowhere")
        result = memory.versions.revert(version.id)
        assert (result.results, result.warnings) == ([], ["1 erased memory stays gone"])
        assert texts(memory) == []


def test_revert_takes_back_what_a_version_changed_and_history_undo_and_doctor_agree(path: Path) -> None:
    with opened(path) as memory:
        (oslo,) = memory.add("I live in Oslo", **ANA).results
        settled(memory)
        (bergen,) = memory.add("I moved to Bergen", **ANA).results
        newest, first, _ = memory.versions.log()
        with pytest.raises(ConflictError, match="was changed after it"):
            memory.versions.revert(first.id)
        (event,) = memory.versions.revert(newest.id).results
        assert (event.event, event.id, event.memory) == ("UPDATE", oslo.id, "User lives in Oslo")
        assert texts(memory) == files(path) == found(memory, "Oslo") == ["User lives in Oslo"]
        assert events(memory, bergen.id)[-1] == ("UPDATE", "revert")
        assert settled(memory)[0].startswith(f"Reverted {newest.id[:8]}: User's home: Oslo → Bergen")
        assert findings(memory) == []
        memory.undo(event.event_id or "")
        assert texts(memory) == files(path) == ["User moved to Bergen"]
        assert findings(memory) == []


def test_revert_brings_back_what_was_deleted_and_takes_what_was_learned(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I have a dog named Rex", **ANA)
        (learned, *_) = memory.versions.log()
        (id,) = [item.id for item in memory.get_all(**ANA).results]
        memory.delete(id)
        (deleted, *_) = memory.versions.log()
        memory.versions.revert(deleted.id)
        assert [item.id for item in memory.get_all(**ANA).results] == [id]
        memory.versions.revert(learned.id)
        assert texts(memory) == files(path) == []
        assert memory.versions.revert(learned.id).results == []
        assert [event for event, _ in events(memory, id)] == ["ADD", "DELETE", "ADD", "DELETE"]
        assert findings(memory) == []


def test_after_a_rollback_files_index_and_history_agree_and_a_version_says_so(path: Path) -> None:
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        settled(memory)
        moment = memory.get_all(**ANA).results[0].updated_at
        memory.add("I moved to Bergen", **ANA)
        memory.add("I have a dog named Rex", **ANA)
        settled(memory)
        memory.rollback(**ANA, to=moment)
        assert texts(memory) == files(path) == found(memory, "Oslo") == ["User lives in Oslo"]
        assert settled(memory)[0].startswith("Rolled back")
        assert findings(memory) == []


def test_many_changes_of_one_call_are_one_version(path: Path) -> None:
    with opened(path) as memory:
        memory.add([{"role": "user", "content": f"Note {number}"} for number in range(30)], infer=False, **ANA)
        assert settled(memory)[0] == "Learned: Note 0 (and 29 more)"
        memory.delete_all(**ANA)
        assert len(settled(memory)) == 3
        assert len(memory.versions.log()[0].changes) == 30


def test_the_settings_may_hold_keys_and_are_in_no_version(path: Path) -> None:
    path.mkdir()
    (path / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n')
    with opened(path) as memory:
        memory.add("I live in Oslo", **ANA)
        settled(memory)
    assert "perdure.toml" not in git(path, "ls-files")
    assert git(path, "status", "--porcelain") == ""
    assert config(path)["vector_store"]["provider"] == "markdown"
