"""Keep an open engine in step with its Markdown files: sync on opening, watch on request, commit versions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime

from perdure.backends.markdown.base import FileStore
from perdure.domain.clock import iso
from perdure.domain.event import Change
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, never_fail
from perdure.engine.core.kernel import Kernel
from perdure.engine.markdown.sync import sync_files
from perdure.engine.markdown.versions_api import CommitWorker

logger = logging.getLogger("perdure")
MANY = 1_000  # number of changed files from which on the whole folder is scanned


class Watcher:
    """Watches one folder from `start` to `close`; missed changes are picked up at the next opening."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._task: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None

    @property
    def running(self) -> bool:
        """Whether it is watching."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start watching, if the store has files; call it on a running event loop."""
        if isinstance(self._kernel.store, FileStore) and not self.running:
            self._stop = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._watch(self._kernel.store, self._stop))

    async def close(self) -> None:
        """Stop after the current changes are processed."""
        task, self._task = self._task, None
        if task is not None and self._stop is not None:
            self._stop.set()
            with suppress(asyncio.CancelledError):
                await task

    def forsake(self) -> None:
        """Stop in a forked process: the parent goes on watching."""
        self._task = self._stop = None

    async def _watch(self, store: FileStore, stop: asyncio.Event) -> None:
        with degrade("files are not watched any more: their changes are taken in at the next opening"):
            async for paths in store.changes(stop):
                what = "changed files are taken in later"
                with never_fail(what, []), degrade(what):
                    await sync_files(self._kernel, None if len(paths) > MANY else paths)


class FileSync:
    """The kernel's `FileObserver` over a store of files; `erase` erases forgotten memories that came back."""

    def __init__(self, kernel: Kernel, *, watch: bool, erase: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        self._kernel = kernel
        self._watch = watch
        self._erase = erase
        self.watcher = Watcher(kernel)
        versions = kernel.store.versions if isinstance(kernel.store, FileStore) else None
        self.versioning = None if versions is None else CommitWorker(kernel, versions)

    async def opened(self) -> None:
        """Pick up changes made while nobody watched, and start watching."""
        store = self._kernel.store
        if isinstance(store, FileStore) and store.lost is not None:
            self._kernel.loss_check.warn(
                f"the files in {store.lost} are gone, and their memories stand in the index alone until something is "
                f"written: put the folder back, or `perdure doctor --repair --path {store.root}` writes it anew"
            )
        if self._watch:
            self.watcher.start()
        what = "changed files are taken in later"
        with never_fail(what, []), degrade(what):
            await sync_files(self._kernel)
        if self.versioning is not None:
            await self.versioning.opened()

    def watch(self) -> None:
        """Start watching, now or at the opening; call it on the event loop that stays."""
        self._watch = True
        if self._kernel.open.done:
            self.watcher.start()

    def note(self, changes: Sequence[Change]) -> None:
        """Have the written files committed as a version."""
        if self.versioning is not None:
            self.versioning.note(changes)

    async def forget_again(self, ids: Sequence[str]) -> None:
        """Erase forgotten memories whose files a checkout, a merge or a pull brought back."""
        await self._erase(ids)
        self.note(())

    async def state_at(self, scope: Scope, moment: datetime) -> dict[str, MemoryItem]:
        """Return a scope's memories at a time, from the versions of the files; empty if there are none."""
        items: list[MemoryItem] = []
        if self.versioning is not None:
            with degrade("the versions of the files could not be asked how memories stood"):
                versions = self.versioning.versions
                items = (await versions.step(None, await versions.resolve(iso(moment)))).learned
        return {item.id: item for item in items if scope.holds(item.scope)}

    async def close(self) -> None:
        """Stop watching, and commit the rest."""
        await self.watcher.close()
        if self.versioning is not None:
            await self.versioning.close()

    def forsake(self) -> None:
        """Start afresh after a fork."""
        self.watcher.forsake()
        if self.versioning is not None:
            self.versioning.forsake()
