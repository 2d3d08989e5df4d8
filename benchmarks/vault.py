"""What memory in files costs: cold start, warm start, from an edit to its being found, against bare reading.

    python benchmarks/vault.py DIR [--files 10000] [--watch] [--checkout]

Writes DIR/entries with that many facts in a hundred conversations (left alone where they are there already), and
measures: opening without an index or a ledger (all files are read, embedded by the `hashed` embedder and given a
history), without an index alone, with everything in place, after one edit, and after a tenth of the files was edited,
as by a `git checkout`. With `--checkout` real ones too, there and back, of a branch that has three tenths of the files
edited and two tenths removed, under a watcher, until memory says what the files say; it fails where a tombstone, a
commit or a changed file comes of it. The ratio is to reading the bytes of the same files once, one after the other.
Seconds are of the process's own time, beside those of the wall; of a machine that does something else, believe the
first.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from perdure import AsyncMemory
from perdure.backends.markdown.layout import place_of
from perdure.backends.markdown.memory_file import render
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.scope import Scope

CONVERSATIONS = 100
THINGS = ("tea", "rain", "chess", "sailing", "jazz", "maps", "bread", "winter", "trains", "poems")


def write(root: Path, files: int) -> None:
    """The files of that many facts."""
    for number in range(files):
        text = f"User likes {THINGS[number % 10]} of kind {number} more than {THINGS[number // 10 % 10]}"
        moment = f"2026-01-{number % 28 + 1:02}T{number // 28 % 24:02}:00:00.000000+00:00"
        item = MemoryItem(
            id=str(uuid5(NAMESPACE_URL, f"fact {number}")),
            memory=text,
            hash=text_hash(text),
            scope=Scope(user_id="alice", run_id=f"chat-{number % CONVERSATIONS}"),
            created_at=moment,
            updated_at=moment,
            told_at=moment,
            valid_from=moment,
        )
        path = root / "entries" / place_of(item.id, item.to_payload())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(item.id, item.to_payload()), encoding="utf-8")


def open_memory(root: Path, *, watch: bool = False, git: bool = False) -> AsyncMemory:
    """The memory of these files."""
    store = {"provider": "markdown", "config": {"path": str(root), "watch": watch, "git": git}}
    return AsyncMemory({"path": str(root), "vector_store": store, "embedder": {"provider": "hashed"}})


class Table:
    """Rows of seconds, each against the first."""

    def __init__(self) -> None:
        self._bare = 0.0

    async def row(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Measure, and print."""
        wall, own = time.perf_counter(), time.process_time()
        await work()
        wall, own = time.perf_counter() - wall, time.process_time() - own
        self._bare = self._bare or own
        print(f"{name:<44} {own:>9.3f} {wall:>9.3f} {own / self._bare:>8.1f}", flush=True)


async def read_bare(paths: list[Path]) -> None:
    """Read every file once."""
    for path in paths:
        path.read_bytes()


async def opened(root: Path) -> None:
    """Open, look for something, and close."""
    async with open_memory(root) as memory:
        assert (await memory.search("tea", user_id="alice", limit=1)).results


def edit(paths: list[Path], mark: str) -> None:
    """Add a word to each text."""
    for path in paths:
        path.write_text(path.read_text(encoding="utf-8").rstrip() + f" {mark}\n", encoding="utf-8")


