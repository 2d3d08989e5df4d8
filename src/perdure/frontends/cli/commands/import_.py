"""The command import, which reads a file, a folder, a zip, gzip or standard input without unpacking to disk."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import Scope
from perdure.frontends.cli.input_messages import STDIN
from perdure.frontends.cli.open_memory import with_engine
from perdure.frontends.cli.options import AgentOption, JsonOption, PathOption, RunOption, UserOption, folder
from perdure.frontends.cli.output import advance, note, print_json, progress, tell_usage

if TYPE_CHECKING:
    from rich.progress import Progress

    from perdure.engine.transfer.foreign import Part
    from perdure.engine.transfer.report import ImportReport

AUTO = "auto"  # the value of --format that leaves it to the file
SHOWN = 20  # refused lines that are printed; `--json` lists up to a thousand
CHUNK = 1 << 18  # bytes read at a time
STEP = 1 << 14  # bytes handed on at a time, so that a bar moves within a small file too
SILENCE = 10.0  # seconds between two progress lines when the output is not a terminal
SUFFIXES = (".json", ".jsonl", ".ndjson")
"""What is read of a folder or a zip; a file that is named itself is read whatever its name is."""
PACKED = 200  # how many times its size a packed file may unpack to: JSON comes to some 20 times, a trap to 1000
FREE = 1 << 26  # bytes that any file may unpack to: nothing is kept of what was read, so that this much cannot hurt
_WRITE_TABLE = (
    "Of a LangGraph store, write the table as JSON: "
    "sqlite3 -json {} 'select prefix, key, cast(value as text) as value, created_at, updated_at from store'"
)
_GZIP_WINDOW = 31  # what tells zlib that a gzip header comes first
_ZIP, _GZIP, _SQLITE = b"PK\x03\x04", b"\x1f\x8b", b"SQLite format 3\x00"


@dataclass(slots=True)
class Bundle:
    """The readable files of an export, their size in bytes, and the names of files that are not JSON."""

    parts: list[Part] = field(default_factory=list)
    size: int = 0
    others: list[str] = field(default_factory=list)


Count = Callable[[int], object]  # told how many bytes were read


class Meter:
    """Reports an import's progress in bytes, then conversations: a bar on a terminal, else lines."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.size = 0  # bytes to read in all; 0 if unknown
        self._bytes = 0
        self._done: tuple[int, int] | None = None
        self._said = time.monotonic()
        self._kept = ""

    def read(self, count: int) -> None:
        """Count bytes that were read; CancelledError after Ctrl-C, because reading never awaits anything."""
        with suppress(RuntimeError):  # of a folder that is only listed there is no task
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError
        self._bytes += count
        advance(self.bar, self._bytes)

    def told(self, done: int, total: int) -> None:
        """Report how many pieces of conversations are done."""
        if self.bar is not None and self._done is None:
            self.bar.reset(self.bar.task_ids[0], total=total)
        self._done = done, total
        advance(self.bar, done)

    def kept(self, report: ImportReport) -> None:
        """Report how much is kept so far."""
        known = f", {report.skipped} known" if report.skipped else ""
        self._kept = f"{report.new} kept{known}"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], description=f"import: {self._kept}")
        elif time.monotonic() - self._said >= SILENCE:
            self._said = time.monotonic()
            note(f"import: {self._kept}{self._share()}")

    def _share(self) -> str:
        if self._done is not None:
            return f"; {self._done[0]} of {self._done[1]} pieces of conversations told"
        return f"; {min(self._bytes / self.size, 1):.0%} read" if self.size else ""

    def interrupted(
        self, file: Path, options: Mapping[str, str | Sequence[str] | bool | None], *, is_dry: bool
    ) -> None:
        """Print what an interrupted import has kept, and the command that continues it."""
        if is_dry:
            note("interrupted: nothing was written")
            return
        note(f"interrupted: {self._kept or 'nothing kept'}. What is kept stays, and is not kept twice. Go on with:")
        words = ["perdure", "import", str(file)]
        for name, value in options.items():
            if isinstance(value, bool):
                words += [name] if value else []
            else:
                for each in [value] if isinstance(value, str) else value or ():
                    words += [name, each]
        note(f"  {shlex.join(words)}")


def bundle_of(file: Path, count: Count) -> Bundle:
    """Collect the files that an argument names; BadParameter if unreadable, InvalidInputError if no export."""
    bundle = Bundle()
    if str(file) == STDIN:
        _add(bundle, "standard input", lambda: _stream(sys.stdin.buffer, count))
        return bundle
    path = file.expanduser()
    try:
        if path.is_dir():
            for inner in sorted(path.rglob("*")):
                if inner.is_file() and not any(name.startswith(".") for name in inner.relative_to(path).parts):
                    _add_file(bundle, inner, inner.relative_to(path).as_posix(), count, is_named=False)
        elif path.is_fifo():
            pipe = path.open("rb")
            _add(bundle, path.name, lambda: _stream(pipe, count))
        else:
            _add_file(bundle, path, path.name, count, is_named=True)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    if not bundle.parts:
        raise InvalidInputError(f"{file} holds no file that ends in {', '.join(SUFFIXES)}, .gz or .zip", field="FILE")
    return bundle


