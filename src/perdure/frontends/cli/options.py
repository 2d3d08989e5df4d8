"""The options that commands share, each declared once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.domain.errors import PerdureError

DEFAULT_FOLDER = Path("~/.memory")
"""The memory's folder unless `--path` or PERDURE_PATH is set; the engine's own default."""


def _chosen_folder(context: typer.Context, value: Path | None) -> Path:
    """Return the folder given after the command, else the one given before it, else the default."""
    return value or context.find_root().params.get("path") or DEFAULT_FOLDER


def folder(path: Path | None) -> Path:
    """Return the value of a `PathOption`, which its callback has filled in."""
    return path or DEFAULT_FOLDER


def reachable(place: Path) -> Path:
    """The place of a file to be written, whose folder may be missing; PerdureError if the one above is too."""
    place = place.expanduser()
    above = place.absolute().parent.parent
    if not above.exists():
        raise PerdureError(f"{place} cannot be written: there is no folder {above}")
    return place


def _json_object(value: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f'must be a JSON object such as {{"tag": "work"}}, not {value}')
    return found


def _scope_option(axis: str, who: str) -> Any:
    text = f"The {who} whose memories are meant."
    return typer.Option(f"--{axis}-id", f"--{axis}", metavar="ID", help=text, rich_help_panel="Scope")


PATH_HELP = "Folder of the memory; default ~/.memory, or PERDURE_PATH."
PathOption = Annotated[
    Path | None, typer.Option("--path", metavar="DIR", callback=_chosen_folder, show_default=False, help=PATH_HELP)
]
UserOption = Annotated[str | None, _scope_option("user", "user")]
AgentOption = Annotated[str | None, _scope_option("agent", "agent")]
RunOption = Annotated[str | None, _scope_option("run", "session")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, alone on standard output.", show_default=False)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Confirm: proceed without asking.", show_default=False)]
MetadataOption = Annotated[
    dict[str, Any] | None,
    typer.Option("--metadata", metavar="JSON", parser=_json_object, help="A JSON object to store with each memory."),
]
FilterOption = Annotated[
    dict[str, Any] | None,
    typer.Option(
        "--filter", metavar="JSON", parser=_json_object,
        help='Only memories that match, such as \'{"tag": "work"}\' or \'{"created_at": {"gte": "2026-01-01"}}\'.',
    ),
]  # fmt: skip
ThresholdOption = Annotated[
    float | None, typer.Option("--threshold", metavar="SHARE", help="The least score, from 0 to 1.")
]
PresetOption = Annotated[
    str | None, typer.Option("--preset", metavar="NAME", help="Search preset: best (default), plain, router or proxy.")
]
AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="Read the memory as it was at this time, such as 2026-03-01."),
]
PastOption = Annotated[
    bool,
    typer.Option(
        "--include-past", help="Include memories that are no longer valid or have expired.", show_default=False
    ),
]
CONTEXT = {"help_option_names": ["-h", "--help"]}  # settings of every command
