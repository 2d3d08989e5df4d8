"""`perdure`: the program, and its exit statuses.

0 done, 1 failed, 2 usage, 3 not found, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from perdure import __version__
from perdure.domain.errors import InvalidInputError, NotFoundError, PerdureError, ScopeError
from perdure.frontends.cli.options import CONTEXT, DEFAULT_FOLDER
from perdure.frontends.cli.output import log_to_stderr


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


FAILED, USAGE, NOT_FOUND, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141

# Typer bundles Click in some versions and imports it in others; this is the base of its usage errors.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
COMMANDS = (
    Command("init", "init:init", "Write the settings file of a memory."),
    Command("add", "add:add", "Extract facts from a text and store them."),
    Command("search", "search:search", "Find the memories that answer a question."),
    Command("why-not", "search:why_not", "Explain why a search misses a memory."),
    Command("list", "search:list_memories", "List memories, oldest first."),
    Command("get", "search:get", "Show one memory."),
    Command("update", "add:update", "Replace the text of one memory."),
    Command("delete", "forget:delete", "Delete memories and keep their history."),
    Command("forget", "forget:forget", "Erase memories everywhere, for good."),
    Command("history", "search:history", "Show the history of a memory."),
    Command("undo", "add:undo", "Undo one event."),
    Command("log", "versions:log", "List versions and what each one changed."),
    Command("diff", "versions:diff", "Compare two versions."),
    Command("revert", "versions:revert", "Undo the changes of one version."),
    Command("branch", "versions:branch", "List branches, or switch to one."),
    Command("merge", "versions:merge", "Merge another branch."),
    Command("pull", "versions:pull", "Merge changes from the remote."),
    Command("push", "versions:push", "Push this branch to the remote."),
    Command("trust", "maintenance:trust", "Allow a quarantined memory in prompts."),
    Command("distrust", "maintenance:distrust", "Keep a memory out of prompts."),
    Command("chat", "chat:chat", "Chat with a model that has a memory."),
    Command("demo", "demo:demo", "Replay a sample conversation."),
    Command("doctor", "doctor:doctor", "Check consistency; --repair fixes it."),
    Command("bench", "bench:bench", "Measure recall on the stored memories."),
    Command("reindex", "reindex:reindex", "Re-embed all memories."),
    Command("copy", "reindex:copy", "Copy all memories into another store."),
    Command("export", "export:export", "Export a memory as JSON Lines."),
    Command("import", "import_:import_lines", "Import JSON Lines, or other tools' exports."),
    Command("consolidate", "consolidate:consolidate", "Merge related memories into one."),
    Command("reflect", "consolidate:reflect", "Find patterns across memories."),
    Command("feedback", "maintenance:feedback", "Rate a memory."),
    Command("prune", "maintenance:prune", "Delete stale memories."),
    Command("expire", "maintenance:expire", "Delete expired memories."),
    Command("quota", "maintenance:quota", "Delete memories over a user's quota."),
    Command("evict", "maintenance:evict", "Delete the oldest entries of a conversation."),
    Command("backup", "backup:backup", "Back up the memory to one file."),
    Command("restore", "backup:restore", "Restore a memory from a backup."),
    Command("upkeep", "maintenance:upkeep", "Run all due maintenance."),
    Command("serve", "serve:serve", "Serve a memory over HTTP."),
    Command("proxy", "proxy:proxy", "Add memory to any OpenAI client."),
    Command("mcp", "clients.mcp:mcp", "Serve a memory to an MCP client."),
    Command("hook", "clients.hook:hook", "Answer a hook of an agent's client."),
    Command("install", "clients.install:install", "Put perdure into a client's settings."),
)
GROUPS = (
    Command("memory", "memory.group:app", "Keep memories as Markdown files."),
    Command("keys", "keys:app", "Manage API keys."),
)

app = typer.Typer(
    name="perdure",
    cls=group_of((*COMMANDS, *GROUPS)),
    context_settings=CONTEXT,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perdure {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def perdure(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Option(
            "--path",
            metavar="DIR",
            envvar="PERDURE_PATH",
            show_default=False,
            help="Folder of the memory, here or after the command; by default ~/.memory.",
        ),
    ] = DEFAULT_FOLDER,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Long-term memory for AI agents: keep, correct and recall facts, and see what was believed when.

    A memory is a folder. Nothing leaves this machine unless the settings name a service. The settings are in
    perdure.toml in that folder; init writes the file. Commands that read, change or delete never create a
    folder. Every command prints JSON with --json; an error is then an object on the last line of standard
    error, with error, code, status, and field if one is wrong. Exit status: 0 done, 1 failed, 2 usage, 3
    not found.

    Example: perdure add "I moved to Lisbon last week" --user-id ana

    Example: perdure search "where does she live?" --user-id ana
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""The variables that NumPy's linear algebra reads when it is imported, and never again."""


def _use_one_blas_thread() -> None:
    """Keep NumPy from starting a thread for each core, unless the user set a number.

    A product with one user's vectors takes a fraction of a millisecond; helpers only spin, and take processor time from
    other requests. A library must not do this: the process is its host's.
    """
    if not any(os.environ.get(name) for name in BLAS_THREADS):
        os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with these arguments (default: the process's) and return its status."""
    if arguments is None:
        _use_one_blas_thread()
    log_to_stderr()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        status = typer.main.get_command(app).main(
            args=None if arguments is None else list(arguments), prog_name="perdure", standalone_mode=False
        )
        sys.stdout.flush()
    except PerdureError as error:
        named = {"field": field} if (field := getattr(error, "field", None)) else {}
        hint = " (--user-id NAME)" if isinstance(error, ScopeError) and error.message == ScopeError.TEXT else ""
        return _fail(error.message + hint, _status_of(error), arguments, code=error.code, **named)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands alone: its help, which is no error's line
            sys.stderr.write(f"{error}\n")
            return USAGE
        return _fail(_usage_text(error), USAGE, arguments, code="usage")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe: keep the interpreter's final flush from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return status if isinstance(status, int) else 0


def _status_of(error: PerdureError) -> int:
    if isinstance(error, InvalidInputError):
        return USAGE
    return NOT_FOUND if isinstance(error, NotFoundError) else FAILED


def _usage_text(error: Exception) -> str:
    formatted = getattr(error, "format_message", None)
    text = (formatted() if callable(formatted) else str(error)).removeprefix("Invalid value: ")
    context = getattr(error, "ctx", None)
    return f"{text} (see {context.command_path} --help)" if context is not None else text


def _fail(message: str, status: int, arguments: Sequence[str] | None, **told: str) -> int:
    """Write an error on one line of standard error, as a JSON object if the command was called with --json."""
    text = " ".join(message.split())
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in (given[: given.index("--")] if "--" in given else given)
    line = json.dumps({"error": text, **told, "status": status}, ensure_ascii=False) if as_json else f"perdure: {text}"
    sys.stderr.write(f"{line}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
