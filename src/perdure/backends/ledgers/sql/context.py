"""What a unit of work is given: the transaction that it runs in, and who writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Writer:
    """The owner who writes, the machine's boot id, and a test of whether another owner is alive."""

    owner: str
    boot_id: str
    alive: Callable[[str, Connection], bool]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A database transaction in progress: its connection, its writer, and the moment of the call that began it."""

    connection: Connection
    writer: Writer
    now: str
