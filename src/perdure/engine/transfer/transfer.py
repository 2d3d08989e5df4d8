"""Export a memory as lines of text, and import such lines without loss."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from perdure import __version__
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import InvalidInputError
from perdure.domain.filter import Condition, Filter, Not, all_of, eq, scope_filter
from perdure.domain.memory import LIVE
from perdure.domain.scope import Scope
from perdure.engine.core.lookup import scan, scan_episodes
from perdure.engine.engine import Engine
from perdure.engine.maintenance.last_events import history_pages
from perdure.engine.transfer import archive
from perdure.engine.transfer.archive import Header, Line, Seal, episode_line, event_line, header_line, row_line
from perdure.engine.transfer.report import ExportReport, ImportReport
from perdure.engine.transfer.writer import ImportWriter, Numbered

CHUNK = 256  # lines written at a time: one transaction, one batch of texts to embed, and the maximum lost by a kill


async def export_archive(
    engine: Engine,
    scope: Scope,
    write: Callable[[str], object],
    *,
    with_vectors: bool = False,
    ended: Callable[[], Awaitable[None]] | None = None,
) -> ExportReport:
    """Pass every row, event and episode of a scope to `write`, as a line of text with its newline.

    The empty scope is everything. The export is one state of the memory: other writers of the scope wait, so `write`
    must be fast (a file, not a pipe); they also wait for `ended`, which is awaited after the last line.
    """
    kernel = engine.kernel
    await kernel.ready()
    report = ExportReport()
    head = header_line(
        written_by=__version__,
        written_at=iso(kernel.clock.now()),
        scope=scope,
        embedder=kernel.embedding.embedder.label,
    )
    write(f"{head}\n")
    async with kernel.lock(scope):
        async for point in _rows(engine, scope, with_vectors):
            write(f"{row_line(point.payload, point.vector if with_vectors else None)}\n")
            report.memories += 1
        async for line in _events(engine, scope):
            write(f"{line}\n")
            report.history += 1
        async for line in _episodes(engine, scope):
            write(f"{line}\n")
            report.episodes += 1
        if ended is not None:
            await ended()
    return report


async def _rows(engine: Engine, scope: Scope, with_vectors: bool) -> AsyncIterator[Point]:
    """Yield memories, then their versions, then searchable messages: an import needs the live ones first."""
    own = Condition("unique", "in", (True, False))  # a runtime's messages are ordinary memories
    live, message = eq("state", LIVE), all_of(eq("kind", "messages"), Not(own))
    parts: tuple[tuple[Filter, ...], ...] = ((live, Not(message)), (Not(live),), (live, message))
    for part in parts:
        async for points in scan(engine.kernel, all_of(scope_filter(scope), *part), with_vectors=with_vectors):
            for point in points:
                yield point


async def _events(engine: Engine, scope: Scope) -> AsyncIterator[str]:
    ledger = engine.kernel.ledger
    if ledger is None:
        return
    async for records in history_pages(ledger, scope):
        for record in records:
            change = None if record.erased else await ledger.event(record.id)
            yield event_line(record, change)


async def _episodes(engine: Engine, scope: Scope) -> AsyncIterator[str]:
    async for episodes in scan_episodes(engine.kernel.ledger, scope, include_hidden=True):
        for episode in episodes:
            yield episode_line(episode)


class Sink(Protocol):
    """The destination of lines: a memory, or a dry run."""

    def begin(self, header: Header) -> None:
        """Accept an archive's header."""

    async def take(self, chunk: Sequence[Numbered[Line]]) -> None:
        """Accept lines of one kind."""

    async def known_messages(self, scope: Scope) -> set[str]:
        """Return the original ids of messages that exist already."""


class Chunks:
    """Collects lines of one kind, so that a sink takes them in batches and in order."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._chunk: list[Numbered[Line]] = []

    async def add(self, numbered: Numbered[Line]) -> None:
        """Add one line; a header is only checked."""
        if isinstance(numbered.line, Header):
            header = numbered.line
            if header.format > archive.FORMAT:
                raise InvalidInputError(
                    f"the archive is of format {header.format}, and this perdure reads up to {archive.FORMAT}:"
                    " upgrade perdure",
                    field="perdure",
                    value=header.format,
                )
            self._sink.begin(numbered.line)
            return
        if isinstance(numbered.line, Seal):
            return
        if self._chunk and (len(self._chunk) >= CHUNK or type(self._chunk[0].line) is not type(numbered.line)):
            await self.flush()
        self._chunk.append(numbered)

    async def flush(self) -> None:
        """Pass on the collected lines."""
        chunk, self._chunk = self._chunk, []
        await self._sink.take(chunk)


async def import_archive(engine: Engine, lines: Iterable[str], *, default: Scope | None = None) -> ImportReport:
    """Import an archive, or lines of other origin, and report rejected lines.

    Ids, times, history, episodes and versions are kept; vectors are recomputed. Existing data is skipped, so running it
    again finishes an interrupted import. Whatever was changed, deleted or forgotten here since the archive was written
    stays so. `default` fills in the scope fields that conversations and facts do not name. InvalidInputError if a newer
    perdure wrote the archive.
    """
    report = ImportReport()
    intake = ImportWriter(engine, report)
    chunks = Chunks(intake)
    for number, text in enumerate(lines, 1):
        stripped = text.removeprefix("\ufeff").strip() if number == 1 else text.strip()
        if not stripped:
            continue
        report.lines += 1
        try:
            line = archive.read_line(stripped, default or Scope())
        except InvalidInputError as error:
            report.refuse(number, error.message)
        else:
            await chunks.add(Numbered(number, line))
    await chunks.flush()
    await intake.finish()
    return report
