"""Versions kept by git: commits, branches, merges and a remote, over one folder of a memory's files."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from perdure.backends.blocking import run_blocking
from perdure.backends.vault.versions.base import Branch, Commit, Mark, Merge, Settle, Step, Tell, Versions
from perdure.backends.vault.versions.git import Git
from perdure.backends.vault.versions.merging import merge
from perdure.backends.vault.versions.others import BRINGER
from perdure.backends.vault.versions.reading import step_of
from perdure.backends.vault.versions.repository import FileChange, Repository
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError, VectorStoreError

TRIES = 5
"""Times that a commit is made anew because another process was first."""
AFAR = 300.0
"""Seconds that a remote may take, or packing."""
TIDY = 500
"""Commits after which git is asked whether there is something to pack; the first of a process asks too."""
REST, LONGEST_REST = 0.02, 0.25
"""Seconds: the first pause while a git moves files, and the longest."""
_FORMAT = "%H%x1f%P%x1f%ct%x1f%an%x1f%B"


class GitVersions(Versions):
    """Versions of the files in a folder, in the repository that it has, or lies in."""

    def __init__(self, root: Path) -> None:
        self._repository = Repository(root)
        self._is_open = False
        self._made = 0
        """Commits made by this process."""

    async def open(self) -> None:
        """Make sure that there is a repository (K21), or find the one that the folder lies in."""
        if not self._is_open:
            await self._repository.open()
            self._is_open = True

    # ------------------------------------------------------------------ commits
    async def commit(self, tell: Tell) -> Commit | None:
        """Commit what changed; None where nothing did."""
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
            message = await run_blocking(_told, tell, await repository.changes(old, tree))
            id = await repository.commit_tree(tree, [head] if head else [], message)
            if self.is_at_rest(mark) and await repository.advance(id, head):
                await repository.settle_index()
                await self._tidy()
                return (await self._commits(id, 1))[0]
        raise VectorStoreError("others commit to the memory's repository all the time", code="git_failed")

    async def _tidy(self) -> None:
        """Now and then let git pack what commits leave, which it does by itself only after commands of people."""
        if self._made % TIDY == 0 and self._repository.is_own:
            with suppress(VectorStoreError):
                await self._repository.git(
                    "gc", "--auto", "--quiet", settings=[("gc.autoDetach", "false")], patience=AFAR
                )
        self._made += 1

    async def edited(self, paths: Collection[str]) -> set[str]:
        """Of these files those that a hand changed or removed, and no git of somebody's brought."""
        if not Git.is_there():
            return set(paths)
        await self.open()
        return await self._repository.others.edited(paths)

    async def at_rest(self) -> Mark:
        """Return once no git changes files, or has for long; with what tells whether one has since."""
        if not Git.is_there():
            return None
        await self.open()
        others, pause = self._repository.others, REST
        while others.is_moving() or await others.is_naming():
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_REST)
        return others.mark()

    def is_at_rest(self, mark: Mark) -> bool:
        """Whether no git has moved files since `at_rest` answered so, nor does now."""
        others = self._repository.others
        return not self._is_open or (not others.is_moving() and others.mark() == mark)

    async def resolve(self, point: str) -> str:
        """The commit of a point: a commit, branch or tag, or a time, whose version is the last one by then."""
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
            if found:
                return found
        raise NotFoundError(f"the memory has no version as old as {point!r}")

    async def log(self, point: str | None, limit: int) -> list[Commit]:
        """The last commits that changed the memory, newest first, as seen from a point."""
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
        """What lies between two commits; None before is the empty memory, None after the files as they are now."""
        await self.open()
        repository = self._repository
        last = await repository.snapshot(await repository.head()) if after is None else after
        return await run_blocking(step_of, await repository.changes(await repository.tree_of(before), last))

    # ------------------------------------------------------------------ branches
    async def branches(self) -> list[Branch]:
        """Every branch, by name."""
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
        """Make a branch of the newest version; ConflictError where there is one of this name."""
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
        """Make the files those of a branch; the paths that this wrote or removed."""
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

    # ------------------------------------------------------------------ merging
    async def merge(self, point: str, settle: Settle, message: str) -> Merge:
        """Take in the memories of another line of versions."""
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
        mine, other = await repository.changes(start, ours), await repository.changes(start, theirs)
        merged = await run_blocking(merge, mine, other, settle)
        paths = await repository.land(merged.files)
        for _ in range(TRIES):
            head = await repository.head()
            tree = await repository.snapshot(head)
            id = await repository.commit_tree(tree, [*([head] if head else []), theirs], message)
            if await repository.advance(id, head, BRINGER):
                await repository.settle_index()
                step = await run_blocking(step_of, await repository.changes(ours, id))
                return Merge("merged", id, step, merged.conflicts, merged.contradictions, paths)
        raise VectorStoreError("others commit to the memory's repository all the time", code="git_failed")

    async def _forward(self, ours: str, theirs: str) -> Merge:
        repository = self._repository
        changes = await repository.changes(ours, theirs)
        if not await repository.advance(theirs, ours, BRINGER):
            raise ConflictError("another process has committed meanwhile: merge again")
        paths = await repository.land({change.path: change.after for change in changes})
        await repository.settle_index()
        return Merge("forwarded", theirs, await run_blocking(step_of, changes), paths=paths)

    # ------------------------------------------------------------------ remote
    async def fetch(self) -> str | None:
        """Get what the remote has; the commit of this branch there, None where it has none."""
        remote, branch = await self._remote()
        await self._repository.git("fetch", "--quiet", remote, patience=AFAR)
        return await self._repository.commit_of(f"refs/remotes/{remote}/{branch}")

    async def push(self) -> str:
        """Bring this branch to the remote, whose name is answered; ConflictError where the remote has more."""
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
        told = out.decode("utf-8", "replace").strip()
        if not remotes:
            raise NotFoundError("the memory has no remote: add one with git remote add origin ADDRESS")
        if told in remotes:
            return told, branch
        return ("origin" if "origin" in remotes else remotes[0]), branch

    # ------------------------------------------------------------------ bounds
    async def _own(self, what: str) -> None:
        await self.open()
        self._repository.refuse_while_busy()
        if not self._repository.is_own:
            raise ConflictError(f"the memory lies inside another repository, where {what} by git itself")

    async def _refuse_others(self, before: str, after: str) -> None:
        others = await self._repository.outside(before, after)
        if others:
            raise ConflictError(f"{len(others)} files that are no memories would change too: use git itself")


def _told(tell: Tell, changes: list[FileChange]) -> str:
    return tell(step_of(changes))


def _commit(text: str) -> Commit:
    id, parents, seconds, author, message = text.split("\x1f", 4)
    return Commit(id.strip(), tuple(parents.split()), _time(seconds), author, message.strip())


def _time(seconds: str) -> str:
    return iso(datetime.fromtimestamp(int(seconds), UTC))
