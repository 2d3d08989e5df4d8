"""The commands consolidate and reflect, which derive new memories from stored ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.domain.scope import Scope
from perdure.frontends.cli.open_memory import with_engine
from perdure.frontends.cli.options import AgentOption, JsonOption, PathOption, RunOption, UserOption, folder
from perdure.frontends.cli.output import MEMORY, Column, note, print_json, print_table

if TYPE_CHECKING:
    from perdure.domain.maintenance import Consolidation
    from perdure.engine.engine import Engine


def consolidate(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="At least two memories to merge.")] = None,
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    at_least: Annotated[
        int, typer.Option("--at-least", metavar="N", min=2, help="Do nothing if the scope has fewer memories.")
    ] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the result.")] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Merge related memories into one: the named ones, or all related memories of a scope.

    If values differ, the newest stays, with the first one mentioned beside it. Named memories must have one scope and
    one type; they are joined even if they are unrelated, while unrelated memories of a scope stay apart. The originals
    stay as versions: undo the addition of the merged memory, and all of them come back.

    Example: perdure consolidate 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55 9a1b6c70-0f3e-4f0c-8a52-6d1c2b3e4f50

    Example: perdure consolidate --user-id ana --dry-run
    """
    scope = Scope(user_id, agent_id, run_id)
    if bool(ids) == bool(scope.given()):
        raise typer.BadParameter("give the IDs of memories, or a scope such as --user-id, and not both")

    async def work(engine: Engine) -> list[Consolidation]:
        from perdure.engine.requests import read_memory_id  # heavy: `perdure --help` must not wait for it

        if ids:
            return [await engine.consolidate([read_memory_id(id) for id in ids], dry_run=dry_run)]
        return await engine.consolidate.scope(scope.require_owner(), at_least=at_least, dry_run=dry_run)

    done = with_engine(folder(path), work)
    if as_json:
        print_json(done[0].model_dump() if ids else {"results": [each.model_dump() for each in done]})
        return
    if not done:
        note("nothing belongs together")
    word = "would be" if dry_run else "now"
    for each in done:
        rows = [("was", item.memory) for item in each.removed]
        print_table([Column("", whole=True), MEMORY], [*rows, (word, each.memory.memory)])


def reflect(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    about: Annotated[
        str | None, typer.Option("--about", metavar="TEXT", help="Show only insights with one of these words.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the insights without storing them.")] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Find patterns in the memories of a scope: frequent actions, recurring problems, preferred ways of working.

    Each insight names its source memories. It is stored as a memory of type reflective, which is erased with its
    sources; running reflect again updates the stored insights and removes those that no longer hold.

    Example: perdure reflect --user-id ana

    Example: perdure reflect --user-id ana --about deployment --json
    """
    scope = Scope(user_id, agent_id, run_id).require_owner()
    if about is not None and not about.strip():
        raise typer.BadParameter("--about must be text with something in it")
    done = with_engine(folder(path), lambda engine: engine.reflect(scope, store=not dry_run, about=about))
    if as_json:
        print_json(done.model_dump())
        return
    if not done.insights:
        note("no pattern shows yet")
    columns = [Column("told", whole=True, right=True), Column("insight"), Column("memories", whole=True)]
    rows = [(str(each.count), each.content, str(len(each.memory_ids))) for each in done.insights]
    print_table(columns, rows)
