"""Import other tools' exports: files of any known format, facts as they come, conversations in order of time.

Readers (`pipeline/curation/importers`) parse the files; this module decides what becomes of their items. A fact is
stored as it is, under its own id. A conversation goes through the curator in parts, the oldest first across all
conversations, so that later statements correct earlier ones; a message that is stored already is recognised by its id
and not read twice. Facts and messages identify themselves in a repeated import: no other record is needed.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from perdure.domain.errors import InvalidInputError, ScopeError
from perdure.domain.event import Episode
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.transfer import archive
from perdure.engine.transfer.archive import ConversationLine, Event, Line, Row, Seal
from perdure.engine.transfer.report import ImportReport
from perdure.engine.transfer.transfer import Chunks, Sink
from perdure.engine.transfer.writer import ImportWriter, Kept, Numbered
from perdure.pipeline.curation.importers import FORMATS, LOOKED_FOR, detect, reader_of
from perdure.pipeline.curation.importers.json_pieces import DamagedError, Piece, pieces, unwrapped
from perdure.pipeline.curation.importers.langgraph import NamespacePattern
from perdure.pipeline.curation.importers.records import Damaged, ForeignTalk, Found, LeftOut, Reader, windows

OWN = "perdure"
LOOKED_AT = 50  # items of a file among which one must have a known format
_CHATS = frozenset({"chatgpt", "claude"})
_LAST = "9999"  # sorts after every time: a conversation without a time counts as said now
_HINTS = {"langgraph": 'give --namespace "memories,{user_id}" or --user-id'}


class BrokenPartError(Exception):
    """A file cannot be read any further; the message says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of an export: its name for people, and a reader of its bytes."""

    name: str
    chunks: Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of an import.

    `format` is one of FORMATS, or None to detect each file's; `default` fills in the scope fields that an item does not
    name; `as_messages` stores each message as it is, without the curator.
    """

    format: str | None = None
    default: Scope = field(default_factory=Scope)
    as_messages: bool = False
    patterns: Sequence[NamespacePattern] = ()

    def __post_init__(self) -> None:
        if self.format not in (None, *FORMATS):
            raise InvalidInputError(
                f"format must be one of {', '.join(FORMATS)}, not {self.format!r}", field="format", value=self.format
            )


Watch = Callable[[int, int], object]  # called with the number of conversation parts done, and their total


async def import_parts(
    engine: Engine, parts: Sequence[Part], wish: ImportOptions, watch: Watch | None = None, kept: Kept | None = None
) -> ImportReport:
    """Import files of any known format, and report what was left out or rejected, and its place.

    Running it again imports only what is new. The memory is opened with the first readable item, so that a file without
    any makes none. InvalidInputError if no file has a known format; ScopeError if there are conversations and no scope
    for them.
    """
    report = ImportReport()
    intake = ImportWriter(engine, report, kept)
    await _Carrier(intake, report, wish, watch).carry(parts)
    await intake.finish()
    return report


def survey_parts(parts: Sequence[Part], wish: ImportOptions) -> ImportReport:
    """Report what an import would read, with every check but without opening a memory."""
    report = ImportReport(dry=True)
    asyncio.run(_Carrier(_Survey(report), report, wish, None).carry(parts))
    return report


