"""Settings: user paths, and one ConfigError without secrets for pydantic's errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ValidationError

from perdure.domain.errors import ConfigError

UserPath = Annotated[Path, AfterValidator(Path.expanduser)]  # a path in which `~` is the user's home
_SECRET_KEY = re.compile(r"key|token|secret|password|passwd|credential|authorization|headers", re.IGNORECASE)
_USERINFO = re.compile(r"://[^@/\s]*@")
_HIDDEN = "***"
_LONGEST = 80  # characters of a value that an error shows


def config_error(error: ValidationError, model: type[BaseModel], section: str = "") -> ConfigError:
    """Return one ConfigError for all problems; its `field` and `value` are the first one's.

    `section` is the key above the model's ("embedder.config"). An unknown key gets the nearest right one;
    secret-looking values, and the user part of addresses, are hidden.
    """
    problems = error.errors(include_url=False, include_context=False)
    lines = [_explain(problem, model, section) for problem in problems]
    first = problems[0]
    return ConfigError("; ".join(lines), field=_key(section, first["loc"]), value=_shown_value(first))


def _explain(problem: Any, model: type[BaseModel], section: str) -> str:
    key = _key(section, problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key} is no setting{_nearest(model, problem['loc'])}"
    if problem["type"] == "missing":
        return f"{key} is required"
    message = problem["msg"].removeprefix("Value error, ")
    if not problem["loc"]:  # the value would be the whole table, secrets included
        return f"{key}: {message}" if key else message
    given = repr(_shown_value(problem))
    return f"{key}: {message}, not {given if len(given) <= _LONGEST else f'{given[:_LONGEST]}...'}"


def _key(section: str, location: Sequence[str | int]) -> str:
    return ".".join([section, *map(str, location)] if section else map(str, location))


def _shown_value(problem: Any) -> object:
    """Return the rejected value, or a mask; None if pydantic would give the table around it."""
    if problem["type"] == "missing" or not problem["loc"]:
        return None
    if any(_SECRET_KEY.search(str(part)) for part in problem["loc"]):
        return _HIDDEN
    return _masked(problem["input"])


def _masked(value: object) -> object:
    if isinstance(value, str):
        return _USERINFO.sub(f"://{_HIDDEN}@", value)
    if isinstance(value, dict):
        return {key: _HIDDEN if _SECRET_KEY.search(str(key)) else _masked(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(inner) for inner in value]
    return value


def _nearest(model: type[BaseModel], location: Sequence[str | int]) -> str:
    owner = _model_at(model, location[:-1])
    known = [field.alias or name for name, field in owner.model_fields.items()] if owner else []
    near = difflib.get_close_matches(str(location[-1]).lower(), known, n=1)
    if near:
        return f", did you mean {near[0]!r}?"
    return f" (there are {', '.join(known)})" if known else ""


def _model_at(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """Return the model at a path; list positions and tags of unions are skipped."""
    for part in path:
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                inner = next(_models_in(field.annotation), None)
                if inner is None:
                    return None
                model = inner
                break
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
