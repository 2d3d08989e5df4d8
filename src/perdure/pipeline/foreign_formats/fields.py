"""Fields of other tools' exports: times in their several forms, names short enough to be shown, ids that stay."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid5

from perdure.domain.clock import iso, read_moment
from perdure.domain.memory import RESERVED_METADATA, read_id
from perdure.domain.text import is_unicode

NAMESPACE: Final = UUID("a70c5f04-6c1e-5d3a-9d4e-0f3f8c6b7a21")
"""Under which ids are made from what names a thing elsewhere; a drawn number, never to be changed."""

_SHOWN = 60
_MILLISECONDS = 10**11
"""Seconds since 1970 beyond this are milliseconds: it is the year 5138."""


def short(value: object) -> str:
    """A title or id as a report may show it: one line, printable, cut where it is long."""
    text = value if isinstance(value, str) else "" if value is None else str(value)[: _SHOWN * 2]
    plain = "".join(each if unicodedata.category(each)[0] != "C" else " " for each in text[: _SHOWN * 2])
    plain = " ".join(plain.split())
    return plain if len(plain) <= _SHOWN and len(text) <= _SHOWN * 2 else f"{plain[:_SHOWN]}..."


def title_of(value: object) -> str | None:
    """A title as metadata takes it; None where there is none, or one that is no Unicode text."""
    return value if isinstance(value, str) and value.strip() and is_unicode(value) else None


def moment_of(value: object) -> str | None:
    """The moment that ISO text or seconds since 1970 name, as perdure writes it; None if they name none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            seconds = float(value)
            if not math.isfinite(seconds):
                return None
            return iso(datetime.fromtimestamp(seconds / 1000 if abs(seconds) > _MILLISECONDS else seconds, UTC))
        except (OverflowError, ValueError, OSError):
            return None
    moment = read_moment(value) if isinstance(value, str) else None
    return None if moment is None else iso(moment)


def told_time(value: object) -> object:
    """The value as a line of the archive takes it: seconds become text, what cannot be read stays and is refused."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return moment_of(value) or value
    return value


def lasting_id(given: object, *names: object) -> str:
    """The id itself if it is a UUID, else the one that these names always get."""
    return read_id(given) or str(uuid5(NAMESPACE, json.dumps(names, ensure_ascii=True, default=str)))


def mark(*names: object) -> str:
    """A short text that stands for these names, wherever they come up again."""
    return hashlib.sha256(json.dumps(names, ensure_ascii=True, default=str).encode()).hexdigest()[:32]


def merged(own: Mapping[str, Any], tool: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata: the memory's own, and the tool's fields beside it, under the tool's name where a key is taken.

    A key that is a field of every memory here (a scope, an id, a time) goes under the tool's name too.
    """
    result: dict[str, Any] = {}
    for key, value in own.items():
        result[f"{tool}_{key}" if key in RESERVED_METADATA else key] = value
    for key, value in fields.items():
        result[f"{tool}_{key}" if key in RESERVED_METADATA or key in result else key] = value
    return result
