"""A cache in this process, invisible to other processes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.caches.base import Cache


class MemoryCache(Cache):
    """Stores values in this process; drops the least recently used ones if there are too many."""

    name: ClassVar[str] = "memory"

    class Settings(BaseModel):
        """How much it may hold."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        megabytes: float = Field(64, gt=0)
        """Maximum megabytes of keys and values; the least recently used are dropped first."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = int(settings.megabytes * 1024 * 1024)
        self._clock = clock
        self._guard = threading.Lock()
        self._values: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._held = 0

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        with self._guard:
            now = self._clock()
            return [self._get(key, now) for key in keys]

    def _get(self, key: str, now: float) -> bytes | None:
        found = self._values.get(key)
        if found is None:
            return None
        if found[1] <= now:
            self._remove(key)
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        with self._guard:
            until = self._clock() + seconds
            for key, value in values.items():
                self._remove(key)
                self._values[key] = (value, until)
                self._held += len(key) + len(value)
            while self._held > self._most:
                self._remove(next(iter(self._values)))

    def _remove(self, key: str) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._held -= len(key) + len(found[0])

    def close(self) -> None:
        with self._guard:
            self._values.clear()
            self._held = 0
