"""Reading from an engine of documents without losing a row: asked for more until none can be missing, finished here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from perdure.backends.vector_stores._cosine import exact_scores
from perdure.backends.vector_stores._document_engine import DocumentEngine
from perdure.backends.vector_stores._documents import Row
from perdure.backends.vector_stores._facets import BARE, word_token
from perdure.backends.vector_stores._narrowing import C, Narrowed
from perdure.backends.vector_stores._rows import Place, place_of
from perdure.backends.vector_stores._words import sum_rarities, word_scores
from perdure.backends.vector_stores.base import Hits, Vector
from perdure.domain.filter import Filter, matches
from perdure.domain.terms import words

DIGITS = 6
"""Decimals of a cosine that float32 engines agree on; further ones would break ties by chance."""

Found = list[tuple[Row, float]]


@dataclass(frozen=True, slots=True)
class Reading(Generic[C]):
    """One read of a collection, inside a filter that was narrowed to the engine's terms."""

    engine: DocumentEngine[C]
    name: str
    filters: Filter | None
    narrowed: Narrowed[C]

    def nearest(self, query: Vector, limit: int) -> Hits:
        """The rows of highest cosine to a query of length 1, best first, equal ones by id."""
        engine, clause = self.engine, self.narrowed.clause
        if not engine.keeps_bare:
            clause = self._both(engine.grammar.none_of([BARE]))
        found: Hits | None = None
        there = None if engine.exact else engine._count(self.name, clause)
        if query.any() and (there is None or there > engine.few_rows):
            found = self._best(lambda ask: engine._nearest(self.name, query, ask, clause), limit, there)
        return self._score_here(query, limit, clause) if found is None else found

    def ranked(self, asked: Sequence[str], limit: int) -> Hits:
        """The rows that have some stem asked for, best first, equal ones by id."""
        engine, clause = self.engine, self.narrowed.clause
        if engine.ranks_words:
            found = self._best(lambda ask: engine._ranked(self.name, asked, ask, clause), limit)
            if found is not None:
                return found
        elif len(asked) <= engine.grammar.most_values:
            clause = self._both(engine.grammar.one_of([word_token(word) for word in asked]))
        return self._rank_here(asked, limit, clause)

    def in_order(self, after: Place | None, limit: int | None, *, with_vectors: bool) -> list[Row]:
        """The rows after a place in the order of (created_at, id); more than `limit` where there are more."""
        kept: list[Row] = []
        start = after
        while limit is not None:
            page = self.engine._ordered(self.name, self.narrowed.clause, start, limit + 1, with_vectors=with_vectors)
            if page is None:
                break
            kept += self._matching(page)
            if len(page) <= limit or len(kept) > limit:
                return kept
            start = place_of(page[-1].id, page[-1].payload)
        rows = [row for page in self._pages(self.narrowed.clause, with_vectors=with_vectors) for row in page]
        placed = sorted(((place_of(row.id, row.payload), row) for row in rows), key=lambda pair: pair[0])
        return [row for place, row in placed if after is None or place > after]

    def count(self) -> int:
        """How many rows match."""
        if self.narrowed.exact:
            return self.engine._count(self.name, self.narrowed.clause)
        return sum(len(page) for page in self._pages(self.narrowed.clause, with_vectors=False))

    # ------------------------------------------------------------------ pieces
    def _both(self, clause: C) -> C:
        return clause if self.narrowed.clause is None else self.engine.grammar.every([self.narrowed.clause, clause])

    def _matching(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if matches(self.filters, row.payload)]

    def _pages(self, clause: C | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        for page in self.engine._scan(self.name, clause, with_vectors=with_vectors):
            yield self._matching(page)

    def _best(self, ask: Callable[[int], Found], limit: int, there: int | None = None) -> Hits | None:
        """The `limit` best matching rows, asking for more until no better or equal one can be missing.

        None where the engine cannot give so many, or gives fewer of the rows that are `there` than it was asked for.
        """
        most = self.engine.most_hits
        asked = min(limit + 1, most)
        while True:
            found = [(row, round(float(score), DIGITS) + 0.0) for row, score in ask(asked)]
            kept = [(row, score) for row, score in found if matches(self.filters, row.payload)]
            if there is not None and len(found) < min(asked, there):
                return None
            if len(found) < asked or (len(kept) >= limit and kept[limit - 1][1] > found[-1][1]):
                kept.sort(key=lambda pair: (-pair[1], pair[0].id))
                return [row.hit(score) for row, score in kept[:limit]]
            if asked >= most:
                return None
            asked = min(asked * 4, most)

    def _score_here(self, query: Vector, limit: int, clause: C | None) -> Hits:
        """Every row scored in this process, page by page."""
        best: list[tuple[float, str, Row]] = []
        for page in self._pages(clause, with_vectors=True):
            rows = [row for row in page if row.vector is not None]
            if rows:
                matrix = np.stack([row.vector for row in rows if row.vector is not None])
                scores = np.round(exact_scores(matrix, query), DIGITS) + 0.0
                best += [(-float(score), row.id, row) for row, score in zip(rows, scores, strict=True)]
                best = sorted(best, key=lambda entry: entry[:2])[:limit]
        return [row.hit(0.0 - score) for score, _, row in best]

    def _rank_here(self, asked: Sequence[str], limit: int, clause: C | None) -> Hits:
        """BM25 of the rows that have some stem asked for, in this process; rarity is measured inside the filter."""
        wanted = set(asked)
        rows: list[Row] = []
        held: list[list[str]] = []
        for page in self._pages(clause, with_vectors=False):
            for row in page:
                text = row.payload.get("memory")
                stems = words(text) if isinstance(text, str) else []
                if wanted.intersection(stems):
                    rows.append(row)
                    held.append(stems)
        total = max(self.engine._count(self.name, self.narrowed.clause), len(rows))
        postings = [np.array([n for n, stems in enumerate(held) if word in stems], np.int64) for word in asked]
        places, weights = sum_rarities(postings, total)
        scores = word_scores(weights, np.array([len(held[place]) for place in places], np.float64))
        order = sorted(range(len(places)), key=lambda n: (-scores[n], rows[places[n]].id))
        return [rows[places[n]].hit(float(scores[n])) for n in order[:limit]]
