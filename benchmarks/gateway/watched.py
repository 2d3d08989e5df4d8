"""The `perdure` program, which on SIGUSR1 writes down how many asyncio tasks its event loop has, and SQLite's bytes.

The soak runs it as a process of its own: python -m benchmarks.gateway.watched FILE [arguments of perdure]
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.frontends.cli.main import main


def sqlite_bytes() -> Callable[[], int]:
    """What tells the memory that SQLite holds, most of it pages of its files; 0 where its library stands apart."""
    try:
        used = ctypes.CDLL("libsqlite3.so.0").sqlite3_memory_used
    except OSError:
        return lambda: 0
    used.restype = ctypes.c_int64
    return used


def watch(file: Path) -> None:
    """Write both into a file whenever the signal comes; it is there whole, or not yet."""
    used = sqlite_bytes()

    def write(*_: Any) -> None:
        # Handlers run on the main thread, which is the event loop's, between two of its steps.
        part = file.with_suffix(".part")
        part.write_text(f"{len(asyncio.all_tasks())} {used()}", encoding="ascii")
        os.replace(part, file)  # noqa: PTH105

    signal.signal(signal.SIGUSR1, write)


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main()
