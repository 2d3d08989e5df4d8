"""Waiting for changes of files: bursts of them, told together once they have come to rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from perdure.backends.registry import missing_driver
from perdure.domain.errors import VectorStoreError

LONGEST_MS = 1_600
"""Milliseconds after which a burst is told though it goes on."""
REST_MS = 150
"""Milliseconds without a change that end a burst."""
_WAKE_MS = 1_000
"""Milliseconds between two looks at whether to stop."""
_OTHERS = (".tmp", "~", ".swp", ".swx")


def may_be_memory(name: str) -> bool:
    """Whether a file or folder may be of memories, by its name: no hidden one, and none that is being written."""
    return not name.startswith(".") and not name.endswith(_OTHERS)


async def bursts(folder: Path, real: Path, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
    """The paths below a folder that changed, burst by burst, until it is to stop; `real` is the folder resolved.

    DependencyError where the watcher's library is not installed, VectorStoreError where the folder cannot be watched.
    """
    try:
        from watchfiles import Change, awatch
    except ImportError as error:
        raise missing_driver("markdown", error) from error

    def is_wanted(_: Change, path: str) -> bool:
        parts = Path(path).relative_to(real).parts if Path(path).is_relative_to(real) else (".",)
        return all(may_be_memory(part) for part in parts)

    watching = awatch(
        real,
        watch_filter=is_wanted,
        debounce=LONGEST_MS,
        step=REST_MS,
        stop_event=stop,
        rust_timeout=_WAKE_MS,
        ignore_permission_denied=True,
    )
    try:
        async for changes in watching:
            yield {folder / Path(path).relative_to(real) for _, path in changes}
    except (OSError, RuntimeError) as error:
        raise VectorStoreError(f"the folder {folder} cannot be watched: {error}") from error
