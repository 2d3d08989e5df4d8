"""The command demo, which replays a conversation of several sessions and shows what memory does."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from perdure.domain.clock import parse_moment
from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.scope import OWNER_FIELDS, SCOPE_FIELDS, Scope
from perdure.frontends.cli.input_messages import read_bytes
from perdure.frontends.cli.open_memory import read_settings
from perdure.frontends.cli.options import JsonOption
from perdure.frontends.cli.output import note, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from perdure.domain.event import AddResult
    from perdure.frontends.library.memory import AsyncMemory

# The sample conversation of several sessions, read from lines of JSON.

STORY = "household.jsonl"  # the sample conversation that comes with perdure
NOBODY = Scope(user_id="demo")  # the scope of lines without one
_SAID = ("role", "name", "content", "timestamp", "id")


class Said(NamedTuple):
    """One message."""

    message: dict[str, Any]
    scope: dict[str, str]


class Asked(NamedTuple):
    """One question to memory."""

    question: str
    scope: dict[str, str]


@dataclass(slots=True)
class Session:
    """The messages and questions of one session."""

    title: str
    day: str
    lines: list[Said | Asked] = field(default_factory=list)


def find_story() -> Path:
    """Find the sample conversation: in the installed package, else in the repository's examples."""
    here = Path(__file__).parent
    places = (here / STORY, *(parent / "examples" / STORY for parent in here.parents[:5]))
    for place in places:
        if place.is_file():
            return place
    raise PerdureError(
        f"{STORY} came neither with this installation nor lies in the repository's examples folder:"
        " give a FILE of your own"
    )


def read_story(text: str) -> list[Session]:
    """Return the sessions of a conversation; InvalidInputError names an invalid line.

    A line is `{"role", "content", ...}` or `{"ask": ...}`, each with `timestamp`, a scope, and `session`: consecutive
    lines with the same title are one session.
    """
    sessions: list[Session] = []
    for number, value in _objects(text.split("\n")):
        moment = value.get("timestamp")
        day = parse_moment(moment, f"line {number}: timestamp").date().isoformat() if moment is not None else ""
        title = str(value.get("session") or day)
        if not sessions or sessions[-1].title != title:
            sessions.append(Session(title, day))
        sessions[-1].lines.append(_line(number, value))
    if not sessions:
        raise InvalidInputError("the story has no lines", field="FILE")
    return sessions


def _line(number: int, value: dict[str, Any]) -> Said | Asked:
    own = Scope(**{name: value[name] for name in SCOPE_FIELDS if value.get(name) is not None})
    scope = {name: text for name, text in (own.given() or NOBODY.given()).items() if name in OWNER_FIELDS}
    if isinstance(value.get("ask"), str):
        return Asked(value["ask"], scope)
    if isinstance(value.get("role"), str) and isinstance(value.get("content"), str):
        return Said({name: value[name] for name in _SAID if name in value}, scope)
    raise InvalidInputError(f"line {number} has neither `role` and `content` nor `ask`", field="FILE", value=value)


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InvalidInputError(f"line {number} is not JSON: {error}", field="FILE") from error
        if not isinstance(value, dict):
            raise InvalidInputError(f"line {number} is not a JSON object", field="FILE", value=value)
        yield number, value


# Replay: each message is added, each question searched, and each is timed.

T = TypeVar("T")
ANSWERS = 3  # number of memories for each question


