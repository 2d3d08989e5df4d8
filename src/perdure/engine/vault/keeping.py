"""What is done about memories that are files while an engine is open: follow, and watch where that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from perdure.backends.vault.base import FileStore
from perdure.domain.clock import iso
from perdure.domain.event import Change
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up, kept_from_failing
from perdure.engine.vault.following import follow
from perdure.engine.vault.versioning import Versioning
from perdure.engine.vault.watching import Watcher


class FileKeeper:
    """The kernel's `Vault` over a store of files."""

    def __init__(self, kernel: Kernel, *, watch: bool) -> None:
        self._kernel = kernel
        self._watch = watch
        self.watcher = Watcher(kernel)
        versions = kernel.store.versions if isinstance(kernel.store, FileStore) else None
        self.versioning = None if versions is None else Versioning(kernel, versions)

    async def opened(self) -> None:
        """Take in what happened to the files while nobody watched, and begin to watch."""
        if self._watch:
            self.watcher.start()
        what = "changed files are taken in later"
        with kept_from_failing(what, []), given_up(what):
            await follow(self._kernel)
        if self.versioning is not None:
            await self.versioning.opened()

    def watch(self) -> None:
        """Watch, from now on, or from the opening; to be called in the event loop that goes on."""
        self._watch = True
        if self._kernel.open.done:
            self.watcher.start()

    def note(self, changes: Sequence[Change]) -> None:
        """The files are written by then: they become a version."""
        if self.versioning is not None:
            self.versioning.note(changes)

    async def stood(self, scope: Scope, moment: datetime) -> dict[str, MemoryItem]:
        """The memories of a scope that stood at a moment, by the versions of the files; empty where none tells."""
        items: list[MemoryItem] = []
        if self.versioning is not None:
            with given_up("the versions of the files could not be asked how memories stood"):
                versions = self.versioning.versions
                items = (await versions.step(None, await versions.resolve(iso(moment)))).learned
        return {item.id: item for item in items if scope.holds(item.scope)}

    async def close(self) -> None:
        """Stop watching, and commit what is left."""
        await self.watcher.close()
        if self.versioning is not None:
            await self.versioning.close()

    def forsake(self) -> None:
        """This process was forked."""
        self.watcher.forsake()
        if self.versioning is not None:
            self.versioning.forsake()
