"""One heap for all threads of a server."""

from __future__ import annotations

import ctypes
import os
import sys

_M_ARENA_MAX = -8
"""malloc.h of the GNU C library; mallopt(3)."""
_OWN = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
"""Variables by which whoever runs a server may have said how many heaps it has."""


def share_heap() -> None:
    """Let all threads that begin from now on take from one heap, so that each can use what another gave back.

    The GNU C library gives threads heaps of their own, up to eight a core, and each keeps the most that its threads
    ever had: `perdure proxy` grew by 3.5 MB a minute (gateway_soak.py), of which nothing was in use, and does not with
    one heap. Nothing is done where there is another library, or a variable that says how many.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _OWN):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
