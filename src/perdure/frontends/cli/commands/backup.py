"""The commands backup and restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perdure.frontends.cli.open_memory import with_engine
from perdure.frontends.cli.options import JsonOption, PathOption, folder, reachable
from perdure.frontends.cli.output import note, print_json


def backup(
    place: Annotated[
        Path | None, typer.Argument(metavar="FILE|DIR", help="A file or a folder; default upkeep.backup_folder.")
    ] = None,
    *,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Back up the whole memory to one file: memories, versions, history, messages and vectors at one moment.

    Other writers wait while it runs. The file is written whole or not at all, is packed with gzip, has a checksum, and
    only its owner can read it. Its folder is made if it is missing, the one above is not. forget also erases from
    backups that lie where backup wrote them, but not from copies elsewhere. API keys and queued work are not included.
    A server writes a backup every upkeep.backup_hours and keeps the last upkeep.backups_kept.

    Example: perdure backup

    Example: perdure backup ~/backups/before-the-move.jsonl.gz
    """
    from perdure.engine.transfer.backup import backup as make  # heavy: `perdure --help` must not wait for it

    chosen = None if place is None else reachable(place)
    report = with_engine(folder(path), lambda engine: make(engine, chosen))
    if as_json:
        print_json(report.model_dump())
    else:
        held = report.held
        note(f"{held.memories} memories and versions, {held.history} events, {held.episodes} messages: {report.file}")
        if report.owed:
            note(f"what was forgotten is still in other backups: {report.owed}")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that backup wrote.")],
    *,
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Restore into a memory that is not empty, as import does.")
    ] = False,
    reembed: Annotated[bool, typer.Option("--reembed", help="Re-embed, if the embedder is a different one.")] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Restore a memory from a backup, with the same ids, history and search results, in any vector store.

    The whole file is checked first: a truncated, damaged or foreign file changes nothing. The memory must be empty;
    with --into-existing, later changes, deletions and erasures are kept. Run the same command again to finish an
    interrupted restore.

    Example: perdure restore before-the-move.jsonl.gz --path ~/new-memory
    """
    from perdure.engine.transfer.backup import restore as bring  # heavy: `perdure --help` must not wait for it

    report = with_engine(
        folder(path),
        lambda engine: bring(engine, file.expanduser(), into_existing=into_existing, reembed=reembed),
        makes=True,
    )
    if as_json:
        print_json(report.model_dump())
    else:
        kinds = ", ".join(f"{tally.new} {kind}" for kind, tally in report.kinds.items())
        note(f"restored {kinds or 'nothing'}; {report.skipped} were here already or are newer here")
    for warning in report.warnings:
        note(warning)
    if report.refused:
        raise typer.Exit(1)