def _add(bundle: Bundle, name: str, chunks: Callable[[], Iterator[bytes]]) -> None:
    from perdure.engine.transfer.foreign import Part  # heavy: the engine

    bundle.parts.append(Part(name, chunks))


def _add_file(bundle: Bundle, path: Path, name: str, count: Count, *, is_named: bool) -> None:
    with path.open("rb") as stream:
        begin = stream.read(len(_SQLITE))
    size = path.stat().st_size
    if begin.startswith(_ZIP):
        _add_members(bundle, path, "" if is_named else f"{name}/", count)
    elif begin.startswith(_GZIP):
        bundle.size += size
        _add(bundle, name, lambda: _unpacked(path.open("rb"), size, count))
    elif begin == _SQLITE:
        _refuse_database(bundle, name, is_named)
    elif is_named or name.lower().endswith(SUFFIXES):
        bundle.size += size
        _add(bundle, name, lambda: _plain(path, count))
    else:
        bundle.others.append(name)


def _refuse_database(bundle: Bundle, name: str, is_named: bool) -> None:
    if not is_named:
        bundle.others.append(name)
        return
    message = f"{name} is an SQLite database, and import reads JSON. {_WRITE_TABLE.format(name)}"
    raise InvalidInputError(message, field="FILE")


def _add_members(bundle: Bundle, path: Path, prefix: str, count: Count) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError) as error:
        raise InvalidInputError(f"{path.name} is a damaged zip: {error}", field="FILE") from error
    for member in members:
        name = f"{prefix}{member.filename}"
        if member.is_dir():
            continue
        if not member.filename.lower().endswith(SUFFIXES):
            bundle.others.append(name)
            continue
        bundle.size += member.file_size
        _add(bundle, name, lambda member=member: _member(path, member, count))  # type: ignore[misc]


def _plain(path: Path, count: Count) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            for start in range(0, len(chunk), STEP):
                yield chunk[start : start + STEP]
                count(len(chunk[start : start + STEP]))


def _member(path: Path, member: zipfile.ZipInfo, count: Count) -> Iterator[bytes]:
    """Read a member of a zip; its name is never used as a path."""
    from perdure.engine.transfer.foreign import BrokenPartError  # heavy: the engine

    if member.flag_bits & 1:
        raise BrokenPartError("it is encrypted: unpack it with its password first")
    length = 0
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            while chunk := stream.read(CHUNK):
                length += len(chunk)
                _check_size(length, member.compress_size)
                count(len(chunk))
                yield chunk
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise BrokenPartError(f"the zip is damaged here: {error}") from error


def _unpacked(stream: IO[bytes], size: int | None, count: Count, begin: bytes = b"") -> Iterator[bytes]:
    """Unpack a gzip stream as far as it goes; without a size, the bytes read so far count as its size."""
    from perdure.engine.transfer.foreign import BrokenPartError  # heavy: the engine

    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    taken = length = 0
    with stream:
        data = begin or stream.read(CHUNK)
        while data:
            taken += len(data)
            count(len(data))
            while data:
                try:
                    chunk = unpacker.decompress(data, CHUNK)
                except zlib.error as error:
                    raise BrokenPartError(f"the gzip file is damaged here: {error}") from error
                length += len(chunk)
                _check_size(length, size or taken)
                yield chunk
                data = unpacker.unconsumed_tail
                if unpacker.eof:  # and another one may follow
                    data = unpacker.unused_data.lstrip(b"\x00")
                    unpacker = zlib.decompressobj(_GZIP_WINDOW) if data else unpacker
            data = stream.read(CHUNK)
    if not unpacker.eof:
        raise BrokenPartError("the gzip file is damaged here: it ends too early")


def _stream(stream: IO[bytes], count: Count) -> Iterator[bytes]:
    begin = stream.read(len(_SQLITE))
    if begin.startswith(_ZIP) or begin == _SQLITE:
        raise InvalidInputError("a zip or a database cannot be read from a pipe: name the file", field="FILE")
    if begin.startswith(_GZIP):
        yield from _unpacked(stream, None, count, begin)
        return
    with stream:
        while begin:
            count(len(begin))
            yield begin
            begin = stream.read(CHUNK)


