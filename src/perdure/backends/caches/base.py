"""The port of caches: values that may be lost at any time, under keys, for a while."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar


class Cache(ABC):
    """Keeps values for a while. Methods are plain functions for threads; CacheError where it cannot be reached."""

    name: ClassVar[str]
    """The provider's name."""

    @abstractmethod
    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values under the keys, as they were at one moment; None where there is none any more."""

    @abstractmethod
    def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        """Keep the values under their keys for so long, all or none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every resource; a later call may connect again."""


class CacheError(Exception):
    """The cache cannot be used now; the text says why, without secrets. Whoever uses a cache does without it then."""
