"""Who may ask while rows move: Weaviate gives a row whose vector changes another place, and takes the old one first.

For those few milliseconds no search finds the row. So the requests that move rows wait for those that read, and the
other way round; all others go at one time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Many may read at one time, one may move rows alone; who waits for that goes before further readers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reading = 0
        self._waiting = 0
        self._moving = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While nobody moves rows."""
        with self._changed:
            self._changed.wait_for(lambda: not self._moving and not self._waiting)
            self._reading += 1
        try:
            yield
        finally:
            with self._changed:
                self._reading -= 1
                self._changed.notify_all()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """While nobody reads and nobody else moves rows."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._moving and not self._reading)
            finally:
                self._waiting -= 1
            self._moving = True
        try:
            yield
        finally:
            with self._changed:
                self._moving = False
                self._changed.notify_all()