def _check_size(length: int, packed: int) -> None:
    from perdure.engine.transfer.foreign import BrokenPartError  # heavy: the engine

    if length > FREE and length > PACKED * max(packed, 1):
        raise BrokenPartError(f"it unpacks to more than {PACKED} times its size, as no export does: it is not read on")


def tell(report: ImportReport) -> None:
    """Print to standard error what an import did, refused and left out, with the reasons."""
    for warning in report.warnings:
        note(warning)
    for refusal in report.refusals[:SHOWN]:
        note(f"{refusal.where or f'line {refusal.line}'}: {refusal.reason}")
    if report.refused > SHOWN:
        note(f"and {report.refused - SHOWN} more refused {'items' if report.refusals[0].where else 'lines'}")
    for reason, left in sorted(report.left_out.items(), key=lambda pair: -pair[1].count):
        example = f", such as {left.examples[0]}" if left.examples else ""
        note(f"left out {left.count}: {reason}{example}")
    if report.ignored:
        note(f"nobody reads these keys: {', '.join(report.ignored)}")
    kinds = ", ".join(
        f"{kind} {tally.new}" if report.dry else f"{kind} {tally.new} new and {tally.skipped} known"
        for kind, tally in report.kinds.items()
    )
    foreign = [f"{count} of {format}" for format, count in report.formats.items() if format != "perdure"]
    what = f"{report.lines} items ({', '.join(foreign)})" if foreign else f"{report.lines} lines"
    verb = "nothing was written; would read" if report.dry else "read"
    note(f"{verb} {what}: {kinds or 'nothing'}; {report.refused} refused")
    if report.events:
        note(
            f"the conversations made {', '.join(f'{count} {event}' for event, count in sorted(report.events.items()))}"
        )
    tell_usage(report.usage)


def import_lines(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file, a folder or a zip; - reads standard input, gzip too.")
    ],
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="perdure, mem0, chatgpt, claude, langgraph or server-memory; auto detects it from the file.",
        ),
    ] = AUTO,
    as_messages: Annotated[
        bool,
        typer.Option(
            "--as-messages", help="Store chat messages as they are, without extracting facts.", show_default=False
        ),
    ] = False,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="LABELS",
            help="Maps a LangGraph namespace to a scope, such as 'memories,{user_id}'; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, but write nothing.", show_default=False)
    ] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Import a perdure export, JSON Lines, or an export of mem0, ChatGPT, Claude, LangGraph or server-memory.

    A line is an object: one of an export; or messages (one conversation); or role and content (one message); or
    memory (one fact, stored as it is). The last three take a scope (user_id, agent_id, run_id), metadata, timestamp,
    type and expires_at; the scope options fill in what a line does not name.

    Memories of mem0 and items of LangGraph are stored as facts with their id, scope, metadata and times. Chats of
    ChatGPT and Claude are read oldest first, each with its own time; --user-id names their user.

    Known items are skipped, so an interrupted import is finished by running it again; Ctrl-C prints the command that
    continues. Later changes, deletions and erasures here are kept. Skipped content (tools, images, hidden messages) is
    listed by reason. A bad line or item is reported and does not stop the others; the exit status is then 1.

    Example: perdure import export.jsonl

    Example: perdure import chatgpt-export.zip --user-id ana --dry-run

    Example: echo '{"memory": "Ana plays the cello"}' | perdure import - --user-id ana
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.transfer.foreign import ImportOptions, import_parts, survey_parts
    from perdure.pipeline.curation.importers.langgraph import NamespacePattern

    wish = ImportOptions(
        format=None if format == AUTO else format,
        default=Scope(user_id, agent_id, run_id),
        as_messages=as_messages,
        patterns=[NamespacePattern.parse(text) for text in namespace or ()],
    )
    meter = Meter()
    bundle = bundle_of(file, meter.read)
    meter.size = bundle.size
    try:
        with progress("import", bundle.size or None) as bar:
            meter.bar = bar
            if dry_run:
                report = survey_parts(bundle.parts, wish)
            else:
                report = with_engine(
                    folder(path),
                    lambda engine: import_parts(engine, bundle.parts, wish, meter.told, meter.kept),
                    makes=True,
                )
    except KeyboardInterrupt:
        again = {
            "--user-id": user_id, "--agent-id": agent_id, "--run-id": run_id, "--path": str(folder(path)),
            "--format": None if format == AUTO else format, "--namespace": namespace, "--as-messages": as_messages,
        }  # fmt: skip
        meter.interrupted(file, again, is_dry=dry_run)
        raise
    for name in bundle.others:
        report.leave("a file that is no JSON", name)
    if as_json:
        print_json(report.model_dump())
    tell(report)
    if wish.default.given() and "memories" in report.kinds:
        note("the memories of a perdure export stay with the users that it names, whatever the scope options say")
    if report.refused:
        raise typer.Exit(1)
