"""`perdure`: the program, and what its statuses mean.

0 done, 1 failed, 2 usage, 3 not found, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from perdure import __version__
from perdure.domain.errors import InvalidInputError, NotFoundError, PerdureError
from perdure.frontends.cli.commands import (
    add,
    backup,
    bench,
    chat,
    consolidate,
    demo,
    doctor,
    export,
    forget,
    import_,
    init,
    keys,
    maintenance,
    proxy,
    reindex,
    search,
    serve,
    trust,
    versions,
)
from perdure.frontends.cli.commands.memory import group
from perdure.frontends.cli.options import CONTEXT, DEFAULT_FOLDER

FAILED, USAGE, NOT_FOUND, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141

# Typer carries a Click of its own in some versions and imports it in others; this is the base of its usage errors.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(name="perdure", context_settings=CONTEXT, rich_markup_mode=None, pretty_exceptions_enable=False)


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
    folder. Every command prints JSON with --json. Exit status: 0 done, 1 failed, 2 usage, 3 not found.

    Example: perdure add "I moved to Lisbon last week" --user-id ana

    Example: perdure search "where does she live?" --user-id ana
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("init", init.init, "Write the settings file of a memory."),
    ("add", add.add, "Extract facts from a text and store them."),
    ("search", search.search, "Find the memories that answer a question."),
    ("why-not", search.why_not, "Explain why a search misses a memory."),
    ("list", search.list_memories, "List memories, oldest first."),
    ("get", search.get, "Show one memory."),
    ("update", add.update, "Replace the text of one memory."),
    ("delete", forget.delete, "Delete memories and keep their history."),
    ("forget", forget.forget, "Erase memories everywhere, for good."),
    ("history", search.history, "Show the history of a memory."),
    ("undo", add.undo, "Undo one event."),
    ("log", versions.log, "List versions and what each one changed."),
    ("diff", versions.diff, "Compare two versions."),
    ("revert", versions.revert, "Undo the changes of one version."),
    ("branch", versions.branch, "List branches, or switch to one."),
    ("merge", versions.merge, "Merge another branch."),
    ("pull", versions.pull, "Merge changes from the remote."),
    ("push", versions.push, "Push this branch to the remote."),
    ("trust", trust.trust, "Allow a quarantined memory in prompts."),
    ("distrust", trust.distrust, "Keep a memory out of prompts."),
    ("chat", chat.chat, "Chat with a model that has a memory."),
    ("demo", demo.demo, "Replay a sample conversation."),
    ("doctor", doctor.doctor, "Check consistency; --repair fixes it."),
    ("bench", bench.bench, "Measure recall on the stored memories."),
    ("reindex", reindex.reindex, "Re-embed all memories."),
    ("copy", reindex.copy, "Copy all memories into another store."),
    ("export", export.export, "Export a memory as JSON Lines."),
    ("import", import_.import_lines, "Import JSON Lines, or other tools' exports."),
    ("consolidate", consolidate.consolidate, "Merge related memories into one."),
    ("reflect", consolidate.reflect, "Find patterns across memories."),
    ("feedback", maintenance.feedback, "Rate a memory."),
    ("prune", maintenance.prune, "Delete stale memories."),
    ("expire", maintenance.expire, "Delete expired memories."),
    ("quota", maintenance.quota, "Delete memories over a user's quota."),
    ("evict", maintenance.evict, "Delete the oldest entries of a conversation."),
    ("backup", backup.backup, "Back up the memory to one file."),
    ("restore", backup.restore, "Restore a memory from a backup."),
    ("upkeep", maintenance.upkeep, "Run all due maintenance."),
    ("serve", serve.serve, "Serve a memory over HTTP."),
    ("proxy", proxy.proxy, "Add memory to any OpenAI client."),
)
for name, command, line in COMMANDS:
    app.command(name, short_help=line, context_settings=CONTEXT)(command)
app.add_typer(group.app, name="memory", short_help="Keep memories as Markdown files.")
app.add_typer(keys.app, name="keys", short_help="Manage API keys.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with these arguments (else the process's) and return its status."""
    logging.basicConfig(level=logging.WARNING, format="perdure: %(message)s", stream=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        status = typer.main.get_command(app).main(
            args=None if arguments is None else list(arguments), prog_name="perdure", standalone_mode=False
        )
        sys.stdout.flush()
    except PerdureError as error:
        return _fail(error.message, _status_of(error))
    except UsageError as error:
        return _fail(_usage_text(error), USAGE)
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
    text = formatted() if callable(formatted) else str(error)
    context = getattr(error, "ctx", None)
    return f"{text} (see {context.command_path} --help)" if context is not None else text


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"perdure: {' '.join(message.split())}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
