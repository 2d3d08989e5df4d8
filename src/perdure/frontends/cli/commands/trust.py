"""The commands trust and distrust, and how quarantined memories are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.frontends.cli.open_memory import with_memory
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import ID, MEMORY, print_json, print_table

if TYPE_CHECKING:
    from perdure.domain.memory import MemoryItem


def trust(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Allow a quarantined memory in prompts from now on. Its source stays recorded, and undo reverses this.

    Memories that came from a tool, or that read like orders to a model, are stored but put into no prompt until then.
    perdure list --quarantined lists them.

    Example: perdure trust 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55
    """
    _show(with_memory(folder(path), lambda memory: memory.trust(id)), as_json)


def distrust(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason.")] = "distrusted",
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Keep a memory out of prompts from now on. It is still found and listed, with the reason; undo reverses this.

    Example: perdure distrust 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55 --reason "copied from a web page"
    """
    _show(with_memory(folder(path), lambda memory: memory.distrust(id, reason)), as_json)


def marked(item: MemoryItem) -> str:
    """Return a memory's text with marks: whether it is quarantined, or may replace others."""
    marks = []
    if item.quarantined is not None:
        marks.append(f"[quarantined: {item.quarantined}]")
    if item.older:
        marks.append(f"[may replace: {', '.join(item.older)}]")
    return " ".join([item.memory, *marks])


def _show(item: MemoryItem, as_json: bool) -> None:
    if as_json:
        print_json(item.model_dump())
    else:
        print_table([MEMORY, ID], [(marked(item), item.id)])
