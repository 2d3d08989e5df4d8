"""What a relational database has to offer to be a ledger; everything else is shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from perdure.backends.ledgers._owners import Owners
from perdure.domain.errors import LedgerError, PerdureError

if TYPE_CHECKING:
    from sqlalchemy import Connection


class ConnectionLostError(LedgerError):
    """The connection broke in the middle of a transaction, which was undone, or done whole if it was being ended."""


class Database(ABC):
    """A database in the words of its own dialect; every method blocks, and may be called from any thread."""

    owners: Owners

    @property
    @abstractmethod
    def identity(self) -> str:
        """Equal for two that are the same database, without secrets."""

    @abstractmethod
    def open(self) -> None:
        """Get ready for connections, and make the database where it is missing."""

    def prepare(self, connection: Connection) -> None:
        """Give the tables that were just made, or upgraded, what only this dialect has."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection that is not in use."""

    @abstractmethod
    def forsake(self) -> None:
        """Drop the connections without a word: they belong to the process that this one was forked from."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the database."""

    @abstractmethod
    def writing(self, *, durable: bool) -> AbstractContextManager[Connection]:
        """A transaction that writes, committed at the end; a durable one survives power loss from then on."""

    @abstractmethod
    def translate(self, error: Exception) -> PerdureError | None:
        """The error in perdure's words, without any stored text in it; None if it is not the database's."""

    @abstractmethod
    def scrub(self) -> bool:
        """Rewrite the files so that nothing deleted is left in them; False if another process prevents it."""

    @abstractmethod
    def check(self) -> list[str]:
        """What the database finds wrong with itself, a sentence each."""

    @abstractmethod
    def size(self) -> int:
        """Bytes that the database takes."""
