"""demo: a conversation of several sessions, lived through before your eyes."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.frontends.cli.demo_run import Chapter, live, summary, warm_up
from perdure.frontends.cli.demo_story import find_story, read_story
from perdure.frontends.cli.opening import read_settings
from perdure.frontends.cli.options import JsonOption
from perdure.frontends.cli.output import note, print_json
from perdure.frontends.cli.reading import read_bytes

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100
"""Columns that the story is told in, where there is room."""


def demo(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A conversation of your own; - reads standard input.")
    ] = None,
    *,
    as_json: JsonOption = False,
    path: Annotated[
        Path | None,
        typer.Option("--path", metavar="DIR", help="Folder to live it in; by default one that is removed afterwards."),
    ] = None,
) -> None:
    """Live through a conversation of several sessions and watch what memory makes of it.

    After each session it tells what was kept, what was corrected, what was forgotten, and what a question brings back,
    with scores and times. The story is a household's year and a half. One of your own has a line for each message
    with role and content (and name, timestamp, session, user_id), and lines with ask for the questions.

    Example: perdure demo

    Example: perdure demo my-conversation.jsonl --json
    """
    story = file or find_story()
    sessions = read_story(read_bytes(story, "the story"))
    given = path or _path_before(context)
    place = nullcontext(str(given)) if given else tempfile.TemporaryDirectory(prefix="perdure-demo-")
    with place as folder:
        console = None if as_json else _console()
        if console is not None:
            count = sum(len(session.lines) for session in sessions)
            console.print(f"[bold]perdure demo[/bold]  {story.name}: {count} lines in {len(sessions)} sessions")
        chapters, opening = asyncio.run(_live(Path(folder), sessions, console))
    figures = summary(chapters, opening)
    if console is None:
        print_json({"sessions": [chapter.dump() for chapter in chapters], "summary": figures})
    else:
        _print_summary(console, figures)


def _path_before(context: typer.Context) -> Path | None:
    """The folder given before the command; a variable or a default is not meant for a demonstration."""
    root = context.find_root()
    source = root.get_parameter_source("path")
    return root.params.get("path") if source is not None and source.name == "COMMANDLINE" else None


async def _live(folder: Path, sessions: list[Any], console: Console | None) -> tuple[list[Chapter], float]:
    # Heavy: the engine and its model; `perdure --help` must not wait for them.
    from perdure.frontends.library.async_memory import AsyncMemory

    chapters: list[Chapter] = []
    async with AsyncMemory(read_settings(folder)) as memory:
        opening = await warm_up(memory)
        async for chapter in live(memory, sessions):
            chapters.append(chapter)
            for warning in chapter.warnings:
                note(warning)
            if console is not None:
                _print_chapter(console, chapter)
    return chapters, opening


# ------------------------------------------------------------------ telling


def _console() -> Console:
    from rich.console import Console  # heavy, and only this telling needs it

    console = Console(highlight=False)
    if not console.is_terminal or console.width > WIDTH:
        console = Console(highlight=False, width=WIDTH)
    return console


def _print_chapter(console: Console, chapter: Chapter) -> None:
    from rich.rule import Rule  # heavy, see above
    from rich.text import Text

    count = len(chapter.milliseconds)
    console.print()
    console.print(Rule(Text.assemble((chapter.title, "bold"), f"  {chapter.day}"), align="left", style="dim"))
    _print_lines(console, "kept", "green", list(chapter.kept.values()))
    _print_lines(console, "corrected", "yellow", [f"{old}  →  {new}" for old, new in chapter.corrected.values()])
    _print_lines(console, "forgotten", "red", chapter.forgotten)
    console.print(Text(f"{count} messages in {sum(chapter.milliseconds):.0f} ms", style="dim"))
    for answer in chapter.answers:
        console.print()
        console.print(Text.assemble((f"? {answer.question}", "bold cyan"), (f"  {answer.milliseconds:.1f} ms", "dim")))
        for score, memory in answer.found:
            _print_hanging(console, f"{score:.2f}", "cyan", memory)
        if not answer.found:
            _print_hanging(console, "", "", "nothing is remembered of it")


def _print_lines(console: Console, label: str, style: str, texts: list[str]) -> None:
    for position, text in enumerate(texts):
        _print_hanging(console, "" if position else label, style, text)


def _print_hanging(console: Console, label: str, style: str, text: str) -> None:
    """A label and a text beside it, whose further lines stay in its column."""
    from rich.table import Table  # heavy, see above
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=9, justify="right")
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style=style), Text(text))
    console.print(grid)


def _print_summary(console: Console, figures: dict[str, Any]) -> None:
    from rich.rule import Rule  # heavy, see above

    console.print()
    console.print(Rule(style="dim"))
    console.print(
        f"[bold]{figures['messages']}[/bold] messages in [bold]{figures['sessions']}[/bold] sessions: "
        f"[green]{figures['kept']} facts kept[/green], [yellow]{figures['corrected']} corrected[/yellow], "
        f"[red]{figures['forgotten']} forgotten[/red], {figures['known']} known already"
    )
    if figures["ms_per_message"] is not None:
        console.print(
            f"[bold]{figures['ms_per_message']:.1f} ms[/bold] per message (median; the slowest took "
            f"{figures['ms_slowest_message']:.0f} ms), opening {figures['ms_opening']:.0f} ms"
        )
    if figures["ms_per_question"] is not None:
        console.print(f"[bold]{figures['ms_per_question']:.1f} ms[/bold] per question")
