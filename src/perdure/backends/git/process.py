"""Run the git binary in its folder without blocking the event loop, without prompts, and with a time limit.

Other git processes may work in the same repository: `OtherGits` watches them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.backends.git.base import Mark
from perdure.domain.errors import VectorStoreError

NO_GIT, FAILED = "no_git", "git_failed"  # codes of the errors: there is no git to run; it refuses, breaks or hangs
PATIENCE = 60.0  # seconds that a command may take; those that speak with a remote may take more
GRACE = 2.0  # seconds that a command has to clean up after itself when it is ended
LEFT_OVER = 600.0  # seconds after which a lock may be taken for one of a process that died
_KEPT = re.compile(
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM|CEILING_DIRECTORIES"
    r"|(AUTHOR|COMMITTER)_(NAME|EMAIL)|(SSL|HTTP|PROXY)_\w+)"
)
"""What a user has set for every repository. All else would point to the repository, index or date of somebody else:
whoever runs inside a hook of git has such variables in the environment."""
_ALWAYS = (
    # No hook runs: one may ask, hang, or change what is being committed.
    ("core.hooksPath", os.devnull),
    ("commit.gpgSign", "false"),
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.fileMode", "false"),
    ("log.showSignature", "false"),
    ("advice.detachedHead", "false"),
)  # fmt: skip
_LOCK = re.compile(r"Unable to create '([^'\n]+\.lock)'")


class Git:
    """Runs git in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def is_there() -> bool:
        return shutil.which("git") is not None

    async def __call__(
        self,
        *arguments: str,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        settings: Sequence[tuple[str, str]] = (),
        patience: float = PATIENCE,
    ) -> bytes:
        """Return a command's output; VectorStoreError with git's first words if it fails or takes too long.

        Locks left by a dead process are removed, and the command is run again.
        """
        status, out, err = await self.run(*arguments, input=input, env=env, settings=settings, patience=patience)
        while status and self._unlocked(err):
            status, out, err = await self.run(*arguments, input=input, env=env, settings=settings, patience=patience)
        if status:
            raise VectorStoreError(f"git {arguments[0]} failed: {reason(err) or f'status {status}'}", code=FAILED)
        return out

    async def text(self, *arguments: str, input: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """Return a command's output as text, stripped."""
        return (await self(*arguments, input=input, env=env)).decode("utf-8", "replace").strip()

    async def run(
        self,
        *arguments: str,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        settings: Sequence[tuple[str, str]] = (),
        patience: float = PATIENCE,
    ) -> tuple[int, bytes, str]:
        """Return a command's status, output and errors; VectorStoreError if it cannot be run or takes too long."""
        options = [part for name, value in (*_ALWAYS, *settings) for part in ("-c", f"{name}={value}")]
        literal = () if arguments[0] == "check-ignore" else ("--literal-pathspecs",)  # which it does not know
        try:
            process = await _started(asyncio.create_subprocess_exec(
                "git", "--no-pager", *literal, *options, *arguments,
                cwd=self.folder,
                stdin=asyncio.subprocess.PIPE if input else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**_environment(), **(env or {})},
                start_new_session=True,  # it has no terminal to ask at, and is ended with all that it started
            ))  # fmt: skip
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError) and self.folder.is_dir()
            problem = "git is not installed" if missing else f"git could not be run: {type(error).__name__}"
            raise VectorStoreError(problem, code=NO_GIT if missing else FAILED) from error
        try:
            async with asyncio.timeout(patience):
                out, err = await process.communicate(input or None)
        except TimeoutError:
            raise VectorStoreError(f"git {arguments[0]} did not end within {patience:g} seconds", code=FAILED) from None
        finally:
            await _end(process)
        return process.returncode or 0, out, err.decode("utf-8", "replace")

    def _unlocked(self, err: str) -> bool:
        """Whether a command failed because of a dead process's lock, which is now removed."""
        found = _LOCK.search(err)
        if found is None or "exists" not in err:
            return False
        lock = Path(found[1])
        if not is_left_over(lock, self.folder):
            return False
        try:
            lock.unlink(missing_ok=True)
        except OSError:  # whoever may not remove it must not run the command for ever
            return False
        return True


def is_left_over(lock: Path, folder: Path) -> bool:
    """Whether a lock is old and no git works in its repository (or it is a day old, if that is unknown)."""
    try:
        age = time.time() - lock.stat().st_mtime
    except OSError:
        return False
    processes = Path("/proc")
    if not (processes / "self").exists():
        return age > 86_400
    return age > LEFT_OVER and not works_in(folder)


def works_in(folder: Path) -> bool:
    """Whether a git process is seen to work in a folder, or above or below it; False if processes cannot be seen."""
    return any(_works_in(process, folder) for process in Path("/proc").glob("[0-9]*"))


def _works_in(process: Path, folder: Path) -> bool:
    """Whether a process is a git in a folder, or above or below it, or cannot be inspected."""
    try:
        if not (process / "comm").read_text().startswith("git"):
            return False
        place = (process / "cwd").resolve(strict=True)
    except FileNotFoundError:
        return False  # it has ended
    except OSError:
        return True
    return place.is_relative_to(folder) or folder.is_relative_to(place)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    ssh = kept.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes") if "GIT_SSH" not in kept else None
    asking = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GIT_ASKPASS": "true", "GIT_EDITOR": "true"}
    return {**kept, **asking, "LC_ALL": "C", "GIT_PAGER": "cat"} | ({"GIT_SSH_COMMAND": ssh} if ssh else {})


