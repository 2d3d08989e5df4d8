"""The group of all commands: it has their names and help lines, and imports a command when it runs.

Importing every command takes longer than everything else that `perdure --help` does.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from perdure.frontends.cli.options import CONTEXT


class Command(NamedTuple):
    """A command of the table, or a group of commands."""

    name: str
    place: str  # its module below `commands`, a colon, and the function; or the Typer app of a group
    line: str  # its line in the list of commands

    def load(self) -> Any:
        """Import it."""
        module, _, name = self.place.partition(":")
        target = getattr(import_module(f"{__package__}.commands.{module}"), name)
        if isinstance(target, typer.Typer):
            made: Any = typer.main.get_group(target)
        else:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            alone.command(self.name, context_settings=CONTEXT)(target)
            made = typer.main.get_command(alone)
        made.name, made.short_help = self.name, self.line
        return made


class Commands(MutableMapping[str, Any]):
    """Commands by name, in the order of the table; each is imported when it is first requested."""

    def __init__(self, table: tuple[Command, ...]) -> None:
        self.lines = {each.name: each.line for each in table}
        self._table: dict[str, Command] = {each.name: each for each in table}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._table[name].load()
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self.lines.setdefault(name, command.get_short_help_str())
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self.lines[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)


def group_of(table: tuple[Command, ...]) -> type[TyperGroup]:
    """Return a class of groups with the commands of a table."""

    class Group(TyperGroup):
        """A group whose list of commands imports none of them."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = Commands(table)

        def list_commands(self, ctx: Any) -> list[str]:
            """Return the names in the order of the table."""
            return list(self.commands)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Write the list of commands."""
            assert isinstance(self.commands, Commands), "made above"
            with formatter.section("Commands"):
                formatter.write_dl(list(self.commands.lines.items()))

    return Group
