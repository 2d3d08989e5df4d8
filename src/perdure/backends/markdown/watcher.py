"""Watch files for changes; a burst of changes is reported together, once it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path

from perdure.backends.registry import missing_driver
from perdure.domain.errors import VectorStoreError

LONGEST_MS = 1_600
"""Milliseconds after which a burst is reported although it goes on."""
REST_MS = 150
"""Milliseconds without a change that end a burst."""
_WAKE_MS = 1_000
"""Milliseconds between two looks at whether to stop."""
_OTHERS = (".tmp", "~", ".swp", ".swx")


def may_be_memory(name: str) -> bool:
    """Whether a file or folder may be of memories, by its name: no hidden one, and none that is being written."""
    return not name.startswith(".") and not name.endswith(_OTHERS)


async def bursts(folder: Path, real: Path, stop: asyncio.Event) -> AsyncGenerator[set[Path], None]:
    """The paths below a folder that changed, burst by burst, until it is to stop; `real` is the folder resolved.

    A folder that disappears, as during a `git checkout`, is waited for, and reported as a whole once it is back.
    DependencyError where the watcher's library is not installed, VectorStoreError where the folder cannot be watched.
    """
    try:
        from watchfiles import Change, awatch
    except ImportError as error:
        raise missing_driver("markdown", error) from error
    is_back = False

    def is_wanted(_: Change, path: str) -> bool:
        parts = Path(path).relative_to(real).parts if Path(path).is_relative_to(real) else (".",)
        return all(may_be_memory(part) for part in parts)

    while not stop.is_set():
        watched = _identity(real)
        if watched is None:
            is_back = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _WAKE_MS / 1000)
            continue
        watching = awatch(
            real,
            watch_filter=is_wanted,
            debounce=LONGEST_MS,
            step=REST_MS,
            stop_event=stop,
            rust_timeout=_WAKE_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        try:
            async with aclosing(watching) as told:
                async for changes in told:
                    paths = {folder / Path(path).relative_to(real) for _, path in changes}
                    if paths or is_back:
                        yield paths | ({folder} if is_back else set())
                    # One that is made anew at once may have the same identity.
                    is_back = (Change.deleted, str(real)) in changes or _identity(real) != watched
                    if is_back:
                        break
        except (OSError, RuntimeError) as error:
            if _identity(real) == watched:
                raise VectorStoreError(f"the folder {folder} cannot be watched: {error}") from error


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which folder it is that has this name now; None where there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