class _Survey:
    """Counts lines instead of writing them."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report

    def begin(self, header: archive.Header) -> None:
        """Accept any header: nothing is written, so no vectors are needed."""

    async def known_messages(self, scope: Scope) -> set[str]:
        return set()

    async def take(self, chunk: Sequence[Numbered[Line]]) -> None:
        for numbered in chunk:
            line = numbered.line
            if isinstance(line, ConversationLine) and line.is_part:
                self._report.count("messages", new=len(line.addition.messages))
            else:
                kinds = {Row: "memories", Event: "history", Episode: "episodes", ConversationLine: "conversations"}
                self._report.count(kinds.get(type(line), "facts"), new=1)


class _Carrier:
    """Passes the parts of one export to a sink."""

    def __init__(self, sink: Sink, report: ImportReport, wish: ImportOptions, watch: Watch | None) -> None:
        self._sink = sink
        self._chunks = Chunks(sink)
        self._report = report
        self._wish = wish
        self._watch = watch
        self._readers: dict[str, Reader] = {}
        self._known: set[str] | None = None
        self._damage = ""  # what is wrong with the first item of a lone file without a readable one
        self._is_backup = False
        self._stretches: list[tuple[str, int, str, bytes]] = []
        """Time, order, place and packed content of every part: a fraction of the file, and sortable."""

    async def carry(self, parts: Sequence[Part]) -> None:
        """Read every file, then pass on the conversations."""
        unknown = await (self._one(parts[0]) if len(parts) == 1 else self._many(parts))
        if unknown and not self._report.formats:
            raise InvalidInputError(
                f"{', '.join(unknown[:5])}{' and others' if unknown[5:] else ''}: nothing that import knows is in "
                f"there{self._damage}. It looked for {LOOKED_FOR}",
                field="format",
            )
        for name in unknown:
            self._report.leave("a file of no known format, or of another than the one asked for", name)
        for format, reader in self._readers.items():
            for found in reader.finish():
                await self._take(found, 0, format)
        await self._chunks.flush()
        # One stretch at a time: a kill costs the one that is being told, which is told again.
        self._stretches.sort(reverse=True)
        total = len(self._stretches)
        while self._stretches:
            _, _, where, packed = self._stretches.pop()
            line = self._read(json.loads(zlib.decompress(packed)), where, 0, "")
            if line is not None:
                await self._sink.take([line])
            if self._watch is not None:
                self._watch(total - len(self._stretches), total)

    async def _one(self, part: Part) -> list[str]:
        """Read a file that may be a pipe, once; return its name if its format is unknown."""
        faults: list[str] = []
        with closing(_guarded(part, faults)) as chunks:
            stream = pieces(chunks)
            head = list(islice(stream, LOOKED_AT))
            format = self._wish.format or _format_of(head)
            if format is not None:
                await self._pieces(chain(head, stream), format, "")
            elif not faults:
                self._damage = _damage_of(head)
        for fault in faults:
            self._report.refuse(0, fault, part.name)
        return [part.name] if head and format is None else []

    async def _many(self, parts: Sequence[Part]) -> list[str]:
        """Read the files of a bundle; return the names of those with an unknown format."""
        formats: list[str | None] = []
        all_faults: list[list[str]] = []
        for part in parts:
            all_faults.append([])
            with closing(_guarded(part, all_faults[-1])) as chunks:
                formats.append(_format_of(islice(pieces(chunks), LOOKED_AT)))
        unknown: list[str] = []
        for part, found, faults in zip(parts, formats, all_faults, strict=True):
            format = self._wanted(found, formats)
            if format is not None:
                faults.clear()
                with closing(_guarded(part, faults)) as chunks:
                    await self._pieces(pieces(chunks), format, f"{part.name}: ")
            elif not faults:
                unknown.append(part.name)
            for fault in faults:
                self._report.refuse(0, fault, part.name)
        return unknown

    def _wanted(self, found: str | None, all_found: Sequence[str | None]) -> str | None:
        """Return the format in which to read a file of a bundle; None to skip it."""
        wanted = self._wish.format
        if wanted is not None:
            alike = {found, wanted} <= {OWN, "mem0"}  # a bare fact may be of either
            return wanted if found == wanted or alike else None
        # Beside a vendor's chats, what merely looks like a line of perdure's is feedback, settings and the like.
        return None if found == OWN and not _CHATS.isdisjoint(all_found) else found

    async def _pieces(self, stream: Iterable[Piece], format: str, file: str) -> None:
        for piece in stream:
            await self._piece(piece, format, file)

    async def _piece(self, piece: Piece, format: str, file: str) -> None:
        where = f"{file}{'line' if piece.is_line else 'item'} {piece.number}"
        for name in piece.beside:
            self._report.leave(f"`{name}`, which stands beside the list of the file", file.removesuffix(": "))
        if piece.beside:
            return
        if format == OWN:
            await self._own(piece, where if file or not piece.is_line else "")
            return
        try:
            value = piece.value()
        except DamagedError as error:
            self._count(format)
            self._report.refuse(piece.number, str(error), where)
            return
        reader = self._readers.setdefault(format, reader_of(format, self._wish.patterns))
        for each, place in self._flat(value, where):
            self._count(format)
            for found in reader.read(each, place):
                await self._take(found, piece.number, format)

    def _count(self, format: str) -> None:
        self._report.lines += 1
        self._report.formats[format] = self._report.formats.get(format, 0) + 1

    def _flat(self, value: Any, where: str) -> Iterator[tuple[Any, str]]:
        """Yield the items of a page, or of a list of items or pages; anything else is itself an item."""
        pages = [(value, where)]
        if isinstance(value, list):
            pages = [(each, f"{where}, item {number}") for number, each in enumerate(value, 1)]
        for page, place in pages:
            wrapped = unwrapped(page)
            if wrapped is None:
                yield page, place
                continue
            for name in wrapped[1]:
                self._report.leave(f"`{name}`, which stands beside the list of the file", place)
            for number, each in enumerate(wrapped[0], 1):
                yield each, f"{place}, item {number}"

    async def _own(self, piece: Piece, where: str) -> None:
        self._count(OWN)
        try:
            if piece.fault is not None:
                raise InvalidInputError(piece.fault)
            line = archive.read_line(piece.text, self._wish.default)
        except InvalidInputError as error:
            self._report.refuse(piece.number, error.message, where)
            return
        if isinstance(line, ConversationLine) and not line.addition.messages:
            self._report.leave("a conversation without a message", where or f"line {piece.number}")
            return
        if (isinstance(line, Seal) or (isinstance(line, Row) and line.vector is not None)) and not self._is_backup:
            self._is_backup = True
            self._report.warn(["this is a backup: `perdure restore` checks such a file to its end before it writes"])
        await self._chunks.add(Numbered(piece.number, line, where))

    async def _take(self, found: Found, number: int, format: str) -> None:
        if isinstance(found, LeftOut):
            self._report.leave(found.reason, found.where)
        elif isinstance(found, Damaged):
            self._report.refuse(number, found.reason, found.where)
        elif isinstance(found, ForeignTalk):
            await self._gather(found, format)
        else:
            line = self._read(found.line, found.where, number, format)
            if line is not None:
                await self._chunks.add(line)

    def _read(self, line: dict[str, Any], where: str, number: int, format: str) -> Numbered[Line] | None:
        try:
            return Numbered(number, archive.read_foreign(line, where, self._wish.default), where)
        except ScopeError as error:
            self._report.refuse(number, f"{error.message}: {_HINTS.get(format, 'give --user-id')}", where)
        except InvalidInputError as error:
            self._report.refuse(number, error.message, where)
        return None

    async def _gather(self, talk: ForeignTalk, format: str) -> None:
        if self._known is None:
            try:
                scope = self._wish.default.require_owner()
            except ScopeError as error:
                message = f"{error.message}: an export of {format} does not say whose it is, so give --user-id"
                raise ScopeError(message) from None
            self._known = await self._sink.known_messages(scope)
        ids = [message["id"] for message in talk.messages]
        begin = 1 + max((place for place, id in enumerate(ids) if id in self._known), default=-1)
        for id in ids[:begin]:
            if id in self._known:
                self._report.count("messages", skipped=1)
            else:  # later messages are stored already, and messages come in order
                self._report.leave("was here once, and was forgotten", talk.where)
        self._known.update(ids)
        about = {"imported_from": talk.source, "conversation_id": talk.id}
        about |= {"conversation_title": talk.title} if talk.title else {}
        moment = ""
        for stretch in windows(talk.messages[begin:]):
            # A clock that went back must not change the order within a conversation, on which `begin` relies.
            moment = max(moment, stretch[0].get("timestamp") or _LAST)
            line = {"messages": stretch, "metadata": about, "infer": not self._wish.as_messages}
            packed = zlib.compress(json.dumps(line).encode(), 1)
            self._stretches.append((moment, len(self._stretches), talk.where, packed))


def _format_of(head: Iterable[Piece]) -> str | None:
    for piece in head:
        try:
            found = detect(piece.value())
        except DamagedError:
            continue
        if found is not None:
            return found
    return None


def _damage_of(head: Sequence[Piece]) -> str:
    """Return what is wrong with the first item if none of them can be read; else nothing."""
    first = ""
    for piece in head:
        try:
            piece.value()
        except DamagedError as error:
            first = first or f" ({'line' if piece.is_line else 'item'} {piece.number}: {error})"
        else:
            return ""
    return first


def _guarded(part: Part, faults: list[str]) -> Generator[bytes, None, None]:
    """Yield the bytes of a file as far as they can be read; the reason for a stop goes into `faults`."""
    try:
        yield from part.chunks()
    except BrokenPartError as error:
        faults.append(str(error))
