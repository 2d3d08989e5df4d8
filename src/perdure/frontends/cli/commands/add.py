"""The commands add, update and undo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.frontends.cli import options
from perdure.frontends.cli.input_messages import read_conversation, read_words
from perdure.frontends.cli.open_memory import with_memory
from perdure.frontends.cli.output import ID, MEMORY, Column, note, print_json, print_table, tell_usage

if TYPE_CHECKING:
    from perdure.domain.event import AddResult
    from perdure.frontends.library.memory import AsyncMemory


def add(
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The text to remember; - reads standard input.")
    ] = None,
    *,
    messages: Annotated[
        Path | None,
        typer.Option(
            "--messages",
            "-m",
            metavar="FILE",
            help="A JSON file with a conversation instead of a text; - reads standard input.",
        ),
    ] = None,
    user_id: options.UserOption = None,
    agent_id: options.AgentOption = None,
    run_id: options.RunOption = None,
    metadata: options.MetadataOption = None,
    as_said: Annotated[
        bool, typer.Option("--no-infer", help="Store the text as it is, without extracting facts.")
    ] = False,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", metavar="TIME", help="When it was said; default now.")
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="WORD", help="The type of the new memories, such as episodic.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", metavar="TIME", help="When the memories stop being returned.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", help="A repeated call with the same key changes nothing."),
    ] = None,
    as_json: options.JsonOption = False,
    path: options.PathOption = None,
) -> None:
    """Extract the facts from a text and store them: each is new, corrects an older one, or was known already.

    Statements are kept; questions, greetings and requests are not. The original text is kept beside its facts.
    Each printed line is one fact and what happened to it. If the language model does not answer as it should, the
    text is kept, perdure doctor --repair reads it later, and the exit status is 1.

    Example: perdure add "I moved to Lisbon last week" --user-id ana
    """
    if bool(text) == bool(messages):
        raise typer.BadParameter("give a TEXT, or a conversation with --messages FILE, and not both")
    said: str | list[Any] = read_conversation(messages) if messages else read_words(text or [], "the text")

    async def work(memory: AsyncMemory) -> AddResult:
        return await memory.add(
            said,
            user_id=user_id,
            agent_id=agent_id,
            run_id=run_id,
            metadata=metadata,
            infer=not as_said,
            timestamp=timestamp,
            type=type,
            expires_at=expires_at,
            idempotency_key=key,
        )

    show_events(
        with_memory(options.folder(path), work, makes=True), as_json, nothing="there was nothing in it to remember"
    )


def update(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="The new text; - reads standard input.")],
    metadata: options.MetadataOption = None,
    as_json: options.JsonOption = False,
    path: options.PathOption = None,
) -> None:
    """Replace the text of one memory. Its id stays, and the old text stays in its history.

    Example: perdure update 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55 "User lives in Porto"
    """
    said = read_words(text, "the text")
    item = with_memory(options.folder(path), lambda memory: memory.update(id, said, metadata=metadata))
    if as_json:
        print_json(item.model_dump())
    else:
        print_table([MEMORY, ID], [(item.memory, item.id)])


def undo(
    event_id: Annotated[str, typer.Argument(metavar="EVENT", help="The event, as `perdure history` shows it.")],
    as_json: options.JsonOption = False,
    path: options.PathOption = None,
) -> None:
    """Undo one event: an addition, a correction or a deletion.

    What was forgotten with `perdure forget` cannot come back. If a later event changed the same memory, undo that one
    first. Undoing the addition of a merged memory brings its originals back; undoing an undo reverses it.

    Example: perdure undo 9d2c4f60-5b1e-4c8e-8a57-6f0d1c2b3a49
    """
    result = with_memory(options.folder(path), lambda memory: memory.undo(event_id))
    show_events(result, as_json, nothing="everything stood that way already")


def show_events(result: AddResult, as_json: bool, *, nothing: str) -> None:
    """Print what happened to each fact; warnings go to standard error."""
    for warning in result.warnings:
        note(warning)
    if as_json:
        dump = result.model_dump()
        print_json(
            dump if isinstance(dump, dict) else {"results": dump}
        )  # spec 000's version "v1.0" answers with a list
    else:
        _show(result, nothing)
    if result.waiting:
        told = "1 message is kept and waits" if result.waiting == 1 else f"{result.waiting} messages are kept and wait"
        note(f"{told} to be read for facts: perdure doctor --repair does it, once the model answers")
        raise typer.Exit(1)


def _show(result: AddResult, nothing: str) -> None:
    if result.notes:
        note(f"kept as said, because no fact says it: {result.notes} (perdure list --kind notes)")
    if result.results:
        columns = [Column("event", whole=True, style="bold"), MEMORY, Column("before", style="dim"), ID]
        rows = [
            (event.event, event.memory, event.old_memory or "" if event.event == "UPDATE" else "", event.id)
            for event in result.results
        ]
        print_table(columns, rows)
        tell_usage(result.usage)
    elif not result.notes and not result.waiting:
        note(nothing)
