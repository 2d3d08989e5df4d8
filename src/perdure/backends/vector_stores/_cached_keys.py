"""Under which key a search is cached, and what of a cached one is still true later.

The engine asks for rows that have not run out by now, so that no two of its filters are the same. Such a condition,
"not past its time at T", only ever loses rows as T grows: the answer of an earlier T, finished by the filter of the
later one, is right unless it has become too short. So these conditions are part of no key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.backends.vector_stores.base import Hit, Hits
from perdure.domain.filter import And, Condition, Filter, Moment, Not, matches

RUNNING_OUT = frozenset({"expires_at", "valid_to", "untold_at"})
"""Fields that say until when a row is to be found."""


@dataclass(frozen=True, slots=True)
class Question:
    """A filter without the moments that only run out, and these, in order."""

    text: str
    moments: tuple[str, ...]
    user: str | None
    """The one user whose rows alone can match; None where others' can."""


def question(filter: Filter | None) -> Question:
    """What a filter asks, whenever it is asked."""
    parts: Sequence[Filter] = filter.parts if isinstance(filter, And) else () if filter is None else (filter,)
    moments: list[str] = []
    written: list[Any] = []
    user: str | None = None
    for part in parts:
        if isinstance(part, Not) and _is_running_out(part.part):
            assert isinstance(part.part, Condition)
            assert isinstance(part.part.value, Moment)
            moments.append(part.part.value.text)
            written.append(["runs out", part.part.field])
            continue
        if isinstance(part, Condition) and (part.field, part.operator) == ("user_id", "eq"):
            user = part.value if isinstance(part.value, str) else user
        written.append(_written(part))
    return Question(json.dumps(written), tuple(moments), user)


def _is_running_out(part: Filter) -> bool:
    return (
        isinstance(part, Condition)
        and part.field in RUNNING_OUT
        and part.operator == "lte"
        and isinstance(part.value, Moment)
    )


def _written(filter: Filter) -> Any:
    """The filter as JSON in which no two that differ look the same."""
    if isinstance(filter, Condition):
        value = filter.value
        operands = [_operand(one) for one in value] if isinstance(value, tuple) else _operand(value)
        return [filter.field, filter.operator, operands]
    if isinstance(filter, Not):
        return {"not": _written(filter.part)}
    return {"and" if isinstance(filter, And) else "or": [_written(part) for part in filter.parts]}


def _operand(value: Any) -> Any:
    return {"moment": value.text} if isinstance(value, Moment) else {type(value).__name__: value}


def digest(*parts: bytes | str) -> str:
    """A digest of parts, each with its length, so that no two lists of parts are the same."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.hexdigest()[:32]


def dump(hits: Hits, moments: Sequence[str]) -> bytes:
    """An answer as it is kept."""
    return json.dumps([list(moments), [[hit.id, hit.score, hit.payload] for hit in hits]]).encode()


def still_true(kept: bytes, asked: Question, limit: int, filters: Filter | None) -> Hits | None:
    """The kept answer to the same question at a later moment; None where it may be another by now."""
    moments, rows = json.loads(kept)
    if len(moments) != len(asked.moments) or any(now < then for then, now in zip(moments, asked.moments, strict=True)):
        return None
    hits = [Hit(id, score, payload) for id, score, payload in rows]
    left = [hit for hit in hits if matches(filters, hit.payload)]
    return left if len(left) == len(hits) or len(hits) < limit else None
