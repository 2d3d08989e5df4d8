"""search, why-not, list, get, history: the commands that only read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import NotFoundError
from perdure.frontends.cli.opening import with_memory
from perdure.frontends.cli.options import (
    AgentOption,
    AsOfOption,
    FilterOption,
    JsonOption,
    PastOption,
    PathOption,
    PresetOption,
    RunOption,
    UserOption,
    folder,
)
from perdure.frontends.cli.output import (
    ID,
    MEMORY,
    SCORE,
    SINCE,
    Column,
    day,
    note,
    print_json,
    print_table,
    print_text,
)
from perdure.frontends.cli.reading import read_words
from perdure.frontends.cli.trusting import marked

if TYPE_CHECKING:
    from perdure.domain.event import Absence, HistoryRecord, ListResult, SearchResult
    from perdure.domain.memory import MemoryItem
    from perdure.frontends.library.async_memory import AsyncMemory


def search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for; - reads standard input.")],
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many at most.")] = 10,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="SHARE", help="The least score, from 0 to 1.")
    ] = None,
    filter: FilterOption = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="WORD", help="Only memories of this type; may be repeated.")
    ] = None,
    as_of: AsOfOption = None,
    include_past: PastOption = False,
    preset: PresetOption = None,
    rerank: Annotated[bool, typer.Option("--rerank", help="Let the configured reranker order what is found.")] = False,
    hydrate: Annotated[bool, typer.Option("--messages", help="With --json: the messages behind each memory.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="With --json: how each score came about.")] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Find the memories that answer a question, best first.

    The score is from 0 to 1 and means the same with every embedder. Without an embedder memories are found by their
    words alone. Why a memory is missing: perdure why-not.

    Example: perdure search "where does she live?" --user-id ana
    """
    text = read_words(query, "the query")

    async def work(memory: AsyncMemory) -> SearchResult:
        return await memory.search(
            text,
            user_id=user_id,
            agent_id=agent_id,
            run_id=run_id,
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
        )

    result = with_memory(folder(path), work)
    for warning in result.warnings:
        note(warning)
    if as_json:
        print_json(result.model_dump())
    elif not result.results:
        note("nothing was found")
    else:
        rows = ((f"{item.score or 0:.2f}", marked(item), day(item.valid_from), item.id) for item in result.results)
        print_table([SCORE, MEMORY, SINCE, ID], rows)


def why_not(
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The memory that did not come.")],
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What was looked for; - reads standard input.")],
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many were asked for.")] = 10,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="SHARE", help="The least score, from 0 to 1.")
    ] = None,
    as_of: AsOfOption = None,
    include_past: PastOption = False,
    preset: PresetOption = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Tell why a search does not give a memory: the first step that it did not pass.

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
        print_json(found.model_dump())
    else:
        print_text(f"{found.reason}: {found.sentence}")


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
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="Only those that are kept out of prompts, each with the reason.")
    ] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """List memories, oldest first.

    What a tool told, or what gives a model orders, is marked as quarantined (see perdure trust), and a memory that may
    have replaced others names them.

    Example: perdure list --user-id ana --as-of 2026-03-01
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
        )

    result = with_memory(folder(path), work)
    if as_json:
        print_json(result.model_dump())
        return
    _print_items(result.results)
    if not result.results:
        note("there are no memories")
    if result.next_cursor is not None:
        note(f"there are more: --cursor '{result.next_cursor}'")


def get(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Show one memory with all that is known of it.

    Example: perdure get 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55
    """
    item = with_memory(folder(path), lambda memory: memory.get(id))
    if item is None:
        raise NotFoundError(f"there is no memory with the id {id!r}")
    if as_json:
        print_json(item.model_dump())
        return
    for name, value in item.model_dump().items():
        if value not in (None, [], {}):
            print_text(f"{name + ':':18}{value}")


def history(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Show everything that happened to a memory, oldest first; deleted memories have a history too.

    Example: perdure history 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55
    """
    records = with_memory(folder(path), lambda memory: memory.history(id))
    if not records:
        raise NotFoundError(f"there is no memory with the id {id!r}, and never was")
    if as_json:
        print_json({"results": [record.model_dump() for record in records]})
        return
    columns = [
        Column("when", whole=True, style="cyan"),
        Column("what", whole=True, style="bold"),
        MEMORY,
        Column("by", whole=True, style="dim"),
        Column("event", whole=True, style="dim"),
    ]
    print_table(columns, (_history_row(record) for record in records))


def _history_row(record: HistoryRecord) -> tuple[str, ...]:
    text = record.new_value or record.old_value or ("(erased)" if record.erased else "")
    return record.timestamp[:16].replace("T", " "), record.event, text, record.actor, record.id


def _narrowed(filter: dict[str, Any] | None) -> dict[str, Any]:
    return {"AND": [*([filter] if filter else []), {"quarantined": {"gte": ""}}]}


def _print_items(items: Iterable[MemoryItem]) -> None:
    print_table([MEMORY, SINCE, ID], ((marked(item), day(item.valid_from), item.id) for item in items))