async def measure(root: Path, paths: list[Path], table: Table, *, watch: bool) -> None:
    """Print the table."""
    print(f"{len(paths)} files")
    print(f"{'':<44} {'process':>9} {'wall':>9} {'ratio':>8}")
    await table.row("bare reading", lambda: read_bare(paths))
    for name in ("history.db", "history.db-wal", "history.db-shm", "memory_index.json"):
        (root / name).unlink(missing_ok=True)
    shutil.rmtree(root / "index", ignore_errors=True)
    await table.row("cold: no index, no history", lambda: opened(root))
    shutil.rmtree(root / "index")
    (root / "memory_index.json").unlink()
    await table.row("cold: no index", lambda: opened(root))
    await table.row("warm", lambda: opened(root))
    edit(paths[:1], "truly")
    await table.row("warm, one file edited", lambda: opened(root))
    edit(paths[: len(paths) // 10], "really")
    await table.row("warm, a tenth of the files edited", lambda: opened(root))
    if watch:
        async with open_memory(root, watch=True) as memory:
            await memory.search("tea", user_id="alice", limit=1)
            await asyncio.sleep(2)
            edit(paths[-1:], "zanzibar")
            await table.row("from an edit to its being found (watched)", lambda: found(memory))


def git(root: Path, *arguments: str) -> str:
    """Run git as its user does; what it prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = ("-c", "user.name=Una", "-c", "user.email=una@localhost")
    done = subprocess.run(["git", *who, *arguments], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def texts(root: Path) -> list[str]:
    """What the files of facts say."""
    paths = root.glob("entries/*/facts/*.md")
    return sorted(path.read_text(encoding="utf-8").split("---\n", 2)[2].strip() for path in paths)


def tombstones(root: Path) -> list[Path]:
    """Files that keep what was replaced or removed."""
    return sorted(root.glob("entries/*/deleted/**/*.md"))


async def equal(memory: AsyncMemory, root: Path) -> None:
    """List what is remembered until it is what the files say."""
    wanted = texts(root)
    while True:
        told: list[str] = []
        cursor: str | None = None
        while True:
            page = await memory.get_all(user_id="alice", limit=1000, cursor=cursor)
            told += [item.memory for item in page.results]
            if (cursor := page.next_cursor) is None:
                break
        if sorted(told) == wanted:
            return
        await asyncio.sleep(0.2)


async def measure_checkouts(root: Path, paths: list[Path], table: Table) -> None:
    """Print how long memory takes to follow real checkouts, and fail where they leave something behind."""
    async with open_memory(root, git=True) as memory:
        await memory.versions.log(limit=1)
    git(root, "checkout", "-q", "-b", "other")
    edit(paths[: len(paths) * 3 // 10], "elsewhere")
    for path in paths[len(paths) * 8 // 10 :]:
        path.unlink()
    git(root, "commit", "-q", "-a", "-m", "Another memory")
    git(root, "checkout", "-q", "main")
    tips = git(root, "rev-parse", "main", "other")
    buried = tombstones(root)
    async with open_memory(root, watch=True, git=True) as memory:
        await equal(memory, root)
        for name in ("other", "main", "other", "main"):
            git(root, "checkout", "-q", name)
            await table.row(f"followed a checkout of {name} (watched)", lambda: equal(memory, root))
            await memory.versions.log(limit=1)
            assert git(root, "status", "--porcelain") == "", "a checkout leaves changed files"
            assert tombstones(root) == buried, "a checkout leaves tombstones"
    assert git(root, "rev-parse", "main", "other") == tips, "a checkout becomes a commit"


async def found(memory: AsyncMemory) -> None:
    """Search until the edited text is there."""
    while True:
        results = (await memory.search("zanzibar", user_id="alice", limit=3)).results
        if any("zanzibar" in item.memory for item in results):
            return
        await asyncio.sleep(0.01)


def main() -> None:
    """Read the command line, write what is missing, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--watch", action="store_true", help="measure the watcher too")
    parser.add_argument("--checkout", action="store_true", help="measure checkouts of another branch too")
    arguments = parser.parse_args()
    if not (arguments.folder / "entries").is_dir():
        write(arguments.folder, arguments.files)
    paths = sorted(arguments.folder.glob("entries/*/facts/*.md"))
    table = Table()
    asyncio.run(measure(arguments.folder, paths, table, watch=arguments.watch))
    if arguments.checkout:
        asyncio.run(measure_checkouts(arguments.folder, paths, table))


if __name__ == "__main__":
    main()
