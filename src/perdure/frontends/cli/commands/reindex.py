"""The commands reindex and copy, which move memories to another embedder or another store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.frontends.cli.open_memory import read_settings, read_standing, with_engine
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import note, print_json, print_text, progress

if TYPE_CHECKING:
    from rich.progress import Progress

    from perdure.engine.config.config import MemoryConfig
    from perdure.engine.maintenance.reindex import ReindexReport
    from perdure.engine.transfer.copy import CopyReport


def reindex(
    *,
    min_agreement: Annotated[
        float | None,
        typer.Option(
            "--min-agreement",
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Switch only if this share of nearest neighbours stays the same, 0 to 1.",
        ),
    ] = None,
    no_switch: Annotated[
        bool, typer.Option("--no-switch", help="Embed and measure, but keep using the old vectors.", show_default=False)
    ] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Re-embed all memories with the configured embedder, then switch to the new vectors in one step.

    Name the new embedder in perdure.toml first. The old collection stays in use while the new one is built, and other
    programs may keep reading and writing; their changes are carried over. Before the switch the command measures how
    many of each memory's ten nearest neighbours stay the same. Run it again to finish an interrupted run. Programs that
    still use the old embedder get an error at their next call.

    Example: perdure reindex

    Example: perdure reindex --no-switch --json
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.maintenance.reindex import reindex as embed_anew

    with progress("reindex") as bar:
        report = with_engine(
            folder(path),
            lambda engine: embed_anew(engine, progress=_mover(bar), min_agreement=min_agreement, switch=not no_switch),
            any_embedder=True,
        )
    if as_json:
        print_json(report.model_dump())
    else:
        _tell_reindex(report)
    if min_agreement is not None and report.agreement is not None and report.agreement < min_agreement:
        raise typer.Exit(1)


def _tell_reindex(report: ReindexReport) -> None:
    if report.old_model == report.new_model:
        print_text(f"nothing to do: {report.reason} ({report.new_model})")
        return
    print_text(f"embedded {report.embedded} texts: {report.rows} rows from {report.old_model} to {report.new_model}")
    if report.agreement is None:
        note("no scope has so many memories that neighbours could be compared")
    else:
        print_text(f"of {report.compared} memories' ten nearest, {report.agreement:.0%} stay the same")
    print_text("switched" if report.switched else f"not switched: {report.reason}")


def copy(
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="Folder of the other memory, with its perdure.toml, or a TOML file."),
    ],
    *,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Copy all memories into another store; --path names the source.

    Rows are copied whole, with earlier versions, and with their vectors if both embedders are the same. If the target
    has a ledger of its own, history and messages are copied too. Existing rows and later changes in the target stay,
    so an interrupted copy is finished by running it again. Everything is read back at the end. The source is not
    changed: to move, name the other store in perdure.toml afterwards.

    Example: perdure copy ~/.memory-on-postgres

    Example: perdure copy qdrant.toml --path ~/.memory
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.build import build
    from perdure.engine.transfer.copy import copy_memories

    source_settings, target_settings = read_standing(folder(path)), _settings_of(target)

    async def run(bar: Progress | None) -> CopyReport:
        source, other = build(source_settings), build(target_settings)
        try:
            return await copy_memories(source, other, progress=_mover(bar))
        finally:
            await other.close()
            await source.close()

    with progress("copy") as bar:
        report = asyncio.run(run(bar))
    if as_json:
        print_json(report.model_dump())
        return
    print_text(f"copied {report.copied} rows; all {report.rows} were read back")
    if report.kept:
        note(f"{report.kept} rows were changed there later, and stay as they are there")
    if report.embedded:
        note(f"{report.embedded} texts were embedded anew, for another embedder")
    if report.history or report.episodes:
        note(f"{report.history} events and {report.episodes} messages went into its ledger")


def _settings_of(target: Path) -> MemoryConfig:
    from perdure.engine.config.config import read_file  # heavy, see above

    return read_file(target) if target.suffix == ".toml" else read_settings(target)


def _mover(bar: Progress | None) -> Callable[[int, int], None]:
    def move(done: int, total: int) -> None:
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, total=total)

    return move
