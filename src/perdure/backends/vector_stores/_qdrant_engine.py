"""What the store asks of Qdrant, be it a server or the engine in this process."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

from perdure.backends.vector_stores._document_engine import Shape
from perdure.backends.vector_stores._qdrant_filter import MOMENTS, SCOPES, TOKENS, Clause
from perdure.backends.vector_stores._qdrant_points import StoredPoint, Words
from perdure.backends.vector_stores.base import Names, Vector

TENANT = SCOPES[0]
KEYWORDS = (*SCOPES[1:], TOKENS)
DATES = tuple(f"{MOMENTS}.{field}" for field in ("created_at", "expires_at", "valid_to"))
"""Fields that are indexed: the tenant, keywords, dates."""

Stored: TypeAlias = tuple[str, Sequence[float] | None]
"""A record, and its vector where it was asked for and is there."""
Scored: TypeAlias = tuple[str, float]
"""A record and its score."""


class QdrantEngine(ABC):
    """Collections and points. A collection that is not there is a MissingCollection; other errors are the driver's."""

    substrings: bool
    """Whether a filter can look for a part of a text."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every resource."""

    @abstractmethod
    def identity(self) -> str:
        """An id kept by the engine."""

    @abstractmethod
    def find(self, name: str) -> Shape | None:
        """The shape of a collection of ours, or None."""

    @abstractmethod
    def names(self) -> Names:
        """The names of our collections."""

    @abstractmethod
    def make(self, name: str, shape: Shape) -> None:
        """Make a collection with its indexes."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove a collection."""

    @abstractmethod
    def clear(self, name: str) -> None:
        """Remove every point."""

    @abstractmethod
    def write(self, name: str, points: Sequence[StoredPoint], deletes: Sequence[str]) -> None:
        """Write points whole, then delete others by their ids."""

    @abstractmethod
    def fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Stored]:
        """The points of these ids that exist."""

    @abstractmethod
    def nearest(self, name: str, query: Vector | Words, limit: int, clause: Clause | None) -> list[Scored]:
        """The points of highest inner product with the query, exactly."""

    @abstractmethod
    def page(
        self, name: str, clause: Clause | None, after: Any, limit: int, *, with_vectors: bool
    ) -> tuple[list[Stored], Any]:
        """Points by id from a place on (None for the start), and the place of the next page, or None."""

    @abstractmethod
    def count(self, name: str, clause: Clause | None) -> int:
        """How many points satisfy the clause, exactly."""

    def sync(self) -> None:
        """Return once everything written would survive power loss."""

    def scrub(self) -> None:
        """Make deleted text unreadable in the engine's files, where they are within reach."""


def write_label(name: str, shape: Shape) -> str:
    """What a collection keeps of its name, dimension and model: ASCII, whatever they are."""
    return json.dumps({"name": name, "dimension": shape.dimension, "model": shape.model})


def read_label(label: object) -> tuple[str, Shape] | None:
    """The name and shape of a label; None for what is none of ours."""
    try:
        told: Any = json.loads(label) if isinstance(label, str) else None
        return str(told["name"]), Shape(int(told["dimension"]), str(told["model"]))
    except (ValueError, KeyError, TypeError):
        return None
