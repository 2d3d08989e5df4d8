"""Copy a memory from one store to another, row by row with vectors, while both are in use.

Existing rows are not changed, so running it again finishes an interrupted copy. If the target has its own ledger,
history and messages are copied too.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from perdure.backends.vector_stores.base import Point, Vector, VectorStore
from perdure.domain.errors import ConfigError, EmbeddingError, PerdureError
from perdure.domain.memory import Answer
from perdure.domain.scope import Scope
from perdure.engine.config.config import MemoryConfig
from perdure.engine.core.embedding import Embedding, with_derived, with_kept, without_derived
from perdure.engine.core.kernel import Kernel
from perdure.engine.engine import Engine
from perdure.engine.transfer.transfer import export_archive, import_archive

# Copying rows into a collection: existing rows stay, and each text is embedded once.

BATCH = 256  # rows compared, embedded and written at a time
FEW = 256  # if a pass has fewer changes than this, the next one may lock out the writers
PASSES = 8  # maximum passes before the writers are locked out, however much they write
Progress = Callable[[int, int], None]  # called now and then with the number of rows done, and their total


@dataclass(slots=True)
class RowCopier:
    """Copies rows of one collection into another."""

    store: VectorStore
    collection: str
    embedding: Embedding | None  # embeds the texts; None if the rows bring vectors of the same model
    command: str  # the command to run again after a failure
    embedded: int = 0  # texts embedded so far

    async def carry(self, rows: Sequence[Point], *, stays: Callable[[Point, Point], bool] | None = None) -> int:
        """Write missing and different rows; return how many.

        `stays` decides from an existing row and the new one whether the existing one is kept. EmbeddingError if a text
        cannot be embedded: earlier rows stay copied.
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
            return [with_kept(row, len(row.vector)) if row.vector is not None else row for row in rows]
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
    """Yield every row of a collection in batches, and report them to `progress`."""
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


LAST = 2  # passes while the writers wait: one that writes, and one that verifies


@dataclass(slots=True)
class CopyReport(Answer):
    """The result of a copy."""

    rows: int = 0  # rows of the source: memories, earlier versions and searchable messages
    copied: int = 0  # rows written into the target
    kept: int = 0  # rows with a later change in the target, which stay as they are there
    embedded: int = 0  # texts embedded again, because the target has another embedder
    history: int = 0  # events written into the target's own ledger
    episodes: int = 0  # messages written into the target's own ledger


async def copy_memories(source: Engine, target: Engine, *, progress: Progress | None = None) -> CopyReport:
    """Copy every row of the source into the target, with history and messages if the target has another ledger.

    Others may write to both meanwhile; the last pass locks out the source's writers. Nothing is deleted from either.
    ConfigError if both are one store or the target stores nothing; EmbeddingError if the target's embedder fails: run
    it again to continue.
    """
    work = _Copying(source.kernel, target.kernel, progress or (lambda done, total: None))
    await work.begin()
    report = await work.run()
    if not same_ledger(source.kernel.config, target.kernel.config):
        # As export and import carry history and messages; the rows are there already and are left alone.
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as file:
            await export_archive(source, Scope(), file.write)
            file.seek(0)
            carried = await import_archive(target, file)
        if carried.refused:
            first = carried.refusals[0]
            raise PerdureError(f"{carried.refused} lines of the history were refused, the first: {first.reason}")
        kinds = carried.kinds
        report.history = kinds["history"].new if "history" in kinds else 0
        report.episodes = kinds["episodes"].new if "episodes" in kinds else 0
    return report


def same_ledger(one: MemoryConfig, other: MemoryConfig) -> bool:
    """Whether two configurations name the same ledger."""
    if one.history.provider != other.history.provider:
        return False
    if one.history.provider == "sqlite":
        return one.ledger_path.resolve() == other.ledger_path.resolve()
    return one.history.config == other.history.config


class _Copying:
    def __init__(self, source: Kernel, target: Kernel, progress: Progress) -> None:
        self._source, self._target, self._progress = source, target, progress
        self._report = CopyReport()
        self._kept: set[str] = set()

    async def begin(self) -> None:
        """Open both, and check for errors before anything is written."""
        source, target = self._source, self._target
        await source.ready()
        await target.ready()
        same = source.embedding.embedder.label == target.embedding.embedder.label
        embedding = None if same else target.embedding
        self._carrier = RowCopier(target.store, target.collection, embedding, "perdure copy")
        if not target.store.durable:
            raise ConfigError(
                f"the store {target.store.name!r} keeps nothing: copy into another one",
                field="vector_store.provider",
                value=target.store.name,
            )
        places = [(await kernel.store.identity(), kernel.collection) for kernel in (source, target)]
        if places[0] == places[1]:
            raise ConfigError(
                f"source and target are the same collection {places[0][1]!r} of the same store",
                field="vector_store",
                value=places[0][1],
            )

    async def run(self) -> CopyReport:
        """Run passes until little changes, then, with the writers locked out, until one finds nothing to do."""
        for _ in range(PASSES):
            if await self._pass(self._target.lock) < FEW:
                break
        async with self._both_locked():
            changed = 1
            for _ in range(LAST):
                changed = changed and await self._pass(_unlocked)
            await self._target.sync()
        if changed:
            raise PerdureError(
                f"{changed} of {self._report.rows} rows did not come back from the store {self._target.store.name!r} as"
                " they were written: do not use it before you know why"
            )
        self._report.kept, self._report.embedded = len(self._kept), self._carrier.embedded
        return self._report

    @asynccontextmanager
    async def _both_locked(self) -> AsyncIterator[None]:
        async with self._source.lock(Scope()):
            if same_ledger(self._source.config, self._target.config):
                yield  # both share one lock
                return
            async with self._target.lock(Scope()):
                yield

    async def _pass(self, lock: Callable[[Scope], AbstractAsyncContextManager[None]]) -> int:
        """Write rows that are missing or older in the target, each batch under a lock; return how many."""
        seen = changed = 0
        source = self._source
        async for rows in batches(source.store, source.collection, self._progress, with_vectors=True):
            async with lock(Scope()):
                changed += await self._carrier.carry(rows, stays=self._stays)
            seen += len(rows)
        self._report.rows = seen
        self._report.copied += changed
        return changed

    def _stays(self, found: Point, row: Point) -> bool:
        if not _is_later(found, row):
            return False
        self._kept.add(row.id)
        return True


@asynccontextmanager
async def _unlocked(scope: Scope) -> AsyncIterator[None]:
    """A context for callers that hold the lock already."""
    yield


def _is_later(found: Point, point: Point) -> bool:
    """Whether a row was changed later than another; times are fixed-width text."""
    one, other = found.payload.get("updated_at"), point.payload.get("updated_at")
    return isinstance(one, str) and isinstance(other, str) and one > other
