"""What all ledgers of one process share that stand on the same database."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Shared(Generic[T]):
    """One object for each database, made on first use and kept as long as somebody holds it.

    A forked process begins with none: the threads that held their locks do not exist there.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def of(self, identity: str) -> T:
        """The database's object."""
        with self._guard:
            found = self._objects.get(identity)
            if found is None:
                found = self._objects[identity] = self._make()
            return found

    def _forget(self) -> None:
        self._guard = threading.Lock()
        self._objects: WeakValueDictionary[str, T] = WeakValueDictionary()
