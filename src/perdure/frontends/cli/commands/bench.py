"""The command bench, which measures recall on the stored memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.frontends.cli import options
from perdure.frontends.cli.open_memory import with_engine
from perdure.frontends.cli.output import Column, advance, note, print_json, print_table, print_text, progress

if TYPE_CHECKING:
    from perdure.domain.maintenance import BenchReport, ProbeScores
    from perdure.engine.engine import Engine

SHOWN_MISSES = 5  # missed probes that are printed; --json has all


def bench(
    *,
    user_id: options.UserOption = None,
    agent_id: options.AgentOption = None,
    run_id: options.RunOption = None,
    probes: Annotated[int, typer.Option("--probes", metavar="N", help="How many questions at most.")] = 200,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many results for each question.")] = 10,
    preset: options.PresetOption = None,
    fail_under: Annotated[
        float | None,
        typer.Option(
            "--fail-under", metavar="SHARE", help="Fail if less of what was told is found within the limit (0 to 1)."
        ),
    ] = None,
    as_json: options.JsonOption = False,
    path: options.PathOption = None,
) -> None:
    """Measure recall on the stored memories: ask for what was told and count the hits.

    The questions are made without a language model. Half of them ask for a number, a date or a name that the user told,
    with the other words of its sentence; a result must say it. The others are made from the memories themselves: from
    facts with a single value ("where does the user live?"), and from the topic words of their source messages. Without
    a scope everything is asked for in its own scope. Nothing is changed, and the same store always gets the same
    questions. Exit status 1 if a result came from another scope, or by --fail-under. To see why something was missed,
    use perdure why-not.

    Example: perdure bench --user-id ana --fail-under 0.9
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.domain.scope import Scope
    from perdure.engine.maintenance.recall_benchmark import read_bench
    from perdure.engine.requests import read_share

    least = None if fail_under is None else read_share(fail_under, "fail_under")

    async def work(engine: Engine) -> BenchReport:
        request = read_bench(
            engine.kernel,
            scope=Scope(user_id=user_id, agent_id=agent_id, run_id=run_id),
            probes=probes,
            preset=preset,
            limit=limit,
        )
        with progress("bench", 1.0) as bar:
            return await engine.bench(request, lambda done: advance(bar, done))

    report = with_engine(options.folder(path), work)
    for warning in report.warnings:
        note(warning)
    if as_json:
        print_json(report.model_dump())
    else:
        _print(report)
    complaint = None if least is None else _complaint(report, least)
    if complaint is not None:
        note(complaint)
    if complaint is not None or not report.walls_hold:
        raise typer.Exit(1)


def _complaint(report: BenchReport, least: float) -> str | None:
    """Return why --fail-under is not met; what was not measured does not meet it."""
    if not report.told.probes:
        return f"--fail-under {least:g}: nothing that was told could be asked for ({_unasked(report)})"
    found = report.told.found_at_limit
    return None if found >= least else f"--fail-under {least:g}: only {found:.3f} of what was told was found"


def _unasked(report: BenchReport) -> str:
    if not report.messages:
        return "no messages of users are stored"
    return "no stored message tells a number, a date or a name beside other words"


def _print(report: BenchReport) -> None:
    if not report.memories and not report.all.probes:
        note("there are no memories to ask for")
        return
    print_text(_headline(report))
    columns = [Column("probes of", whole=True), *(Column(title, whole=True, right=True) for title in _titles(report))]
    kinds = {**report.kinds, "all": report.all}
    print_table(columns, [(kind, *_cells(scores)) for kind, scores in kinds.items() if scores.probes])
    for line in _lines(report):
        print_text(line)
    for probe in report.missed[:SHOWN_MISSES]:
        told = "" if probe.value is None else f", told: {probe.value}"
        note(f"missed: {probe.question}{told} ({', '.join(probe.ids)})")
    if len(report.missed) > SHOWN_MISSES:
        note(f"and {len(report.missed) - SHOWN_MISSES} more: --json has them all")


def _headline(report: BenchReport) -> str:
    told = report.told
    if told.interval_at_1 is None or told.interval_at_limit is None:
        return f"nothing that was told could be asked for: {_unasked(report)}"
    (low, high), (least, most) = told.interval_at_limit, told.interval_at_1
    return (
        f"told and found in {report.limit} results: {told.found_at_limit:.1%} (95 % interval {low:.1%} to {high:.1%}); "
        f"in the first: {told.found_at_1:.1%} ({least:.1%} to {most:.1%})"
    )


def _titles(report: BenchReport) -> tuple[str, ...]:
    return "asked", "found@1", "found@5", f"found@{report.limit}", "MRR"


def _cells(scores: ProbeScores) -> tuple[str, ...]:
    shares = (scores.found_at_1, scores.found_at_5, scores.found_at_limit)
    return str(scores.probes), *(f"{share:.1%}" for share in shares), f"{scores.mrr:.3f}"


def _lines(report: BenchReport) -> list[str]:
    within = "1 scope" if report.scopes == 1 else f"{report.scopes} scopes"
    held = "1 memory" if report.memories == 1 else f"{report.memories} memories"
    lines = [f"{held} in {within}, preset {report.preset}"]
    if not report.all.probes:
        lines.append("none of them could be asked for: they have no single values, and no messages are kept")
    if report.recall_2000 is not None:
        lines.append(f"recall within 2,000 tokens: {report.recall_2000:.1%}")
    if report.search_p50_ms is not None and report.search_p95_ms is not None:
        lines.append(
            f"a search without its embedding: {report.search_p50_ms:.1f} ms (p50), {report.search_p95_ms:.1f} ms (p95)"
        )
    for name, coverage in (("found", report.coverage_found), ("missed", report.coverage_missed)):
        if coverage is not None:
            lines.append(f"coverage where it was {name}: {coverage:.2f}")
    lines.append(f"searches to which an earlier text came: {report.stale}")
    lines.append(f"results from another scope: {report.foreign}")
    lines.append(f"pairs of memories that say the same: {report.duplicates}")
    return lines
