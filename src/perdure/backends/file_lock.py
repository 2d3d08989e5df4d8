"""File locks that the operating system releases when the process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from perdure.domain.errors import VectorStoreError

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file unless it is locked through another handle; return whether that worked."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file unless it is locked through another handle; return whether that worked.

        The lock belongs to the handle, so two handles of one process exclude each other too. Shared locks coexist.
        """
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


FILE = "perdure.lock"  # the locked file; it stays in the folder, empty


class FolderLock:
    """Holds a folder that one store at a time may open until `release`, or until the process ends."""

    def __init__(self, folder: Path, file: str = FILE, taken: str = "") -> None:
        """Create the folder if needed and lock it; VectorStoreError (`taken`) if another store holds it."""
        self.folder = folder.absolute()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(self.folder / file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise VectorStoreError(
                f"cannot use the folder {self.folder}: {error.strerror or error}: give the path of a folder that this "
                "user can write to"
            ) from error
        try:
            is_locked = try_lock(self._descriptor)
        except OSError:  # its file system has no locks
            is_locked = False
        if not is_locked:
            os.close(self._descriptor)
            raise VectorStoreError(
                taken
                or f"another store has the folder {self.folder} open, in this or another process: close it, end that "
                "process, or give another path"
            )

    def release(self) -> None:
        """Release the folder by closing the lock file."""
        os.close(self._descriptor)
