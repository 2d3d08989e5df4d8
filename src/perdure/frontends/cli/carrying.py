"""export, import: a memory as lines of JSON, and back."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from perdure.domain.errors import PerdureError
from perdure.domain.scope import Scope
from perdure.frontends.cli.opening import with_engine
from perdure.frontends.cli.options import (
    AgentOption,
    JsonOption,
    PathOption,
    RunOption,
    UserOption,
    folder,
)
from perdure.frontends.cli.output import advance, note, print_json, progress
from perdure.frontends.cli.reading import STDIN

if TYPE_CHECKING:
    from rich.progress import Progress

    from perdure.engine.transfer_report import ExportReport, ImportReport

SHOWN = 20
"""Refused lines that are told to a person; `--json` tells a thousand."""
EVERY = 200
"""Lines between two movements of the bar."""


def export(
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here, whole or not at all, not to standard output."),
    ] = None,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --output: print the counts as JSON. The export itself always is.")
    ] = False,
    path: PathOption = None,
) -> None:
    """Write a memory as JSON Lines: memories with their earlier versions, history, and messages.

    Without a scope it is all of it. It is one state of the memory, taken while writers wait; import reads it back
    without loss. Vectors are left out: they are made again from the texts. Erased text is not in it.

    Example: perdure export --output backup.jsonl

    Example: perdure export --user-id ana | gzip > ana.jsonl.gz
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.transfer import export_archive

    scope = Scope(user_id, agent_id, run_id)

    def write(file: IO[str], bar: Progress | None) -> ExportReport:
        return with_engine(folder(path), lambda engine: export_archive(engine, scope, _Writer(file, bar)))

    with progress("export") as bar:
        if output is None:
            # A reader may be slow, and writers wait until all has been read: hence the file in between.
            with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as file:
                write(file, bar)
                file.seek(0)
                shutil.copyfileobj(file, sys.stdout)
            return
        report = _write_whole(output.expanduser(), lambda file: write(file, bar))
    if as_json:
        print_json(report.model_dump())
    else:
        note(f"wrote {report.memories} memories and versions, {report.history} events and {report.episodes} messages")


class _Writer:
    """Writes lines into a file and moves the bar."""

    def __init__(self, file: IO[str], bar: Progress | None) -> None:
        self._file = file
        self._bar = bar
        self._lines = 0

    def __call__(self, text: str) -> None:
        self._file.write(text)
        self._lines += 1
        if self._lines % EVERY == 0:
            advance(self._bar, self._lines)


def _write_whole(place: Path, write: Callable[[IO[str]], ExportReport]) -> ExportReport:
    """Write beside the place, and give the file its name when it is whole."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=place.parent, prefix=f".{place.name}.", delete=False
        ) as file:
            try:
                report = write(file)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise PerdureError(f"{place} cannot be written: {error}") from error
    return report


def import_lines(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The lines; - reads standard input.")],
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Take in JSON Lines: what export wrote, conversations, messages, or facts.

    A line is an object: one of an export; or messages (one conversation); or role and content (one message); or
    memory (one fact, stored as it is). The last three take a scope (user_id, agent_id, run_id), metadata, timestamp,
    type and expires_at; the scope options fill in what a line does not name.

    What is there already is skipped, so that an import that broke off is finished by running it again. What was
    changed, deleted or forgotten here since the export stays so. A bad line is told and does not stop the others; then
    the status is 1.

    Example: perdure import backup.jsonl

    Example: echo '{"memory": "Ana plays the cello"}' | perdure import - --user-id ana
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.transfer import import_archive

    default = Scope(user_id, agent_id, run_id)
    with _opened(file) as stream, progress("import", _size(file)) as bar:
        lines = _watched(stream, bar)
        report = with_engine(folder(path), lambda engine: import_archive(engine, lines, default=default))
    for warning in report.warnings:
        note(warning)
    if as_json:
        print_json(report.model_dump())
    _tell(report)
    if report.refused:
        raise typer.Exit(1)


def _opened(file: Path) -> AbstractContextManager[IO[bytes]]:
    if str(file) == STDIN:
        return nullcontext(sys.stdin.buffer)
    try:
        return file.expanduser().open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _size(file: Path) -> int | None:
    return None if str(file) == STDIN else file.expanduser().stat().st_size or 1


def _watched(stream: IO[bytes], bar: Progress | None) -> Iterator[str]:
    """The lines of a stream, while the bar moves by bytes; what is not UTF-8 stays, so that its line is refused."""
    done = 0
    for number, line in enumerate(stream, 1):
        yield line.decode("utf-8", "surrogateescape")
        done += len(line)
        if number % EVERY == 0:
            advance(bar, done)


def _tell(report: ImportReport) -> None:
    for refusal in report.refusals[:SHOWN]:
        note(f"line {refusal.line}: {refusal.reason}")
    if report.refused > SHOWN:
        note(f"and {report.refused - SHOWN} more refused lines")
    if report.ignored:
        note(f"nobody reads these keys: {', '.join(report.ignored)}")
    kinds = ", ".join(f"{kind} {tally.new} new and {tally.skipped} known" for kind, tally in report.kinds.items())
    note(f"read {report.lines} lines: {kinds or 'nothing'}; {report.refused} refused")
    if report.events:
        note(
            f"the conversations made {', '.join(f'{count} {event}' for event, count in sorted(report.events.items()))}"
        )
