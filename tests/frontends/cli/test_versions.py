"""perdure log, diff, revert, branch, merge, pull, push: versions read as memory, with their statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.git.folders import git
from tests.frontends.cli.runs import HASHED, Folder, folder

FILES = HASHED + '[vector_store]\nprovider = "markdown"\n'


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return in_files(tmp_path / "memory")


def in_files(path: Path, settings: str = FILES) -> Folder:
    path.mkdir(parents=True, exist_ok=True)
    (path / "perdure.toml").write_text('updates = "supersede"\n' + settings, encoding="utf-8")
    return Folder(path)


def told(at: Folder, text: str) -> None:
    assert at("add", text, "--user-id", "ana").status == 0


def ids(at: Folder) -> list[str]:
    return [version["id"] for version in at.ask("log")["results"]]


def test_log_and_diff_tell_what_was_learned_and_from_which_words(at: Folder) -> None:
    told(at, "I live in Oslo")
    told(at, "Good news, I moved to Bergen!")
    lines = at("log").out.splitlines()
    newest, oldest, first = ids(at)
    assert lines[0].startswith(newest[:8]) and lines[0].endswith("  User's home: Oslo → Bergen")
    assert lines[1] == ("  User's home: Oslo → Bergen, learned from this message: “Good news, I moved to Bergen!”")
    assert "  Learned: User lives in Oslo, learned from this message: “I live in Oslo”" in lines
    assert lines[-1].endswith("  Initial commit")
    (change,) = at.ask("log", "--limit", "1")["results"][0]["changes"]
    assert (change["change"], change["before"], change["after"]) == (
        "changed", "User lives in Oslo", "User moved to Bergen",
    )  # fmt: skip
    assert at("diff", oldest).out == lines[1].strip() + "\n"
    assert at("diff", first[:8], oldest[:8]).out.startswith("Learned: User lives in Oslo")
    assert at("diff", newest).err == "perdure: nothing differs\n"
    assert at.ask("diff", "2999-01-01")["results"] == []
    assert at("diff", "nowhere").status == 3
    (learned,) = at.ask("diff", "2001-01-01")["results"]  # before the first version there was nothing
    assert (learned["change"], learned["after"]) == ("learned", "User moved to Bergen")
    assert at("log", "--limit", "0").status == 2


def test_revert_takes_back_one_version_and_refuses_what_a_later_one_built_on(at: Folder) -> None:
    told(at, "I live in Oslo")
    told(at, "I moved to Bergen")
    newest, oldest, _ = ids(at)
    refused = at("revert", oldest)
    assert (refused.status, refused.out) == (1, "")
    assert "was changed after it" in refused.err
    assert at("revert", newest[:8]).out.startswith("UPDATE\tUser lives in Oslo\t")
    assert at.texts() == ["User lives in Oslo"]
    assert at("log", "-n", "1").out.splitlines()[0].endswith(f"Reverted {newest[:8]}: User's home: Oslo → Bergen")
    assert at("doctor").status == 0
    assert at.ask("revert", ids(at)[0])["results"][0]["memory"] == "User moved to Bergen"
    assert at("revert", "nowhere").status == 3
    assert at("revert").status == 2


def test_branch_and_merge(at: Folder) -> None:
    told(at, "I have a dog named Rex")
    assert at("branch", "trip").err == "perdure: on the new branch trip\n"
    told(at, "I live in Oslo")
    back = at("branch", "main")
    assert back.err == "perdure: on branch main\n"
    assert at.texts() == ["User has a dog named Rex"]
    told(at, "I moved to Bergen")
    rows = [row.split("\t")[:2] for row in at("branch").out.splitlines()]
    assert rows == [["*", "main"], ["", "trip"]]
    merged = at("merge", "trip")
    assert merged.status == 0
    assert "'User moved to Bergen' here, 'User lives in Oslo' there; the first stands" in merged.err
    assert sorted(at.texts()) == ["User has a dog named Rex", "User moved to Bergen"]
    assert at.ask("merge", "trip")["outcome"] == "nothing"
    assert [row["name"] for row in at.ask("branch")["results"]] == ["main", "trip"]
    assert at("merge", "nowhere").status == 3
    assert at("branch", "a b").status == 2
    assert at("merge").status == 2


def test_pull_and_push(at: Folder, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    told(at, "I live in Oslo")
    assert at("push").status == 3
    git(at.path, "remote", "add", "origin", str(tmp_path / "remote.git"))
    assert at.ask("push") == {"remote": "origin"}
    git(tmp_path, "clone", "-q", "remote.git", "elsewhere")
    other = in_files(tmp_path / "elsewhere")
    assert other.texts() == ["User lives in Oslo"]
    told(other, "I have a dog named Rex")
    assert other("push").err == "perdure: pushed to origin\n"
    assert at("pull").out == "Learned: User has a dog named Rex\n"
    assert sorted(at.texts()) == ["User has a dog named Rex", "User lives in Oslo"]
    assert at("pull").err == "perdure: there is nothing new\n"


@pytest.mark.parametrize("settings", [HASHED, FILES + "[vector_store.config]\ngit = false\n"], ids=["sqlite", "K24"])
def test_a_memory_without_versions_says_so(tmp_path: Path, settings: str) -> None:
    at = in_files(tmp_path / "memory", settings)
    for command in (["log"], ["diff", "main"], ["revert", "main"], ["branch"], ["merge", "main"], ["pull"], ["push"]):
        ran = at(*command)
        assert (ran.status, ran.out) == (2, "")
        assert "only memories in files have versions" in ran.err
    assert not (at.path / ".git").exists()
    assert folder(tmp_path / "other").path.exists()


def test_git_that_is_missing_is_told(at: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    told(at, "I live in Oslo")
    monkeypatch.setenv("PATH", str(at.path))
    ran = at("log")
    assert ran.status == 1
    assert "git is not installed" in ran.err
    assert at.texts() == ["User lives in Oslo"]