async def _started(starting: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """Return the command once it runs; if the caller is cancelled meanwhile, the command is ended.

    Otherwise asyncio would reap it behind its own watcher's back, which then warns of an unknown child.
    """
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):
            await _end(await task)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a running command and its children; politely first, so that it removes its locks."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal_)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await process.wait()


def reason(err: str) -> str:
    """Return the first line of git's errors that gives a reason, without local folders or secrets."""
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    chosen = next((line for line in lines if line.startswith(("fatal:", "error:", " ! "))), lines[0] if lines else "")
    line = re.sub(r"://[^\s/@']*@", "://", chosen.removeprefix("fatal: ").removeprefix("error: "))
    return re.sub(r"(?<![\w.])/[^\s':]+", "<path>", line)[:300]


# What other gits do in the repository: whether one moves files now, and which files one brought.
#
# A checkout holds the index from its first file to its last, and names its branch a moment after. Half of it is no
# version of anything: neither memory nor a commit may take that for what somebody wanted.

MOVER = "perdure"  # what git's log of HEAD says of a commit of ours: of what calls changed, and of what hands did
BRINGER = "perdure: other versions"
"""What it says where we brought the files of other versions, as a git of the user's does."""
LONGEST_MOVE = 30.0  # seconds after which a lock of the index is taken for a dead git's, unless one is seen at work
NAMING, LONGEST_NAMING = 0.3, 10.0
"""Seconds that a git may take from writing the index to naming its branch; the second where one is seen at work."""
_FEW = 100  # files whose state is asked by their names; of more that of all is asked
_MOVES, _ASKED = 1_000, 50
"""Moves of HEAD that are looked back on, and those, with ours in a row as one, that are asked what they touched."""


class OtherGits:
    """Watches other users of the repository; only reads."""

    def __init__(self, git: Git, directory: Path, prefix: str, paths: Collection[str]) -> None:
        self._git = git
        self._directory = directory
        self._prefix = prefix
        self._paths = paths

    def is_moving(self) -> bool:
        """Whether a living git process holds the index and has not written it yet."""
        try:
            status = (self._directory / "index.lock").stat()
        except OSError:
            return False
        age = time.time() - status.st_mtime
        if status.st_size:  # the files stand: what holds it now may be an editor that waits for a message
            return age < NAMING
        return age < LONGEST_MOVE or (age < LEFT_OVER and works_in(self._git.folder))

    def mark(self) -> Mark:
        """Return a value that changes with every move of HEAD: from its reflog, or from the index without one."""
        for name in ("logs/HEAD", "index"):
            try:
                status = (self._directory / name).stat()
            except OSError:
                continue
            return status.st_size, status.st_mtime_ns
        return None

    async def is_naming(self) -> bool:
        """Whether a git process may have written the index and is about to update its branch."""
        try:
            age = time.time() - (self._directory / "index").stat().st_mtime
        except OSError:
            return False
        if not 0 <= age < LONGEST_NAMING or await self.is_settled():
            return False
        return age < NAMING or works_in(self._git.folder)

    async def is_settled(self) -> bool:
        """Whether the index and the newest commit agree on the memory's files."""
        status, _, _ = await self._git.run("diff-index", "--cached", "--quiet", "HEAD", "--", *self._paths)
        return status != 1

    async def edited(self, paths: Collection[str]) -> set[str]:
        """Return those of the files (relative to the folder) that a person changed or removed, and not git.

        A file that differs from the newest version was edited since. Otherwise the last move of HEAD that touched it
        decides: our own commits record edits, any other move brought the file.
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
        """Return moves of HEAD, newest first: whether they are ours, from where, and to where.

        Consecutive moves of ours are joined; those of others are not, because going there and back leaves no
        difference.
        """
        status, out, _ = await self._git.run("log", "-g", f"--max-count={_MOVES}", "--format=%H %gs", "HEAD", "--")
        lines = [] if status else out.decode("utf-8", "replace").splitlines()
        moves = [(commit, words == MOVER) for commit, _, words in (line.partition(" ") for line in lines)]
        ends = [at for at in range(len(moves)) if at == 0 or not (moves[at][1] and moves[at - 1][1])]
        found: list[tuple[bool, str | None, str]] = []
        for at, end in zip(ends, [*ends[1:], len(moves)], strict=False):
            before = moves[end][0] if end < len(moves) else None
            if before is not None or len(moves) < _MOVES:  # the first move of all is from nothing
                found.append((moves[at][1], before, moves[at][0]))
        return found[:_ASKED]

    async def _names(self, is_own: bool, before: str | None, after: str) -> set[str]:
        """Return the memory files that a move touched: for ours those of each commit, for others' those that differ."""
        asked = ("-r", "-z", "--name-only", "--no-renames")
        if is_own:
            which = after if before is None else f"{before}..{after}"
            out = await self._git("log", "-m", "--first-parent", "--format=", *asked, which, "--", *self._paths)
        else:
            start = await self._git.text("mktree") if before is None else before
            out = await self._git("diff-tree", *asked, start, after, "--", *self._paths)
        return {name for name in out.decode("utf-8", "surrogateescape").split("\x00") if name}
