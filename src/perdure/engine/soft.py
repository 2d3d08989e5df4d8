"""The only place that swallows an exception: it logs what was given up, and tells the caller in a sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.domain.errors import PerdureError

logger = logging.getLogger("perdure")


@contextmanager
def given_up(what: str, warnings: list[str] | None = None) -> Iterator[None]:
    """Run the block; an error of perdure's own becomes a logged warning, appended to `warnings` if given."""
    try:
        yield
    except PerdureError as error:
        sentence = f"{what}: {error.message}"
        logger.warning(sentence)
        if warnings is not None:
            warnings.append(sentence)
