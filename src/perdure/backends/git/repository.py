"""A folder's git repository: find or create it, read its trees, commit the folder's state.

Commits use an index of our own, so the user's staged changes are neither included nor lost, and a lock on their index
blocks nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from perdure.backends.blocking import run_blocking
from perdure.backends.git.base import BOOKKEEPING, Mark, Replaced, Step
from perdure.backends.git.process import FAILED, MOVER, NO_GIT, Git, OtherGits, is_left_over, reason
from perdure.backends.markdown import layout
from perdure.backends.markdown.front_matter import NoFrontMatter
from perdure.backends.markdown.layout import COLLECTIONS, ENTRIES
from perdure.backends.markdown.memory_file import as_item, read
from perdure.domain.clock import EARLIEST, iso
from perdure.domain.errors import ConflictError, VectorStoreError
from perdure.domain.memory import LIVE, MemoryItem

IGNORE, README = ".gitignore", "README.md"
PATHS = (ENTRIES, COLLECTIONS, IGNORE, README)
"""What is kept in versions, below the folder; all else there is derived, or settings, which may hold keys."""
IGNORED = (
    "index/", "memory_index.json", "history.db*", "graph.db*", "chroma/", "backups/", "perdure.toml",
    "__pycache__/", "*.tmp", "*.swp", "*~", ".DS_Store",
)  # fmt: skip
_IGNORING = "\n".join(IGNORED) + "\n"
ABOUT = """# Memory

Every file below `entries/` is a memory: a fact, a message, or the summary of a conversation. Read them, edit them,
delete them; perdure takes in what you change. What was deleted or replaced stands in the `deleted` folders.

`perdure log` tells what was learned when, `perdure diff` what differs between two moments, and `perdure revert` takes
a version back.
"""
NOBODY = ("perdure", "perdure@localhost")  # the author of commits where git has none configured
FIRST = "Initial commit"
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_WHO = ("AUTHOR", "COMMITTER")
_REGULAR = ("100644", "100755")
_TRIES = 3


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file in two states; None if it does not exist."""

    path: str  # relative to the memory's folder, with forward slashes
    before: bytes | None
    after: bytes | None
    was_slip: bool = False  # whether the file was broken, and `before` is what it said last
    is_slip: bool = False  # whether the file is broken, and `after` is what it said last


