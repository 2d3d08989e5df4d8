"""Filters as Milvus expressions."""

from __future__ import annotations

import re

import pytest

from perdure.backends.vector_stores.common.filter_clauses import BARE, moment_mark, narrow, number_mark, token
from perdure.backends.vector_stores.milvus.filter import EARLIEST, GRAMMAR, scope_text
from perdure.domain.filter import parse_filter

SCORE = number_mark("metadata.score")
NEW_YEAR_2024 = 1_704_067_200_000_000

HOSTILE = (
    "*",
    "%",
    "_",
    "",
    "~",
    'x" || user_id != "y',
    "o'brien",
    "\\",
    '\\"',
    "北京",
    "a\x00b",
    "\ud800",
    "a\nb",
)


def expression(filter: object) -> str | None:
    return narrow(parse_filter(filter), GRAMMAR).clause  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        pytest.param({"user_id": "alice"}, 'user_id == "alice"', id="user"),
        pytest.param({"user_id": {"ne": "alice"}}, 'user_id != "alice"', id="another-user"),
        pytest.param({"agent_id": {"in": ["a", "b"]}}, 'agent_id in ["a", "b"]', id="agents"),
        pytest.param({"agent_id": {"nin": ["a", "b"]}}, 'agent_id not in ["a", "b"]', id="other-agents"),
        pytest.param(
            {"created_at": {"gte": "2024-01-01"}},
            f"created_at_us >= {NEW_YEAR_2024}",
            id="since",
        ),
        pytest.param(
            {"created_at": {"lt": "2024-01-01"}},
            f"(created_at_us >= {EARLIEST} and created_at_us <= {NEW_YEAR_2024 - 1})",
            id="until-is-not-never",
        ),
        pytest.param({"score": {"gt": 0.5}}, f'ranges["{SCORE}"] >= 0.5000000000000001', id="number"),
        pytest.param({"score": {"gte": 1e22}}, f'ranges["{SCORE}"] >= 9.999999999999998e+21', id="large"),
        pytest.param(
            {"due": {"gte": "2024-01-01"}}, f'ranges["{moment_mark("metadata.due")}"] >= {NEW_YEAR_2024}', id="due"
        ),
        pytest.param(
            {"tag": "work"}, f'array_contains_any(tokens, ["{token("metadata.tag", "work")}"])', id="tag"
        ),
        pytest.param(
            {"tag": {"nin": ["x"]}}, f'(not array_contains_any(tokens, ["{token("metadata.tag", "x")}"]))', id="no-tag"
        ),
        pytest.param(
            {"memory": {"contains": "Python 3"}}, '(memory like "%Python 3%" or memory == "~")', id="text"
        ),
        pytest.param(
            {"AND": [{"user_id": "alice"}, {"OR": [{"agent_id": "a"}, {"agent_id": "b"}]}]},
            '(user_id == "alice" and (agent_id == "a" or agent_id == "b"))',
            id="nested",
        ),
        pytest.param({"memory": {"icontains": "python"}}, None, id="case-is-finished-here"),
        pytest.param({"memory": {"contains": "100%"}}, None, id="wildcards-are-finished-here"),
    ],
)  # fmt: skip
def test_what_is_sent(filter: object, expected: str | None) -> None:
    assert expression(filter) == expected


def test_rows_without_a_vector_have_a_field_of_their_own() -> None:
    assert (GRAMMAR.one_of([BARE]), GRAMMAR.none_of([BARE])) == ("bare == true", "bare == false")


@pytest.mark.covers("V81")
@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_no_value_ever_stands_in_an_expression(value: str) -> None:
    """V81, CWE-943: neither a scope nor any other value can widen a filter."""
    digest = scope_text(value)
    assert re.fullmatch(r"~[0-9a-f]{40}", digest)
    safe = r'[A-Za-z0-9_~ ,.()="!<>\[\]-]*'
    if "\ud800" not in value:
        for field in ("user_id", "tag", "memory"):
            assert re.fullmatch(safe, expression({"AND": [{field: value}, {field: {"nin": [value, "x"]}}]}) or "")
        assert re.fullmatch(safe, expression({value.replace("\x00", "") or "k": 1}) or "")


def test_scope_values_stay_apart() -> None:
    values = [*HOSTILE, "alice", "Alice", "alice@example.com", "a b", "a" * 200, "a" * 201, "a" * 202, scope_text("*")]
    assert len({scope_text(value) for value in values}) == len(values)
    assert scope_text("alice@example.com") == "alice@example.com"
    assert all(scope_text(value) and len(scope_text(value)) <= 200 for value in values)
