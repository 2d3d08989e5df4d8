"""What is known of a text is computed once, not once for each text that it is compared with.

`per_text` caches by the text; `per_reading` keeps a result with the reading of a text that it was computed from, and so
for as long as that reading is cached. `forget_texts` drops it: an erased text must not go on in a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_CLEAR: list[Callable[[], None]] = []  # what empties each cache of this process


class Known(Protocol):
    """A reading that keeps what was computed from it."""

    @property
    def known(self) -> dict[str, Any]:
        """Results by the name of the function."""


K = TypeVar("K", bound=Known)


def per_text(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results for the most recent texts; `forget_texts` drops them."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize=maxsize)(function)
        _CLEAR.append(kept.cache_clear)
        return cast("Callable[P, R]", kept)

    return decorate


def per_reading(function: Callable[[K], R]) -> Callable[[K], R]:
    """Compute a result once for a reading, and keep it there."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def once(reading: K) -> R:
        known = reading.known
        if name not in known:
            known[name] = function(reading)
        found: R = known[name]
        return found

    return once


def forget_texts() -> None:
    """Drop what was computed from texts, in every cache of this process; it is computed again if needed.

    The caches do not know in which scope a text was said, and are emptied.
    """
    for clear in _CLEAR:
        clear()
