"""Git under a folder of memories: the repository, commits, and everybody else who uses git there."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.backends.git import process as git_module
from perdure.backends.git.process import Git
from perdure.domain.errors import ConflictError, NotFoundError, VectorStoreError
from tests.backends.git.folders import Folder, fact, git, words

pytestmark = [pytest.mark.covers("A31", "K21", "K22", "K23", "K24"), pytest.mark.anyio]
OSLO, BERGEN = fact("User lives in Oslo", 1), fact("User lives in Bergen", 2)
REX = fact("User has a dog named Rex", 3)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "memory")


@pytest.mark.covers("A31", "K21")
async def test_a_repository_is_made_with_its_own_identity_and_a_first_commit(folder: Folder) -> None:
    await folder.versions.open()
    assert folder.subjects() == ["Initial commit"]
    ignored = (folder.root / ".gitignore").read_text().splitlines()
    assert {"chroma/", "memory_index.json", "index/", "history.db*", "perdure.toml"} <= set(ignored)
    assert git(folder.root, "ls-files").split() == [".gitignore", "README.md"]
    assert "email = perdure@localhost" in (folder.root / ".git" / "config").read_text()
    assert folder.status() == ""


@pytest.mark.covers("A31")
async def test_an_identity_that_is_set_is_kept(folder: Folder, tmp_path: Path) -> None:
    config = Path(os.environ["HOME"]) / ".gitconfig"
    config.write_text("[user]\n\tname = Una\n\temail = una@localhost\n")
    await folder.versions.open()
    assert git(folder.root, "log", "--format=%an %ae").strip() == "Una una@localhost"
    assert "user" not in (folder.root / ".git" / "config").read_text()


@pytest.mark.covers("K22")
async def test_additions_edits_and_deletions_are_each_a_commit_and_nothing_is_none(folder: Folder) -> None:
    folder.put(OSLO)
    first = await folder.versions.commit(words)
    folder.replace(OSLO, BERGEN, 2)
    folder.put(REX)
    second = await folder.versions.commit(words)
    folder.bury(REX, 4)
    await folder.versions.commit(words)
    assert await folder.versions.commit(words) is None
    assert first is not None
    assert second is not None
    assert second.parents == (first.id,)
    assert folder.subjects() == [
        "0 learned, 0 replaced, 1 dropped", "1 learned, 1 replaced, 0 dropped", "1 learned, 0 replaced, 0 dropped",
        "Initial commit",
    ]  # fmt: skip
    assert folder.status() == ""


async def test_a_folder_inside_a_repository_commits_its_own_files_and_nothing_that_is_staged(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    (project / "code.py").write_text("one\n")
    git(project, "add", "code.py")
    git(project, "commit", "-q", "-m", "code")
    (project / "code.py").write_text("two\n")
    git(project, "add", "code.py")
    (project / "loose.txt").write_text("not staged\n")
    folder = Folder(project / "notes" / "memory")
    folder.put(OSLO)
    commit = await folder.versions.commit(words)
    assert commit is not None
    assert not (folder.root / ".git").exists()
    changed = git(project, "show", "--name-only", "--format=", commit.id).splitlines()
    assert changed
    assert all(name.startswith("notes/memory/") for name in changed)
    assert git(project, "status", "--porcelain").splitlines() == ["M  code.py", "?? loose.txt"]
    assert git(project, "log", "-1", "--format=%an").strip() == "perdure"
    assert "perdure" not in (project / ".git" / "config").read_text()  # the user's later commits are the user's
    git(project, "commit", "-q", "-m", "mine")
    assert git(project, "ls-files", "notes").strip()  # nothing of the memory went with it
    with pytest.raises(ConflictError, match="inside another repository"):
        await folder.versions.make_branch("try")
    assert [each.message for each in await folder.versions.log(None, 10)] == ["1 learned, 0 replaced, 0 dropped"]
    folder.replace(OSLO, BERGEN, 2)
    step = await folder.versions.step(commit.id, None)
    assert [(pair.before.memory, pair.after.memory) for pair in step.replaced] == [(OSLO.memory, BERGEN.memory)]


async def test_a_repository_that_ignores_the_folder_is_left_alone(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    (project / ".gitignore").write_text("memory_db/\n")
    git(project, "add", ".gitignore")
    git(project, "commit", "-q", "-m", "code")
    folder = Folder(project / "memory_db")
    folder.put(OSLO)
    await folder.versions.commit(words)
    assert (folder.root / ".git").is_dir()
    assert folder.subjects(project) == ["code"]


async def test_no_hook_runs_nothing_is_signed_and_nobody_is_asked(folder: Folder) -> None:
    await folder.versions.open()
    hooks = folder.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "reference-transaction"):
        (hooks / name).write_text("#!/bin/sh\nsleep 60\nexit 1\n")
        (hooks / name).chmod(0o755)
    git(folder.root, "config", "commit.gpgSign", "true")
    git(folder.root, "config", "gpg.program", "false")
    folder.put(OSLO)
    assert await folder.versions.commit(words) is not None


async def test_the_callers_own_git_variables_reach_nothing(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    for name, value in (("DIR", other / ".git"), ("WORK_TREE", other), ("INDEX_FILE", other / "index")):
        monkeypatch.setenv(f"GIT_{name}", str(value))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00")
    folder.put(OSLO)
    commit = await folder.versions.commit(words)
    assert commit is not None
    assert not commit.at.startswith("2001")
    assert (folder.root / ".git").is_dir()
    assert git(other, "status", "--porcelain") == ""


async def test_somebody_elses_lock_holds_nothing_up_and_their_index_follows_later(folder: Folder) -> None:
    await folder.versions.open()
    lock = folder.root / ".git" / "index.lock"
    lock.write_bytes((folder.root / ".git" / "index").read_bytes())  # as `git commit -a` does before its editor
    os.utime(lock, (time.time() - 60,) * 2)
    folder.put(OSLO)
    assert await folder.versions.commit(words) is not None
    assert lock.exists()  # it is young: whoever holds it may be alive
    lock.unlink()
    assert folder.status() != ""
    assert await folder.versions.commit(words) is None
    assert folder.status() == ""


async def test_a_lock_that_a_dead_process_left_over_is_removed(folder: Folder) -> None:
    await folder.versions.open()
    old = time.time() - 2 * git_module.LEFT_OVER
    for name in ("index.lock", "refs/heads/main.lock", "HEAD.lock"):
        lock = folder.root / ".git" / name
        lock.touch()
        os.utime(lock, (old, old))
    folder.put(OSLO)
    assert await folder.versions.commit(words) is not None
    assert not list((folder.root / ".git").rglob("*.lock"))
    assert folder.status() == ""


async def test_a_lock_that_cannot_be_removed_is_told_and_not_tried_for_ever(folder: Folder) -> None:
    await folder.versions.open()
    lock = folder.root / ".git" / "index.lock"
    lock.mkdir()
    old = time.time() - 2 * git_module.LEFT_OVER
    os.utime(lock, (old, old))
    async with asyncio.timeout(30):
        with pytest.raises(VectorStoreError, match="index.lock|Unable to create"):
            await Git(folder.root)("add", "--", "README.md")
    assert lock.is_dir()


async def test_a_git_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    (tmp_path / "asks").write_text("#!/bin/sh\nsleep 300\n")
    (tmp_path / "asks").chmod(0o755)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "alias.hang", f"!{tmp_path / 'asks'}")
    with pytest.raises(VectorStoreError, match="did not end within"):
        await Git(tmp_path)("hang", patience=0.3)
    assert str(tmp_path / "asks") not in command_lines()


def command_lines() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(path.read_text(errors="replace"))
    return "\n".join(found)


async def test_no_error_tells_who_speaks_with_a_remote(folder: Folder) -> None:
    assert git_module.reason("fatal: unable to access 'https://una:hush@host.example/x.git/': refused") == (
        "unable to access 'https:<path>': refused"
    )


async def test_what_commits_leave_is_packed_now_and_then(folder: Folder) -> None:
    await folder.versions.open()
    git(folder.root, "config", "gc.auto", "1")
    folder.put(OSLO)
    counted = [f"{number}" for number in range(2000) if blob_id(f"{number}").startswith("17")][:2]
    for name in counted:  # git guesses how much there is to pack by how much lies in one folder
        (folder.root / name).write_text(name)
    git(folder.root, "hash-object", "-w", *counted)
    assert await folder.versions.commit(words) is not None
    assert list((folder.root / ".git" / "objects" / "pack").glob("*.pack"))


def blob_id(text: str) -> str:
    return hashlib.sha1(f"blob {len(text)}\0{text}".encode()).hexdigest()


async def test_a_missing_git_is_an_error_that_says_so(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder.root))
    with pytest.raises(VectorStoreError, match="git is not installed") as told:
        await folder.versions.open()
    assert told.value.code == "no_git"
    assert not (folder.root / ".git").exists()


async def test_a_merge_of_the_users_own_is_not_committed_into(folder: Folder) -> None:
    folder.put(OSLO)
    await folder.versions.commit(words)
    (folder.root / ".git" / "MERGE_HEAD").write_text("0" * 40 + "\n")
    folder.put(REX)
    with pytest.raises(ConflictError, match="under way"):
        await folder.versions.commit(words)


@pytest.mark.covers("K23")
async def test_the_loop_goes_on_while_git_works(folder: Folder) -> None:
    folder.put(*(fact(f"User likes number {number}", number) for number in range(200)))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert await folder.versions.commit(words) is not None
    counting.cancel()
    assert turns > 100


async def test_two_who_commit_at_once_both_do(folder: Folder) -> None:
    other = Folder(folder.root)
    await folder.versions.open()
    for number in range(5):
        folder.put(fact(f"User likes number {number}", number))
        await asyncio.gather(folder.versions.commit(words), other.versions.commit(words))
    assert folder.status() == ""
    assert len(git(folder.root, "ls-files", "entries").split()) == 5


async def test_points_are_commits_branches_and_times(folder: Folder) -> None:
    folder.put(OSLO)
    commit = await folder.versions.commit(words)
    assert commit is not None
    assert await folder.versions.resolve(commit.id[:8]) == commit.id
    assert await folder.versions.resolve("main") == commit.id
    assert await folder.versions.resolve("2999-01-01") == commit.id
    for point in ("2001-01-01", "nowhere", "--all", ""):
        with pytest.raises(NotFoundError):
            await folder.versions.resolve(point)


async def test_what_is_no_memory_is_counted_and_what_is_hostile_is_no_file(folder: Folder) -> None:
    (folder.root / "entries" / "talk").mkdir(parents=True)
    (folder.root / "entries" / "talk" / "notes.md").write_text("no front matter\n")
    (folder.root / "entries" / "talk" / "link.md").symlink_to(folder.root / "secret")
    await folder.versions.commit(words)
    head = await folder.versions.resolve("HEAD")
    step = await folder.versions.step(None, head)
    assert step.learned == []
    assert step.others >= 1


async def test_a_git_that_moves_files_is_waited_for_and_a_dead_one_is_not(folder: Folder) -> None:
    await folder.versions.open()
    lock = folder.root / ".git" / "index.lock"
    lock.touch()
    waiting = asyncio.create_task(folder.versions.at_rest())
    await asyncio.wait({waiting}, timeout=0.2)
    assert not waiting.done()
    lock.unlink()
    await waiting
    lock.touch()
    os.utime(lock, (1, 1))
    await folder.versions.at_rest()
    assert lock.exists()


async def test_files_are_told_from_those_that_a_users_git_brought(folder: Folder) -> None:
    folder.put(OSLO, BERGEN)
    assert await folder.versions.commit(words) is not None
    git(folder.root, "checkout", "-q", "-b", "small")
    oslo, bergen, rex = (folder.path(item).relative_to(folder.root).as_posix() for item in (OSLO, BERGEN, REX))
    folder.remove(OSLO)
    git(folder.root, "commit", "-q", "-a", "-m", "mine")
    assert await folder.versions.edited([oslo, bergen]) == {bergen}  # of this one nothing but a commit of ours is known
    folder.put(REX)
    assert await folder.versions.edited([oslo, rex]) == {rex}
    assert await folder.versions.commit(words) is not None  # HEAD was moved by us last, and not for that file
    assert await folder.versions.edited([oslo, rex]) == {rex}
    folder.remove(REX)
    assert await folder.versions.edited([rex]) == {rex}
    assert await folder.versions.commit(words) is not None  # what a hand did is in a commit of ours
    assert await folder.versions.edited([rex]) == {rex}
    git(folder.root, "checkout", "-q", "main")
    assert await folder.versions.edited([oslo, rex]) == {rex}  # there and back: what was in between was brought too
    await folder.versions.switch("small")  # by us, as it would be by a git
    assert await folder.versions.edited([oslo]) == set()
    shutil.rmtree(folder.root / ".git" / "logs")
    assert await folder.versions.edited([oslo]) == {oslo}


async def test_no_commit_is_made_of_half_a_checkout(folder: Folder) -> None:
    """A git that moves files when a commit is due, and when one is half made."""
    folder.put(OSLO, BERGEN)
    await folder.versions.commit(words)
    main = git(folder.root, "rev-parse", "HEAD")
    await folder.versions.make_branch("small")
    lock = folder.root / ".git" / "index.lock"
    lock.touch()
    folder.remove(OSLO)
    committing = asyncio.create_task(folder.versions.commit(words))
    await asyncio.wait({committing}, timeout=0.3)
    assert not committing.done()
    folder.remove(BERGEN)
    shutil.copy(folder.root / ".git" / "index", lock)
    os.utime(lock)
    lock.rename(folder.root / ".git" / "index")
    git(folder.root, "rm", "-q", "--cached", "-r", "entries")
    await asyncio.sleep(0.1)  # the branch has yet to be named
    assert not committing.done()
    git(folder.root, "symbolic-ref", "HEAD", "refs/heads/small")
    assert await committing is not None
    assert git(folder.root, "rev-parse", "main") == main
    assert folder.subjects()[0] == "0 learned, 0 replaced, 0 dropped"


async def test_what_a_user_wrote_into_readme_and_gitignore_is_the_users_to_commit(folder: Folder) -> None:
    git(folder.root, "init", "-q", "-b", "main")
    (folder.root / "README.md").write_text("My project\n")
    (folder.root / ".gitignore").write_text("build/\n")
    git(folder.root, "add", ".")
    folder.put(OSLO)
    commit = await folder.versions.commit(words)
    assert commit is not None
    names = git(folder.root, "show", "--name-only", "--format=", commit.id).split()
    assert names == [folder.path(OSLO).relative_to(folder.root).as_posix()]
    assert folder.status().splitlines() == ["A  .gitignore", "A  README.md"]
    for name in ("history.db-wal", "memory_index.json", "perdure.toml"):
        (folder.root / name).write_text("not for a repository")
    (folder.root / "index").mkdir()
    (folder.root / "index" / "memories.db").touch()
    await Folder(folder.root).versions.open()
    assert folder.status().splitlines() == ["A  .gitignore", "A  README.md"]  # nor would `git add -A` take these
    assert (folder.root / ".git" / "info" / "exclude").read_text().count("perdure.toml") == 1
