"""Following: what is derived from the memories outside of the store is kept up with every change (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from perdure.domain.event import Change
from perdure.domain.job import Job
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope


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


class Vault(Protocol):
    """What is done about memories that are files: others' edits become changes, and changes become versions (002)."""

    async def opened(self) -> None:
        """The backends were opened: take in what happened to the files meanwhile."""

    def watch(self) -> None:
        """Take in what changes in the files at once, from now on, or from when the backends are opened."""

    def note(self, changes: Sequence[Change]) -> None:
        """These changes were made."""

    async def stood(self, scope: Scope, moment: datetime) -> dict[str, MemoryItem]:
        """The memories of a scope that stood at a moment, by the versions of the files; empty where none tells."""

    async def close(self) -> None:
        """Stop watching, and finish what is begun."""

    def forsake(self) -> None:
        """This process was forked: begin anew, and leave what runs to the parent."""
