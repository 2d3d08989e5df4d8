"""Who is alive: an owner holds a lock that is let go of when its process ends, whatever ends it.

Whether another owner lives is found out by looking at its lock, never by its age. On one machine the lock is the
kernel's, on a file; where several machines share a ledger it is the database's (`_postgres_owners`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from perdure.domain.errors import LedgerError

if TYPE_CHECKING:
    from sqlalchemy import Connection

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Which run of the machine this is (Linux `random(4)`), or "" where that cannot be told."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class OwnerLostError(LedgerError):
    """The owner's lock was let go of without the owner's doing: to the others it is dead, and holds nothing."""


class Owners(ABC):
    """The living and the dead among those who opened a ledger."""

    @abstractmethod
    def claim(self) -> str:
        """A fresh owner id, alive from now on."""

    @abstractmethod
    def release(self) -> None:
        """The claimed id dies."""

    @abstractmethod
    def abandon(self) -> None:
        """Let go of the claimed id without a word: it belongs to the process that this one was forked from."""

    @abstractmethod
    def intact(self) -> bool:
        """Whether others can still see that the claimed id is alive, or none is claimed."""

    @abstractmethod
    def alive(self, owner: str, connection: Connection | None = None) -> bool:
        """Whether an owner, this one too, is alive; asked in the given transaction where the database knows it."""

    def vouch(self, owner: str, connection: Connection) -> None:
        """OwnerLostError unless this owner is alive, and seen to be until the given transaction ends.

        Nothing to do where only the end of the process can take the lock away.
        """

    @abstractmethod
    def sweep(self) -> None:
        """Remove what the dead left lying about."""


class FileOwners(Owners):
    """Owners on one machine: a folder with a locked file for each.

    The lock belongs to the open file, so two owners in one process are told apart as well.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._claimed: str | None = None
        self._let_go: weakref.finalize[[int], FileOwners] | None = None

    def claim(self) -> str:
        """Make and lock a file; OSError if the folder cannot be written."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        while True:
            owner = str(uuid4())
            file = self._folder / owner
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
            # A sweep may take the file for a dead owner's in the instant before it is locked; then another is made.
            if _try_lock(descriptor) and _is_at(descriptor, file):
                self._claimed = owner
                self._let_go = weakref.finalize(self, os.close, descriptor)
                return owner
            os.close(descriptor)

    def release(self) -> None:
        """Remove the file and close it, which unlocks it."""
        if self._let_go is None or self._claimed is None:
            return
        with contextlib.suppress(OSError):
            (self._folder / self._claimed).unlink()
        self.abandon()

    def abandon(self) -> None:
        """Close the file; after a fork the lock stays with the process that made it."""
        if self._let_go is not None:
            self._let_go()
        self._let_go = self._claimed = None

    def intact(self) -> bool:
        """Whether the claimed file is where it was made."""
        return self._claimed is None or (self._folder / self._claimed).exists()

    def alive(self, owner: str, connection: Connection | None = None) -> bool:
        """Whether somebody holds the lock of the owner's file."""
        if owner == self._claimed:
            return True
        file = self._folder / owner
        try:
            descriptor = os.open(file, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return False
        try:
            if not _try_lock(descriptor, shared=True):
                return True
            file.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def sweep(self) -> None:
        """Remove the files of dead owners."""
        for file in self._folder.iterdir():
            with contextlib.suppress(ValueError, OSError):
                self.alive(str(UUID(file.name)))


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
        # Those who only ask take it shared, so that two who ask at once do not take each other for the owner.
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
