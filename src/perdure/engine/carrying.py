"""Carrying rows into a collection: what is there already is left alone, and a text is embedded once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from perdure.backends.vector_stores.base import Point, Vector, VectorStore
from perdure.domain.errors import EmbeddingError
from perdure.engine.derived import with_derived, without_derived
from perdure.engine.embedding import Embedding

BATCH = 256
"""Rows compared, embedded and written at a time."""
FEW = 256
"""Changes of one pass below which the next one may hold up the writers."""
PASSES = 8
"""Passes before the writers are held up however much they write."""

Progress = Callable[[int, int], None]
"""Called now and then with how many rows are done, and of how many."""


@dataclass(slots=True)
class Carrier:
    """Makes rows of one collection stand in another."""

    store: VectorStore
    collection: str
    embedding: Embedding | None
    """What embeds the texts; None where the rows bring vectors of the same model."""
    command: str
    """What a person runs again after a failure."""
    embedded: int = 0
    """Texts embedded so far."""

    async def carry(self, rows: Sequence[Point], *, stays: Callable[[Point, Point], bool] | None = None) -> int:
        """Write the rows that are missing or different; how many that was.

        `stays` says of a row that is there, and of the one to come, whether the first is kept. EmbeddingError where a
        text cannot be embedded: what was carried before is kept.
        """
        there = {point.id: point for point in await self.store.get_many(self.collection, [row.id for row in rows])}
        wanted: list[Point] = []
        for row in rows:
            found = there.get(row.id)
            if found is not None and (self._is_same(found, row) or (stays is not None and stays(found, row))):
                continue
            wanted.append(row)
        if wanted:
            await self.store.apply(self.collection, await self._with_vectors(wanted, there))
        return len(wanted)

    def _is_same(self, found: Point, row: Point) -> bool:
        return without_derived(found.payload) == without_derived(row.payload) and (
            found.vector is not None or not self._has_vector(row)
        )

    def _has_vector(self, row: Point) -> bool:
        if self.embedding is None:
            return row.vector is not None
        return self.embedding.available and bool(text_of(row).strip())

    async def _with_vectors(self, rows: Sequence[Point], there: dict[str, Point]) -> list[Point]:
        if self.embedding is None:
            return list(rows)
        vectors: dict[str, Vector | None] = {}
        for row in rows:
            found = there.get(row.id)
            if found is not None and found.vector is not None and text_of(found) == text_of(row):
                vectors[row.id] = found.vector
        missing = [row for row in rows if row.id not in vectors]
        result = await self.embedding.texts([text_of(row) for row in missing])
        if result.failed:
            raise EmbeddingError(
                f"{len(result.failed)} of {len(missing)} texts could not be embedded ({result.warnings[0]}): what is"
                f" done is kept, run `{self.command}` again to go on"
            )
        vectors.update(zip((row.id for row in missing), result.vectors, strict=True))
        self.embedded += sum(vector is not None for vector in result.vectors)
        return await with_derived(self.embedding, [Point(row.id, vectors[row.id], row.payload) for row in rows])


async def batches(
    store: VectorStore, collection: str, progress: Progress, *, with_vectors: bool = False
) -> AsyncIterator[list[Point]]:
    """Every row of a collection, some at a time, told to `progress`."""
    total, done = await store.count(collection), 0
    progress(0, total)
    async for points in store.stream(collection, with_vectors=with_vectors):
        for start in range(0, len(points), BATCH):
            batch = list(points[start : start + BATCH])
            yield batch
            done += len(batch)
            progress(done, max(done, total))


def text_of(row: Point) -> str:
    """The text of a row."""
    text = row.payload.get("memory", "")
    return text if isinstance(text, str) else ""
