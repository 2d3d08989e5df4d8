"""memory: the commands of a memory in files, as spec 002's proxy has them."""

from __future__ import annotations

import typer

from perdure.frontends.cli import memory_adding, memory_proxying
from perdure.frontends.cli.options import CONTEXT

app = typer.Typer(context_settings=CONTEXT, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def memory() -> None:
    """Keep memories as Markdown files: serve them to every OpenAI client, and add to them by hand.

    The folder is named by --memory-path, which stands here for --path, and is ./memory_db by default. Both commands
    take --json. The other commands work on such a folder too: perdure --path ./memory_db log.

    Example: perdure memory proxy --openai-base-url http://localhost:11434/v1

    Example: perdure memory add "User likes hiking"
    """


for _name, _command, _line in (
    ("proxy", memory_proxying.proxy, "Let any OpenAI client remember, in files."),
    ("add", memory_adding.add, "Write memories as files, without any model."),
):
    app.command(_name, short_help=_line, context_settings=CONTEXT)(_command)
