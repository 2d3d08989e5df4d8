"""The commands that only read: search, why-not, list, get and history."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.clock import read_moment
from perdure.domain.errors import NotFoundError
from perdure.frontends.cli import output
from perdure.frontends.cli.input_messages import read_words
from perdure.frontends.cli.open_memory import with_memory
from perdure.frontends.cli.options import (
    AgentOption,
    AsOfOption,
    FilterOption,
    JsonOption,
    PastOption,
    PathOption,
    PresetOption,
    RunOption,
    ThresholdOption,
    UserOption,
    folder,
)

if TYPE_CHECKING:
    from perdure.domain.event import Absence, HistoryRecord, ListResult, SearchResult
    from perdure.domain.memory import Deleted
    from perdure.frontends.library.memory import AsyncMemory

WHEN = output.Column("when", whole=True, style="cyan")
EVENT = output.Column("event", whole=True, style="dim")
LONGEST_SAID = 120  # characters of a message that are shown as the reason of a deletion


def search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for; - reads standard input.")],
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many at most.")] = 10,
    threshold: ThresholdOption = None,
    filter: FilterOption = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="WORD", help="Only memories of this type; may be repeated.")
    ] = None,
    as_of: AsOfOption = None,
    include_past: PastOption = False,
    preset: PresetOption = None,
    rerank: Annotated[bool, typer.Option("--rerank", help="Reorder the results with the configured reranker.")] = False,
    hydrate: Annotated[
        bool, typer.Option("--messages", help="With --json: include the messages behind each memory.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="With --json: explain each score.")] = False,
    order: Annotated[
        str, typer.Option("--order", metavar="ORDER", help="score (best first) or time (the same ones, oldest first).")
    ] = "score",
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Find the memories that answer a question, best first.

    Scores run from 0 to 1 and are comparable between embedders. Without an embedder only words are matched. To see
    why a memory is missing, use perdure why-not.

    Example: perdure search "where does she live?" --user-id ana
    """
    text = read_words(query, "the query")
    # Heavy: NumPy and the engine; `perdure --help` must not wait for them.
    from perdure.engine.requests import SearchOptions
    from perdure.frontends.library.memory import run_search

    options = SearchOptions(
        limit=limit,
        threshold=threshold,
        filters=filter,
        types=types or None,
        as_of=as_of,
        include_past=include_past,
        preset=preset,
        rerank=rerank,
        hydrate=hydrate,
        explain=explain,
        order=order,
    )

    async def work(memory: AsyncMemory) -> SearchResult:
        return await run_search(memory, text, options, user_id=user_id, agent_id=agent_id, run_id=run_id)

    result = with_memory(folder(path), work)
    for warning in result.warnings:
        output.note(warning)
    if as_json:
        output.print_json(result.model_dump())
    elif not result.results:
        output.note("nothing was found")
    else:
        rows = (
            (f"{item.score or 0:.2f}", output.marked(item), output.day(item.valid_from), item.id)
            for item in result.results
        )
        output.print_table([output.SCORE, output.MEMORY, output.SINCE, output.ID], rows)


