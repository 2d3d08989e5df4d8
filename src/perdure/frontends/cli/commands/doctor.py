"""The command doctor, which checks consistency, and the entries in clients' settings."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import PerdureError
from perdure.frontends.cli.commands.clients import tools_of
from perdure.frontends.cli.open_memory import with_engine
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import Column, advance, note, print_json, print_table, print_text, progress

if TYPE_CHECKING:
    from perdure.engine.engine import Engine
    from perdure.engine.maintenance.doctor import Diagnosis, Repair


SHOWN = 5  # findings of each of these kinds that are printed
_MANY = frozenset({"contradiction", "backup"})
"""Kinds of which there may be very many, each for a person to look at."""


def doctor(
    mend: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired, and check again.")] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Check that the store, its text index, the history and the messages agree; exit status 1 if they do not.

    Without --repair nothing is changed. --repair rebuilds lost rows of the store from the ledger, except erased ones.
    It treats the store as the truth otherwise: it completes the history, rebuilds the text index, extracts facts from
    messages that failed before, and embeds memories that have no vector.

    It also starts each command that `perdure install` wrote into a client's settings, as the client does, and says
    which do not answer; those fail the check too.

    Example: perdure doctor --repair
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.maintenance.doctor import examine, repair

    async def work(engine: Engine) -> tuple[Diagnosis, Repair | None]:
        with progress("doctor") as bar:
            first = await examine(engine, lambda done: advance(bar, done))
            if not mend or not first.findings:
                return first, None
            done = await repair(engine, first)
            return await examine(engine, lambda done: advance(bar, done)), done

    diagnosis, repaired = with_engine(folder(path), work)
    clients = _clients()
    healthy = diagnosis.healthy and not any(each["error"] for each in clients)
    if as_json:
        dump: dict[str, Any] = {**diagnosis.model_dump(), "healthy": healthy, "clients": clients}
        if repaired is not None:
            dump["repair"] = repaired.model_dump()
        print_json(dump)
    else:
        _print(diagnosis, repaired)
        for each in clients:
            state = each["error"] or f"its command answers with {each['tools']} tools"
            if each["tools"] is None:
                state = "not started: a file of this folder names a program that is not this perdure"
            print_text(f"{each['client']} ({each['file']}): {state}")
    if not healthy:
        raise typer.Exit(1)


def _clients() -> list[dict[str, Any]]:
    """Start what each client would start; how many tools it lists, or what is wrong."""
    # Heavy for what it is: `perdure --help` must not wait for it.
    from perdure.frontends.cli.commands.clients.install import installed

    found: list[dict[str, Any]] = []
    answers: dict[tuple[str, ...], dict[str, Any]] = {}  # most clients have the same command: one start tells
    for client, file, command, may_start in installed():
        key = tuple(command)
        if not may_start:
            answers[key] = {"tools": None, "error": None}
        elif key not in answers or answers[key]["tools"] is None:
            try:
                answers[key] = {"tools": len(tools_of(command)), "error": None}
            except PerdureError as error:
                answers[key] = {"tools": 0, "error": error.message}
        found.append({"client": client, "file": str(file), "command": command, **answers[key]})
    return found


def _print(diagnosis: Diagnosis, repaired: Repair | None) -> None:
    for sentence in repaired.done if repaired else ():
        print_text(f"mended: {sentence}")
    for sentence in repaired.failed if repaired else ():
        note(f"not mended: {sentence}")
    for sentence in repaired.remarks if repaired else ():
        note(sentence)
    columns = [Column("kind", whole=True, style="bold"), Column("finding")]
    if diagnosis.findings:
        rows: list[tuple[str, str]] = []
        for kind, several in groupby(diagnosis.findings, key=lambda finding: finding.kind):
            sentences = [finding.sentence for finding in several]
            shown = sentences if kind not in _MANY or len(sentences) <= SHOWN else sentences[:SHOWN]
            rows += [(kind, sentence) for sentence in shown]
            if len(shown) < len(sentences):
                rows.append((kind, f"and {len(sentences) - len(shown)} more of this kind: --json lists them"))
        print_table(columns, rows)
    counted = diagnosis.counted
    if counted:
        note(
            f"looked at {counted['memories']} memories, {counted['versions']} earlier versions"
            f" and {counted['history']} events"
        )
    if diagnosis.healthy:
        note("all of it agrees")
    elif any(finding.repairable for finding in diagnosis.findings) and repaired is None:
        note("perdure doctor --repair can mend it")
