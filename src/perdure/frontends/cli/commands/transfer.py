"""The commands export and import: JSON Lines, and the exports of other tools."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from perdure.domain.errors import PerdureError
from perdure.domain.scope import Scope
from perdure.frontends.cli.import_files import Meter, bundle_of, tell
from perdure.frontends.cli.open_memory import with_engine
from perdure.frontends.cli.options import (
    AgentOption,
    JsonOption,
    PathOption,
    RunOption,
    UserOption,
    folder,
)
from perdure.frontends.cli.output import advance, note, print_json, progress

if TYPE_CHECKING:
    from rich.progress import Progress

    from perdure.engine.transfer.report import ExportReport

AUTO = "auto"
"""The value of --format that leaves it to the file."""
EVERY = 200
"""Lines between two movements of the bar."""


def export(
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file, whole or not at all; default standard output."
        ),
    ] = None,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --output: print the counts as JSON. The export itself is always JSON.")
    ] = False,
    path: PathOption = None,
) -> None:
    """Write a memory as JSON Lines: memories with their earlier versions, history, and messages.

    Without a scope the whole memory is exported. Writers wait, so that the export shows one moment; import reads it
    back without loss. Vectors are left out, because import makes them again. Erased text is not included.

    Example: perdure export --output backup.jsonl

    Example: perdure export --user-id ana | gzip > ana.jsonl.gz
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.transfer.transfer import export_archive

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
            help="perdure, mem0, chatgpt, claude or langgraph; auto detects it from the file.",
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
    """Import a perdure export, JSON Lines, or an export of mem0, ChatGPT, Claude or LangGraph.

    A line is an object: one of an export; or messages (one conversation); or role and content (one message); or
    memory (one fact, stored as it is). The last three take a scope (user_id, agent_id, run_id), metadata, timestamp,
    type and expires_at; the scope options fill in what a line does not name.

    Memories of mem0 and items of LangGraph are stored as facts with their id, scope, metadata and times. Chats of
    ChatGPT and Claude are read oldest first, each with its own time; --user-id names their user.

    Known items are skipped, so an interrupted import is finished by running it again; Ctrl-C prints the command that
    continues. Later changes, deletions and erasures here are kept. Skipped content (tools, images, hidden messages) is
    listed by reason. A bad line or item is reported and does not stop the others; the exit status is then 1.

    Example: perdure import backup.jsonl

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
    if report.refused:
        raise typer.Exit(1)