def why_not(
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The missing memory.")],
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="The query of that search; - reads standard input.")
    ],
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="The limit of that search.")] = 10,
    threshold: ThresholdOption = None,
    as_of: AsOfOption = None,
    include_past: PastOption = False,
    preset: PresetOption = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Explain why a search does not return a memory: name the first step that dropped it.

    Example: perdure why-not 5f0c... "where does she live?" --user-id ana
    """
    text = read_words(query, "the query")

    async def work(memory: AsyncMemory) -> Absence:
        return await memory.why_not(
            memory_id,
            text,
            user_id=user_id,
            agent_id=agent_id,
            run_id=run_id,
            limit=limit,
            threshold=threshold,
            as_of=as_of,
            include_past=include_past,
            preset=preset,
        )

    found = with_memory(folder(path), work)
    if as_json:
        output.print_json(found.model_dump())
    else:
        output.print_text(f"{found.reason}: {found.sentence}")


def list_memories(
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many at most.")] = 100,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Continue where an earlier list ended.")
    ] = None,
    filter: FilterOption = None,
    as_of: AsOfOption = None,
    include_past: PastOption = False,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", show_default=False,
            help="`facts` (default), or `notes`: sentences as they were said; with --deleted default both.",
        ),
    ] = None,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="Only quarantined memories, each with the reason.")
    ] = False,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="What was deleted, the last first, with when, why and what undo takes.")
    ] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:  # fmt: skip
    """List memories, oldest first.

    Quarantined memories, which came from a tool or read like orders to a model, are marked (see perdure trust). A
    memory that may have replaced others names them.

    With --deleted: what "forget that" in a conversation, delete, forget --keep-history and upkeep deleted, each with
    its event, which perdure undo takes. What forget erased leaves nothing to list or to bring back.

    Example: perdure list --user-id ana --as-of 2026-03-01

    Example: perdure list --user-id ana --deleted
    """

    async def work(memory: AsyncMemory) -> ListResult:
        return await memory.get_all(
            user_id=user_id,
            agent_id=agent_id,
            run_id=run_id,
            limit=limit,
            cursor=cursor,
            filters=_narrowed(filter) if quarantined else filter,
            as_of=as_of,
            include_past=include_past,
            kind=kind,
            deleted=deleted,
        )

    result = with_memory(folder(path), work)
    if as_json:
        output.print_json(result.model_dump())
        return
    if deleted:
        _print_deleted(result)
    else:
        output.print_table(
            [output.MEMORY, output.SINCE, output.ID],
            ((output.marked(item), output.day(item.valid_from), item.id) for item in result.results),
        )
        if not result.results:
            output.note("nothing is quarantined" if quarantined else "there are no memories")
    if result.next_cursor is not None:
        output.note(f"there are more: --cursor '{result.next_cursor}'")


def _print_deleted(result: ListResult) -> None:
    columns = [WHEN, output.MEMORY, output.Column("why"), output.ID, EVENT]
    rows = ((item, item.deleted) for item in result.results)
    output.print_table(
        columns,
        (
            (_when(how.told_at, how.at), output.marked(item), _why(how), item.id, how.event_id or "(no undo: imported)")
            for item, how in rows
            if how is not None
        ),
    )
    if result.results:
        output.note("perdure undo EVENT brings one back; what was erased is not listed")
    else:
        output.note("nothing is deleted that could be listed: what was erased leaves nothing")


def _why(how: Deleted) -> str:
    """The message that asked for a deletion, else the call that made it, with its rule where it has one."""
    if how.said is not None:
        line = " ".join(how.said.split())
        return f"“{line if len(line) <= LONGEST_SAID else f'{line[: LONGEST_SAID - 1]}…'}”"
    return how.actor if how.reason in ("explicit", how.actor) else f"{how.actor}: {how.reason}"


def get(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Show one memory with all of its fields.

    Example: perdure get 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55
    """
    item = with_memory(folder(path), lambda memory: memory.get(id))
    if item is None:
        raise NotFoundError(f"there is no memory with the id {id!r}")
    if as_json:
        output.print_json(item.model_dump())
        return
    for name, value in item.model_dump().items():
        if value not in (None, [], {}):
            output.print_text(f"{name + ':':18}{value}")


def history(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Show the history of a memory, oldest first; deleted memories have one too.

    Each event shows when it was said, and when it was recorded where that is more than a day apart.

    Example: perdure history 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55
    """
    records = with_memory(folder(path), lambda memory: memory.history(id))
    if not records:
        raise NotFoundError(f"there is no memory with the id {id!r}, and never was")
    if as_json:
        output.print_json({"results": [record.model_dump() for record in records]})
        return
    what, by = output.Column("what", whole=True, style="bold"), output.Column("by", whole=True, style="dim")
    columns = [WHEN, what, output.MEMORY, by, EVENT]
    output.print_table(columns, (_history_row(record) for record in records))


def _history_row(record: HistoryRecord) -> tuple[str, ...]:
    text = record.new_value or record.old_value or ("(erased)" if record.erased else "")
    return _when(record.told_at, record.timestamp), record.event, text, record.actor, record.id


def _when(told: str | None, recorded: str) -> str:
    """When it was said, and when it was recorded where that is another day: an old conversation may be read late."""
    said, written = (read_moment(moment) for moment in (told or recorded, recorded))
    apart = said is not None and written is not None and abs(written - said) > timedelta(days=1)
    minute = (told or recorded)[:16].replace("T", " ")
    return f"{minute} (recorded {output.day(recorded)})" if apart else minute


def _narrowed(filter: dict[str, Any] | None) -> dict[str, Any]:
    return {"AND": [*([filter] if filter else []), {"quarantined": {"gte": ""}}]}
