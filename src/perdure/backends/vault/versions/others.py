"""What other gits do in the repository: whether one moves files now, and which files one brought.

A checkout holds the index from its first file to its last, and names its branch a moment after. Half of it is no
version of anything: neither memory nor a commit may take that for what somebody wanted.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from perdure.backends.vault.versions.base import Mark
from perdure.backends.vault.versions.git import LEFT_OVER, Git, works_in

MOVER = "perdure"
"""What git's log of HEAD says of a commit of ours: of what calls changed, and of what hands did."""
BRINGER = "perdure: other versions"
"""What it says where we brought the files of other versions, as a git of the user's does."""
LONGEST_MOVE = 30.0
"""Seconds after which a lock of the index is taken for a dead git's, unless one is seen at work."""
NAMING, LONGEST_NAMING = 0.3, 10.0
"""Seconds that a git may take from writing the index to naming its branch; the second where one is seen at work."""
_FEW = 100
"""Files whose state is asked by their names; of more that of all is asked."""
_MOVES, _ASKED = 1_000, 50
"""Moves of HEAD that are looked back on, and those, with ours in a row as one, that are asked what they touched."""


class OtherGits:
    """Looks at what the repository's other users do; only reads."""

    def __init__(self, git: Git, directory: Path, prefix: str, paths: Collection[str]) -> None:
        self._git = git
        self._directory = directory
        self._prefix = prefix
        self._paths = paths

    # ------------------------------------------------------------------ now
    def is_moving(self) -> bool:
        """Whether some git holds the index and has not written it yet; no dead one."""
        try:
            status = (self._directory / "index.lock").stat()
        except OSError:
            return False
        age = time.time() - status.st_mtime
        if status.st_size:  # the files stand: what holds it now may be an editor that waits for a message
            return age < NAMING
        return age < LONGEST_MOVE or (age < LEFT_OVER and works_in(self._git.folder))

    def mark(self) -> Mark:
        """What is another after every move of HEAD: git's log of it, or the index where git keeps none."""
        for name in ("logs/HEAD", "index"):
            try:
                status = (self._directory / name).stat()
            except OSError:
                continue
            return status.st_size, status.st_mtime_ns
        return None

    async def is_naming(self) -> bool:
        """Whether a git may have written the index and have yet to name its branch, as it does a moment after."""
        try:
            age = time.time() - (self._directory / "index").stat().st_mtime
        except OSError:
            return False
        if not 0 <= age < LONGEST_NAMING or await self.is_settled():
            return False
        return age < NAMING or works_in(self._git.folder)

    async def is_settled(self) -> bool:
        """Whether the index holds of the memory what the newest commit does."""
        status, _, _ = await self._git.run("diff-index", "--cached", "--quiet", "HEAD", "--", *self._paths)
        return status != 1

    # ------------------------------------------------------------------ before
    async def edited(self, paths: Collection[str]) -> set[str]:
        """Of these files (relative to the folder) those that a hand changed or removed, and no git brought.

        A file that is not as in the newest version was edited since. One that is so goes by the last move of HEAD that
        touched it: a commit of ours took in what a hand had done, any other brought it.
        """
        full = {self._prefix + path for path in paths}
        asked = sorted(full) if len(full) <= _FEW else list(self._paths)
        out = await self._git(
            "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *asked,
            env={"GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
        unclean = {part[3:] for part in out.decode("utf-8", "surrogateescape").split("\x00") if part}
        edited = full & unclean
        left = full - unclean
        for is_own, before, after in await self._moves() if left else ():
            names = await self._names(is_own, before, after)
            edited |= left & names if is_own else set()
            left -= names
            if not left:
                break
        return {path[len(self._prefix) :] for path in edited | left}

    async def _moves(self) -> list[tuple[bool, str | None, str]]:
        """Moves of HEAD, newest first: whether they are ours, from where, and to where; those of ours in a row are one.

        Those of others are told one by one: a checkout there and one back leave nothing between their ends.
        """
        status, out, _ = await self._git.run("log", "-g", f"--max-count={_MOVES}", "--format=%H %gs", "HEAD", "--")
        lines = [] if status else out.decode("utf-8", "replace").splitlines()
        told = [(commit, words == MOVER) for commit, _, words in (line.partition(" ") for line in lines)]
        ends = [at for at in range(len(told)) if at == 0 or not (told[at][1] and told[at - 1][1])]
        found: list[tuple[bool, str | None, str]] = []
        for at, end in zip(ends, [*ends[1:], len(told)], strict=False):
            before = told[end][0] if end < len(told) else None
            if before is not None or len(told) < _MOVES:  # the first move of all is from nothing
                found.append((told[at][1], before, told[at][0]))
        return found[:_ASKED]

    async def _names(self, is_own: bool, before: str | None, after: str) -> set[str]:
        """The files of memories that a move touched: of ours each commit did, of another's what differs."""
        asked = ("-r", "-z", "--name-only", "--no-renames")
        if is_own:
            which = after if before is None else f"{before}..{after}"
            out = await self._git("log", "-m", "--first-parent", "--format=", *asked, which, "--", *self._paths)
        else:
            start = await self._git.text("mktree") if before is None else before
            out = await self._git("diff-tree", *asked, start, after, "--", *self._paths)
        return {name for name in out.decode("utf-8", "surrogateescape").split("\x00") if name}
