"""Log an error and go on without the failed step; the only module that swallows exceptions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.domain.errors import PerdureError

logger = logging.getLogger("perdure")


@contextmanager
def degrade(
    what: str, warnings: list[str] | None = None, *, text: str | None = None, level: int = logging.WARNING
) -> Iterator[None]:
    """Run the block; log a PerdureError as a warning, append it to `warnings` if given, and go on.

    `what` says what the caller does without. `text` is a memory's text: it goes into the warning, never into the log.
    `level` is the log level.
    """
    try:
        yield
    except PerdureError as error:
        logger.log(level, "%s: %s", what, error.message)
        if warnings is not None:
            warnings.append(f"{what}: {error.message}" if text is None else f"{what}: {text!r}: {error.message}")


@contextmanager
def never_fail(what: str, warnings: list[str]) -> Iterator[None]:
    """Run the block; log any exception as a fault of perdure, append it to `warnings`, and go on."""
    try:
        yield
    except Exception as error:  # whatever the fault is, the call goes on without the block
        logger.exception("a fault in perdure: %s", what)
        warnings.append(f"{what}: {type(error).__name__} in perdure's rules, please report it")
