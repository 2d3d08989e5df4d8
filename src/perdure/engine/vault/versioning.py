"""Versioning: what changes in the files is committed, once a call or a turn, beside it and never in its way (K22, K23).

Nothing here fails a write. What could not be committed now is in the next commit, and what a process that died left
over is in the first one of the next process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial

from perdure.backends.vault.base import FileStore
from perdure.backends.vault.versions.base import Commit, Tell, Versions
from perdure.domain.errors import PerdureError
from perdure.domain.event import Change
from perdure.engine.kernel import Kernel
from perdure.engine.vault.following import ACTOR
from perdure.engine.vault.telling import message_of
from perdure.engine.worker import Worker

logger = logging.getLogger("perdure")

HELD = 5.0
"""Seconds that a commit waits for the calls under way, whose changes belong together, at most."""
SAID = 30.0
"""Seconds that messages wait for what is learned from them (K55: one commit a turn)."""
AGAIN = 60.0
"""Seconds after which what failed is tried again."""
OPENING, CLOSING = 10.0, 20.0
"""Seconds that opening waits for git, and closing for the last commit, at most."""
IDLE = 3600.0
_LOOK, _LONGEST_LOOK = 0.01, 0.1


class Versioning:
    """Commits what one kernel changes in its files."""

    def __init__(self, kernel: Kernel, versions: Versions) -> None:
        self._kernel = kernel
        self.versions = versions
        self._worker = Worker(self._work)
        self._clear()

    def _clear(self) -> None:
        self._changed: float | None = None
        self._actors: set[str] = set()
        self._said: float | None = None
        self._is_committing = False
        self._told = ""
        self._is_off = False

    async def opened(self) -> None:
        """Make sure of the repository (K21), and let what is left over be committed.

        One that is there already is not waited for.
        """
        store = self._kernel.store
        if isinstance(store, FileStore) and (store.root / ".git").exists():
            self.note()
            return
        try:
            async with asyncio.timeout(OPENING):
                await self.versions.open()
        except TimeoutError:
            self._tell("git does not answer")
        except PerdureError as error:
            self._failed(error)
        self.note()

    def note(self, changes: Sequence[Change] | None = None) -> None:
        """These changes stand in the files, or, with None, these are to be looked at.

        No change at all is a message, which waits for what is learned from it.
        """
        if self._is_off:
            return
        if changes is None or changes:
            self._changed = self._changed or time.monotonic()
            self._actors.update(change.actor for change in changes or ())
        else:
            self._said = self._said or time.monotonic()
            if not self._actors:
                self._changed = None  # what was left over at the opening is committed with the messages
        self._worker.wake()

    async def _work(self) -> float:
        """Commit if it is time; the seconds until it may be."""
        now = time.monotonic()
        if self._is_off:
            return IDLE
        if self._changed is None:
            if self._said is None:
                return IDLE
            if now < self._said + SAID:
                return self._said + SAID - now
        elif self._kernel.calls.are_under_way and now < self._changed + HELD:
            return _LOOK
        return 0.0 if await self._try() else AGAIN

    async def _try(self) -> bool:
        try:
            await self.commit()
        except PerdureError as error:
            self._failed(error)
            return False
        self._told = ""
        return True

    async def commit(self, tell: Tell | None = None) -> Commit | None:
        """Commit now, for who is about to read or move versions; errors are the caller's."""
        await self._ended()
        since, by = (self._changed, self._said), self._actors
        self._changed, self._said, self._actors, self._is_committing = None, None, set(), True
        try:
            return await self.versions.commit(tell or _message(by))
        except BaseException:
            self._changed, self._said = since[0] or self._changed, since[1] or self._said
            self._actors |= by
            raise
        finally:
            self._is_committing = False

    async def _ended(self) -> None:
        """Return once no other task of this process commits: each knows what its own message is about."""
        pause = _LOOK
        while self._is_committing:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK)

    async def close(self) -> None:
        """Commit what is left, unless git takes too long; the next process does it then."""
        try:
            async with asyncio.timeout(CLOSING):
                await self._ended()
                await self._worker.stop()
                if not self._is_off and (self._changed or self._said):
                    await self._try()
        except TimeoutError:
            self._tell("the last changes are committed to git by the next process")
        await self._worker.stop()

    def forsake(self) -> None:
        """This process was forked: the parent commits what it changed."""
        self._worker.reset()
        self._clear()

    # ------------------------------------------------------------------ telling
    def _failed(self, error: PerdureError) -> None:
        if error.code == "no_git":
            self._is_off = True
            self._tell("git is not installed: files are kept without versions")
        else:
            self._tell(f"changes are not committed to git for now: {error.message}")

    def _tell(self, sentence: str) -> None:
        """Warn once, until something else is wrong."""
        if sentence != self._told:
            logger.warning("%s", sentence)
            self._told = sentence


def _message(actors: set[str]) -> Tell:
    """Words for what these did; those of a rollback say so, also where files were taken in just before it."""
    is_rollback = "rollback" in actors and actors <= {"rollback", ACTOR}
    return partial(message_of, heading="Rolled back: ") if is_rollback else message_of
