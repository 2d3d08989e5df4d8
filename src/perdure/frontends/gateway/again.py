"""Again: answers that the very same request is given once more (V30), none of which outlives an erasure."""

from __future__ import annotations

from collections.abc import Callable

from perdure.backends.caches.memory import MemoryCache


class AnswersAgain:
    """Keeps answers in this process for some seconds.

    An answer may tell of what is forgotten since: after an erasure in this process, which `erasures` counts, none is
    given that was asked for before it.
    """

    def __init__(self, seconds: float, erasures: Callable[[], int]) -> None:
        self._cache = MemoryCache(MemoryCache.Settings())
        self._seconds = seconds
        self._erasures = erasures
        self._seen = erasures()

    @property
    def now(self) -> int:
        """What `put` wants to know of the moment at which an answer was asked for."""
        return self._erasures()

    def get(self, key: str) -> bytes | None:
        """The answer to a request, if it is known."""
        if self._seen != self._erasures():
            self._seen = self._erasures()
            self._cache.close()
        return self._cache.get([key])[0]

    def put(self, key: str, answer: bytes, asked: int) -> None:
        """Keep an answer to a request that was `asked` then."""
        if asked == self._erasures():
            self._cache.put({key: answer}, self._seconds)