@dataclass(slots=True)
class Answer:
    """A question, the memories found for it, and the time in milliseconds."""

    question: str
    found: list[tuple[float, str]]
    milliseconds: float

    def dump(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        found = [{"score": round(score, 4), "memory": memory} for score, memory in self.found]
        return {"ask": self.question, "ms": round(self.milliseconds, 2), "results": found}


@dataclass(slots=True)
class Chapter:
    """The result of one session."""

    title: str
    day: str
    kept: dict[str, str] = field(default_factory=dict)  # new facts, by the id of their memory
    corrected: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The text before and after the session, by the id of the memory."""
    forgotten: list[str] = field(default_factory=list)
    known: int = 0  # number of facts that were known already
    answers: list[Answer] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)  # time for each message
    warnings: list[str] = field(default_factory=list)

    def dump(self) -> dict[str, Any]:
        """Return the chapter as plain values."""
        return {
            "session": self.title,
            "date": self.day,
            "messages": len(self.milliseconds),
            "ms": round(sum(self.milliseconds), 2),
            "kept": list(self.kept.values()),
            "corrected": [{"old": old, "new": new} for old, new in self.corrected.values()],
            "forgotten": list(self.forgotten),
            "known": self.known,
            "questions": [answer.dump() for answer in self.answers],
            "warnings": list(self.warnings),
        }


async def live(memory: AsyncMemory, sessions: Sequence[Session]) -> AsyncIterator[Chapter]:
    """Add messages and search questions line by line; yield a chapter for each session."""
    for session in sessions:
        chapter = Chapter(session.title, session.day)
        for line in session.lines:
            if isinstance(line, Said):
                took, added = await _timed(memory.add([line.message], **line.scope))  # type: ignore[arg-type]  # owner fields
                chapter.milliseconds.append(took)
                _note(chapter, added)
            else:
                took, found = await _timed(memory.search(line.question, limit=ANSWERS, **line.scope))  # type: ignore[arg-type]  # owner fields
                chapter.answers.append(
                    Answer(line.question, [(item.score or 0.0, item.memory) for item in found.results], took)
                )
        yield chapter


async def warm_up(memory: AsyncMemory) -> float:
    """Open the files and load the embedder before the replay; return the time in milliseconds."""
    began = time.perf_counter()
    await memory.search("hello", user_id="perdure demo", limit=1)
    return 1000 * (time.perf_counter() - began)


def summary(chapters: Sequence[Chapter], opening: float) -> dict[str, Any]:
    """Return the figures of the whole replay; times in milliseconds."""
    adding = [took for chapter in chapters for took in chapter.milliseconds]
    asking = [answer.milliseconds for chapter in chapters for answer in chapter.answers]
    return {
        "sessions": len(chapters),
        "messages": len(adding),
        "kept": sum(len(chapter.kept) for chapter in chapters),
        "corrected": sum(len(chapter.corrected) for chapter in chapters),
        "forgotten": sum(len(chapter.forgotten) for chapter in chapters),
        "known": sum(chapter.known for chapter in chapters),
        "questions": len(asking),
        "ms_opening": round(opening, 1),
        "ms_per_message": round(median(adding), 2) if adding else None,
        "ms_slowest_message": round(max(adding), 2) if adding else None,
        "ms_per_question": round(median(asking), 2) if asking else None,
    }


async def _timed(work: Awaitable[T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = await work
    return 1000 * (time.perf_counter() - began), result


def _note(chapter: Chapter, added: AddResult) -> None:
    chapter.warnings += added.warnings
    for event in added.results:
        if event.event == "ADD":
            chapter.kept[event.id] = event.memory
        elif event.event == "DELETE":
            chapter.forgotten.append(event.memory)
            chapter.kept.pop(event.id, None)
        elif event.event == "NONE":
            chapter.known += 1
        elif event.id in chapter.kept and event.reason.startswith("refine"):
            chapter.kept[event.id] = event.memory  # refining a new fact is not a correction
        else:
            chapter.kept.pop(event.id, None)
            before, _ = chapter.corrected.get(event.id, (event.old_memory or "", ""))
            chapter.corrected[event.id] = (before, event.memory)


WIDTH = 100  # maximum columns of the output


def demo(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A conversation of your own; - reads standard input.")
    ] = None,
    *,
    as_json: JsonOption = False,
    path: Annotated[
        Path | None, typer.Option("--path", metavar="DIR", help="Folder for the memory; default a temporary one.")
    ] = None,
) -> None:
    """Replay a conversation of several sessions and show what memory makes of it.

    After each session it prints the facts that were kept, corrected and deleted, and what each question finds, with
    scores and times. The sample covers a year and a half of a household. A FILE of your own has one JSON line for each
    message with role and content (and name, timestamp, session, user_id), and lines with ask for the questions.

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
    """Return the folder given before the command; a variable or a default is ignored for a demonstration."""
    root = context.find_root()
    source = root.get_parameter_source("path")
    return root.params.get("path") if source is not None and source.name == "COMMANDLINE" else None


async def _live(folder: Path, sessions: list[Any], console: Console | None) -> tuple[list[Chapter], float]:
    # Heavy: the engine and its model; `perdure --help` must not wait for them.
    from perdure.frontends.library.memory import AsyncMemory

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
    """Print a label and a text beside it, with a hanging indent."""
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
