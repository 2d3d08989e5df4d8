"""A clock whose ticks never repeat and never go back, so that the order of records is the order of events."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from perdure.domain.clock import Clock, iso


class Ticker:
    """Ticks of the given clock, each at least a microsecond after the one before, in any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: datetime | None = None
        self._guard = threading.Lock()

    def reset(self) -> None:
        """Go on in a process that was forked while another thread may have been taking a tick."""
        self._guard = threading.Lock()

    def now(self) -> datetime:
        """The present moment, without taking a tick."""
        return self._clock()

    def moment(self) -> datetime:
        """A moment of its own."""
        with self._guard:
            moment = self._clock()
            if self._last is not None and moment <= self._last:
                moment = self._last + timedelta(microseconds=1)
            self._last = moment
        return moment

    def tick(self) -> str:
        """A moment of its own for one record, as ISO 8601 text."""
        return iso(self.moment())
