"""Copying a memory from one store into another, row by row with their vectors, while both are in use.

What is there already is left alone, so that a copy that broke off is finished by running it again. Where the target has
a ledger of its own, history and messages go there too.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import ConfigError, EmbeddingError, PerdureError
from perdure.domain.memory import Answer
from perdure.domain.scope import Scope
from perdure.engine.config import MemoryConfig
from perdure.engine.engine import Engine
from perdure.engine.kernel import Kernel
from perdure.engine.transfer import export_archive, import_archive

BATCH = 256
"""Rows compared, embedded and written at a time."""
FEW = 256
"""Changes of one pass below which the next one may hold up the writers."""
PASSES = 8
"""Passes before the writers are held up however much they write."""

Progress = Callable[[int, int], None]
"""Called now and then with how many rows are done, and of how many."""


@dataclass(slots=True)
class CopyReport(Answer):
    """What a copy did."""

    rows: int = 0
    """Rows of the source: memories, earlier versions and searched messages."""
    copied: int = 0
    """Rows written into the target, now or by an earlier run that broke off and changed since."""
    kept: int = 0
    """Rows that had been changed in the target later than in the source, and stay as they are there."""
    embedded: int = 0
    """Texts that were embedded anew, because the target's embedder is another one."""
    missing: int = 0
    """Rows that the target did not give back as they were written; 0 unless it is at fault."""
    history: int = 0
    """Events written into the target's own ledger."""
    episodes: int = 0
    """Messages written into the target's own ledger."""

    def model_dump(self) -> dict[str, Any]:
        """The report as plain values."""
        return {name: getattr(self, name) for name in CopyReport.__slots__}


async def copy_memories(source: Engine, target: Engine, *, progress: Progress | None = None) -> CopyReport:
    """Bring every row of the source into the target, and its history and messages where the target has another ledger.

    Others may write into both meanwhile; the last pass holds up the source's writers. Nothing is taken out of either.
    ConfigError if both are one store or the target keeps nothing; EmbeddingError where the target's embedder fails:
    run it again to go on.
    """
    work = _Copying(source.kernel, target.kernel, progress or (lambda done, total: None))
    await work.begin()
    report = await work.run()
    if not same_ledger(source.kernel.config, target.kernel.config):
        await _carry_ledger(source, target, report)
    return report


def same_ledger(one: MemoryConfig, other: MemoryConfig) -> bool:
    """Whether two configurations name the same ledger."""
    if one.history.provider != other.history.provider:
        return False
    if one.history.provider == "sqlite":
        return one.ledger_path.resolve() == other.ledger_path.resolve()
    return one.history.config == other.history.config


class _Copying:
    """One run."""

    def __init__(self, source: Kernel, target: Kernel, progress: Progress) -> None:
        self._source, self._target, self._progress = source, target, progress
        self._report = CopyReport()
        self._kept: set[str] = set()

    async def begin(self) -> None:
        """Open both; errors before anything is written."""
        await self._source.ready()
        await self._target.ready()
        if not self._target.store.durable:
            raise ConfigError(
                f"the store {self._target.store.name!r} keeps nothing: copy into another one",
                field="vector_store.provider",
                value=self._target.store.name,
            )
        places = [(await kernel.store.identity(), kernel.collection) for kernel in (self._source, self._target)]
        if places[0] == places[1]:
            raise ConfigError(
                f"source and target are the same collection {places[0][1]!r} of the same store",
                field="vector_store",
                value=places[0][1],
            )

    async def run(self) -> CopyReport:
        """Pass after pass until little changes, then one more while the writers wait."""
        for _ in range(PASSES):
            if await self._pass(locked=False) < FEW:
                break
        async with self._both_locked():
            await self._pass(locked=True)
            await self._target.sync()
            await self._compare()
        self._report.kept = len(self._kept)
        return self._report

    @asynccontextmanager
    async def _both_locked(self) -> AsyncIterator[None]:
        async with self._source.lock(Scope()):
            if same_ledger(self._source.config, self._target.config):
                yield  # whose lock is one and the same
                return
            async with self._target.lock(Scope()):
                yield

    async def _pass(self, *, locked: bool) -> int:
        """Write what is missing or older in the target; how many rows that was."""
        total, done, changed = await self._source.store.count(self._source.collection), 0, 0
        self._progress(0, total)
        async for points in self._source.store.stream(self._source.collection, with_vectors=True):
            for start in range(0, len(points), BATCH):
                batch = points[start : start + BATCH]
                if locked:
                    changed += await self._carry(batch)
                else:
                    async with self._target.lock(Scope()):
                        changed += await self._carry(batch)
                done += len(batch)
                self._progress(done, total)
        self._report.rows = done
        return changed

    async def _carry(self, batch: Sequence[Point]) -> int:
        store, collection = self._target.store, self._target.collection
        there = {point.id: point for point in await store.get_many(collection, [point.id for point in batch])}
        wanted = []
        for point in batch:
            found = there.get(point.id)
            if found is None or (found.payload != point.payload and not _is_later(found, point)):
                wanted.append(point)
            elif found.payload != point.payload:
                self._kept.add(point.id)
        if wanted:
            await store.apply(collection, await self._with_vectors(wanted))
            self._report.copied += len(wanted)
        return len(wanted)

    async def _with_vectors(self, points: Sequence[Point]) -> list[Point]:
        target = self._target.embedding
        if self._source.embedding.embedder.label == target.embedder.label:
            return list(points)
        result = await target.texts([str(point.payload.get("memory", "")) for point in points])
        if result.failed:
            raise EmbeddingError(
                f"{len(result.failed)} of {len(points)} texts could not be embedded ({result.warnings[0]}): what is"
                " done is kept, run `perdure copy` again to go on"
            )
        self._report.embedded += sum(vector is not None for vector in result.vectors)
        return [Point(point.id, vector, point.payload) for point, vector in zip(points, result.vectors, strict=True)]

    async def _compare(self) -> None:
        """Read everything back while nobody writes."""
        async for points in self._source.store.stream(self._source.collection):
            ids = [point.id for point in points]
            there = {point.id: point for point in await self._target.store.get_many(self._target.collection, ids)}
            for point in points:
                found = there.get(point.id)
                if point.id not in self._kept and (found is None or found.payload != point.payload):
                    self._report.missing += 1
        if self._report.missing:
            raise PerdureError(
                f"{self._report.missing} of {self._report.rows} rows did not come back from the store"
                f" {self._target.store.name!r} as they were written: do not use it before you know why"
            )


def _is_later(found: Point, point: Point) -> bool:
    """Whether a row was changed later than another; times are fixed-width text (U15)."""
    one, other = found.payload.get("updated_at"), point.payload.get("updated_at")
    return isinstance(one, str) and isinstance(other, str) and one > other


async def _carry_ledger(source: Engine, target: Engine, report: CopyReport) -> None:
    """History and messages, as export and import carry them; the rows are there already and are left alone."""
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
