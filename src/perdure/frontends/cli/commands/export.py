"""The command export, which writes a memory as JSON Lines."""

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
from perdure.frontends.cli.open_memory import with_engine
from perdure.frontends.cli.options import AgentOption, PathOption, RunOption, UserOption, folder, reachable
from perdure.frontends.cli.output import advance, note, print_json, progress

if TYPE_CHECKING:
    from rich.progress import Progress

    from perdure.engine.transfer.report import ExportReport

EVERY = 200  # lines between two updates of the bar


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
    back without loss. Vectors are left out, because import makes them again. Erased text is not included. The folder
    of the file is made if it is missing, the one above it is not.

    Example: perdure export --output export.jsonl

    Example: perdure export --user-id ana | gzip > ana.jsonl.gz
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.transfer.transfer import export_archive

    scope = Scope(user_id, agent_id, run_id)

    def write(file: IO[str], bar: Progress | None) -> ExportReport:
        return with_engine(folder(path), lambda engine: export_archive(engine, scope, _Writer(file, bar)))

    with progress("export") as bar:
        if output is None:
            # Writers wait until everything is read, and a pipe may be slow: hence a temporary file.
            with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as file:
                write(file, bar)
                file.seek(0)
                shutil.copyfileobj(file, sys.stdout)
            return
        report = _write_whole(reachable(output), lambda file: write(file, bar))
    if as_json:
        print_json(report.model_dump())
    else:
        note(f"wrote {report.memories} memories and versions, {report.history} events and {report.episodes} messages")


class _Writer:
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
