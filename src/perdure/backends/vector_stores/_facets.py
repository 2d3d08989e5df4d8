"""What a row looks like to an engine that filters by keywords: one token for each value of each of its fields.

A token is a digest of field, kind and value, so it is 20 hexadecimal digits whatever a caller wrote: no quote, wildcard
or operator of any query language can be in it. An engine needs one list of keywords with an index to answer `eq`, `in`,
`ne` and `nin` on every field, with the kinds told apart and lists and missing fields as `perdure.domain.filter` means
them. Two values share a token with a chance of 2**-80; where it lets a row in, `matches` throws it out again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from perdure.domain.clock import read_moment
from perdure.domain.filter import RECORD_FIELDS, Moment, Scalar

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Facets:
    """The tokens of a row, and its single numbers and moments by path, for engines that compare those."""

    tokens: list[str]
    numbers: dict[str, float] = field(default_factory=dict)
    moments: dict[str, int] = field(default_factory=dict)
    """Microseconds since 1970 (UTC)."""


def path_of(name: str) -> str:
    """The path that a filter's field name means: an own field's name, or `metadata.` and a key."""
    return name if name in RECORD_FIELDS else f"metadata.{name.removeprefix('metadata.')}"


def facets(payload: Mapping[str, Any], marks: Iterable[str] = ()) -> Facets:
    """The facets of a payload; `marks` are further tokens, of our own."""
    found: dict[str, None] = dict.fromkeys(marks)
    numbers: dict[str, float] = {}
    moments: dict[str, int] = {}
    for path, value in _fields(payload):
        if isinstance(value, list):
            for element in value:
                found.update(dict.fromkeys(_tokens(path, element)))
            continue
        found.update(dict.fromkeys(_tokens(path, value)))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[path] = float(value)
            found[number_mark(path)] = None
        elif isinstance(value, str) and (moment := read_moment(value)) is not None:
            moments[path] = microseconds(moment)
            found[moment_mark(path)] = None
    return Facets(list(found), numbers, moments)


def _fields(payload: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in payload.items():
        if name in RECORD_FIELDS:
            yield name, value
    metadata = payload.get("metadata")
    if isinstance(metadata, Mapping):
        for key, value in metadata.items():
            yield f"metadata.{key}", value


def _tokens(path: str, value: Any) -> Iterator[str]:
    """The tokens of a stored value that is no list; none for null and objects, which equal nothing."""
    if isinstance(value, bool):
        yield _token(path, "truth", value)
    elif isinstance(value, (int, float)):
        yield _token(path, "number", _number(value))
    elif isinstance(value, str):
        yield _token(path, "text", value)
        moment = read_moment(value)
        if moment is not None:
            yield _token(path, "moment", microseconds(moment))


def token(path: str, value: Scalar) -> str:
    """The token that a row has where its field equals this operand of a filter."""
    if isinstance(value, Moment):
        moment = read_moment(value.text)
        assert moment is not None, "a Moment is fixed-width ISO 8601"
        return _token(path, "moment", microseconds(moment))
    if isinstance(value, bool):
        return _token(path, "truth", value)
    if isinstance(value, str):
        return _token(path, "text", value)
    return _token(path, "number", _number(value))


def number_mark(path: str) -> str:
    """The token of rows whose field is one number."""
    return _token(path, "mark", "number")


def moment_mark(path: str) -> str:
    """The token of rows whose field is one text that names a moment."""
    return _token(path, "mark", "moment")


def word_token(word: str) -> str:
    """The token of rows whose memory has this word, as `_words` stems it."""
    return _token("", "word", word)


def microseconds(moment: datetime) -> int:
    """Microseconds from 1970 (UTC) to an aware moment."""
    return (moment - _EPOCH) // _MICROSECOND


def _number(value: float) -> int | str:
    """One form for all numbers that are equal: 1 and 1.0, 0 and -0.0."""
    if isinstance(value, int):
        return value
    return int(value) if value.is_integer() else repr(value)


@lru_cache(maxsize=16384)
def _token(path: str, kind: str, value: object) -> str:
    return blake2b(json.dumps([path, kind, value]).encode(), digest_size=10).hexdigest()


BARE = _token("", "mark", "no vector")
"""The token of rows that have no vector yet."""
