"""Branches, merges and remotes of a memory's files: what both sides changed, and that no marker is ever written."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.backends.git.base import Stands
from perdure.backends.git.repository import FileChange, item_of
from perdure.backends.git.snapshots import merge
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError
from perdure.domain.memory import MemoryItem
from tests.backends.git.folders import Folder, fact, git, words

pytestmark = pytest.mark.anyio
OSLO, BERGEN, PARIS = (fact(f"User lives in {name}", second) for second, name in enumerate(("Oslo", "Bergen", "Paris")))
REX = fact("User has a dog named Rex", 3)


def both(ours: MemoryItem, theirs: MemoryItem) -> Stands | None:
    return None


def later(ours: MemoryItem, theirs: MemoryItem) -> Stands | None:
    return "ours" if ours.told_at > theirs.told_at else "theirs"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "memory")


async def parted(folder: Folder, *start: MemoryItem) -> None:
    """A memory with a branch `other` that is current, made of the main one."""
    folder.put(*start)
    await folder.versions.commit(words)
    await folder.versions.make_branch("other")
    await folder.versions.switch("other")


async def back(folder: Folder) -> None:
    await folder.versions.commit(words)
    await folder.versions.switch("main")


async def test_a_branch_has_files_of_its_own_and_switching_brings_them(folder: Folder) -> None:
    await parted(folder, OSLO)
    folder.replace(OSLO, BERGEN, 2)
    await back(folder)
    assert (folder.texts(), folder.buried()) == (["User lives in Oslo"], [])
    assert [(each.name, each.is_current) for each in await folder.versions.branches()] == [
        ("main", True), ("other", False),
    ]  # fmt: skip
    paths = await folder.versions.switch("other")
    assert len(paths) == 3
    assert (folder.texts(), folder.buried()) == (["User lives in Bergen"], ["User lives in Oslo"])
    assert folder.status() == ""
    with pytest.raises(NotFoundError):
        await folder.versions.switch("third")
    with pytest.raises(ConflictError):
        await folder.versions.make_branch("main")
    for name in ("", "a b", "-f", "a..b", "HEAD"):
        with pytest.raises(InvalidInputError):
            await folder.versions.make_branch(name)


async def test_a_merge_takes_in_what_one_side_alone_changed(folder: Folder) -> None:
    await parted(folder, OSLO, REX)
    folder.replace(OSLO, BERGEN, 2)
    await back(folder)
    folder.bury(REX, 5)
    await folder.versions.commit(words)
    done = await folder.versions.merge("other", both, "Merged other")
    assert (done.outcome, done.conflicts, done.contradictions) == ("merged", [], [])
    assert folder.texts() == ["User lives in Bergen"]
    assert folder.buried() == ["User has a dog named Rex", "User lives in Oslo"]
    assert len(git(folder.root, "log", "-1", "--format=%P").split()) == 2
    assert folder.status() == ""
    assert (await folder.versions.merge("other", both, "again")).outcome == "nothing"


async def test_a_side_that_only_followed_is_forwarded(folder: Folder) -> None:
    await parted(folder, OSLO)
    folder.put(REX)
    await back(folder)
    done = await folder.versions.merge("other", both, "Merged other")
    assert done.outcome == "forwarded"
    assert [item.memory for item in done.step.learned] == [REX.memory]
    assert folder.texts() == ["User has a dog named Rex", "User lives in Oslo"]


@pytest.mark.parametrize(("ours", "theirs", "stands"), [(20, 10, "ours"), (10, 20, "theirs")])
async def test_of_one_memory_that_both_changed_the_newer_stands_and_the_other_is_a_tombstone(
    folder: Folder, ours: int, theirs: int, stands: str
) -> None:
    await parted(folder, fact("User is 30 years old", name="age"))
    folder.put(fact("User is theirs years old", theirs, name="age"))
    await back(folder)
    folder.put(fact("User is ours years old", ours, name="age"))
    await folder.versions.commit(words)
    done = await folder.versions.merge("other", both, "Merged other")
    assert folder.texts() == [f"User is {stands} years old"]
    assert folder.buried() == [f"User is {'theirs' if stands == 'ours' else 'ours'} years old"]
    assert [pair.after.memory for pair in done.conflicts] == folder.texts()
    assert not [path for path in folder.files() if "<<<<" in path.read_text()]


@pytest.mark.parametrize(("edited", "standing"), [(10, []), (30, ["User is edited"])])
async def test_deleted_here_and_edited_there_goes_by_which_was_later(
    folder: Folder, edited: int, standing: list[str]
) -> None:
    start = fact("User is 30 years old", name="age")
    await parted(folder, start, REX)
    folder.put(fact("User is edited", edited, name="age"))
    await back(folder)
    folder.bury(start, 20)
    await folder.versions.commit(words)
    await folder.versions.merge("other", both, "Merged other")
    assert folder.texts() == sorted([*standing, REX.memory])
    assert "User is 30 years old" in folder.buried()
    assert ("User is edited" in folder.buried()) is not bool(standing)


async def test_what_one_side_erased_is_gone_though_the_other_kept_it_as_a_tombstone(folder: Folder) -> None:
    await parted(folder, OSLO, REX)
    folder.replace(OSLO, BERGEN, 2)
    await back(folder)
    folder.remove(OSLO)
    await folder.versions.commit(words)
    await folder.versions.merge("other", both, "Merged other")
    assert folder.buried() == []
    assert not [path for path in folder.files() if "Oslo" in path.read_text()]


async def test_facts_about_one_matter_from_both_sides_meet_and_the_later_told_replaces(folder: Folder) -> None:
    await parted(folder, OSLO, REX)
    folder.replace(OSLO, BERGEN, 11)
    await back(folder)
    folder.replace(OSLO, PARIS, 12)
    await folder.versions.commit(words)
    done = await folder.versions.merge("other", later, "Merged other")
    assert [(each.ours.memory, each.theirs.memory, each.stands) for each in done.contradictions] == [
        (PARIS.memory, BERGEN.memory, "ours")
    ]
    assert folder.texts() == [REX.memory, PARIS.memory]
    buried = [item for path in folder.files() if (item := item_of(str(path), path.read_bytes())) and item.version_of]
    assert {(item.memory, item.replaced_by) for item in buried} == {
        (OSLO.memory, PARIS.id), (OSLO.memory, BERGEN.id), (BERGEN.memory, PARIS.id),
    }  # fmt: skip  # both say when Oslo ended: K14 names the second one anew


async def test_a_remote_is_pushed_to_and_pulled_from_and_a_clone_has_it_all(folder: Folder, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    folder.put(OSLO)
    await folder.versions.commit(words)
    with pytest.raises(NotFoundError, match="no remote"):
        await folder.versions.push()
    git(folder.root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    assert await folder.versions.push() == "origin"
    git(tmp_path, "clone", "-q", "remote.git", "elsewhere")
    other = Folder(tmp_path / "elsewhere")
    assert other.texts() == [OSLO.memory]
    other.put(REX)
    await other.versions.commit(words)
    await other.versions.push()
    folder.replace(OSLO, BERGEN, 9)
    await folder.versions.commit(words)
    with pytest.raises(ConflictError, match="pull first"):
        await folder.versions.push()
    theirs = await folder.versions.fetch()
    assert theirs is not None
    await folder.versions.merge(theirs, both, "Merged origin")
    await folder.versions.push()
    assert folder.texts() == [REX.memory, BERGEN.memory]
    theirs = await other.versions.fetch()
    assert theirs is not None
    assert (await other.versions.merge(theirs, both, "Merged origin")).outcome == "forwarded"
    assert other.texts() == folder.texts()


async def test_two_memories_that_began_apart_become_one(folder: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    other.put(REX)
    await other.versions.commit(words)
    folder.put(OSLO)
    await folder.versions.commit(words)
    git(folder.root, "fetch", "-q", str(other.root), "main:theirs")
    assert (await folder.versions.merge("theirs", both, "Merged theirs")).outcome == "merged"
    assert folder.texts() == [REX.memory, OSLO.memory]


async def test_files_that_are_no_memories_are_never_changed_by_a_switch(folder: Folder) -> None:
    await parted(folder, OSLO)
    (folder.root / "mine.txt").write_text("mine")
    git(folder.root, "add", "mine.txt")
    git(folder.root, "commit", "-q", "-m", "mine")
    with pytest.raises(ConflictError, match="no memories"):
        await folder.versions.switch("main")
    assert (folder.root / "mine.txt").exists()


async def test_a_branch_of_a_hostile_remote_writes_nothing_outside_of_the_folder(
    folder: Folder, tmp_path: Path
) -> None:
    await parted(folder, OSLO)
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder.root / "entries" / "evil").symlink_to(outside)
    git(folder.root, "add", "entries/evil")
    git(folder.root, "commit", "-q", "-m", "evil")
    await folder.versions.switch("main")
    assert not (folder.root / "entries" / "evil").is_symlink()
    await folder.versions.switch("other")
    assert list(outside.iterdir()) == []
    assert not (folder.root / "entries" / "evil").exists()


# ---------------------------------------------------------------------- the algebra
SIDES = st.lists(st.sampled_from(["edit", "bury", "erase", "leave"]), min_size=4, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=SIDES, theirs=SIDES, seconds=st.permutations(range(10, 18)))
def test_a_merge_says_the_same_whichever_side_asks(
    tmp_path: Path, ours: list[str], theirs: list[str], seconds: list[int]
) -> None:
    start = [fact(f"User owns thing {number}", name=str(number)) for number in range(4)]
    mine = changed(tmp_path, start, ours, seconds[:4], "ours")
    other = changed(tmp_path, start, theirs, seconds[4:], "theirs")
    one = apply(mine, merge(mine, other, both).files)
    two = apply(other, merge(other, mine, both).files)
    assert sorted(one.values()) == sorted(two.values())  # tombstones of one name may be numbered the other way
    live = {path: data for path, data in one.items() if "/deleted/" not in path}
    assert live == {path: data for path, data in two.items() if "/deleted/" not in path}
    for number, (mine_did, other_did) in enumerate(zip(ours, theirs, strict=True)):
        if "erase" in (mine_did, other_did):
            assert not [data for data in one.values() if start[number].id.encode() in data]


def changed(tmp_path: Path, start: list[MemoryItem], acts: list[str], seconds: list[int], who: str) -> list[FileChange]:
    folder = Folder(tmp_path / uuid4().hex)
    folder.put(*start)
    before = {str(path.relative_to(folder.root)): path.read_bytes() for path in folder.files()}
    for number, (item, act, second) in enumerate(zip(start, acts, seconds, strict=True)):
        if act == "edit":
            folder.put(fact(f"User owns the thing of {who}", second, name=str(number)))
        elif act == "bury":
            folder.bury(item, second)
        elif act == "erase":
            folder.remove(item)
    after = {str(path.relative_to(folder.root)): path.read_bytes() for path in folder.files()}
    shutil.rmtree(folder.root)
    paths = before.keys() | after.keys()
    return [FileChange(path, before.get(path), after.get(path)) for path in sorted(paths)]


def apply(side: list[FileChange], files: dict[str, bytes | None]) -> dict[str, bytes]:
    state = {change.path: change.after for change in side} | files
    return {path: data for path, data in state.items() if data is not None}
