"""Write docs/configuration.md, cli.md, stores.md, runtime-reference.md, the files of discovery.py and first_words.py
from the code.

    python docs/generate.py [--check]

`--check` writes nothing and fails where a page differs from what it would write; a test runs it.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import typer
from discovery import ROOT, discovery_files
from first_words import first_words
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from runtime_page import runtime_page
from stores_page import stores_page

from perdure.backends import registry
from perdure.engine.config.config import MemoryConfig
from perdure.frontends.cli.main import app
from perdure.frontends.server.settings import ServerSettings

INTRODUCTION = """\
Pass these keys to `Memory(config)` as a dict or a `MemoryConfig`, put them in a TOML file (`Memory.from_file`), or set
`PERDURE_...` variables, with nested keys joined by two underscores: `PERDURE_EMBEDDER__PROVIDER=hashed`. Variables
override the file, and arguments override both. A missing part is the embedded default. An unknown key is an error that
names the nearest known one."""

FOLDER = Path(__file__).parent
WIDTH = 100
"""Columns of a page; tables and code may be wider."""

FAMILIES = {
    "vector_stores": "vector_store", "embedders": "embedder", "llms": "llm", "rerankers": "reranker",
    "graphs": "graph_store", "ledgers": "history", "caches": "cache",
}  # fmt: skip


def configuration() -> str:
    parts = [
        "# Configuration",
        "<!-- made by docs/generate.py from the code: do not edit -->",
        INTRODUCTION,
        "## Keys",
        table(["key", "default", "meaning"], rows(MemoryConfig)),
        "## Server\n\n`perdure serve` reads the `server` table ([server.md](server.md)).",
        table(["key", "default", "meaning"], rows(ServerSettings, "server.")),
        "## Providers",
    ]
    for family, section in FAMILIES.items():
        for name in registry.providers(family):
            provider = registry.load(family, name)
            summary = (provider.__doc__ or "").strip().split("\n")[0]
            parts.append(f"### `{section}`: `{name}`\n\n{summary}")
            parts.append(table(["setting", "default", "meaning"], rows(provider.Settings)))
    return "\n\n".join(parts) + "\n"


def rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner = next((each for each in candidates(field.annotation) if is_model(each)), None)
        if inner is not None:
            yield from rows(inner, f"{prefix}{field.alias or name}.")
        else:
            yield f"`{prefix}{field.alias or name}`", default(field), meaning(field)


def candidates(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    return f"`{value}`" if value not in (None, {}, []) else "none"


def meaning(field: FieldInfo) -> str:
    choices = [each for part in candidates(field.annotation) if get_origin(part) is Literal for each in get_args(part)]
    listed = f" ({', '.join(f'`{choice}`' for choice in choices)})" if choices else ""
    return f"{' '.join((field.description or '').split())}{listed}"


def table(head: list[str], body: Iterator[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in body]
    return "\n".join(lines) if len(lines) > 2 else "No settings."


def command_line() -> str:
    command = typer.main.get_command(app)
    parts = ["# Command line", "<!-- made by docs/generate.py from the code: do not edit -->", describe(command)]
    for name, each in commands(command):
        parts += [f"## perdure {name}", describe(each)]
        parts.append(
            table(
                ["option", "meaning"],
                ((flags(each_parameter), help_of(each_parameter)) for each_parameter in each.params),
            )
        )
    return "\n\n".join(parts) + "\n"


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command under its whole name, those of groups after the group itself."""
    for name, each in sorted(getattr(group, "commands", {}).items()):
        yield f"{prefix}{name}", each
        yield from commands(each, f"{prefix}{name} ")


def describe(command: Any) -> str:
    return (command.help or "").replace("\b\n", "").strip()


def flags(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name or ""
        return f"`{name.upper()}`"
    return " ".join(f"`{flag}`" for flag in [*parameter.opts, *parameter.secondary_opts])


def help_of(parameter: Any) -> str:
    return " ".join((getattr(parameter, "help", None) or "").split())


def main() -> int:
    # Leave no variable of the caller's that a default could come from.
    for name in set(os.environ) - {"PATH", "HOME", "LANG", "VIRTUAL_ENV"}:
        del os.environ[name]
    pages = {
        "configuration.md": configuration(),
        "cli.md": command_line(),
        "stores.md": stores_page(table),
        "runtime-reference.md": runtime_page(table),
    }
    files = {FOLDER / name: wrapped(text) for name, text in pages.items()} | discovery_files() | first_words()
    stale = [file for file, text in files.items() if not same(file, text)]
    if "--check" in sys.argv[1:]:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is not what the code says: run python docs/generate.py")
        return 1 if stale else 0
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(files[file], encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")
    return 0


CODE = re.compile(r"`[^`]{1,60}`")
"""Code within a line, which is kept on one line."""
ITEM = re.compile(r"( *)((?:[-*]|\d+\.) )?")
"""What a line of Markdown begins with: its indent, and the mark of a list's item."""


def wrapped(page: str) -> str:
    """Fill the paragraphs and list items of a page to 100 columns; leave code, tables, headings and comments alone."""
    lines: list[str] = []
    paragraph: list[str] = []
    in_code = False

    def fill() -> None:
        if paragraph:
            start = ITEM.match(paragraph[0])
            assert start is not None
            text = CODE.sub(lambda code: code[0].replace(" ", "\0"), " ".join(each.strip() for each in paragraph))
            lines.extend(
                line.replace("\0", " ")
                for line in textwrap.wrap(
                    text,
                    WIDTH,
                    initial_indent=start[1],
                    subsequent_indent=" " * len(start[0]),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
            paragraph.clear()

    for line in page.splitlines():
        is_fence = line.lstrip().startswith("```")
        if in_code or is_fence or not line.strip() or line.startswith(("|", "#", "<", "    ")):
            if line.startswith("    ") and paragraph and not in_code:
                paragraph.append(line)
                continue
            fill()
            lines.append(line)
            in_code ^= is_fence
            continue
        if (mark := ITEM.match(line)) and mark[2]:
            fill()
        paragraph.append(line)
    fill()
    return "\n".join(lines) + "\n"


def same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
