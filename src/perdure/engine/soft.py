"""The only place that swallows an exception: it logs what was given up, and tells the caller in a sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.domain.errors import PerdureError

logger = logging.getLogger("perdure")


@contextmanager
def given_up(what: str, warnings: list[str] | None = None, *, text: str | None = None) -> Iterator[None]:
    """Run the block; an error of perdure's own becomes a logged warning, appended to `warnings` if given.

    `text` is a memory's: whoever called is told it with the warning, and no log is.
    """
    try:
        yield
    except PerdureError as error:
        logger.warning("%s: %s", what, error.message)
        if warnings is not None:
            warnings.append(f"{what}: {error.message}" if text is None else f"{what}: {text!r}: {error.message}")


@contextmanager
def kept_from_failing(what: str, warnings: list[str]) -> Iterator[None]:
    """Run the block; a fault of our own rules becomes a logged warning: it must not cost the caller's messages."""
    try:
        yield
    except Exception as error:  # whatever the fault is, the call goes on without the block
        logger.exception("a fault in perdure: %s", what)
        warnings.append(f"{what}: {type(error).__name__} in perdure's rules, please report it")
