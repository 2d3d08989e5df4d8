"""Whose a cancellation is: one that was meant for a task ends it, one out of what it awaits is a failure of that."""

from __future__ import annotations

import asyncio


def is_cancelled() -> bool:
    """Whether somebody wants the running task to end; for who has caught a CancelledError.

    Where nobody does, what was awaited had been cancelled by somebody else: a client that is closed while it looks up
    a name does that to those who wait for it.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
