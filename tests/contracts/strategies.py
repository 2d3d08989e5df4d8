"""What Hypothesis draws for vector stores: payloads as odd as the port allows, and filters that often match them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from perdure.domain.filter import OPERATORS, ORDERINGS, RECORD_FIELDS, TIME_FIELDS, Filter, parse_filter
from perdure.domain.scope import SCOPE_FIELDS

WORDS = (
    "work", "Work", "home", "", "a'b", 'a"b', "100%", "a_b", "*", "\\", "ünïcödé", "STRASSE", "straße", "北京", "null",
    "true", "5", "1.0", "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01 00:00:00.000000+00:00", "2026-1-1", "a\x00b",
    "a", "'; DROP TABLE rows_1; --", "$.x", "[1]", "{}",
)  # fmt: skip
KEYS = (
    "tag", "n", "a.b", 'qu"ote', "it's", "ünï", "50%", "a_b", "*", "a[0]", "$", "with space", "\\", "x", "metadata.x",
    "kind", "\n", "AND!",
)  # fmt: skip
USERS = ("alice", "bob", 'o\'brien "%_*"', "ü", "Alice")
MOMENTS = (
    "2026-01-01T00:00:00.000000+00:00",
    "2026-01-01T00:00:00.000001+00:00",
    "2026-06-30T12:00:00.000000+00:00",
    "2025-12-31T23:59:59.999999+00:00",
)
NUMBERS = (0, 1, 5, -1, 0.0, -0.0, 1.0, 5.5, 0.1, 1e22, 2**53, 2.0**53, 2**63 - 1, -(2**63), 1e-7)
HUGE = (2**63, -(2**63) - 1, 2**70 + 1, 1.7976931348623157e308, 5e-324)

words = st.one_of(st.sampled_from(WORDS), st.text(max_size=6))
numbers = st.one_of(st.sampled_from(NUMBERS), st.integers(-9, 9), st.floats(allow_nan=False, allow_infinity=False))
dates = st.one_of(st.sampled_from(MOMENTS), st.sampled_from(["2026-01-01", "2026-06-30T14:00:00+02:00", "20260101"]))
scalars = st.one_of(words, numbers, st.booleans(), dates)
stored = st.one_of(scalars, st.sampled_from(HUGE), st.none())
values = st.one_of(stored, st.lists(stored, max_size=3), st.dictionaries(words, stored, max_size=2))
metadata = st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(min_size=1, max_size=3)), values, max_size=4)

_OTHERS = sorted(RECORD_FIELDS - set(SCOPE_FIELDS) - TIME_FIELDS - {"id", "hash", "memory"})


@st.composite
def payloads(draw: st.DrawFn) -> dict[str, Any]:
    """A payload: usual fields of the usual types, and now and then others."""
    payload: dict[str, Any] = {}
    for name in SCOPE_FIELDS[:4]:
        if draw(st.booleans()):
            payload[name] = draw(st.sampled_from(USERS))
    if draw(st.integers(0, 9)):
        payload["memory"] = draw(words)
        payload["kind"] = draw(st.sampled_from(["facts", "messages"]))
        payload["state"] = draw(st.sampled_from(["live", "version"]))
        payload["created_at"] = draw(st.sampled_from(MOMENTS))
    for name in draw(st.lists(st.sampled_from(sorted(TIME_FIELDS - {"created_at"})), max_size=2)):
        payload[name] = draw(st.one_of(st.sampled_from(MOMENTS), dates, st.none()))
    for name in draw(st.lists(st.sampled_from(_OTHERS), max_size=3)):
        payload[name] = draw(values)
    if draw(st.booleans()):
        payload["hash"] = draw(st.sampled_from(["aa", "bb", ""]))
    if draw(st.integers(0, 4)):
        payload["metadata"] = draw(metadata)
    elif draw(st.booleans()):
        payload["metadata"] = draw(values)
    return payload


def _fields() -> st.SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(SCOPE_FIELDS[:4]),
        st.sampled_from(KEYS),
        st.sampled_from(KEYS).map(lambda key: f"metadata.{key}"),
        st.sampled_from(sorted(RECORD_FIELDS)),
        st.sampled_from(sorted(TIME_FIELDS)),
        st.sampled_from(["memory", "kind", "state", "created_at", "hash"]),
    )


def _operand(draw: st.DrawFn, field: str, operator: str) -> Any:
    if operator in ("contains", "icontains"):
        return draw(words)
    if field in TIME_FIELDS:
        one: st.SearchStrategy[Any] = st.one_of(dates.filter(lambda date: "-" in date), st.datetimes(), st.dates())
    elif field in SCOPE_FIELDS:
        one = st.one_of(st.sampled_from(USERS), scalars)
    elif operator in ORDERINGS:
        one = st.one_of(words, numbers, dates, st.dates())
    else:
        one = st.one_of(scalars, st.dates())
    if operator in ORDERINGS:
        one = one.filter(lambda value: not isinstance(value, bool))
    return draw(st.lists(one, max_size=3)) if operator in ("in", "nin") else draw(one)


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    """A condition in spec 000 §7.1's form."""
    field = draw(_fields())
    operator = draw(st.one_of(st.just("eq"), st.sampled_from(OPERATORS)))
    return {"field": field, "operator": operator, "value": _operand(draw, field, operator)}


def _joined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(parts, max_size=3)
    return st.one_of(
        parts.map(lambda part: {"NOT": part}),
        lists.map(lambda found: {"AND": found}),
        lists.map(lambda found: {"OR": found}),
    )


_trees = st.recursive(conditions(), _joined, max_leaves=6)


@st.composite
def filters(draw: st.DrawFn) -> Filter | None:
    """A parsed filter; every second one is inside a scope, as the engine's are."""
    tree = draw(_trees)
    if draw(st.booleans()):
        scope = [
            {"field": name, "operator": "eq", "value": draw(st.sampled_from(USERS))}
            for name in draw(st.lists(st.sampled_from(SCOPE_FIELDS[:4]), min_size=1, max_size=2))
        ]
        tree = {"AND": [*scope, tree]}
    return parse_filter(tree)


coordinates = st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0]), min_size=3, max_size=3)
"""Few directions, so that ties and zero vectors are common."""
