"""The port of graph stores: entities and relations that memories state, by memory.

A scope filter matches rows with all of its fields; the empty scope matches everything. Names are compared by
`entity_key`. Values never become part of a query's text. Methods raise GraphError if the database fails, and
GraphDownError if it is unreachable and a retry may work. The entities of a relation exist even if the memory does not
mention them otherwise.
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
        """Connect, and create missing tables and indexes; further calls do nothing.

        If a server is unreachable (GraphDownError), the store counts as opened, and later calls complete this.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the database; it may be opened again."""

    @abstractmethod
    async def identity(self) -> str:
        """Return the database's id, without secrets."""

    @abstractmethod
    async def state(self, statement: Statement, moment: str) -> None:
        """Replace what the same reader stated for the memory before, which is withdrawn at `moment`.

        Unchanged statements stay, so repeating this changes nothing. A statement withdrawn no earlier than this one was
        told is restored without a gap: that is an undo. InvalidInputError for a blank name or one that is not text.
        """

    @abstractmethod
    async def take_back(self, memory_ids: Sequence[str], moment: str, by: str | None = None) -> None:
        """Withdraw the memories' statements from a moment on, by one reader or by all."""

    @abstractmethod
    async def erase(self, memory_ids: Sequence[str]) -> int:
        """Remove all statements of these memories, and entities without other mentions.

        Returns the number of removed rows: relations and mentions, including those that relations imply.
        """

    @abstractmethod
    async def erase_scope(self, scope: Scope) -> int:
        """Remove everything stated in a scope; return the number of rows. May take several transactions."""

    @abstractmethod
    async def count(self, memory_ids: Sequence[str]) -> int:
        """Return how many rows `erase` would remove."""

    @abstractmethod
    async def entities(
        self, scope: Scope, *, names: Sequence[str] | None = None, limit: int = 100, as_of: str | None = None
    ) -> list[Entity]:
        """Return a scope's entities, the most mentioned first, then by name; with `names` only those.

        `as_of` gives the state known at that time; without it the current one.
        """

    @abstractmethod
    async def neighbourhood(
        self, scope: Scope, names: Sequence[str], *, depth: int = 1, limit: int = 1000, as_of: str | None = None
    ) -> Neighbourhood:
        """Return what is reachable over at most `depth` relations (1 to 3) in either direction, nearest first.

        Includes every relation between the reached entities, whatever its time. Equally near entities are ordered as by
        `entities`, relations by time, the latest first; at most `limit` of each. InvalidInputError for another depth.
        """

    @abstractmethod
    async def similar_names(self, scope: Scope, name: str, limit: int = 20) -> list[Entity]:
        """Return entities whose names share a word, or its first three characters, with a name: possible duplicates.

        The name itself comes first, then the most similar; accents are ignored.
        """

    @abstractmethod
    async def reset(self) -> None:
        """Remove everything; may take several transactions."""
