"""What is known of a text is computed once, not once for each text that it is compared with.

`per_text` caches by the text; `per_reading` keeps a result with the reading of a text that it was computed from, and so
for as long as that reading is cached. `forget_texts` drops it: an erased text must not go on in a cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

from perdure.domain.scope import Scope

P = ParamSpec("P")
R = TypeVar("R")

_CLEAR: list[Callable[[], None]] = []
"""What empties each cache of this process."""


class Scoped(Protocol):
    """A cache that knows in which scope each text was said."""

    def forget(self, walls: Scope) -> None:
        """Drop what comes from texts that were said within these walls."""


_SCOPED: WeakSet[Scoped] = WeakSet()
_GUARD = threading.Lock()


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


def forgets(cache: Scoped) -> None:
    """Have `forget_texts` reach a cache, for as long as somebody holds it."""
    with _GUARD:
        _SCOPED.add(cache)


def forget_texts(walls: Scope) -> None:
    """Drop what was computed from texts of these walls, in every cache of this process; it is computed again if needed.

    Caches by the text alone do not know where it was said, and are emptied.
    """
    for clear in _CLEAR:
        clear()
    with _GUARD:
        scoped = list(_SCOPED)
    for cache in scoped:
        cache.forget(walls)
