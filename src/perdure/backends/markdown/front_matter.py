"""Front matter: the fields between two lines of three dashes, and the body below them.

perdure writes each value as JSON, which is also YAML and can be read fast and without loss. Files edited by people are
read as YAML. Reading any file gives fields or a sentence about what is wrong.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from typing import Any

import yaml

FENCE = "---"
_END = re.compile(r"^---[ \t]*$", re.MULTILINE)
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?: +(.*?))?[ \t]*")
_KEY = re.compile(r"^([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:", re.MULTILINE)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+([eE][+-]?[0-9]+)?)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./@+-]*( [A-Za-z0-9_./@+-]+)*")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONSTANTS = {"true": True, "false": False, "null": None}
RESERVED_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML readers take for something else than text."""
_HIDDEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_QUOTED = re.compile(r"""(['"]).{2,}\1""")  # what YAML repeats of the text in its sentences, but for a single character
_MOST_VALUES = 20_000  # values that one front matter may hold, those that it repeats by reference counted again
_DEEPEST = 100
_SHORT = 1_000  # characters of front matter that cannot be nested too deeply


class NoFrontMatter(ValueError):
    """The text has no readable front matter; the message continues "the file ..." and does not quote it."""


class MissingFrontMatter(NoFrontMatter):
    """The text has no front matter, or is empty."""


class BrokenFrontMatter(NoFrontMatter):
    """The text has front matter that cannot be read, probably because of a slip while editing."""


def join(fields: Mapping[str, Any], body: str) -> str:
    """Return the text of a file: one field a line in order, and the body with a final newline."""
    lines = [FENCE, *(f"{key}: {_top(value)}" for key, value in fields.items()), FENCE, body]
    return "\n".join(lines) + "\n"


def split(text: str) -> tuple[dict[str, Any], str, list[str]]:
    """Return fields, trimmed body, and sentences about oddities; NoFrontMatter gives the reason if there are none.

    A byte order mark is skipped, and line ends of any system are understood.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, _, rest = text.partition("\n")
    if first.rstrip() != FENCE:
        raise MissingFrontMatter("has no front matter" if text.strip() else "is empty: it has no front matter")
    end = _END.search(rest)
    if end is None:
        raise BrokenFrontMatter("has front matter without an end")
    head, body = rest[: end.start()], rest[end.end() :].strip()
    fields = _read_own(head)
    if fields is not None:
        return fields, body, []
    keys = _KEY.findall(head)
    twice = sorted({key for key in keys if keys.count(key) > 1})
    return _read_yaml(head), body, [f"says {key} twice: the last counts" for key in twice]


def _top(value: Any) -> str:
    if isinstance(value, str) and (_UUID.fullmatch(value) or _is_word(value)):
        return value
    return flow(value)


def _is_word(text: str) -> bool:
    return len(text) < 100 and _WORD.fullmatch(text) is not None and text.lower() not in RESERVED_WORDS


def flow(value: Any) -> str:
    """Return a JSON value on one line, as both JSON and YAML."""
    if isinstance(value, str):
        return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(each) for each in value) + "]"
    if isinstance(value, float):
        number = repr(value)
        return number if "." in number else number.replace("e", ".0e")  # YAML reads no exponent without a point
    return json.dumps(value)


def _read_own(head: str) -> dict[str, Any] | None:
    """Read fields in the form that `join` writes; None if YAML is needed."""
    fields: dict[str, Any] = {}
    for line in head.split("\n"):
        if not line:
            continue
        found = _LINE.fullmatch(line)
        if found is None or found[1] in fields:
            return None
        value = found[2]
        if not value:
            return None
        if value in _CONSTANTS:
            fields[found[1]] = _CONSTANTS[value]
        elif value[0] in '"[{' or _NUMBER.fullmatch(value):
            try:
                fields[found[1]] = json.loads(value, parse_constant=_no_constant)
            except (ValueError, RecursionError):
                return None
        elif _UUID.fullmatch(value) or _is_word(value):
            fields[found[1]] = value
        else:
            return None
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(name)


@cache
def _loader() -> type[Any]:
    """Return YAML's safe loader, the fast one if available; dates stay text."""
    base: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    known = {
        letter: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for letter, pairs in base.yaml_implicit_resolvers.items()
    }
    return type("_Loader", (base,), {"yaml_implicit_resolvers": known})


def _read_yaml(head: str) -> dict[str, Any]:
    try:
        _check_depth(head)
        fields = yaml.load(head, Loader=_loader())  # noqa: S506 - a safe loader
        if fields is None:
            return {}
        if not isinstance(fields, dict):
            raise BrokenFrontMatter("has front matter that is no list of fields")
        return {str(key): value for key, value in _Plain().copy(fields, 0).items()}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 2}" if mark is not None else ""
        problem = _QUOTED.sub("…", str(getattr(error, "problem", None) or ""))
        why = f": {problem}" if problem else ""
        raise BrokenFrontMatter(f"has front matter that is no YAML{where}{why}") from None
    except NoFrontMatter:
        raise
    except (ValueError, OverflowError, RecursionError, TypeError):
        raise BrokenFrontMatter("has front matter with a value that cannot be read") from None


def _check_depth(head: str) -> None:
    """Reject nesting so deep that building it would overflow the C loader's stack."""
    if len(head) <= _SHORT:
        return
    depth = 0
    for event in yaml.parse(head, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise BrokenFrontMatter("has front matter that is too large")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Plain:
    """Converts YAML values to JSON values."""

    def __init__(self) -> None:
        self._count = 0

    def copy(self, value: Any, depth: int) -> Any:
        self._count += 1
        if self._count > _MOST_VALUES or depth > _DEEPEST:
            raise BrokenFrontMatter("has front matter that is too large")
        if isinstance(value, dict):
            return {_as_key(key): self.copy(each, depth + 1) for key, each in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.copy(each, depth + 1) for each in value]
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value if abs(value) < 2**1023 else str(value)
        if isinstance(value, (date, datetime)):
            return value.isoformat()
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return value


def _as_key(key: Any) -> str:
    return key.isoformat() if isinstance(key, (date, datetime)) else str(key)
