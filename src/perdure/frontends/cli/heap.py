"""One heap for all threads of a server."""

from __future__ import annotations

import ctypes
import os
import sys

_M_ARENA_MAX = -8
"""malloc.h of the GNU C library; mallopt(3)."""
_VARIABLE = "MALLOC_ARENA_MAX"
"""By which whoever runs a server may have said how many heaps it has, as by GLIBC_TUNABLES."""


def share_heap() -> None:
    """Let all threads that begin from now on, and those of workers, take from one heap: each can use what another gave.

    The GNU C library gives threads heaps of their own, up to eight a core, and each keeps the most that its threads
    ever had: in the first minutes of gateway_soak.py what was free and could not be used again grew by 3.5 MB a minute,
    and with one heap it does not. Nothing is done with another library, or where a variable says how many.
    """
    if sys.platform != "linux" or _VARIABLE in os.environ or "GLIBC_TUNABLES" in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        os.environ[_VARIABLE] = "1"
