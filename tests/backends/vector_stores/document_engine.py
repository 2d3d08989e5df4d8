"""An engine of documents in plain dictionaries, whose weaknesses a test chooses: it holds the base to its promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from perdure.backends.vector_stores.base import Shape, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row, decode
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span

Clause = Callable[[Document], bool]


def _between(span: Span) -> Clause:
    def inside(document: Document) -> bool:
        values = document.numbers if span.kind == "number" else document.moments
        value = values.get(span.path)
        low = -np.inf if span.low is None else span.low
        high = np.inf if span.high is None else span.high
        return value is not None and low <= value <= high

    return inside


def _holds(field: str, text: str, ignore_case: bool) -> Clause | None:
    if field != "memory" or ignore_case or not text.isascii() or "\x00" in text:
        return None
    return lambda document: text in document.memory


PLAIN = Grammar[Clause](
    one_of=lambda tokens: lambda document: not set(tokens).isdisjoint(document.tokens),
    none_of=lambda tokens: lambda document: set(tokens).isdisjoint(document.tokens),
    every=lambda clauses: lambda document: all(clause(document) for clause in clauses),
    some=lambda clauses: lambda document: any(clause(document) for clause in clauses),
)
"""Tokens alone: every other condition is left to the base."""

RICH = replace(
    PLAIN,
    scope_is=lambda field, values: lambda document: document.scope.get(field) in values,
    scope_is_not=lambda field, values: lambda document: document.scope.get(field) not in values,
    between=_between,
    holds=_holds,
)
"""Everything that a grammar can say."""


class EngineError(Exception):
    """What the engine's driver raises."""


@dataclass
class Shelf:
    """What is in the engine, and what is wrong with it."""

    collections: dict[str, tuple[Shape, dict[str, Document]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    """Raised by the next calls, one each."""
    calls: list[str] = field(default_factory=list)


class DictStore(DocumentStore[Clause]):
    """The engine; subclasses are weaker ones."""

    name: ClassVar[str] = "dict"

    class Settings(EngineSettings):
        retry_delay: float = 0.0

    grammar: Grammar[Clause] = RICH

    def __init__(self, settings: EngineSettings, shelf: Shelf | None = None) -> None:
        super().__init__(settings)
        self.shelf = shelf or Shelf()

    def _call(self, what: str) -> None:
        self.shelf.calls.append(what)
        if self.shelf.failures:
            raise EngineError(self.shelf.failures.pop(0))

    def _connect(self) -> None:
        self._call("connect")

    def _disconnect(self) -> None:
        self.shelf.calls.append("disconnect")

    def _identity(self) -> str:
        return str(id(self.shelf))

    def _failure(self, error: Exception) -> Failure | None:
        return error.args[0] if isinstance(error, EngineError) else None

    def _find(self, name: str) -> Shape | None:
        self._call("find")
        found = self.shelf.collections.get(name)
        return found and found[0]

    def _names(self) -> list[str]:
        return list(self.shelf.collections)

    def _make(self, name: str, shape: Shape) -> None:
        self.shelf.collections.setdefault(name, (shape, {}))

    def _drop(self, name: str) -> None:
        self.shelf.collections.pop(name, None)

    def _clear(self, name: str) -> None:
        self.documents(name).clear()

    def documents(self, name: str) -> dict[str, Document]:
        if name not in self.shelf.collections:
            raise MissingCollection
        return self.shelf.collections[name][1]

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        self._call("write")
        held = self.documents(name)
        for id in deletes:
            held.pop(id, None)
        held.update((document.id, document) for document in documents)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        self._call("fetch")
        held = self.documents(name)
        return [self.row(held[id], with_vectors) for id in ids if id in held]

    def row(self, document: Document, with_vectors: bool) -> Row:
        return decode(document.record, document.vector if with_vectors else None)

    def inside(self, name: str, clause: Clause | None) -> list[Document]:
        return [document for document in self.documents(name).values() if clause is None or clause(document)]

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        self._call(f"nearest {limit}")
        assert limit <= self.most_hits
        scored = [
            (self.row(document, False), float(document.vector @ query))
            for document in self.inside(name, clause)
            if document.vector is not None
        ]
        return sorted(scored, key=lambda pair: -pair[1])[:limit]

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        self._call("scan")
        found = self.inside(name, clause)
        for start in range(0, len(found), 3):
            yield [self.row(document, with_vectors) for document in found[start : start + 3]]

    def _count(self, name: str, clause: Clause | None) -> int:
        self._call("count")
        return len(self.inside(name, clause))


class Ranking(DictStore):
    """Sorts, and ranks words by how many are shared."""

    ranks_words = True

    def _ordered(
        self, name: str, clause: Clause | None, after: tuple[str, str] | None, limit: int, *, with_vectors: bool
    ) -> list[Row]:
        self._call("ordered")
        found = sorted(self.inside(name, clause), key=lambda document: (document.created_at, document.id))
        left = [document for document in found if after is None or (document.created_at, document.id) > after]
        return [self.row(document, with_vectors) for document in left[:limit]]

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        self._call(f"ranked {limit}")
        shared = [(document, len(set(asked).intersection(document.stems))) for document in self.inside(name, clause)]
        found = sorted((pair for pair in shared if pair[1]), key=lambda pair: -pair[1])[:limit]
        return [(self.row(document, False), float(count)) for document, count in found]


class Weak(DictStore):
    """Knows tokens only, gives few rows, misses some, keeps no rows without a vector and no zero vectors."""

    grammar = PLAIN
    exact = False
    most_hits = 4
    few_rows = 5
    keeps_bare = False

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        shape = self.shelf.collections[name][0]
        tiny = np.zeros(shape.dimension, np.float32)
        tiny[0] = 1e-20
        for document in documents:
            if document.vector is None or not document.vector.any():
                object.__setattr__(document, "vector", tiny)
        super()._write(name, documents, deletes)
