"""File versions in git: commits, branches, merges and a remote for one folder of a memory's files."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.blocking import run_blocking
from perdure.backends.git.base import Branch, Commit, Contradiction, Mark, Merge, Replaced, Settle, Step, Tell
from perdure.backends.git.process import BRINGER, Git
from perdure.backends.git.repository import FileChange, Repository, State, item_of, place_in, step_of
from perdure.backends.markdown import layout
from perdure.backends.markdown.front_matter import BrokenFrontMatter, MissingFrontMatter, NoFrontMatter
from perdure.backends.markdown.memory_file import read, render
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError, VectorStoreError
from perdure.domain.memory import LIVE, VERSION, MemoryItem

# Files that somebody broke, as versions tell of them: such a file says what it said when it could be read last.

DEEPEST = 100  # versions of a file that are looked at for one that can be read
MOST = 200  # broken files of one step whose earlier versions are looked at


def is_slip(path: str, data: bytes | None) -> bool:
    """Whether a memory's file exists but cannot be read, so that its memory is not gone."""
    place = place_in(path)
    if data is None or place is None:
        return False
    try:
        read(data.decode("utf-8"), place, "")
    except (BrokenFrontMatter, MissingFrontMatter, UnicodeDecodeError):
        return True
    except NoFrontMatter:
        return False
    return False


async def legible(
    repository: Repository, changes: Sequence[FileChange], before: str | None, after: str | None
) -> list[FileChange]:
    """Return the changes with the last readable content of broken files.

    `before` and `after` are the commits of the two states; without `after` it is the folder as it is now.
    """
    found = list(changes)
    for place, old, new in (await run_blocking(_slips, changes))[:MOST]:
        found[place] = await _legible(repository, changes[place], before, after, was_slip=old, is_slip=new)
    return found


def _slips(changes: Sequence[FileChange]) -> list[tuple[int, bool, bool]]:
    """Return the places of changes with a broken file, and on which side it is."""
    sides = (
        (place, is_slip(change.path, change.before), is_slip(change.path, change.after))
        for place, change in enumerate(changes)
    )
    return [(place, old, new) for place, old, new in sides if old or new]


async def _legible(
    repository: Repository, change: FileChange, before: str | None, after: str | None, *, was_slip: bool, is_slip: bool
) -> FileChange:
    old = await _last(repository, before, change.path) if was_slip else change.before
    if not is_slip:
        return replace(change, before=old or change.before, was_slip=was_slip and old is not None)
    new = old if after is None else await _last(repository, after, change.path)
    return replace(
        change, before=old or change.before, after=new or change.after,
        was_slip=was_slip and old is not None, is_slip=new is not None,
    )  # fmt: skip


async def _last(repository: Repository, commit: str | None, path: str) -> bytes | None:
    """Return a file's last readable content as of a commit; None if there never was any."""
    if commit is None:
        return None
    name = repository.prefix + path
    log = await repository.git.text("log", "--format=%H", f"--max-count={DEEPEST}", commit, "--", name)
    for id in log.split():
        status, data, _ = await repository.git.run("cat-file", "blob", f"{id}:{name}")
        if status:
            return None  # the file was not there: what came before was another
        if not is_slip(path, data):
            return data
    return None


# Merging two lines of a memory's files, memory by memory: what comes out is files, and never a conflict's markers.
#
# Where one side alone changed a file, that is what it becomes. Where both changed one memory, the text that was
# updated last stands, and the other is kept as a tombstone. What either side erased is gone.

Files = Mapping[str, bytes | None]


@dataclass(slots=True)
class Merged:
    """Our files after a merge."""

    files: dict[str, bytes | None] = field(default_factory=dict)  # what is to be written over ours, or removed
    conflicts: list[Replaced] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)


def merge(ours: list[FileChange], theirs: list[FileChange], settle: Settle) -> Merged:
    """Combine both sides' changes since the branches parted."""
    return _Merging(ours, theirs)(settle)


