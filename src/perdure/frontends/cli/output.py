"""Output of commands: JSON alone on standard output, tables for people, everything else on standard error."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from perdure.domain.event import Usage
    from perdure.domain.memory import MemoryItem


_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_logged: deque[str] = deque(maxlen=100)
"""The last lines of the log that no note has repeated: results have their warnings, and the log says them too."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, whether it stays on one line, and its style on a terminal."""

    title: str
    whole: bool = False
    style: str = ""
    right: bool = False


ID = Column("id", whole=True, style="dim")
MEMORY = Column("memory")
SINCE = Column("since", whole=True, style="cyan")
SCORE = Column("score", whole=True, style="green", right=True)


def print_json(value: Any) -> None:
    """Print a result as JSON; characters that UTF-8 cannot encode become JSON escapes."""
    print_text(json.dumps(value, ensure_ascii=False, indent=2))


def print_text(text: str) -> None:
    """Print a line on standard output; terminal control characters are escaped."""
    sys.stdout.write(f"{visible(text)}\n")


def note(text: str) -> None:
    """Print a note for people, on standard error, unless the log has just said the same there."""
    if text in _logged:
        _logged.remove(text)
    else:
        sys.stderr.write(f"perdure: {visible(text)}\n")


def log_to_stderr() -> None:
    """Print the log's warnings on standard error, as notes are."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_remember)
    _logged.clear()
    logging.basicConfig(level=logging.WARNING, format="perdure: %(message)s", handlers=[handler])


def _remember(record: logging.LogRecord) -> bool:
    _logged.append(record.getMessage())
    return True


def visible(text: str) -> str:
    """Return a text without control characters, which memories may contain; line breaks and tabs stay."""
    return _STEERING.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: drawn on a terminal, else a line for each row with tabs between cells."""
    if not sys.stdout.isatty():
        for row in rows:
            print_text("\t".join(" ".join(cell.split()) for cell in row))
        return
    from rich.console import Console  # heavy: only a terminal gets drawn tables
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column.title,
            no_wrap=column.whole,
            style=column.style,
            overflow="fold",
            justify="right" if column.right else "left",
        )
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    Console().print(table)


def tell_usage(usage: Usage) -> None:
    """Print the usage of models, if any; a price only if it is known."""
    if usage.calls or usage.embedding_tokens:
        embedded = f", {usage.embedding_tokens} embedded" if usage.embedding_tokens else ""
        price = "" if usage.cost is None else f", ${usage.cost:.4f}"
        calls = f"{usage.calls} model call{'' if usage.calls == 1 else 's'}"
        note(f"{calls}, {usage.input_tokens} tokens in, {usage.output_tokens} out{embedded}{price}")


def day(moment: str | None) -> str:
    """Return the date of a stored time."""
    return moment[:10] if moment else ""


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Progress | None]:
    """Yield a bar on standard error during a long operation, or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # heavy: only a terminal gets a bar
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    counting = TextColumn("{task.completed:,.0f}" if total is None else "{task.percentage:>3.0f} %")
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), counting, TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    with bar:
        bar.add_task(what, total=total)
        yield bar


def advance(bar: Progress | None, done: float) -> None:
    """Move the bar of `progress` to a point."""
    if bar is not None:
        bar.update(bar.task_ids[0], completed=done)


def marked(item: MemoryItem) -> str:
    """Return a memory's text with marks: whether it is quarantined, or may replace others."""
    marks = []
    if item.quarantined is not None:
        marks.append(f"[quarantined: {item.quarantined}]")
    if item.older:
        marks.append(f"[may replace: {', '.join(item.older)}]")
    return " ".join([item.memory, *marks])
