"""The command memory add, which writes memories to files without a model, a key or a network."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.text.readable import shown
from perdure.frontends.cli.input_messages import STDIN, read_bytes
from perdure.frontends.cli.options import JsonOption
from perdure.frontends.cli.output import note, print_json, print_text

if TYPE_CHECKING:
    from perdure.domain.memory import MemoryItem

DEFAULT_FOLDER = Path("./memory_db")  # folder of the files, unless `--memory-path` or MEMORY_PATH names another
PREVIEW = 60  # characters of each memory that are printed
_PREFIX = re.compile(r"(?:[-*+•]|\d{1,9}[.)])\s+")
MemoryPathOption = Annotated[
    Path,
    typer.Option(
        "--memory-path", metavar="DIR", envvar="MEMORY_PATH", show_default=False,
        help="Folder of the files; default ./memory_db, or MEMORY_PATH.",
    ),
]  # fmt: skip
GitOption = Annotated[
    bool | None,
    typer.Option(
        "--git-versioning/--no-git-versioning", help="Commit every change to git in that folder; default yes."
    ),
]


def add(
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="One memory each.")] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Memories as JSON or one a line; - reads standard input."),
    ] = None,
    conversation: Annotated[
        str,
        typer.Option(
            "--conversation-id",
            "-c",
            metavar="ID",
            show_default=False,
            help="Conversation, if the file names none; default is 'default', and all read 'global'.",
        ),
    ] = "default",
    memory_path: MemoryPathOption = DEFAULT_FOLDER,
    git: GitOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.", show_default=False)] = False,
    as_json: JsonOption = False,
) -> None:
    """Write each text as a memory file of its own, unchanged: no model is asked, and nothing is reconciled.

    FILE holds a JSON list of texts or of {"content", "conversation_id"}, an object with such a list as "memories", or
    one text a line; list marks (-, *, +, 1.) are removed. A proxy that watches the folder sees the new files a moment
    later, any other proxy when it starts.

    Example: perdure memory add "User likes hiking" "User is vegetarian"

    Example: perdure memory add --file facts.txt --conversation-id work
    """
    from perdure.backends.vector_stores.base import Point  # heavy: pydantic; `perdure --help` must not wait for it
    from perdure.backends.vector_stores.markdown.store import MarkdownVectorStore
    from perdure.engine.write.explicit import jotted
    from perdure.frontends.library.memory_client_settings import refuse_records

    given = list(texts or [])
    if given == [STDIN] and file is None:
        given, file = [], Path(STDIN)
    told = [] if file is None else read_memories(read_bytes(file, "file"))
    told += [(text, None) for text in given if text.strip()]
    if not told:
        raise PerdureError("No memories provided")
    folder = memory_path.expanduser()
    refuse_records(folder)
    items = jotted((text.strip(), _scope(each or conversation)) for text, each in told)
    MarkdownVectorStore.jot(folder, [Point(item.id, None, item.to_payload()) for item in items])
    if git is not False:
        _commit(folder, len(items))
    if as_json:
        fields = ("id", "memory", "run_id", "created_at")
        told_of = [{name: item.to_payload()[name] for name in fields} for item in items]
        print_json({"path": str(folder), "results": told_of})
    elif not quiet:
        print_text(f"Added {len(items)} memories to {folder}")
        for item in items:
            print_text(f"  - {_preview(item)}")


def _scope(conversation: str) -> Any:
    from perdure.domain.scope import Scope
    from perdure.engine import requests

    return Scope(run_id=requests.read_text(conversation, "conversation_id"))


def _preview(item: MemoryItem) -> str:
    line = " ".join(item.memory.split())
    return line if len(line) <= PREVIEW else f"{line[:PREVIEW]}..."


def _commit(folder: Path, count: int) -> None:
    """Commit the files; if git fails, the next change commits them, and they are stored in any case."""
    from perdure.backends.git.base import Step
    from perdure.backends.git.snapshots import GitVersions
    from perdure.engine.markdown.write_context import LINES, lines_of

    def tell(step: Step) -> str:
        lines = [f"- {line}" for line in lines_of(step, LINES)]
        return "\n".join([f"Add {count} memories directly", "", *lines[:LINES]])

    try:
        asyncio.run(GitVersions(folder).commit(tell))
    except PerdureError as error:
        note(f"not committed to git: {error.message}")


def read_memories(text: str) -> list[tuple[str, str | None]]:
    """Return the memories of a file and their conversations; InvalidInputError for an invalid entry.

    Text that resembles JSON but is not is read line by line.
    """
    if text.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and "memories" in value:
            return _entries(value["memories"], "memories")
        if isinstance(value, dict):
            return _entries([value], "file")
        if isinstance(value, list):
            return _entries(value, "file")
    lines = (_PREFIX.sub("", line.strip(), count=1).strip() for line in text.splitlines())
    return [(line, None) for line in lines if line]


def _entries(value: Any, name: str) -> list[tuple[str, str | None]]:
    if not isinstance(value, list):
        raise InvalidInputError(f"{name} must be a list, not {shown(value)}", field=name, value=value)
    found = []
    for place, each in enumerate(value):
        entry = each if isinstance(each, dict) else {"content": each}
        content, conversation = entry.get("content"), entry.get("conversation_id")
        if not isinstance(content, str) or not (conversation is None or isinstance(conversation, str)):
            raise InvalidInputError(
                f'{name}[{place}] must be a text, or an object with a "content" that is one', field=f"{name}[{place}]"
            )
        if content.strip():
            found.append((content, conversation))
    return found