class _Merging:
    def __init__(self, ours: list[FileChange], theirs: list[FileChange]) -> None:
        self._base: dict[str, bytes | None] = {each.path: each.before for each in (*ours, *theirs)}
        self._ours: dict[str, bytes | None] = {**self._base, **{each.path: each.after for each in ours}}
        self._theirs: dict[str, bytes | None] = {**self._base, **{each.path: each.after for each in theirs}}
        self._before, self._mine, self._other = map(_state, (self._base, self._ours, self._theirs))
        self._result = dict(self._ours)
        self._merged = Merged()

    def __call__(self, settle: Settle) -> Merged:
        by_both: list[str] = []
        for path, base in self._base.items():
            ours, theirs = self._ours[path], self._theirs[path]
            if ours == base:
                self._result[path] = theirs
            elif theirs not in (base, ours):
                by_both.append(path)
        for path in by_both:  # last: a tombstone of theirs must not be written over
            self._both(path, self._ours[path], self._theirs[path])
        self._drop_erased()
        self._contradict(settle)
        self._merged.files = {path: data for path, data in self._result.items() if data != self._ours.get(path)}
        return self._merged

    def _both(self, path: str, ours: bytes | None, theirs: bytes | None) -> None:
        mine, other = item_of(path, ours), item_of(path, theirs)
        if ours is None or theirs is None:
            self._one_removed(path, mine or other, mine is not None)
        elif mine is None or other is None:
            self._result[path] = ours if mine is not None or other is None else theirs
        elif mine.state == LIVE and other.state == LIVE:
            later, earlier = (mine, other) if _rank(mine) >= _rank(other) else (other, mine)
            self._result[path] = ours if later is mine else theirs
            if later.memory != earlier.memory:
                self._bury(path, earlier, later, replaced_by=None)
                self._merged.conflicts.append(Replaced(earlier, later))
        elif mine.id != other.id:
            self._result[self._free(path)] = theirs  # each side's tombstone of one memory

    def _one_removed(self, path: str, left: MemoryItem | None, is_ours: bool) -> None:
        """Merge a file that one side changed and the other removed."""
        gone = self._other if is_ours else self._mine
        tombstone = None if left is None else gone.last_of(left.id, self._before.versions)
        if left is None or left.state != LIVE or tombstone is None:
            self._result[path] = None
        elif left.updated_at > (tombstone.untold_at or ""):
            self._result[path] = self._ours[path] if is_ours else self._theirs[path]
            self._merged.conflicts.append(Replaced(tombstone, left))
        else:
            self._result[path] = None
            if left.memory != tombstone.memory:
                self._bury(path, left, tombstone, replaced_by=tombstone.replaced_by)
                self._merged.conflicts.append(Replaced(left, tombstone))

    def _drop_erased(self) -> None:
        """Drop everything about memories that either side erased, even tombstones."""
        erased = {
            id
            for side in (self._mine, self._other)
            for id in self._before.live
            if id not in side.live and id not in side.tombstones
        }
        for path, data in list(self._result.items()):
            item = item_of(path, data)
            if item is not None and (item.version_of or item.id) in erased:
                self._result[path] = None

    def _contradict(self, settle: Settle) -> None:
        """Compare facts from both sides about the same matter."""
        mine = self._new(self._ours)
        other: dict[tuple[object, ...], list[tuple[str, MemoryItem]]] = {}
        for path, item in self._new(self._theirs):
            other.setdefault(_matter(item), []).append((path, item))
        for path, ours in mine:
            for their_path, theirs in other.get(_matter(ours), ()):
                standing = (self._result.get(path) is not None, self._result.get(their_path) is not None)
                stands = settle(ours, theirs) if ours.id != theirs.id and all(standing) else None
                if stands is None:
                    continue
                self._merged.contradictions.append(Contradiction(ours, theirs, stands))
                if stands == "ours":
                    self._bury(their_path, theirs, ours, replaced_by=ours.id)
                    self._result[their_path] = None
                elif stands == "theirs":
                    self._bury(path, ours, theirs, replaced_by=theirs.id)
                    self._result[path] = None

    def _new(self, side: Files) -> list[tuple[str, MemoryItem]]:
        """Return current facts with a subject and an attribute that one side added or changed."""
        found: list[tuple[str, MemoryItem]] = []
        for path, data in side.items():
            item = None if data == self._base[path] or self._result.get(path) != data else item_of(path, data)
            if item is not None and item.state == LIVE and item.kind == "facts" and item.slots is not None:
                found.append((path, item))
        return found

    def _bury(self, path: str, item: MemoryItem, later: MemoryItem, *, replaced_by: str | None) -> None:
        """Keep a replaced text as a tombstone, equal on both sides of the merge."""
        tombstone = item.with_(
            id=str(uuid5(NAMESPACE_URL, f"perdure:merge:{item.id}:{item.hash}:{item.updated_at}")),
            state=VERSION,
            version_of=item.id,
            untold_at=max(later.told_at, item.told_at),
            replaced_by=replaced_by,
        )
        place = place_in(path)
        assert place is not None, "a memory lies below entries"
        folder, _, rest = place.partition("/")
        buried = f"{path.removesuffix(place)}{folder}/{layout.DELETED}/{rest}"
        self._result[self._free(buried)] = render(tombstone.id, tombstone.to_payload()).encode()

    def _free(self, path: str) -> str:
        number = 1
        while self._result.get(layout.numbered(path, number)) is not None:
            number += 1
        return layout.numbered(path, number)


