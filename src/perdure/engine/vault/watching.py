"""The watcher: files that change while memory is in use are taken in a moment later, all of a burst together (K61)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from perdure.backends.vault.base import FileStore
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up, kept_from_failing
from perdure.engine.vault.following import follow

logger = logging.getLogger("perdure")

MANY = 1_000
"""Changed files from which on the whole folder is looked at, instead of each."""


class Watcher:
    """Follows one folder from `start` to `close`; what it could not take in is taken in at the next opening."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._task: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None

    @property
    def running(self) -> bool:
        """Whether it watches."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin to watch, if the store has files; in a running event loop."""
        if isinstance(self._kernel.store, FileStore) and not self.running:
            self._stop = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._watch(self._kernel.store, self._stop))

    async def close(self) -> None:
        """Stop, after what is being taken in."""
        task, self._task = self._task, None
        if task is not None and self._stop is not None:
            self._stop.set()
            with suppress(asyncio.CancelledError):
                await task

    def forsake(self) -> None:
        """This process was forked: the parent goes on watching."""
        self._task = self._stop = None

    async def _watch(self, store: FileStore, stop: asyncio.Event) -> None:
        with given_up("files are not watched any more: their changes are taken in at the next opening"):
            async for paths in store.changes(stop):
                await self._take(paths)

    async def _take(self, paths: Collection[Path]) -> None:
        what = "changed files are taken in later"
        with kept_from_failing(what, []), given_up(what):
            await follow(self._kernel, None if len(paths) > MANY else paths)
