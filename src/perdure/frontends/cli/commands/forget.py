"""The commands delete and forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import NotFoundError
from perdure.domain.scope import Scope
from perdure.frontends.cli.open_memory import with_memory
from perdure.frontends.cli.options import AgentOption, JsonOption, PathOption, RunOption, UserOption, YesOption, folder
from perdure.frontends.cli.output import MEMORY, Column, note, print_json, print_table

if TYPE_CHECKING:
    from perdure.domain.event import ErasureReport
    from perdure.frontends.library.memory import AsyncMemory

IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID", help="One memory, or several with --yes.")]
_WHY = {
    "matched": "matched",
    "value": "an older or newer value of a match",
    "sentence": "read out of a sentence that matches",
    "merged": "merged with a match",
    "derived": "derived from a match",
    "message": "a message that a match came from",
}
"""The reasons of a report, in words."""
NOT_FOUND = 3  # status where some of several memories do not exist


def delete(
    ids: IdsArgument = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every memory of the scope; needs --yes.")] = False,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    erase: Annotated[bool, typer.Option("--erase", help="Erase history and versions too, as forget does.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Delete memories: no read returns them, their history stays, and undo brings them back.

    Example: perdure delete 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55

    Example: perdure delete --all --user-id ana --yes
    """
    if bool(ids) == everything:
        raise typer.BadParameter("give the ID of a memory, or --all with a scope")
    if everything:
        scope = Scope(user_id, agent_id, run_id).require_owner()
        demand_yes(yes, f"this deletes every memory of {words_of(scope)}")
        gone = with_memory(folder(path), lambda memory: _delete_all(memory, scope, erase))
        missing: list[str] = []
    else:
        given = ids or []
        demand_yes(yes or len(given) == 1, f"this deletes {len(given)} memories")
        gone, missing = with_memory(folder(path), lambda memory: _delete_each(memory, given, erase))
    absent = [f"there is no memory with the id {id!r}" for id in missing]
    if as_json and missing and not gone:
        raise NotFoundError("; ".join(absent))
    for line in absent:
        note(line)
    if as_json:
        print_json({"results": gone})
    else:
        print_table([Column("deleted", whole=True), MEMORY], [(item["id"], item["memory"]) for item in gone])
    if missing:
        raise typer.Exit(NOT_FOUND)


async def _delete_each(memory: AsyncMemory, ids: list[str], erase: bool) -> tuple[list[dict[str, Any]], list[str]]:
    gone, missing = [], []
    for id in ids:
        item = await memory.get(id)
        try:
            await memory.delete(id, erase=erase)
        except NotFoundError:
            missing.append(id)
        else:
            gone.append(item.model_dump() if item else {"id": id, "memory": ""})
    return gone, missing


async def _delete_all(memory: AsyncMemory, scope: Scope, erase: bool) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await memory.get_all(**scope.given(), limit=500, cursor=cursor, include_past=True)  # type: ignore[arg-type]  # user, agent, run
        items += [item.model_dump() for item in page.results]
        cursor = page.next_cursor
        if cursor is None:
            break
    await memory.delete_all(user_id=scope.user_id, agent_id=scope.agent_id, run_id=scope.run_id, erase=erase)
    return items


def forget(
    ids: IdsArgument = None,
    *,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="TEXT", help="Erase what a search for this finds in the scope."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="SHARE", help="The least score of what lacks a word of --query: .75."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything in the scope.")] = False,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    keep_history: Annotated[
        bool, typer.Option("--keep-history", help="Only delete: history, versions and messages stay.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be erased.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Erase memories for good, with their versions, their history values and the messages they came from.

    The report names every place that held the text, and whether its bytes are gone. One memory needs no confirmation;
    the matches of a query, or a whole scope, need --yes. Preview with --dry-run.

    Example: perdure forget --query "my old address" --user-id ana --dry-run
    """
    if sum((bool(ids), query is not None, everything)) != 1:
        raise typer.BadParameter("give the ID of a memory, or --query TEXT, or --all, with a scope")
    if threshold is not None and query is None:
        raise typer.BadParameter("--threshold is of a query: give --query TEXT too, or leave --threshold out")
    scope = Scope(user_id, agent_id, run_id)
    if not ids:
        scope.require_owner()
        what = "whatever the query finds" if query is not None else f"all that there is of {words_of(scope)}"
        demand_yes(yes or dry_run, f"this forgets {what} for good")
    elif len(ids) > 1:
        demand_yes(yes or dry_run, f"this forgets {len(ids)} memories for good")

    async def work(memory: AsyncMemory) -> list[ErasureReport]:
        from perdure.engine.requests import LEFT_OUT

        floor = LEFT_OUT if threshold is None else threshold
        reports = []
        for id in ids or (None,):
            report = await memory.forget(
                id=LEFT_OUT if id is None else id,
                query=LEFT_OUT if query is None else query,
                user_id=None if id else user_id,
                agent_id=None if id else agent_id,
                run_id=None if id else run_id,
                threshold=floor,
                erase=not keep_history,
                dry_run=dry_run,
            )
            reports.append(report)
        return reports

    reports = with_memory(folder(path), work)
    found = [_holds_something(report) for report in reports]
    missing = [id for id, known in zip(ids or (), found, strict=False) if not known]
    absent = [f"there is no memory with the id {id!r}, and never was" for id in missing]
    if as_json and ids and not any(found):
        raise NotFoundError("; ".join(absent))
    for line in absent:
        note(line)
    if as_json:
        dumps = [report.model_dump() for report in reports]
        print_json(dumps[0] if len(dumps) == 1 else {"results": dumps})
    else:
        _print_reports([report for report, known in zip(reports, found, strict=True) if known])
        if query is None and not any(found):
            note("nothing was found to forget")
        elif query is not None and not any(report.results for report in reports):
            from perdure.engine.requests import FORGET_THRESHOLD

            least = FORGET_THRESHOLD if threshold is None else threshold
            note(f"no memory scores {least:g} or more for this query: look with perdure search, or lower --threshold")
    if ids and not all(found):
        raise typer.Exit(NOT_FOUND)


def _holds_something(report: ErasureReport) -> bool:
    return bool(report.results) or any(place.count for place in report.places)


def _print_reports(reports: list[ErasureReport]) -> None:
    for report in reports:
        word = "would go" if report.dry_run else "gone"
        why = [(word, item.memory, _WHY[report.reasons[item.id]]) for item in report.results]
        print_table([Column("", whole=True), MEMORY, Column("why")], why)
        for item in report.unsourced:
            stays = "would stay" if report.dry_run else "stays"
            note(f'"{item.memory}" ({item.id}) {stays}, without the message it came from: that goes')
        rows = [
            (place.place, str(place.count), place.status, place.note)
            for place in report.places
            if place.count or place.note
        ]
        columns = [Column("place", whole=True), Column("count", right=True), Column("status", whole=True), Column("")]
        print_table(columns, rows)
        waiting = {place.place for place in report.places if place.status == "pending"}
        if "backups" in waiting:
            note("what is still in backups is erased when they can be reached: see perdure doctor")
        if waiting - {"backups", "graph"}:
            note("some bytes go when the other process that has the file open closes it")


def demand_yes(yes: bool, what: str) -> None:
    """Require --yes before several memories are removed."""
    if not yes:
        raise typer.BadParameter(f"{what}: say --yes if you mean it")


def words_of(scope: Scope) -> str:
    """Describe a scope in words; `everybody` for an empty one."""
    return ", ".join(f"{name} {value!r}" for name, value in scope.given().items()) or "everybody"
