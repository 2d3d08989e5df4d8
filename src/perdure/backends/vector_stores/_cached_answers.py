"""Answers in a cache, and the marks that say which of them are still to be found; without the cache, none are."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from secrets import token_hex

from perdure.backends.caches.base import Cache, CacheError

_log = logging.getLogger("perdure")

AWAY = 2.0
"""Seconds for which a cache that failed is not asked again."""


class Answers:
    """Keeps answers for a while. No method fails: a cache that is away is said once in the log and done without."""

    def __init__(self, cache: Cache, seconds: float) -> None:
        self._cache = cache
        self._seconds = seconds
        self._guard = threading.Lock()
        self._unmarked: set[str] = set()
        self._away_until = 0.0

    def renew(self, marks: Sequence[str]) -> None:
        """Give new marks; while that cannot be done, this store does without the cache."""
        with self._guard:  # held while the cache is asked: a mark that fails must not be taken for one that was given
            self._unmarked.update(marks)
            pending = {mark: token_hex(8).encode() for mark in self._unmarked}
            if pending and self._put(pending, anyway=True):
                self._unmarked.clear()

    def seen(self, marks: Sequence[str]) -> list[bytes] | None:
        """The marks as they are now, made where there are none; None where the cache cannot be trusted."""
        if time.monotonic() < self._away_until:
            return None
        if self._unmarked:
            self.renew(())
            if self._unmarked:
                return None
        try:
            found = self._cache.get(marks)
        except CacheError as error:
            self._lose(error)
            return None
        missing = {mark: token_hex(8).encode() for mark, value in zip(marks, found, strict=True) if value is None}
        if missing and not self._put(missing):
            return None
        return [missing[mark] if value is None else value for mark, value in zip(marks, found, strict=True)]

    def find(self, key: str) -> bytes | None:
        """The answer under a key, if it is still kept."""
        try:
            return self._cache.get([key])[0]
        except CacheError as error:
            self._lose(error)
            return None

    def keep(self, key: str, answer: bytes) -> None:
        """Keep an answer."""
        self._put({key: answer})

    def _put(self, values: Mapping[str, bytes], *, anyway: bool = False) -> bool:
        """Whether the cache took them; one that is away is asked only if it must be."""
        if not anyway and time.monotonic() < self._away_until:
            return False
        try:
            self._cache.put(values, self._seconds)
        except CacheError as error:
            self._lose(error)
            return False
        self._away_until = 0.0
        return True

    def _lose(self, error: CacheError) -> None:
        if not self._away_until:
            _log.warning("%s: searches are answered by the store alone until it is back", error)
        self._away_until = time.monotonic() + AWAY
