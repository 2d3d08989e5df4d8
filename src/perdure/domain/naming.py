"""Names in both cases: snake_case here, camelCase where spec 003 writes for TypeScript."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.text import shown

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def snake(name: str) -> str:
    """A name in snake_case, whichever case it came in: `tableName` is `table_name`."""
    return _HUMP.sub("_", name).lower()


def camel(name: str) -> str:
    """A name in camelCase: `table_name` is `tableName`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def read_names(given: Mapping[Any, Any], known: Collection[str] | None, what: str) -> dict[str, Any]:
    """An object's values under snake_case names, which it may have in either case.

    InvalidInputError where a name is none of those known, with the nearest that is, or where it stands there in both
    cases; with None as `known` every name is. `what` is whose object it is, for the sentence.
    """
    read: dict[str, Any] = {}
    for key, value in given.items():
        name = snake(key) if isinstance(key, str) else ""
        if not name or (known is not None and name not in known):
            near = difflib.get_close_matches(name, known or (), n=1)
            hint = f": did you mean {camel(near[0])}?" if near else f": it has {', '.join(map(camel, known or ()))}"
            raise InvalidInputError(f"{what} has no {shown(key)}{hint}", field=str(key), value=value)
        if name in read:
            raise InvalidInputError(f"{what} is given {camel(name)} twice, in both cases", field=name, value=value)
        read[name] = value
    return read
