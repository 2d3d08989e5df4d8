"""The port of what a ledger keeps for agent runtimes: records of every noun of `domain.runtime` (spec 003).

A method is a transaction. Who has an agent's id sees that agent's records: callers give it with every question.

As everywhere in a ledger, LedgerError where the database fails, with nothing applied, and where it is not open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from perdure.domain.runtime import R, Record, Task

Where = Mapping[str, Any]
"""What fields must hold: a value, None for none, a list for any of several, or `Among`."""


@dataclass(frozen=True, slots=True)
class Among:
    """A value that stands in one field of other records."""

    noun: type[Record]
    field: str
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Generic[R]):
    """A question for records of one noun, oldest first; equal times in the order in which they were kept."""

    noun: type[R]
    where: Where = field(default_factory=dict)
    all_tags: Sequence[str] = ()
    """Only what has each of these tags; an entity's tags are its names."""
    any_tag: Sequence[str] = ()
    """Only what has one of these tags, where some are given."""
    since: int | None = None
    """Only what was made at this millisecond or later."""
    until: int | None = None
    """Only what was made at this millisecond or earlier."""
    due: int | None = None
    """Only tasks that are due at this millisecond, and not completed; soonest first."""
    newest_first: bool = False
    limit: int | None = None
    offset: int = 0


class RuntimeTables(ABC):
    """Records of agent runtimes; several processes may write them at once.

    There is one record of each key (`Record.KEY`), one relationship of two entities in a direction, and one component
    of an entity for its type, world and source, each for one agent.
    """

    @abstractmethod
    async def add(self, records: Sequence[Record]) -> list[bool]:
        """Keep records, and tell of each whether it was new; what is there already is left as it is."""

    @abstractmethod
    async def ensure(self, records: Sequence[Record]) -> None:
        """Keep those records of which there is none; where there are all, as mostly, this only reads."""

    @abstractmethod
    async def put(self, record: Record) -> None:
        """Keep a record, in the place of an earlier one of its key."""

    @abstractmethod
    async def find(self, query: Query[R]) -> list[R]:
        """The records that a question asks for."""

    @abstractmethod
    async def change(self, noun: type[Record], key: Mapping[str, str], changes: Mapping[str, Any]) -> bool:
        """Change fields of the record of a key; whether there is one.

        InvalidInputError, with nothing changed, where a field of `Record.KEY` or `Record.FIXED` is to be another.
        """

    @abstractmethod
    async def remove(self, noun: type[Record], where: Where) -> int:
        """Let go of records and of all that hangs on them; how many of that noun there were.

        A room takes its participants, components, tasks and logs along; a world its rooms, components and tasks; an
        entity what it is in, is made of, is related to, has to do and has in logs; an agent all that it has; a message
        server its channels and who serves it; a channel who is in it. Memories stand elsewhere: callers see to them.
        """

    @abstractmethod
    async def take(self, agent_id: str, id: str, due: int) -> Task | None:
        """Take a task that is due at this millisecond, until `settle`; None where it is not, or somebody has it.

        What a dead owner had can be taken, and what one has who lives is nobody else's, this owner's other calls
        included.
        """

    @abstractmethod
    async def settle(self, agent_id: str, id: str, changes: Mapping[str, Any]) -> bool:
        """Change a task that this owner has taken, and let go of it; False where it does not have it."""
