"""prune, expire, quota, evict, feedback, backup, restore, upkeep: the commands that keep a memory small and safe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.domain.errors import ConfigError
from perdure.domain.scope import Scope
from perdure.frontends.cli.opening import read_standing, with_engine, with_memory
from perdure.frontends.cli.options import (
    AgentOption,
    JsonOption,
    PathOption,
    RunOption,
    UserOption,
    YesOption,
    folder,
)
from perdure.frontends.cli.output import MEMORY, Column, note, print_json, print_table
from perdure.frontends.cli.removing import demand_yes, words_of

if TYPE_CHECKING:
    from perdure.engine.engine import Engine
    from perdure.engine.upkeep.removing import Removal

DryOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.", show_default=False)]


def prune(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    dry_run: DryOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Delete what has decayed: memories that nobody asked for in a long time.

    R = e^(-t/S) says how much is left of one after t days without a recall, where S is 30 days, a day more for each
    recall, and half to double of that by its importance, which feedback moves. Below 0.15 it goes: after 57 days for
    one that was never recalled. Directives, the profile, summaries, and what a team has validated stay; so does a fact
    of the last 7 days. The numbers are upkeep.* of the settings. What goes can be brought back with undo.

    Example: perdure prune --dry-run

    Example: perdure prune --user-id ana --yes
    """
    scope = Scope(user_id, agent_id, run_id)
    demand_yes(yes or dry_run, f"this deletes what has decayed of {words_of(scope)}")
    _tell(_removed(path, lambda engine: engine.chores.prune(scope, dry_run=dry_run)), as_json)


