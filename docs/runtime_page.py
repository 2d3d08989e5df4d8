"""docs/runtime-reference.md: every method of AgentRuntime in both spellings, and the tables of its ledger."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from typing import Any

from perdure import AgentRuntime
from perdure.backends.ledgers.sql.records import TABLES
from perdure.domain.runtime import Record, camel, snake
from perdure.frontends.library.runtime.memories import RuntimeDocuments, RuntimeMemories
from perdure.frontends.library.runtime.tables import People, Places, Servers, Work

INTRODUCTION = """\
All methods of [`AgentRuntime`](runtime.md) are coroutines unless the table says otherwise. Each takes its values by
position, as keywords, or in one dictionary, with names in either case; `=` marks optional arguments. Methods that take
the fields of a record accept the fields listed in the last table."""
PARTS: tuple[tuple[str, type], ...] = (
    ("Memories", RuntimeMemories),
    ("Documents", RuntimeDocuments),
    ("Agents, entities, components, relationships", People),
    ("Worlds, rooms, participants", Places),
    ("Tasks, cache, logs", Work),
    ("Message servers, channels", Servers),
    ("Events, queue, lifecycle", AgentRuntime),
)
_NUMBERS = re.compile(r" \((?:[A-Z]\d+(?:, [A-Z]\d+)*|DESIGN §\d)\)")
"""Numbers of a specification's lines, which tell a reader of the docs nothing."""

Table = Callable[[list[str], Iterator[tuple[str, ...]]], str]


def runtime_page(table: Table) -> str:
    parts = [
        "# AgentRuntime: methods and tables",
        "<!-- made by docs/generate.py from the code: do not edit -->",
        INTRODUCTION,
    ]
    for title, part in PARTS:
        parts += [f"## {title}", table(["method", "in camelCase", "what it does"], methods(part))]
    told = "The fields that identify a record are **bold**; `=` marks optional fields."
    parts += ["## Tables", told, table(["table", "fields", "what a record is"], tables())]
    return "\n\n".join(parts) + "\n"


def methods(part: type) -> Iterator[tuple[str, str, str]]:
    for name, member in vars(part).items():
        function = member.__func__ if isinstance(member, classmethod) else member
        if name.startswith("_") or name != snake(name) or not inspect.isfunction(function):
            continue
        is_now = not inspect.iscoroutinefunction(inspect.unwrap(function))
        asked = ", ".join(argument(each) for each in list(inspect.signature(function).parameters.values())[1:])
        told = sentences(function) + (" Not a coroutine." if is_now else "")
        yield f"`{name}({asked})`", f"`{camel(name)}`" if camel(name) != name else "the same", told


def argument(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    return parameter.name if parameter.default is inspect.Parameter.empty else f"{parameter.name}="


def sentences(function: Any) -> str:
    first = (inspect.getdoc(function) or "").split("\n\n")[0]
    return _NUMBERS.sub("", " ".join(first.split()))


def tables() -> Iterator[tuple[str, str, str]]:
    for noun, stood in TABLES.items():
        listed = [f"**{camel(name)}**" for name in noun.KEY] + [column(noun, each) for each in rest(noun)]
        yield f"`{stood.name}`", ", ".join(listed), sentences(noun)


def rest(noun: type[Record]) -> list[Any]:
    return [each for each in fields(noun) if each.name not in noun.KEY and each.name not in noun.LISTED]


def column(noun: type[Record], field: Any) -> str:
    given = field.default is not MISSING or field.default_factory is not MISSING
    ours = field.name in ("id", "agent_id", "created_at", "updated_at")
    return f"{camel(field.name)}=" if given or ours else camel(field.name)
