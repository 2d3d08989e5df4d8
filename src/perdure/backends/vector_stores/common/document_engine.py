"""The hooks of a document engine, which each provider of a DocumentStore implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic

from pydantic import Field

from perdure.backends.http.service import ServiceSettings
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.documents import Document, Row
from perdure.backends.vector_stores.common.filter_clauses import C, Grammar
from perdure.backends.vector_stores.common.rows import Place


class EngineSettings(ServiceSettings):
    """What every store on an engine is told; an engine answers sooner than a model does."""

    timeout: float = Field(default=30.0, gt=0, le=3600)
    """Seconds that one request may take."""
    retry_delay: float = Field(default=0.5, ge=0, le=60)
    """Seconds before the second attempt; doubled before each further one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an engine's exception means: a sentence without secrets, and whether trying again may help."""

    message: str
    passing: bool = False


class MissingCollection(Exception):
    """Raised by a hook whose collection the engine does not have."""


class DocumentEngine(ABC, Generic[C]):
    """What an engine must say to be a DocumentStore. Hooks are plain functions; threads may call them at one time."""

    grammar: Grammar[C]
    exact: ClassVar[bool] = True
    """Whether `_nearest` finds the best rows of a clause without fail; else small scopes are scored here."""
    most_hits: ClassVar[int] = 10_000
    """Rows that one `_nearest` or `_ranked` can give."""
    few_rows: ClassVar[int] = 10_000
    """Rows up to which a scope is scored here where the engine's own search may miss some."""
    keeps_bare: ClassVar[bool] = True
    """Whether the engine keeps documents without a vector; if not, `_write` stores zeros and the token tells."""
    ranks_words: ClassVar[bool] = False
    """Whether the engine has a keyword search, `_ranked`; if not, rows are found by word tokens and scored here."""

    # ------------------------------------------------------------------ life
    @abstractmethod
    def _connect(self) -> None:
        """Connect, and make what the engine needs before the first collection."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Let go of every resource."""

    @abstractmethod
    def _identity(self) -> str:
        """An id kept inside the engine, made with the first opening."""

    @abstractmethod
    def _failure(self, error: Exception) -> Failure | None:
        """What an exception of the driver means; None for one that is not the driver's."""

    # ------------------------------------------------------------------ collections
    @abstractmethod
    def _find(self, name: str) -> Shape | None:
        """The shape of a collection, or None."""

    @abstractmethod
    def _names(self) -> Names:
        """The names of all collections."""

    @abstractmethod
    def _make(self, name: str, shape: Shape) -> None:
        """Make a collection; one that another process has just made is left alone."""

    @abstractmethod
    def _drop(self, name: str) -> None:
        """Remove a collection; one that is gone is no error."""

    @abstractmethod
    def _clear(self, name: str) -> None:
        """Remove every document of a collection."""

    # ------------------------------------------------------------------ documents
    @abstractmethod
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        """Write documents whole and delete others by the ids of their rows; read by all once this returns."""

    @abstractmethod
    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        """The rows of the ids that exist, in any order."""

    @abstractmethod
    def _nearest(self, name: str, query: Vector, limit: int, clause: C | None) -> list[tuple[Row, float]]:
        """The rows of highest inner product with the query, best first; bare rows are out (see `keeps_bare`)."""

    @abstractmethod
    def _scan(self, name: str, clause: C | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        """Every row of the clause, in any order, in pages."""

    @abstractmethod
    def _count(self, name: str, clause: C | None) -> int:
        """How many documents satisfy the clause."""

    def _ordered(
        self, name: str, clause: C | None, after: Place | None, limit: int, *, with_vectors: bool
    ) -> list[Row] | None:
        """The first rows after the place in the order of (created_at, id); None where the engine cannot sort so."""
        return None

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: C | None) -> list[tuple[Row, float]]:
        """The rows that have some of the stems, best first, where `ranks_words`."""
        raise NotImplementedError("an engine that says ranks_words has this")