def expire(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    dry_run: DryOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Delete what is past its expires_at; no read shows it any more as it is.

    A server does so every hour, for teams too. What goes can be brought back with undo.

    Example: perdure expire --yes
    """
    scope = Scope(user_id, agent_id, run_id)
    demand_yes(yes or dry_run, f"this deletes what has expired of {words_of(scope)}")
    _tell(_removed(path, lambda engine: engine.chores.expire(scope, dry_run=dry_run)), as_json)


def quota(
    *,
    user_id: UserOption = None,
    dry_run: DryOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Delete the least valued memories of users who have more than upkeep.max_memories_per_user.

    The least valued have decayed the furthest (see prune). Other users lose nothing. With upkeep.when_full = "refuse"
    new memories of a full user are refused instead, and only this command deletes.

    Example: perdure quota --user-id ana --dry-run
    """
    if not read_standing(folder(path)).upkeep.max_memories_per_user:
        raise ConfigError("there is no quota: set upkeep.max_memories_per_user", field="upkeep.max_memories_per_user")
    scope = Scope(user_id)
    demand_yes(yes or dry_run, f"this deletes what is beyond the quota of {words_of(scope)}")
    _tell(_removed(path, lambda engine: engine.chores.quotas(scope, dry_run=dry_run)), as_json)


def evict(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    most: Annotated[
        int | None,
        typer.Option("--max", min=1, metavar="N", help="Entries that stay; by default gateway.max_entries."),
    ] = None,
    dry_run: DryOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Delete the oldest facts and turns of one conversation (--run-id) until it holds --max.

    Summaries are neither counted nor deleted.

    Example: perdure evict --user-id ana --run-id holiday --max 500 --yes
    """
    if run_id is None:
        raise typer.BadParameter("name the conversation: --run-id ID")
    limit = read_standing(folder(path)).gateway.max_entries if most is None else most
    if not limit:
        raise typer.BadParameter("say how many entries stay: --max N, or gateway.max_entries of the settings")
    scope = Scope(user_id, agent_id, run_id)
    demand_yes(yes or dry_run, f"this deletes what is beyond {limit} entries of {words_of(scope)}")

    async def work(engine: Engine) -> Removal:
        from perdure.engine.upkeep.eviction import evict as take  # heavy: `perdure --help` must not wait for it

        return await take(engine, scope, limit, dry_run=dry_run)

    _tell(_removed(path, work), as_json)


def _removed(path: Path | None, work: Callable[[Engine], Awaitable[Removal]]) -> Removal:
    return with_engine(folder(path), work)


def _tell(removal: Removal, as_json: bool) -> None:
    if as_json:
        print_json(removal.model_dump())
        return
    word = "would go" if removal.dry_run else "deleted"
    print_table([Column(word, whole=True), MEMORY], [(item.id, item.memory) for item in removal.removed])
    turns = f" and {removal.turns} messages" if removal.turns else ""
    note(f"{word}: {len(removal.removed)} memories{turns}, of {removal.looked_at} looked at")


def feedback(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    verdict: Annotated[str, typer.Argument(metavar="VERDICT", help="good, bad, awful, or none to take it back.")],
    *,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for people.")] = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Say what a memory is worth: it lasts longer, or is pruned sooner.

    The last verdict counts, and the same again changes nothing: good adds 0.25 to the importance, bad takes 0.25 from
    it, awful 0.5, within 0 and 1. It stands in the history, and in the metadata as feedback.

    Example: perdure feedback 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55 good --reason "used every week"
    """
    told = None if verdict.strip().casefold() == "none" else verdict
    item = with_memory(folder(path), lambda memory: memory.feedback(id, told, reason=reason))
    if as_json:
        print_json(item.model_dump())
    else:
        note(f"importance {item.importance:.2f}: {item.memory}")


def backup(
    place: Annotated[
        Path | None,
        typer.Argument(metavar="FILE|DIR", help="A file, or a folder; by default upkeep.backup_folder."),
    ] = None,
    *,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Write the whole memory into one file: memories, versions, history, messages and vectors, as of one moment.

    It may run while others write: they wait for it. The file is there whole or not at all, packed with gzip, with a
    checksum, and for its owner's eyes only. forget erases from the backups that were made here, where they lie then;
    copies that you make elsewhere are yours to care for. Keys, and what waits in queues, are not in it. A server makes
    one every upkeep.backup_hours and keeps the last upkeep.backups_kept.

    Example: perdure backup

    Example: perdure backup ~/backups/before-the-move.jsonl.gz
    """
    from perdure.engine.upkeep.backup import backup as make  # heavy: `perdure --help` must not wait for it

    report = with_engine(folder(path), lambda engine: make(engine, place))
    if as_json:
        print_json(report.model_dump())
    else:
        held = report.held
        note(f"{held.memories} memories and versions, {held.history} events, {held.episodes} messages: {report.file}")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What backup wrote.")],
    *,
    into_existing: Annotated[
        bool,
        typer.Option("--into-existing", help="Lay it over a memory that is not empty, as import does."),
    ] = False,
    reembed: Annotated[
        bool, typer.Option("--reembed", help="Make the vectors anew, where the embedder is another one.")
    ] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Bring a memory back from a backup: the same ids, history and search results, in any vector store.

    The file is read to its end first: one that is cut off, damaged or foreign changes nothing. It goes into an empty
    memory; with --into-existing what was changed, deleted or forgotten here since stays so. What was broken off is
    finished by the same command again.

    Example: perdure restore before-the-move.jsonl.gz --path ~/new-memory
    """
    from perdure.engine.upkeep.restoring import restore as bring  # heavy: `perdure --help` must not wait for it

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


def upkeep(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Each task that has an interval, due or not.", show_default=False)
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is due.", show_default=False)] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Do what is due of upkeep, as a server does by itself: for cron, where no server runs.

    Which tasks there are and how often they are due stands in the settings, upkeep.*_hours: 0 is never. Several
    processes may ask at once: each task is done by one of them.

    Example: perdure upkeep --dry-run

    Example: perdure upkeep --all --json
    """

    async def work(engine: Engine) -> list[dict[str, object]]:
        from perdure.engine.upkeep.schedule import Schedule  # heavy: `perdure --help` must not wait for it

        schedule = Schedule(engine)
        if dry_run:
            names = [task.name for task in schedule.tasks] if everything else await schedule.due()
            return [{"task": name, "dry_run": True} for name in names]
        return [done.model_dump() for done in await schedule.run(everything=everything)]

    done = with_engine(folder(path), work)
    if as_json:
        print_json({"results": done})
    for each in [] if as_json else done:
        told = ", ".join(f"{name} {value}" for name, value in each.items() if name not in ("task", "dry_run"))
        note(f"{each['task']}: {told or 'due'}")
    if not done:
        note("nothing is due")
    if any("error" in each for each in done):
        raise typer.Exit(1)
