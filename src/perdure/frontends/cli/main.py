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
from perdure.frontends.cli import (
    benching,
    carrying,
    chatting,
    demonstrating,
    examining,
    keeping,
    keys,
    looking,
    memory_group,
    moving,
    proxying,
    removing,
    serving,
    starting,
    tidying,
    trusting,
    versions,
    writing,
)
from perdure.frontends.cli.options import CONTEXT, DEFAULT_FOLDER

FAILED, USAGE, NOT_FOUND, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141

# Typer carries a Click of its own in some versions and imports it in others; this is the base of its usage errors.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="perdure",
    add_completion=True,
    no_args_is_help=False,
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
    """Long-term memory for AI agents: facts that are kept, corrected and recalled, and what was believed when.

    A memory is a folder, and nothing leaves this machine unless its settings name a service. They stand in
    perdure.toml there, which init writes. What only looks, changes or deletes makes no folder where there is
    none. Every command prints JSON with --json. Status 0 is done, 1 failed, 2 usage, 3 not found.

    Example: perdure add "I moved to Lisbon last week" --user-id ana

    Example: perdure search "where does she live?" --user-id ana
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("init", starting.init, "Write the settings file of a memory."),
    ("add", writing.add, "Remember what was said."),
    ("search", looking.search, "Find the memories that answer a question."),
    ("why-not", looking.why_not, "Tell why a search does not give a memory."),
    ("list", looking.list_memories, "List memories, oldest first."),
    ("get", looking.get, "Show one memory."),
    ("update", writing.update, "Overwrite the text of one memory."),
    ("delete", removing.delete, "Delete memories; their history stays."),
    ("forget", removing.forget, "Forget for good, wherever the text lies."),
    ("history", looking.history, "Show everything that happened to a memory."),
    ("undo", writing.undo, "Take back one event."),
    ("log", versions.log, "Tell what was learned, version by version."),
    ("diff", versions.diff, "Show what differs between two versions."),
    ("revert", versions.revert, "Take back what one version changed."),
    ("branch", versions.branch, "List branches, or go to one."),
    ("merge", versions.merge, "Take in what another branch learned."),
    ("pull", versions.pull, "Take in what the remote has learned."),
    ("push", versions.push, "Bring this branch to the remote."),
    ("trust", trusting.trust, "Let a quarantined memory enter prompts."),
    ("distrust", trusting.distrust, "Keep a memory out of prompts."),
    ("chat", chatting.chat, "Talk to a model that remembers."),
    ("demo", demonstrating.demo, "Live through a conversation and watch."),
    ("doctor", examining.doctor, "Look whether all of it agrees, and mend it."),
    ("bench", benching.bench, "Measure recall on what is stored."),
    ("reindex", moving.reindex, "Embed all memories anew, and switch."),
    ("copy", moving.copy, "Copy all memories into another store."),
    ("export", carrying.export, "Write a memory as lines of JSON."),
    ("import", carrying.import_lines, "Take in lines of JSON, or what other tools export."),
    ("consolidate", tidying.consolidate, "Merge memories of one matter into one."),
    ("reflect", tidying.reflect, "Show what memories tell together."),
    ("feedback", keeping.feedback, "Say what a memory is worth."),
    ("prune", keeping.prune, "Delete what has decayed."),
    ("expire", keeping.expire, "Delete what is past its time."),
    ("quota", keeping.quota, "Delete what is beyond a user's quota."),
    ("evict", keeping.evict, "Delete the oldest of one conversation."),
    ("backup", keeping.backup, "Write the whole memory into one file."),
    ("restore", keeping.restore, "Bring a memory back from a backup."),
    ("upkeep", keeping.upkeep, "Do what is due of all that."),
    ("serve", serving.serve, "Serve a memory over HTTP."),
    ("proxy", proxying.proxy, "Let any OpenAI client remember."),
)
for name, command, line in COMMANDS:
    app.command(name, short_help=line, context_settings=CONTEXT)(command)
app.add_typer(memory_group.app, name="memory", short_help="Keep memories as Markdown files: a proxy, and add.")
app.add_typer(keys.app, name="keys", short_help="Say who may ask a server: make, list and end keys.")


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
        # Nobody reads any more: the interpreter's own flush at the end must not complain about it.
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
