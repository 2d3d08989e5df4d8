"""The text of perdure.toml: every setting with its meaning and default, generated from the settings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from perdure.backends import registry
from perdure.engine.config.config import IN_FILES, MemoryConfig
from perdure.frontends.server.settings import ServerSettings

HEAD = """\
# Settings of this memory; every perdure command that is given this folder reads them. Each line that begins with "# "
# and a name is a default: take the "# " away to change it. A variable PERDURE_NAME (nested names are joined by two
# underscores, as in PERDURE_EMBEDDER__PROVIDER) stands above this file.
"""

_PLACED = ("vector_store", "history")  # sections whose providers use the memory's folder by default


def settings_text(folder: Path, store: str = "sqlite") -> str:
    """Return the file for a folder, with everything commented out, so that it changes nothing at first.

    For another vector store than the default it names the provider, and for `markdown` the settings of a memory in
    files; ConfigError for an unknown name.
    """
    told = IN_FILES if store == IN_FILES["vector_store"]["provider"] else {}
    own = {"path": f"# path = {toml(folder)}"}
    own |= {name: f"{name} = {toml(value)}" for name, value in told.items() if isinstance(value, str)}
    parts = [HEAD.rstrip()]
    sections = {name: _section_of(field) for name, field in MemoryConfig.model_fields.items()} | {
        "server": ServerSettings
    }
    for name, section in sections.items():
        if section is None:
            parts.append("\n".join(_entry(name, MemoryConfig.model_fields[name], own.get(name))))
    for name, section in sections.items():
        if section is not None:
            chosen = store if name == "vector_store" else None
            parts.append("\n".join(_section(name, MemoryConfig.model_fields[name], section, chosen)))
    return "\n\n".join(parts) + "\n"


def _section(name: str, field: FieldInfo, section: type[BaseModel], chosen: str | None = None) -> Iterator[str]:
    default = field.get_default(call_default_factory=True)
    is_told = chosen is not None and chosen != default.provider
    meaning = field.description or (inspect.getdoc(section) or "").partition("\n\n")[0]
    yield f"# {' '.join(meaning.split())}"
    # An empty table inside another would count as a setting.
    unset = all(inner.get_default(call_default_factory=True) is None for inner in section.model_fields.values())
    yield f"# [{name}]" if default is None or ("." in name and unset) else f"[{name}]"
    nested = {key: _section_of(inner) for key, inner in section.model_fields.items()}
    for key, inner in section.model_fields.items():
        if key != "config" and nested[key] is None:
            line = None if default is not None else f'# {key} = "..."'
            yield from _entry(key, inner, f"provider = {toml(chosen)}" if is_told and key == "provider" else line)
    for key, table in nested.items():  # everything after a table's name in TOML belongs to it
        if table is not None:
            yield ""
            yield from _section(f"{name}.{key}", section.model_fields[key], table)
    if "config" in section.model_fields:
        yield from _provider_settings(name, chosen or (default and default.provider))


def _provider_settings(name: str, provider: str | None) -> Iterator[str]:
    """Yield the settings of a section's current provider."""
    if provider is None:
        yield "# config is a table with the provider's own settings"
        return
    families = {section: family for family, section in registry.SECTIONS.items()}
    settings = registry.load(families[name], provider).Settings
    yield ""
    yield f"# Settings of {provider}; another provider has others"
    yield f"[{name}.config]"
    places = {"sqlite": "a file in the memory's folder", "markdown": "the memory's folder"}
    own = {"path": f"# path is {places[provider]}"} if name in _PLACED and provider in places else {}
    for key, field in settings.model_fields.items():
        yield from _entry(key, field, own.get(key))


def _entry(name: str, field: FieldInfo, line: str | None = None) -> Iterator[str]:
    """Yield the meaning of a setting, and its default as a commented line."""
    value = field.get_default(call_default_factory=True)
    choices = _choices(field.annotation)
    if field.description:
        yield f"# {' '.join(field.description.split())}{f': {choices}' if choices else ''}"
    if line is not None:
        yield line
    elif field.is_required() or isinstance(value, SecretStr):
        yield f'# {name} = "..."'
    elif value is None:
        yield f"# {name} is not set"
    elif isinstance(value, BaseModel):
        yield f"# {name} is a table"
    else:
        yield f"# {name} = {toml(value)}"


def toml(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, Path):
        value = str(value)
    return json.dumps(value, ensure_ascii=False)  # text, numbers and booleans are the same in TOML and JSON


def _choices(annotation: Any) -> str:
    """Return the allowed words of a setting, if it is limited to some."""
    for kind in (annotation, *get_args(annotation)):
        if get_origin(kind) is Literal:
            return ", ".join(toml(choice) for choice in get_args(kind))
    return ""


def _section_of(field: FieldInfo) -> type[BaseModel] | None:
    for kind in (field.annotation, *get_args(field.annotation)):
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            return kind
    return None
