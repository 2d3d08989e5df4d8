"""export, import: a memory as lines of JSON, and back; and what other tools export."""

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
from perdure.frontends.cli.importing import Meter, bundle_of, tell
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

if TYPE_CHECKING:
    from rich.progress import Progress

    from perdure.engine.transfer_report import ExportReport

AUTO = "auto"
"""The value of --format that leaves it to the file."""
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
            help="perdure, mem0, chatgpt, claude or langgraph; auto tells it by what the file holds.",
        ),
    ] = AUTO,
    as_messages: Annotated[
        bool,
        typer.Option(
            "--as-messages", help="Store chat messages as they are, not the facts in them.", show_default=False
        ),
    ] = False,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="LABELS",
            help="Whose a LangGraph namespace is, such as 'memories,{user_id}'; may be given several times.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, and write nothing.", show_default=False)
    ] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Take in what export wrote, lines of JSON, or the export of mem0, ChatGPT, Claude or LangGraph.

    A line is an object: one of an export; or messages (one conversation); or role and content (one message); or
    memory (one fact, stored as it is). The last three take a scope (user_id, agent_id, run_id), metadata, timestamp,
    type and expires_at; the scope options fill in what a line does not name.

    Memories of mem0 and items of LangGraph are facts: they keep id, scope, metadata and times. Chats of ChatGPT and
    Claude are read as if they had been told when they were, oldest first; --user-id says whose they are.

    What is there already is skipped, so that an import that broke off is finished by running it again. What was
    changed, deleted or forgotten here since the export stays so. What is left out (tools, images, hidden messages) is
    told by reason. A bad line or item is told and does not stop the others; then the status is 1.

    Example: perdure import backup.jsonl

    Example: perdure import chatgpt-export.zip --user-id ana --dry-run

    Example: echo '{"memory": "Ana plays the cello"}' | perdure import - --user-id ana
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.foreign import Wish, import_parts, survey_parts
    from perdure.pipeline.foreign_formats.langgraph import NamespacePattern

    wish = Wish(
        format=None if format == AUTO else format,
        default=Scope(user_id, agent_id, run_id),
        as_messages=as_messages,
        patterns=[NamespacePattern.parse(text) for text in namespace or ()],
    )
    meter = Meter()
    bundle = bundle_of(file, meter.read)
    with progress("import", bundle.size or None) as bar:
        meter.bar = bar
        if dry_run:
            report = survey_parts(bundle.parts, wish)
        else:
            report = with_engine(
                folder(path), lambda engine: import_parts(engine, bundle.parts, wish, meter.told), makes=True
            )
    for name in bundle.others:
        report.leave("a file that is no JSON", name)
    if as_json:
        print_json(report.model_dump())
    tell(report)
    if report.refused:
        raise typer.Exit(1)
