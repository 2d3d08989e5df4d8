"""chat: talk to a model with memory, and see what is recalled and learned."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import PerdureError
from perdure.domain.scope import Scope
from perdure.frontends.cli.input_messages import read_words
from perdure.frontends.cli.open_memory import read_settings
from perdure.frontends.cli.options import AgentOption, PathOption, RunOption, UserOption, folder
from perdure.frontends.cli.output import note, print_text, tell_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.domain.event import AddResult
    from perdure.domain.memory import MemoryItem
    from perdure.engine.chat.cli_chat import Chat

PROMPT = "> "
_ENDS = frozenset({"/quit", "/exit"})
_HELP = "/help"
_COMMANDS = """/quit, /exit  end the conversation, as Control-D does
/help         this list
Control-C     cut an answer short; whatever else you type is said to the model"""


def chat(
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]", help="Send this message and exit; default: a conversation.")
    ] = None,
    *,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="PROVIDER/MODEL", help="The chat model; default the [llm] of the settings."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="Instructions in place of the built-in ones.")
    ] = None,
    every: Annotated[
        int,
        typer.Option(
            "--every",
            metavar="TURNS",
            min=1,
            help="Turns that are read for facts together, in one call of a model; the end reads the rest.",
        ),
    ] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each turn as a line of JSON.", show_default=False)
    ] = False,
    path: PathOption = None,
) -> None:
    """Talk to a language model that remembers: facts are recalled before each answer and learned after it.

    The answer is printed on standard output as it is generated; recalled and learned facts go to standard error.
    Control-C stops an answer, and the part so far counts as said. Empty lines are skipped; /quit, /exit or Control-D
    ends, /help lists the commands. If standard input is not a terminal, each of its lines is a turn. Rules extract the
    facts unless the settings name an llm for it: --model only sets the chat model.

    Example: perdure chat --user-id ana --model ollama/llama3.2

    Example: perdure chat "what should I cook tonight?" --user-id ana --json
    """
    # Heavy: the engine; `perdure --help` must not wait for it.
    from perdure.engine.build import build
    from perdure.engine.chat.cli_chat import Chat, open_model

    config = read_settings(folder(path))
    scope = Scope(user_id, agent_id, run_id).require_owner()
    llm = open_model(config, model)
    engine = build(config)
    turn = _turn_as_json if as_json else _turn
    failed = False
    # One event loop for all turns, and none while a person types: Control-C has different effects.
    with asyncio.Runner() as runner:
        session = Chat(engine, llm, scope, system=system, every=every)
        try:
            for said in [read_words(text, "the text")] if text else _lines():
                try:
                    runner.run(turn(session, said))
                except PerdureError as error:
                    if text:
                        raise
                    failed = True
                    note(error.message)
            runner.run(_finish(session, as_json))
        finally:
            runner.run(engine.close())
            runner.run(llm.close())
    if failed:
        raise typer.Exit(1)


def _lines() -> Iterator[str]:
    """Yield the turns of the user up to a line that ends the conversation; commands are not turns."""
    for line in _typed():
        command = line.lower()
        if command in _ENDS:
            return
        if command == _HELP:
            for each in _COMMANDS.splitlines():
                _aside(each)
        else:
            yield line


def _typed() -> Iterator[str]:
    """Yield the lines that a person types, or those of standard input, without empty ones."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            if line.strip():
                yield line.strip()
        return
    with suppress(ImportError):
        import readline  # noqa: F401  # it gives `input` a history and the arrow keys
    while True:
        try:
            line = input(PROMPT).strip()
        except (EOFError, KeyboardInterrupt):
            print_text("")
            return
        if line:
            yield line


async def _turn(session: Chat, text: str) -> None:
    """Run one turn for a person: recall, stream the answer, learn, show the cost."""
    from perdure.backends.shared.metering import metered  # heavy, see above

    with metered() as meter:
        for item in await session.recall(text):
            _aside(f"recalled  {item.memory}  ({item.score or 0:.2f})")
        try:
            await _speak(session)
        finally:
            _tell_learned(await session.learn())
    for warning in session.warnings:
        note(warning)
    session.warnings.clear()
    tell_usage(meter.usage)


async def _finish(session: Chat, as_json: bool) -> None:
    """Read the turns that wait, and show what was learned of them; JSON is a line without `said`."""
    import json

    from perdure.backends.shared.metering import metered  # heavy, see above

    with metered() as meter:
        learned = await session.finish()
    if not as_json:
        _tell_learned(learned)
        for warning in session.warnings:
            note(warning)
        tell_usage(meter.usage)
    elif learned.results or session.warnings:
        events = [event.model_dump() for event in learned.results]
        print_text(json.dumps({"learned": events, "warnings": session.warnings, "usage": asdict(meter.usage)}))


async def _speak(session: Chat) -> None:
    """Print the answer piece by piece; an interrupt ends it and nothing else."""
    written = False
    try:
        async with aclosing(session.answer()) as pieces:
            async for piece in pieces:
                written = True
                sys.stdout.write(piece)
                sys.stdout.flush()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        task.uncancel()
        note("cut short")
    finally:
        if written:
            print_text("")
            sys.stdout.flush()


async def _turn_as_json(session: Chat, text: str) -> None:
    """Run one turn and print it as a line of JSON: said, recalled, answer, learned, warnings, usage."""
    import json

    from perdure.backends.shared.metering import metered  # heavy, see above

    with metered() as meter:
        recalled: Sequence[MemoryItem] = await session.recall(text)
        try:
            answer = "".join([piece async for piece in session.answer()])
        finally:
            learned = await session.learn()
    turn: dict[str, Any] = {
        "said": text,
        "recalled": [item.model_dump() for item in recalled],
        "answer": answer,
        "learned": [event.model_dump() for event in learned.results],
        "warnings": list(session.warnings),
        "usage": asdict(meter.usage),
    }
    session.warnings.clear()
    print_text(json.dumps(turn, ensure_ascii=False))
    sys.stdout.flush()


def _tell_learned(learned: AddResult) -> None:
    words = {"ADD": "learned", "UPDATE": "corrected", "DELETE": "dropped"}
    for event in learned.results:
        if event.event in words:
            before = f"  (was: {event.old_memory})" if event.event == "UPDATE" else ""
            _aside(f"{words[event.event]:<8}  {event.memory}{before}")


def _aside(text: str) -> None:
    dim, plain = ("\x1b[2m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
    sys.stderr.write(f"{dim}  {' '.join(text.split(chr(10)))}{plain}\n")
    sys.stderr.flush()
