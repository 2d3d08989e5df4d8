"""The port of caches, which store values under keys for a limited time and may lose them at any time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar


class Cache(ABC):
    """Stores values for a limited time. Methods block, for use in threads; CacheError if the cache is unreachable."""

    name: ClassVar[str]
    """The provider's name."""

    @abstractmethod
    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values of the keys as of one moment; None for a missing value."""

    @abstractmethod
    def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        """Store all of the values, or none, for the given time."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; a later call may connect again."""


class CacheError(Exception):
    """The cache cannot be used now; the message gives the reason without secrets. Callers go on without a cache."""
