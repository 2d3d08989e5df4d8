"""Failed turns: count how often turns could not be read, and pass over those that no model can read."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

TRIES = 3
"""Times that turns may fail before each of them is read alone, and one of which a model says nothing of use is passed
over."""
SILENT_TRIES = 5
"""The same for one of which nobody says anything, while the turn after it is read: a model that is away is no fault of
a turn's."""
MOST = 1_000
"""Sessions whose troubles are known; of more the one that had its first long ago goes, and is tried anew."""


@dataclass(slots=True)
class SessionFailure:
    """The turns of a session that failed last."""

    first: int = 0
    last: int = 0
    times: int = 0
    """How often the first of them failed in a row."""
    passed: set[int] = field(default_factory=set)
    """Turns that were passed over, which are no context of others either."""

    @property
    def is_lasting(self) -> bool:
        """Whether it has lasted for long enough to look for the turn that is at fault."""
        return self.times >= TRIES

    @property
    def is_silent(self) -> bool:
        """Whether nobody has answered for long enough to look at the turn behind it."""
        return self.times >= SILENT_TRIES


class FailedTurns:
    """The troubles of one process; another one tries a few times more."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, SessionFailure] = OrderedDict()

    def of(self, session_id: str) -> SessionFailure:
        """The trouble of a session; an empty one where it has none."""
        return self._of.get(session_id, SessionFailure())

    def failed(self, session_id: str, first: int, last: int) -> SessionFailure:
        """Turns could not be read; the trouble as it is now."""
        trouble = self._of.setdefault(session_id, SessionFailure())
        if trouble.first != first:
            trouble.first, trouble.last, trouble.times = first, last, 0
        trouble.last = max(trouble.last, last)
        trouble.times += 1
        if len(self._of) > MOST:
            self._of.popitem(last=False)
        return trouble

    def passes_over(self, session_id: str, turn: int) -> None:
        """A turn is not tried again, and stands before no other."""
        self._of.setdefault(session_id, SessionFailure()).passed.add(turn)

    def read(self, session_id: str, through: int) -> None:
        """Turns were read up to one: what failed together is over once all of it is."""
        trouble = self._of.get(session_id)
        if trouble is None:
            return
        if through < trouble.last:
            trouble.first = through + 1  # the others of those that failed together are read alone, too
        elif trouble.passed:
            trouble.first = trouble.last = trouble.times = 0
        else:
            del self._of[session_id]