def _state(files: Files) -> State:
    items = (item_of(path, data) for path, data in files.items())
    return State.of(item for item in items if item is not None)


def _rank(item: MemoryItem) -> tuple[str, str]:
    """Return a sort key: later is higher; ties are ordered equally from both sides."""
    return item.updated_at, item.hash


def _matter(item: MemoryItem) -> tuple[object, ...]:
    assert item.slots is not None, "only such were taken"
    return item.scope, item.slots.subject, item.slots.attribute


TRIES = 5  # times that a commit is made anew because another process was first
AFAR = 300.0  # seconds that a remote may take, or packing
TIDY = 500  # commits after which git is asked whether there is something to pack; the first of a process asks too
REST, LONGEST_REST = 0.02, 0.25  # seconds: the first pause while a git moves files, and the longest
_FORMAT = "%H%x1f%P%x1f%ct%x1f%an%x1f%B"


class GitVersions:
    """Versions of a folder's files, in the repository at or above it.

    VectorStoreError if git is missing (code `no_git`), hangs or fails (`git_failed`); ConflictError if another
    operation is in progress; NotFoundError for an unknown point: a commit (also abbreviated), a branch, a tag or a
    time. No path, tree or conflict marker leaves this package.
    """

    def __init__(self, root: Path) -> None:
        self._repository = Repository(root)
        self._is_open = False
        self._made = 0  # commits made by this process

    async def open(self) -> None:
        """Find the repository, or create one."""
        if not self._is_open:
            await self._repository.open()
            self._is_open = True

    async def commit(self, tell: Tell) -> Commit | None:
        """Commit changes; None if there are none."""
        await self.open()
        repository = self._repository
        repository.refuse_while_busy()
        for _ in range(TRIES):
            mark = await self.at_rest()
            head = await repository.head()
            tree, old = await repository.snapshot(head), await repository.tree_of(head)
            if tree == old:
                if not await repository.others.is_settled():  # whoever committed died, or found the index locked
                    await repository.settle_index()
                return None
            changes = await legible(repository, await repository.changes(old, tree), head, None)
            message = await run_blocking(_message, tell, changes)
            id = await repository.commit_tree(tree, [head] if head else [], message)
            if self.is_at_rest(mark) and await repository.advance(id, head):
                await repository.settle_index()
                await self._tidy()
                return (await self._commits(id, 1))[0]
        raise VectorStoreError("others commit to the memory's repository all the time", code="git_failed")

    async def _tidy(self) -> None:
        """Let git pack objects now and then, which it does by itself only after commands of people."""
        if self._made % TIDY == 0 and self._repository.is_own:
            with suppress(VectorStoreError):
                await self._repository.git(
                    "gc", "--auto", "--quiet", settings=[("gc.autoDetach", "false")], patience=AFAR
                )
        self._made += 1

    async def edited(self, paths: Collection[str]) -> set[str]:
        """Return those of the files, relative to the folder, that a person changed or removed.

        What a `git checkout` or a `git pull` brought or removed does not count.
        """
        if not Git.is_there():
            return set(paths)
        await self.open()
        return await self._repository.others.edited(paths)

    async def at_rest(self) -> Mark:
        """Wait until no git is changing files, at most for the time limit."""
        if not Git.is_there():
            return None
        await self.open()
        others, pause = self._repository.others, REST
        while others.is_moving() or await others.is_naming():
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_REST)
        return others.mark()

    def is_at_rest(self, mark: Mark) -> bool:
        """Whether no git has changed files since `at_rest` returned."""
        others = self._repository.others
        return not self._is_open or (not others.is_moving() and others.mark() == mark)

    async def resolve(self, point: str) -> str:
        """Return the commit of a point."""
        found = await self.resolve_start(point)
        if found is None:
            raise NotFoundError(f"the memory has no version as old as {point!r}")
        return found

    async def resolve_start(self, point: str) -> str | None:
        """Return the commit of a point; None, the empty memory, for a time before the first one."""
        await self.open()
        commit = await self._repository.commit_of(point)
        if commit is not None:
            return commit
        moment = read_moment(point)
        if moment is None:
            raise NotFoundError(f"there is no commit, branch or time {point!r}")
        if await self._repository.head() is not None:
            seconds = int(moment.timestamp())
            found = await self._repository.git.text("rev-list", "-1", f"--min-age={seconds}", "HEAD")
            return found or None
        return None

    async def leads_to(self, before: str, after: str | None) -> bool:
        """Whether the second commit (None: the newest) was made of the first."""
        status, _, _ = await self._repository.git.run("merge-base", "--is-ancestor", before, after or "HEAD")
        return status == 0

    async def log(self, point: str | None, limit: int) -> list[Commit]:
        """Return the last commits that changed the memory, newest first, up to a point."""
        await self.open()
        if point is None and await self._repository.head() is None:
            return []
        return await self._commits(await self.resolve(point or "HEAD"), limit, *self._repository.paths())

    async def _commits(self, point: str, limit: int, *paths: str) -> list[Commit]:
        out = await self._repository.git(
            "log", "-z", f"--format={_FORMAT}", f"--max-count={limit}", point, "--", *paths
        )
        return [_commit(part) for part in out.decode("utf-8", "replace").split("\x00") if part]

    async def step(self, before: str | None, after: str | None) -> Step:
        """Return the changes between two commits; None before is the empty memory, None after the current files."""
        await self.open()
        repository = self._repository
        last = await repository.snapshot(await repository.head()) if after is None else after
        changes = await repository.changes(await repository.tree_of(before), last)
        return await run_blocking(step_of, await legible(repository, changes, before, after))

    async def branches(self) -> list[Branch]:
        """Return every branch, by name."""
        await self.open()
        current = await self._current()
        out = await self._repository.git.text(
            "for-each-ref", "--format=%(refname:strip=2)%1f%(objectname)%1f%(committerdate:unix)", "refs/heads"
        )
        parts = [line.split("\x1f") for line in out.splitlines()]
        return [Branch(name, name == current, commit, _time(seconds)) for name, commit, seconds in parts]

    async def _current(self) -> str | None:
        status, out, _ = await self._repository.git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        return out.decode("utf-8", "replace").strip() if status == 0 else None

    async def make_branch(self, name: str) -> None:
        """Create a branch at the newest version; ConflictError if the name is taken."""
        await self._own("a branch is made")
        status, _, _ = await self._repository.git.run("check-ref-format", f"refs/heads/{name}")
        if status or name.startswith("-") or name == "HEAD":
            raise InvalidInputError(f"{name!r} cannot be the name of a branch", field="name", value=name)
        if await self._repository.commit_of(f"refs/heads/{name}") is not None:
            raise ConflictError(f"there is a branch {name!r} already")
        if await self._repository.head() is None:
            raise ConflictError("there is no version yet that a branch could begin with")
        await self._repository.git("update-ref", f"refs/heads/{name}", "HEAD", "")

    async def switch(self, name: str) -> list[Path]:
        """Switch to a branch and return the written or removed paths. Commit before."""
        await self._own("branches are switched")
        repository = self._repository
        target = await repository.commit_of(f"refs/heads/{name}")
        if target is None:
            raise NotFoundError(f"there is no branch {name!r}")
        head = await repository.head()
        assert head is not None, "where a branch is, there is a version"
        await self._refuse_others(head, target)
        changes = await repository.changes(head, target)
        await repository.git("symbolic-ref", "-m", BRINGER, "HEAD", f"refs/heads/{name}")
        paths = await repository.land({change.path: change.after for change in changes})
        await repository.settle_index()
        return paths

    async def merge(self, point: str, settle: Settle, message: str) -> Merge:
        """Merge another line of versions. Commit before."""
        await self._own("branches are merged")
        repository = self._repository
        ours, theirs = await self.resolve("HEAD"), await self.resolve(point)
        status, out, _ = await repository.git.run("merge-base", ours, theirs)
        base = out.decode().strip() if status == 0 else None
        if base == theirs:
            return Merge("nothing", ours, Step())
        await self._refuse_others(base or await repository.tree_of(None), theirs)
        if base == ours:
            return await self._forward(ours, theirs)
        start = await repository.tree_of(base)
        mine = await legible(repository, await repository.changes(start, ours), base, ours)
        other = await legible(repository, await repository.changes(start, theirs), base, theirs)
        merged = await run_blocking(merge, mine, other, settle)
        paths = await repository.land(merged.files)
        for _ in range(TRIES):
            head = await repository.head()
            tree = await repository.snapshot(head)
            id = await repository.commit_tree(tree, [*([head] if head else []), theirs], message)
            if await repository.advance(id, head, BRINGER):
                await repository.settle_index()
                changes = await legible(repository, await repository.changes(ours, id), ours, id)
                step = await run_blocking(step_of, changes)
                return Merge("merged", id, step, merged.conflicts, merged.contradictions, paths)
        raise VectorStoreError("others commit to the memory's repository all the time", code="git_failed")

    async def _forward(self, ours: str, theirs: str) -> Merge:
        repository = self._repository
        changes = await repository.changes(ours, theirs)
        if not await repository.advance(theirs, ours, BRINGER):
            raise ConflictError("another process has committed meanwhile: merge again")
        paths = await repository.land({change.path: change.after for change in changes})
        await repository.settle_index()
        step = await run_blocking(step_of, await legible(repository, changes, ours, theirs))
        return Merge("forwarded", theirs, step, paths=paths)

    async def fetch(self) -> str | None:
        """Fetch from the remote; return this branch's commit there, or None."""
        remote, branch = await self._remote()
        await self._repository.git("fetch", "--quiet", remote, patience=AFAR)
        return await self._repository.commit_of(f"refs/remotes/{remote}/{branch}")

    async def push(self) -> str:
        """Push this branch and return the remote's name; ConflictError if the remote has more commits."""
        remote, branch = await self._remote()
        refs = f"HEAD:refs/heads/{branch}"
        status, _, err = await self._repository.git.run(
            "push", "--quiet", "--no-verify", "--set-upstream", remote, refs, patience=AFAR
        )
        if status and ("[rejected]" in err or "fetch first" in err or "non-fast-forward" in err):
            raise ConflictError(f"{remote} has versions that are not here: pull first")
        if status:
            raise VectorStoreError(f"git could not push to {remote}", code="git_failed")
        return remote

    async def _remote(self) -> tuple[str, str]:
        await self._own("a remote is spoken with")
        git = self._repository.git
        branch = await self._current()
        if branch is None:
            raise ConflictError("no branch is checked out in the memory's repository")
        _, out, _ = await git.run("config", f"branch.{branch}.remote")
        remotes = (await git.text("remote")).split()
        remote = out.decode("utf-8", "replace").strip()
        if not remotes:
            raise NotFoundError("the memory has no remote: add one with git remote add origin ADDRESS")
        if remote in remotes:
            return remote, branch
        return ("origin" if "origin" in remotes else remotes[0]), branch

    async def _own(self, what: str) -> None:
        await self.open()
        self._repository.refuse_while_busy()
        if not self._repository.is_own:
            raise ConflictError(f"the memory lies inside another repository, where {what} by git itself")

    async def _refuse_others(self, before: str, after: str) -> None:
        others = await self._repository.outside(before, after)
        if others:
            raise ConflictError(f"{len(others)} files that are no memories would change too: use git itself")


def _message(tell: Tell, changes: list[FileChange]) -> str:
    return tell(step_of(changes))


def _commit(text: str) -> Commit:
    id, parents, seconds, author, message = text.split("\x1f", 4)
    return Commit(id.strip(), tuple(parents.split()), _time(seconds), author, message.strip())


def _time(seconds: str) -> str:
    return iso(datetime.fromtimestamp(int(seconds), UTC))
