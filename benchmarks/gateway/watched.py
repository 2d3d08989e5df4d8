"""The `perdure` program, which on SIGUSR1 writes down how many asyncio tasks its event loop has.

The soak runs it as a process of its own: python -m benchmarks.gateway.watched FILE [arguments of perdure]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from perdure.frontends.cli.main import main


def watch(file: Path) -> None:
    """Write the number into a file whenever the signal comes; it is there whole, or not yet."""

    def write(*_: Any) -> None:
        # Handlers run on the main thread, which is the event loop's, between two of its steps.
        part = file.with_suffix(".part")
        part.write_text(str(len(asyncio.all_tasks())), encoding="ascii")
        os.replace(part, file)  # noqa: PTH105

    signal.signal(signal.SIGUSR1, write)


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main()
