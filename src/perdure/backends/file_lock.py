"""Locks of open files, which the operating system releases when the process ends in whatever way."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file, unless another one that was opened of it is locked; whether that was done."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file, unless another one that was opened of it is locked; whether that was done.

        The lock is the open file's, not the process's: two of one process keep each other out as well. A shared one
        lets other shared ones be.
        """
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