class Repository:
    """The repository of a folder, at its top or above it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git = Git(root)
        self.prefix = ""
        """The folder below the top of the repository, with a slash at its end; empty where it is the top."""
        self._directory = root / ".git"
        self._identity: dict[str, str] = {}
        self.others = OtherGits(self.git, self._directory, "", self._memories())

    @property
    def is_own(self) -> bool:
        """Whether the folder is the top of its repository."""
        return not self.prefix

    async def open(self) -> None:
        """Find the repository or create one; one that ignores the folder does not count."""
        if not Git.is_there():
            raise VectorStoreError("git is not installed", code=NO_GIT)
        self.root.mkdir(parents=True, exist_ok=True)
        if not await self._find():
            self.git = Git(self.root)
            await self.git("init", "-q", "-b", "main", "--template=")
            await self._find()
        self.others = OtherGits(self.git, self._directory, self.prefix, self._memories())
        await self._identify()
        is_new = self.is_own and await self.head() is None
        await run_blocking(self._describe, is_new)
        if not _says(self.root / IGNORE, _IGNORING):
            await self._hide()
        if is_new:
            await self._begin()

    async def _find(self) -> bool:
        git = Git(self.root)
        arguments = ("rev-parse", "--show-toplevel", "--absolute-git-dir", "--show-prefix")
        status, out, err = await git.run(*arguments)
        if status:
            if "not a git repository" in err:
                return False
            raise VectorStoreError(f"the folder's repository cannot be used: {reason(err)}", code=FAILED)
        top, directory, prefix = (*out.decode("utf-8", "surrogateescape").split("\n"), "", "")[:3]
        if prefix:
            ignored, _, _ = await Git(Path(top)).run("check-ignore", "-q", "--", prefix.rstrip("/"))
            if ignored == 0:
                return False
        self.git, self._directory, self.prefix = Git(Path(top)), Path(directory), prefix
        return True

    async def _identify(self) -> None:
        """Set perdure as the author if the user has no identity; permanently only in our own repository."""
        for number, part in enumerate(("NAME", "EMAIL")):
            status, out, _ = await self.git.run("config", f"user.{part.lower()}")
            nobody = [f"GIT_{who}_{part}" for who in _WHO if not os.environ.get(f"GIT_{who}_{part}")]
            if (status == 0 and out.strip()) or not nobody:
                continue
            if self.is_own and len(nobody) == len(_WHO):
                await self.git("config", f"user.{part.lower()}", NOBODY[number])
            self._identity.update(dict.fromkeys(nobody, NOBODY[number]))

    def _describe(self, is_new: bool) -> None:
        """Write .gitignore, and in a new repository a description of the folder."""
        if not (self.root / IGNORE).exists():
            (self.root / IGNORE).write_text(_IGNORING, encoding="utf-8")
        if is_new and not (self.root / README).exists():
            (self.root / README).write_text(ABOUT, encoding="utf-8")

    async def _hide(self) -> None:
        """Exclude derived and secret files if .gitignore is the user's own."""
        names = {f"{self.prefix}{pattern.rstrip('/*')}": pattern for pattern in IGNORED if not pattern.startswith("*")}
        _, out, _ = await self.git.run("check-ignore", "--no-index", "-z", "--stdin", input="\0".join(names).encode())
        ignored = out.decode("utf-8", "surrogateescape").split("\0")
        place = re.sub(r"([\\*?\[])", r"\\\1", self.prefix)
        lines = [f"/{place}{pattern}" for name, pattern in names.items() if name not in ignored]
        exclude = self.git.folder / (await self.git.text("rev-parse", "--git-path", "info/exclude"))
        if lines:
            await run_blocking(_append, exclude, lines)

    async def _begin(self) -> None:
        async with self._index(None) as env:
            if explanations := [name for name in self._ours() if name in (IGNORE, README)]:
                await self.git("add", "--", *explanations, env=env)
            tree = await self.git.text("write-tree", env=env)
        await self.advance(await self.commit_tree(tree, [], FIRST), None)
        await self.settle_index()

    async def head(self) -> str | None:
        """Return the newest commit; None before the first."""
        return await self.commit_of("HEAD")

    async def commit_of(self, point: str) -> str | None:
        """Return the commit of a git name, or None."""
        if point.startswith("-") or not point.strip() or "\n" in point or "\x00" in point:
            return None
        status, out, _ = await self.git.run("rev-parse", "--verify", "--quiet", f"{point}^{{commit}}")
        return out.decode().strip() if status == 0 else None

    async def tree_of(self, commit: str | None) -> str:
        """Return the tree of a commit; the empty tree for None."""
        if commit is None:
            return await self.git.text("mktree")
        return await self.git.text("rev-parse", "--verify", f"{commit}^{{tree}}")

    async def changes(self, before: str, after: str) -> list[FileChange]:
        """Return the memory's files that differ between two trees or commits; only plain files count."""
        out = await self.git("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after, "--", *self.paths())
        parts = out.decode("utf-8", "surrogateescape").split("\x00")
        raw = [(parts[at].lstrip(":").split(" "), parts[at + 1]) for at in range(0, len(parts) - 1, 2)]
        wanted = [(path, _blob(fields[0], fields[2]), _blob(fields[1], fields[3])) for fields, path in raw]
        ids = dict.fromkeys(id for _, one, two in wanted for id in (one, two) if id is not None)
        blobs = await self._blobs(list(ids))
        return [
            FileChange(path[len(self.prefix) :], blobs.get(one or ""), blobs.get(two or ""))
            for path, one, two in wanted
        ]

    async def _blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        if not ids:
            return {}
        out = await self.git("cat-file", "--batch", input="".join(f"{id}\n" for id in ids).encode())
        blobs: dict[str, bytes] = {}
        at = 0
        for id in ids:
            end = out.index(b"\n", at)
            size = int(out[at:end].split()[2])
            blobs[id] = out[end + 1 : end + 1 + size]
            at = end + size + 2
        return blobs

    async def outside(self, before: str, after: str) -> list[str]:
        """Return the names outside of the memory that differ between two commits."""
        out = await self.git("diff-tree", "-r", "-z", "--name-only", before, after)
        names = [name for name in out.decode("utf-8", "replace").split("\x00") if name]
        return [name for name in names if not self._is_ours(name)]

    def _is_ours(self, name: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for path in self.paths())

    def paths(self) -> list[str]:
        """Return the versioned paths, from the top of the repository."""
        return [self.prefix + path for path in PATHS]

    def _memories(self) -> list[str]:
        """Return the folders of memories, from the top of the repository."""
        return [self.prefix + path for path in (ENTRIES, COLLECTIONS)]

    def _ours(self) -> list[str]:
        """Return the paths that we commit, below the folder: memories, and explanations that nobody has changed."""
        explanations = {IGNORE: _IGNORING, README: ABOUT}
        return [ENTRIES, COLLECTIONS, *(name for name, text in explanations.items() if _says(self.root / name, text))]

    def refuse_while_busy(self) -> None:
        """Raise ConflictError during a merge or a rebase."""
        if any((self._directory / name).exists() for name in _UNDER_WAY):
            raise ConflictError("a merge or a rebase is under way in the memory's repository: end it first")

    async def snapshot(self, head: str | None) -> str:
        """Return a tree with the folder's current files, and the newest commit's other files."""
        async with self._index(head) as env:
            for path in self._ours():
                if (self.root / path).exists():
                    await self._add(self.prefix + path, env)
                else:
                    await self.git("rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", self.prefix + path, env=env)
            return await self.git.text("write-tree", env=env)

    async def _add(self, path: str, env: Mapping[str, str]) -> None:
        """Add a file or a folder to the index; one that disappears meanwhile is removed."""
        for left in reversed(range(_TRIES)):
            status, _, err = await self.git.run("add", "-A", "--ignore-errors", "--", path, env=env)
            if status == 0:
                return
            if not left:
                raise VectorStoreError(f"git add failed: {reason(err)}", code=FAILED)

    @asynccontextmanager
    async def _index(self, head: str | None) -> AsyncIterator[dict[str, str]]:
        """Return our own index of a commit; it starts as a copy of the user's, so only other files are read."""
        own = self._directory / f"perdure-{uuid4().hex}.index"
        env = {"GIT_INDEX_FILE": str(own)}
        try:
            await run_blocking(_copied, self._directory / "index", own)
            await self.git("read-tree", *(["--empty"] if head is None else ["--reset", head]), env=env)
            yield env
        finally:
            for name in (own, own.with_name(own.name + ".lock")):
                name.unlink(missing_ok=True)

    async def commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write a commit object that no branch points to yet."""
        options = [part for parent in parents for part in ("-p", parent)]
        text = message.encode("utf-8", "replace")
        return (
            (await self.git("commit-tree", tree, *options, "-F", "-", input=text, env=self._identity)).decode().strip()
        )

    async def advance(self, commit: str, head: str | None, message: str = MOVER) -> bool:
        """Make a commit the branch's newest; False if the branch has moved. `message` goes into the reflog."""
        zeros = "0" * len(commit)
        try:
            await self.git("update-ref", "-m", message, "HEAD", commit, head or zeros, env=self._identity)
        except VectorStoreError:
            if await self.head() == head:
                raise
            return False
        return True

    async def settle_index(self) -> None:
        """Update the user's index with the committed memory files; if it is locked, the next commit does it.

        The new index is written beside theirs and moved into place, so that theirs is locked only briefly.
        """
        mark, own = self.others.mark(), self._directory / f"perdure-{uuid4().hex}.index"
        try:
            with suppress(VectorStoreError, OSError):
                await run_blocking(_copied, self._directory / "index", own)
                ours = [self.prefix + path for path in self._ours()]
                await self.git("reset", "-q", "--", *ours, env={"GIT_INDEX_FILE": str(own)})
                await run_blocking(self._put_index, own, mark)
        finally:
            own.unlink(missing_ok=True)

    def _put_index(self, own: Path, mark: Mark) -> None:
        """Replace the user's index unless it has changed meanwhile; OSError if it is locked."""
        index, lock = self._directory / "index", self._directory / "index.lock"
        data, made = own.read_bytes(), own.stat()
        try:
            handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            if not is_left_over(lock, self.git.folder):
                raise
            lock.unlink()
            handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.utime(lock, ns=(made.st_atime_ns, made.st_mtime_ns))  # by which git knows files that changed since
            is_theirs = self.others.mark() != mark
        except BaseException:
            lock.unlink()
            raise
        if is_theirs:
            lock.unlink()
        else:
            lock.replace(index)

    async def land(self, files: Mapping[str, bytes | None]) -> list[Path]:
        """Write and remove files of the memory atomically, never outside of the folder; return their paths."""
        return await run_blocking(self._land, files)

    def _land(self, files: Mapping[str, bytes | None]) -> list[Path]:
        paths = [self._place(name) for name in files]
        for path, data in zip(paths, files.values(), strict=True):
            if data is None:
                path.unlink(missing_ok=True)
                self._tidy(path.parent)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_name(f".{path.name}.{uuid4().hex[:8]}.tmp")
            try:
                half.write_bytes(data)
                half.replace(path)
            finally:
                half.unlink(missing_ok=True)
        return paths

    def _place(self, name: str) -> Path:
        path = self.root / name
        around = list(path.parents)
        is_linked = any(each.is_symlink() for each in around[: around.index(self.root)])
        parts = name.split("/")
        if parts[0] not in PATHS or ".." in parts or is_linked:
            raise VectorStoreError("a version holds a file that would lie outside of the memory", code=FAILED)
        return path

    def _tidy(self, folder: Path) -> None:
        """Remove empty folders, as git does."""
        while folder not in (self.root, self.root / ENTRIES):
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _blob(mode: str, id: str) -> str | None:
    return id if mode in _REGULAR else None


def _copied(index: Path, own: Path) -> None:
    with suppress(OSError):
        shutil.copyfile(index, own)


def _append(path: Path, lines: Sequence[str]) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        fresh = [line for line in lines if line not in known]
        path.write_text("".join(f"{line}\n" for line in [*known, *fresh]), encoding="utf-8")


def _says(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def place_in(path: str) -> str | None:
    """Return a memory file's place below its `entries`; None for other paths."""
    _, found, place = f"/{path}".partition(f"/{layout.ENTRIES}/")
    return place if found and place.endswith(layout.SUFFIX) else None


UNDATED = iso(EARLIEST)


def item_of(path: str, data: bytes | None) -> MemoryItem | None:
    """Return the memory, or earlier version, in a file; None if it holds none."""
    place = place_in(path)
    if data is None or place is None:
        return None
    try:
        return as_item(read(data.decode("utf-8"), place, UNDATED).payload)
    except (NoFrontMatter, UnicodeError):
        return None


@dataclass(slots=True)
class State:
    """The memories of one state by id, and the tombstones of each by the memory's id."""

    live: dict[str, MemoryItem]
    tombstones: dict[str, list[MemoryItem]]
    versions: set[str]  # ids of the tombstones themselves

    @classmethod
    def of(cls, items: Iterable[MemoryItem]) -> State:
        state = cls({}, {}, set())
        for item in items:
            if item.state == LIVE:
                state.live[item.id] = item
            elif item.version_of is not None:
                state.versions.add(item.id)
                state.tombstones.setdefault(item.version_of, []).append(item)
        return state

    def last_of(self, id: str, known: set[str]) -> MemoryItem | None:
        """Return a memory's latest tombstone that was not known before."""
        new = [item for item in self.tombstones.get(id, ()) if item.id not in known]
        return max(new, key=lambda item: item.untold_at or "", default=None)


def step_of(changes: Sequence[FileChange]) -> Step:
    step = Step()
    before, after = [], []
    slips, mended = dict[str, MemoryItem](), set[str]()
    for change in changes:
        one, two = item_of(change.path, change.before), item_of(change.path, change.after)
        before += [one] if one else []
        after += [two] if two and not change.is_slip else []
        step.others += one is None and two is None
        if two is not None and two.state == LIVE:
            if change.is_slip:
                slips[two.id] = two
            elif change.was_slip:
                mended.add(two.id)
    old, new = State.of(before), State.of(after)
    for id, item in slips.items():
        if id not in new.live and new.last_of(id, old.versions) is None:
            new.live[id] = item
            step.unread.append(item)
    taken: set[str] = set()
    for id, item in old.live.items():
        if id in new.live:
            _note_kept(step, item, new.live[id])
            if id in mended and item.memory == new.live[id].memory:
                step.mended.append(new.live[id])
        else:
            _note_gone(step, item, old, new, taken)
    for id, item in new.live.items():
        if id not in old.live and id not in taken:
            {"messages": step.said, "summaries": step.summaries}.get(item.kind, step.learned).append(item)
    step.cleared = sum(version not in new.versions for version in old.versions)
    for items in (step.learned, step.dropped, step.said, step.summaries, step.unread, step.mended):
        items.sort(key=lambda item: (item.created_at, item.id))
    step.replaced.sort(key=lambda pair: (pair.after.updated_at, pair.after.id))
    return step


def _note_kept(step: Step, before: MemoryItem, after: MemoryItem) -> None:
    if after.kind == "summaries":
        if before.memory != after.memory:
            step.summaries.append(after)
    elif before.memory != after.memory:
        step.replaced.append(Replaced(before, after))
    elif before.with_(**{name: getattr(after, name) for name in BOOKKEEPING}) != after:
        step.marked.append(Replaced(before, after))


def _note_gone(step: Step, item: MemoryItem, old: State, new: State, taken: set[str]) -> None:
    tombstone = new.last_of(item.id, old.versions)
    if tombstone is None:
        if item.kind == "messages":
            step.unsaid += 1
        else:
            step.erased.append(item)
        return
    seen: set[str] = {item.id}
    last: MemoryItem | None = tombstone
    while last is not None and last.replaced_by is not None and last.replaced_by not in seen:
        id = last.replaced_by
        seen.add(id)
        if id in new.live:
            if id not in old.live:
                taken.add(id)
                step.replaced.append(Replaced(item, new.live[id]))
                return
            break
        last = new.last_of(id, old.versions)
    if item.kind == "messages":
        step.unsaid += 1
    elif item.kind != "summaries":
        step.dropped.append(item)
