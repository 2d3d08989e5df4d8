"""What is known of a text is computed once, not once for each text that it is compared with.

`per_text` caches by the text; `per_reading` keeps a result with the reading of a text that it was computed from, and so
for as long as that reading is cached. `forget_texts` drops it: an erased text must not go on in a cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

from perdure.domain.scope import Scope

P = ParamSpec("P")
R = TypeVar("R")

_CLEAR: list[Callable[[], None]] = []  # what empties each cache of this process


V = TypeVar("V")


class PerScope(Generic[V]):
    """A thread-safe cache with one value for each scope: nothing that was said in one is looked at in another.

    `forget_texts` drops the values of scopes that overlap the erased one; beyond `maxsize` the least recently used go.
    """

    def __init__(self, make: Callable[[], V], maxsize: int) -> None:
        self._make = make
        self._maxsize = maxsize
        self._kept: OrderedDict[Scope, V] = OrderedDict()
        self._guard = threading.Lock()
        with _GUARD:
            _SCOPED.add(self)

    def of(self, scope: Scope) -> V:
        """Return the value of a scope, made on first use."""
        with self._guard:
            if scope not in self._kept:
                self._kept[scope] = self._make()
            self._kept.move_to_end(scope)
            while len(self._kept) > self._maxsize:
                self._kept.popitem(last=False)
            return self._kept[scope]

    def forget(self, scope: Scope) -> None:
        """Drop what may come from texts that were said within a scope."""
        with self._guard:
            for other in [each for each in self._kept if each.overlaps(scope)]:
                del self._kept[other]

    def __len__(self) -> int:
        return len(self._kept)


_SCOPED: WeakSet[PerScope[Any]] = WeakSet()
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


def forget_texts(scope: Scope) -> None:
    """Drop what was computed from texts of a scope, in every cache of this process; it is computed again if needed.

    Caches by the text alone do not know where it was said, and are emptied.
    """
    for clear in _CLEAR:
        clear()
    with _GUARD:
        scoped = list(_SCOPED)
    for cache in scoped:
        cache.forget(scope)
