"""The maintenance commands: prune, expire, quota, evict, feedback, trust, distrust and upkeep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.domain.errors import ConfigError
from perdure.domain.scope import Scope
from perdure.frontends.cli.commands.forget import demand_yes, words_of
from perdure.frontends.cli.open_memory import read_standing, with_engine, with_memory
from perdure.frontends.cli.options import AgentOption, JsonOption, PathOption, RunOption, UserOption, YesOption, folder
from perdure.frontends.cli.output import ID, MEMORY, Column, marked, note, print_json, print_table

if TYPE_CHECKING:
    from perdure.domain.memory import MemoryItem
    from perdure.engine.engine import Engine
    from perdure.engine.maintenance.deletion import Removal

DryOption = Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.", show_default=False)]


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
    """Delete stale memories: those that were not recalled for a long time.

    Retention after t days without a recall is R = e^(-t/S). S is 30 days plus one day for each recall, times 0.5 to 2
    by importance, which feedback changes. A memory with R below 0.15 is deleted: after 57 days if it was never
    recalled. Directives, the profile, summaries, team-validated memories and facts of the last 7 days stay. The
    numbers are settings, upkeep.*. Undo brings deleted memories back.

    Example: perdure prune --dry-run

    Example: perdure prune --user-id ana --yes
    """
    scope = Scope(user_id, agent_id, run_id)
    demand_yes(yes or dry_run, f"this deletes what has decayed of {words_of(scope)}")
    _remove(path, lambda engine: engine.maintenance.prune(scope, dry_run=dry_run), as_json)


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
    """Delete memories whose expires_at has passed; reads skip them already.

    A server does this every hour, for teams too. Undo brings deleted memories back.

    Example: perdure expire --yes
    """
    scope = Scope(user_id, agent_id, run_id)
    demand_yes(yes or dry_run, f"this deletes what has expired of {words_of(scope)}")
    _remove(path, lambda engine: engine.maintenance.expire(scope, dry_run=dry_run), as_json)


def quota(
    *,
    user_id: UserOption = None,
    dry_run: DryOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Delete the least valued memories of users who have more than upkeep.max_memories_per_user.

    The least valued are the most stale (see prune). Other users lose nothing. With upkeep.when_full = "refuse" a full
    user's new memories are refused instead, and only this command deletes.

    Example: perdure quota --user-id ana --dry-run
    """
    if not read_standing(folder(path)).upkeep.max_memories_per_user:
        raise ConfigError("there is no quota: set upkeep.max_memories_per_user", field="upkeep.max_memories_per_user")
    scope = Scope(user_id)
    demand_yes(yes or dry_run, f"this deletes what is beyond the quota of {words_of(scope)}")
    _remove(path, lambda engine: engine.maintenance.quotas(scope, dry_run=dry_run), as_json)


def evict(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    most: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Entries to keep; default gateway.max_entries.")
    ] = None,
    dry_run: DryOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Delete the oldest facts and turns of one conversation (--run-id) until --max entries are left.

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
        from perdure.engine.maintenance.deletion import evict as take  # heavy: `perdure --help` must not wait for it

        return await take(engine.kernel, scope, limit, dry_run=dry_run)

    _remove(path, work, as_json)


def _remove(path: Path | None, work: Callable[[Engine], Awaitable[Removal]], as_json: bool) -> None:
    removal = with_engine(folder(path), work)
    if as_json:
        print_json(removal.model_dump())
        return
    word = "would go" if removal.dry_run else "deleted"
    print_table([Column(word, whole=True), MEMORY], [(item.id, item.memory) for item in removal.removed])
    turns = f" and {removal.turns} messages" if removal.turns else ""
    note(f"{word}: {len(removal.removed)} memories{turns}, of {removal.looked_at} looked at")


def feedback(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    verdict: Annotated[str, typer.Argument(metavar="VERDICT", help="good, bad, awful, or none to withdraw it.")],
    *,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="The reason, for people.")] = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Rate a memory, so that it lasts longer or is pruned sooner.

    The last rating counts, and repeating it changes nothing: good adds 0.25 to the importance, bad subtracts 0.25 and
    awful 0.5, within 0 and 1. The rating is in the history, and in the metadata as feedback.

    Example: perdure feedback 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55 good --reason "used every week"
    """
    told = None if verdict.strip().casefold() == "none" else verdict
    item = with_memory(folder(path), lambda memory: memory.feedback(id, told, reason=reason))
    if as_json:
        print_json(item.model_dump())
    else:
        note(f"importance {item.importance:.2f}: {item.memory}")


def upkeep(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Run every task that has an interval, due or not.", show_default=False)
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what is due.", show_default=False)] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Run all due maintenance tasks, as a server does by itself; for cron, if no server runs.

    The settings upkeep.*_hours say how often each task is due; 0 is never. Several processes may run this at once:
    only one of them does each task.

    Example: perdure upkeep --dry-run

    Example: perdure upkeep --all --json
    """

    async def work(engine: Engine) -> list[dict[str, object]]:
        from perdure.engine.maintenance.schedule import Schedule  # heavy: `perdure --help` must not wait for it

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


def trust(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Allow a quarantined memory in prompts from now on. Its source stays recorded, and undo reverses this.

    Memories that came from a tool, or that read like orders to a model, are stored but put into no prompt until then.
    perdure list --quarantined lists them.

    Example: perdure trust 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55
    """
    _show(with_memory(folder(path), lambda memory: memory.trust(id)), as_json)


def distrust(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason.")] = "distrusted",
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Keep a memory out of prompts from now on. It is still found and listed, with the reason; undo reverses this.

    Example: perdure distrust 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55 --reason "copied from a web page"
    """
    _show(with_memory(folder(path), lambda memory: memory.distrust(id, reason)), as_json)


def _show(item: MemoryItem, as_json: bool) -> None:
    if as_json:
        print_json(item.model_dump())
    else:
        print_table([MEMORY, ID], [(marked(item), item.id)])
