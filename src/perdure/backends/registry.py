"""Finds providers by name: the folder is the family, the file or folder in it the provider.

Nothing is imported before it is used, so that an unused driver is never needed. A provider is a subclass of its
family's port with `name` equal to that name, in the file or in the folder's `store.py`, with a nested pydantic model
`Settings` and `__init__(self, settings)`. A provider elsewhere is named by its import path, "package.module:Class".
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from perdure.backends.extras import extra_line
from perdure.backends.validation import config_error
from perdure.domain.errors import ConfigError, DependencyError
from perdure.domain.text.readable import kind_of

SECTIONS: Mapping[str, str] = {
    "vector_stores": "vector_store",
    "embedders": "embedder",
    "llms": "llm",
    "rerankers": "reranker",
    "graphs": "graph_store",
    "ledgers": "history",
    "caches": "cache",
}
"""Each family and the key under which a configuration names its provider."""


_FAMILIES = Path(__file__).parent


def providers(family: str) -> list[str]:
    """Return the names of a family's providers, sorted, without imports; ConfigError for an unknown family."""
    if family not in SECTIONS:
        raise ConfigError(
            f"{family!r} is no family of backends{_suggest(family, SECTIONS)}; there are {_listed(SECTIONS)}",
            field="family",
            value=family,
        )
    modules = pkgutil.iter_modules([str(_FAMILIES / family)])
    names = (module.name for module in modules if not module.ispkg or _is_package(family, module.name))
    return sorted(name for name in names if name != "base" and not name.startswith("_"))


def load(family: str, name: str) -> type[Any]:
    """Return a provider's class by its name or by "package.module:Class".

    ConfigError for an unknown name, with the nearest one and all of them; DependencyError with the pip command if a
    driver is missing.
    """
    known = providers(family)
    key = f"{SECTIONS[family]}.provider"
    if ":" in name:
        return _load_path(family, name, key)
    if name not in known:
        raise ConfigError(
            f"{key}: {name!r} is no provider{_suggest(name, known)}; there are {_listed(known)}, "
            "or an import path package.module:Class",
            field=key,
            value=name,
        )
    place = f"{__package__}.{family}.{name}"
    try:
        module = importlib.import_module(f"{place}.store" if _is_package(family, name) else place)
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "perdure":
            raise  # a fault of perdure's own, which no installing would mend
        raise missing_driver(name, error) from error
    port = _port(family)
    for found in vars(module).values():
        if isinstance(found, type) and issubclass(found, port) and getattr(found, "name", None) == name:
            return found
    raise ConfigError(f"{module.__name__} holds no {port.__name__} named {name!r}", field=key, value=name)


def build(family: str, name: str, config: Mapping[str, Any]) -> Any:
    """Build a provider from its settings as plain values.

    ConfigError names the wrong key (`embedder.config.dimensions`), its value unless it is secret, and the nearest right
    key; otherwise fails as `load` does.
    """
    provider = load(family, name)
    section = f"{SECTIONS[family]}.config"
    if not isinstance(config, Mapping):
        raise ConfigError(f"{section} must be a table of settings, not {kind_of(config)}", field=section, value=config)
    settings_class = getattr(provider, "Settings", None)
    if not (isinstance(settings_class, type) and issubclass(settings_class, BaseModel)):
        raise ConfigError(f"{provider.__qualname__} has no pydantic model named Settings", field=section, value=name)
    try:
        settings = settings_class.model_validate(dict(config))
    except ValidationError as error:
        raise config_error(error, settings_class, section) from None
    return provider(settings)


def missing_driver(provider: str, error: ImportError) -> DependencyError:
    """Return the error for a driver that cannot be imported, with the pip command that installs it."""
    if isinstance(error, DependencyError):
        return error
    pip_line = extra_line(provider)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return DependencyError(f"{provider} needs the package {error.name}, which is not installed: {pip_line}")
    return DependencyError(f"{provider} could not import its driver ({error}); to install it again: {pip_line}")


def _is_package(family: str, name: str) -> bool:
    """Whether the provider is a folder with its class in `store.py`."""
    return (_FAMILIES / family / name / "store.py").is_file()


def _load_path(family: str, path: str, key: str) -> type[Any]:
    module_name, _, class_name = path.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), class_name]):
        raise ConfigError(f"{key}: {path!r} is no import path package.module:Class", field=key, value=path)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{key}: there is no module {error.name!r} to import", field=key, value=path) from None
        raise DependencyError(f"{path} needs the package {error.name}, which is not installed") from error
    except ImportError as error:
        raise DependencyError(f"{path} could not be imported: {error}") from error
    found = getattr(module, class_name, None)
    port = _port(family)
    if isinstance(found, type) and issubclass(found, port):
        return found
    fitting = [name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, port)]
    problem = f"is no subclass of {port.__module__}.{port.__name__}" if found else f"is not in {module_name}"
    raise ConfigError(f"{key}: {class_name!r} {problem}{_suggest(class_name, fitting)}", field=key, value=path)


def _port(family: str) -> type[Any]:
    """Return the family's port: the abstract class in its base.py that declares `name`."""
    base = importlib.import_module(f"{__package__}.{family}.base")
    classes = [value for value in vars(base).values() if isinstance(value, type) and value.__module__ == base.__name__]
    for found in classes:
        if inspect.isabstract(found) and "name" in inspect.get_annotations(found):
            return found
    raise TypeError(f"{base.__name__} holds no abstract class with a name")


def _suggest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
