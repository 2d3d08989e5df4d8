"""The command group memory, for a memory in Markdown files."""

from __future__ import annotations

import typer

from perdure.frontends.cli.commands.memory import add, proxy
from perdure.frontends.cli.options import CONTEXT

app = typer.Typer(context_settings=CONTEXT, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def memory() -> None:
    """Keep memories as Markdown files: add them to every OpenAI client with a proxy, or write them by hand.

    --memory-path names the folder here instead of --path; default ./memory_db. Both commands take --json. The other
    commands work on such a folder too: perdure --path ./memory_db log.

    Example: perdure memory proxy --openai-base-url http://localhost:11434/v1

    Example: perdure memory add "User likes hiking"
    """


for _name, _command, _line in (
    ("proxy", proxy.proxy, "Add memory in files to any OpenAI client."),
    ("add", add.add, "Write memories as files, without any model."),
):
    app.command(_name, short_help=_line, context_settings=CONTEXT)(_command)
