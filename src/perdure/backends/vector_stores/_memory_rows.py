"""The rows of a collection in this process, also by each scope, so that a user's are found among many (V81)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perdure.backends.vector_stores._cosine import Matrix, unit_rows
from perdure.backends.vector_stores._rows import check_id, check_payload, check_vector, copy_payload
from perdure.backends.vector_stores.base import Hit, Point, Vector
from perdure.domain.filter import And, Condition, Filter, matches
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.terms import words


@dataclass(slots=True)
class Row:
    """A stored row; never changed once stored, only replaced."""

    id: str
    vector: Vector | None
    payload: dict[str, Any]
    words: frozenset[str]
    length: int

    def point(self) -> Point:
        """As the port gives it, of the caller's own."""
        vector = None if self.vector is None else self.vector.copy()
        return Point(self.id, vector, copy_payload(self.payload))

    def hit(self, score: float) -> Hit:
        """As a search gives it."""
        return Hit(self.id, float(score), copy_payload(self.payload))


def checked_row(point: Point, dimension: int) -> Row:
    """The row of a point that is sound; InvalidInputError otherwise."""
    payload = check_payload(point.payload)
    text = payload.get("memory")
    found = words(text) if isinstance(text, str) else []
    vector = None if point.vector is None else check_vector(point.vector, dimension)
    return Row(check_id(point.id), vector, payload, frozenset(found), len(found))


@dataclass(slots=True)
class Shelf:
    """Some rows and, until one of them changes, their unit vectors as one matrix."""

    dimension: int
    rows: dict[str, Row] = field(default_factory=dict)
    matrix: tuple[dict[str, int], Matrix] | None = None

    def units(self) -> tuple[dict[str, int], Matrix]:
        """Where each embedded row stands in the matrix of unit vectors, and that matrix."""
        if self.matrix is None:
            embedded = [row for row in self.rows.values() if row.vector is not None]
            vectors = [row.vector for row in embedded if row.vector is not None]
            raw = np.stack(vectors) if vectors else np.empty((0, self.dimension), np.float32)
            self.matrix = {row.id: place for place, row in enumerate(embedded)}, unit_rows(raw)
        return self.matrix

    def matching(self, filters: Filter | None) -> list[Row]:
        """The rows that satisfy the filter, in no order."""
        return [row for row in self.rows.values() if matches(filters, row.payload)]


class Collection:
    """The rows of a collection, on one shelf for all and one for each value of each scope field."""

    def __init__(self, name: str, dimension: int, model: str) -> None:
        self.name, self.dimension, self.model = name, dimension, model
        self.all = Shelf(dimension)
        self._scopes: dict[tuple[str, str], Shelf] = {}

    def put(self, rows: Iterable[Row]) -> None:
        """Store rows, each in place of the one with its id."""
        for row in rows:
            self.remove([row.id])
            self.all.rows[row.id] = row
            self.all.matrix = None
            for key in _keys(row):
                shelf = self._scopes.setdefault(key, Shelf(self.dimension))
                shelf.rows[row.id] = row
                shelf.matrix = None

    def remove(self, ids: Iterable[str]) -> None:
        """Let go of rows; an absent id is no error."""
        for id in ids:
            row = self.all.rows.pop(id, None)
            if row is None:
                continue
            self.all.matrix = None
            for key in _keys(row):
                shelf = self._scopes[key]
                del shelf.rows[id]
                shelf.matrix = None
                if not shelf.rows:
                    del self._scopes[key]

    def clear(self) -> None:
        """Let go of all rows."""
        self.all = Shelf(self.dimension)
        self._scopes.clear()

    def shelf(self, filters: Filter | None) -> Shelf:
        """The smallest shelf on which every row stands that the filter can match."""
        parts = filters.parts if isinstance(filters, And) else (filters,)
        found = [
            self._scopes.get((part.field, part.value)) or Shelf(self.dimension)
            for part in parts
            if isinstance(part, Condition)
            and part.operator == "eq"
            and part.field in SCOPE_FIELDS
            and isinstance(part.value, str)
        ]
        return min(found, key=lambda shelf: len(shelf.rows), default=self.all)


def _keys(row: Row) -> list[tuple[str, str]]:
    return [(name, row.payload[name]) for name in SCOPE_FIELDS if isinstance(row.payload.get(name), str)]
