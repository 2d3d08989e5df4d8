"""The port of graph stores: what memories state of entities and their relations, kept by memory.

A scope as a filter means that all fields that it gives are equal; the empty scope is everything. Names are compared by
`entity_key`. No value ever becomes part of a query's text. Every method raises GraphError where the database fails, and
GraphDownError where it cannot be reached, when the same call may succeed later. A relation names its entities: they are
there with it, whether or not the memory mentions them besides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from perdure.domain.graph import Entity, Neighbourhood, Statement
    from perdure.domain.scope import Scope


class GraphStore(ABC):
    """Statements of memories as nodes and edges; each method is one transaction."""

    name: ClassVar[str]
    """The provider's name."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, and make what is missing of tables and indexes; further calls do nothing.

        After a GraphDownError the store counts as opened where it is on a server: later calls make up for it.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of the database; it may be opened again."""

    @abstractmethod
    async def identity(self) -> str:
        """Which database this is; holds no secrets."""

    @abstractmethod
    async def state(self, statement: Statement, moment: str) -> None:
        """The memory states this from now on: what the same reader had it state before is taken back at `moment`.

        What is stated again as it was stays as it is, so that doing it twice changes nothing. What was taken back no
        earlier than this was told is stated as if it had never been: that is an undo. InvalidInputError for a name that
        is blank or no text.
        """

    @abstractmethod
    async def take_back(self, memory_ids: Sequence[str], moment: str, by: str | None = None) -> None:
        """The memories state nothing any more (as that reader read them, or at all), from a moment on."""

    @abstractmethod
    async def erase(self, memory_ids: Sequence[str]) -> int:
        """Remove all that these memories ever stated, and the entities that nobody else names.

        Gives how many rows went: relations, and mentions, those that relations are of their ends included.
        """

    @abstractmethod
    async def erase_scope(self, scope: Scope) -> int:
        """Remove all that was ever stated in a scope; how many rows went. May take several transactions."""

    @abstractmethod
    async def count(self, memory_ids: Sequence[str]) -> int:
        """How many rows `erase` would remove."""

    @abstractmethod
    async def entities(
        self, scope: Scope, *, names: Sequence[str] | None = None, limit: int = 100, as_of: str | None = None
    ) -> list[Entity]:
        """The entities of a scope, those that most memories name first, ties by name; with names only these.

        `as_of`: as had been told by then; without it as stated now.
        """

    @abstractmethod
    async def neighbourhood(
        self, scope: Scope, names: Sequence[str], *, depth: int = 1, limit: int = 1000, as_of: str | None = None
    ) -> Neighbourhood:
        """What can be reached from entities over at most `depth` relations (1 to 3), either way, nearest first.

        Every stated relation between the entities reached comes with it, whatever its time. Entities equally near come
        as `entities` has them, relations equally near with the one told last first. Of either there are at most
        `limit`. InvalidInputError for another depth.
        """

    @abstractmethod
    async def similar_names(self, scope: Scope, name: str, limit: int = 20) -> list[Entity]:
        """Entities whose names share a word, or its first three characters, with a name: candidates for being the same.

        That very name comes first, then those that share most; accents do not count.
        """

    @abstractmethod
    async def reset(self) -> None:
        """Remove everything; may take several transactions."""
