"""Following: what is derived from the memories outside of the store is kept up with every change (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perdure.domain.event import Change
from perdure.domain.job import Job
from perdure.domain.memory import MemoryItem


class Follower(Protocol):
    """Work that follows changes; it never fails a write, and never holds one up where there is a queue."""

    def jobs(self, changes: Sequence[Change]) -> list[Job]:
        """The work that these changes make, for the ledger to keep beside them."""

    async def at_once(self, changes: Sequence[Change], warnings: list[str]) -> None:
        """Do that work now, where no ledger keeps it; a warning says what had to be given up."""

    async def arrived(self, items: Sequence[MemoryItem]) -> None:
        """Memories came into the store without a change: they were imported as they stand."""

    def wake(self) -> None:
        """There may be work."""

    async def close(self) -> None:
        """Stop, leaving what is not done to the next one, and let go of everything."""

    def forsake(self) -> None:
        """This process was forked: begin anew, and leave open connections to the parent."""


class Quota(Protocol):
    """How many memories one user may have (V75)."""

    async def check(self, changes: Sequence[Change]) -> None:
        """QuotaError where these changes go beyond, and further memories are refused."""

    def note(self, changes: Sequence[Change]) -> None:
        """These changes were made."""
