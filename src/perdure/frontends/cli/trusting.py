"""trust and distrust: a person's verdict on a memory, and how the marks of the firewall are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.frontends.cli.opening import with_memory
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import ID, MEMORY, print_json, print_table

if TYPE_CHECKING:
    from perdure.domain.memory import MemoryItem


def trust(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Let a quarantined memory enter prompts from now on. Where it came from stays known, and undo takes it back.

    What a tool answered, and what gives a model orders, is kept but put into no prompt until then. Such memories are
    listed by perdure list --quarantined.

    Example: perdure trust 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55
    """
    _show(with_memory(folder(path), lambda memory: memory.trust(id)), as_json)


def distrust(
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")] = "distrusted",
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Keep a memory out of prompts from now on. It is still found and listed, with the reason; undo takes it back.

    Example: perdure distrust 3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55 --reason "copied from a web page"
    """
    _show(with_memory(folder(path), lambda memory: memory.distrust(id, reason)), as_json)


def marked(item: MemoryItem) -> str:
    """A memory's text with what a reader should know of it: that it is kept out of prompts, or may replace others."""
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
