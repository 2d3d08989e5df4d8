"""The nouns: messages, scopes, times, filters, memories; what they mean and what they refuse."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.clock import iso, parse_moment, read_moment
from perdure.domain.errors import FilterError, InvalidInputError, PerdureError, ScopeError
from perdure.domain.event import AddResult, MemoryEvent
from perdure.domain.filter import Moment, matches, parse_filter
from perdure.domain.memory import MemoryItem, Slots, check_metadata, new_id, new_ids, read_id, text_hash
from perdure.domain.message import Message, read_messages, text_of, transcript
from perdure.domain.scope import SCOPE_FIELDS, Scope


def item(**changes: Any) -> MemoryItem:
    base: dict[str, Any] = {
        "id": new_id(),
        "memory": "User likes tea",
        "hash": text_hash("User likes tea"),
        "scope": Scope(user_id="ana"),
        "created_at": "2026-01-01T00:00:00.000000+00:00",
        "updated_at": "2026-01-01T00:00:00.000000+00:00",
        "told_at": "2026-01-01T00:00:00.000000+00:00",
    }
    return MemoryItem(**base | changes)


# ------------------------------------------------------------------ errors


def test_errors_have_a_code_and_a_text() -> None:
    error = ScopeError()
    assert isinstance(error, PerdureError) and isinstance(error, ValueError)
    assert error.code == "scope_missing"
    assert str(error) == "At least one of user_id, agent_id, or run_id must be provided"


# ------------------------------------------------------------------ time


@pytest.mark.covers("U15")
@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]), min_value=datetime(1, 1, 3)
    )
)
def test_text_order_is_time_order(moment: datetime) -> None:
    later = moment + timedelta(microseconds=1) if moment.year < 9999 else moment
    assert iso(moment) <= iso(later) and len(iso(moment)) == 32
    assert read_moment(iso(moment)) == moment.astimezone(UTC)


@pytest.mark.covers("U15")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-01", "2026-03-01T00:00:00.000000+00:00"),
        ("2026-03-01T09:30:00Z", "2026-03-01T09:30:00.000000+00:00"),
        ("2026-03-01 09:30", "2026-03-01T09:30:00.000000+00:00"),
        ("2026-03-01T09:30:00+02:00", "2026-03-01T07:30:00.000000+00:00"),
        (date(2026, 3, 1), "2026-03-01T00:00:00.000000+00:00"),
        (datetime(2026, 3, 1, 9, 30), "2026-03-01T09:30:00.000000+00:00"),
    ],
)
def test_moments(value: Any, expected: str) -> None:
    assert iso(parse_moment(value)) == expected


@pytest.mark.parametrize(
    "value", ["", "now", "2026", "2026-13-01", "20260301", "12:30", 5, None, [], "2026-03-01T25:00"]
)
def test_what_is_no_moment(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="when"):
        parse_moment(value, "when")


# ------------------------------------------------------------------ scope


def test_scope_values_are_compared_as_they_are() -> None:
    assert Scope(user_id="Ana") != Scope(user_id="ana") != Scope(user_id=" ana")
    for value in ("", "x" * 1025, "a\x00b", 5, b"ana"):
        with pytest.raises(InvalidInputError, match="user_id"):
            Scope(user_id=value)  # type: ignore[arg-type]


scopes = st.builds(Scope, **{name: st.sampled_from([None, "a", "b"]) for name in ("user_id", "agent_id", "run_id")})


@given(scopes, scopes, scopes)
def test_scopes_overlap_if_some_item_can_be_seen_from_both(one: Scope, other: Scope, seen: Scope) -> None:
    def sees(scope: Scope) -> bool:
        return all(getattr(seen, name) == value for name, value in scope.given().items())

    assert one.overlaps(other) == other.overlaps(one)
    if sees(one) and sees(other):
        assert one.overlaps(other)


# ------------------------------------------------------------------ messages


def test_messages_in_every_form() -> None:
    assert read_messages("hi") == [Message("user", "hi")]
    assert read_messages({"role": "user", "content": None}) == [Message("user", "")]
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "b"},
    ]
    (message,) = read_messages([{"role": "user", "content": parts, "name": "Ana", "tool_calls": []}])
    assert (message.content, message.speaker) == ("a\nb", "Ana")
    assert transcript(read_messages([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])) == (
        "user: x\nassistant: y"
    )


@pytest.mark.parametrize(
    "value", [5, b"x", [5], ["x"], [{"content": "x"}], [{"role": "x", "content": "y"}],
              [{"role": "user", "content": 5}], [{"role": "user", "content": "x", "name": 5}],
              [{"role": "user", "content": [5]}]]
)  # fmt: skip
def test_what_is_no_message(value: Any) -> None:
    with pytest.raises(InvalidInputError):
        read_messages(value)


def test_text_of_refuses_other_things() -> None:
    with pytest.raises(InvalidInputError, match="content"):
        text_of(5)


# ------------------------------------------------------------------ filters


PAYLOAD = {
    "memory": "User likes Python", "user_id": "ana", "created_at": "2026-03-01T10:00:00.000000+00:00",
    "metadata": {
        "tag": "work", "tags": ["a", "b"], "n": 5, "flag": True, "on": "2026-02-03",
        "user_id": "no", "a.b": 1, "%": "x",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"tag": "work"}, True),
        ({"metadata.tag": "work"}, True),
        ({"user_id": "ana"}, True),
        ({"metadata.user_id": "no"}, True),
        ({"user_id": "no"}, False),
        ({"n": 5.0}, True),
        ({"n": "5"}, False),
        ({"n": True}, False),
        ({"flag": True}, True),
        ({"flag": 1}, False),
        ({"a.b": 1}, True),
        ({"%": "x"}, True),
        ({"t%g": "work"}, False),
        ({"field": "missing", "operator": "ne", "value": 1}, True),
        ({"field": "missing", "operator": "nin", "value": [1]}, True),
        ({"field": "missing", "operator": "lt", "value": 9}, False),
        ({"NOT": {"missing": 1}}, True),
        ({"tags": "b"}, True),
        ({"field": "tags", "operator": "contains", "value": "a"}, True),
        ({"field": "tags", "operator": "gt", "value": "0"}, False),
        ({"field": "tags", "operator": "ne", "value": "b"}, False),
        ({"n": {"gte": 5, "lt": 6}}, True),
        ({"n": {"$gte": 6}}, False),
        ({"$or": [{"n": 6}, {"tag": "work"}]}, True),
        ({"on": {"gt": "2026-02-02"}}, True),
        ({"on": {"lt": date(2026, 2, 4)}}, True),
        ({"on": {"lt": "zebra"}}, False),
        ({"created_at": {"gte": "2026-03-01"}}, True),
        ({"created_at": "2026-03-01T10:00:00Z"}, True),
        ({"tag": "work", "n": 6}, False),
        ({"AND": []}, True),
        ({"OR": []}, False),
        ({"field": "n", "operator": "in", "value": []}, False),
        ({"field": "memory", "operator": "icontains", "value": "PYTHON"}, True),
        ({"field": "memory", "operator": "contains", "value": "%"}, False),
    ],
)
def test_filter_meaning(expression: dict[str, Any], expected: bool) -> None:
    assert matches(parse_filter(expression), PAYLOAD) is expected


@pytest.mark.parametrize(
    "expression",
    [
        {"tag": None}, {"tag": ["a"]}, {"tag": {"like": "x"}}, {"$where": "1"}, {"AND": {"tag": "x"}}, {"tag": {}},
        {"field": "tag", "operator": "in", "value": "work"}, {"field": "tag", "operator": "eq"},
        {"field": "", "operator": "eq", "value": 1}, {"field": "n", "operator": "gt", "value": True},
        {"field": "n", "operator": "contains", "value": 5}, {"n": float("nan")}, {"n": 2**70}, {"created_at": "soon"},
        {"field": "a", "operator": "eq", "value": 1, "extra": 2}, "tag", 5,
    ],
)  # fmt: skip
def test_filters_without_meaning(expression: Any) -> None:
    with pytest.raises(FilterError):
        parse_filter(expression)


def test_filters_nested_too_deep() -> None:
    expression: dict[str, Any] = {"tag": "x"}
    for _ in range(40):
        expression = {"NOT": expression}
    with pytest.raises(FilterError, match="levels"):
        parse_filter(expression)


def test_moments_are_kept_as_text() -> None:
    condition = parse_filter({"field": "created_at", "operator": "gt", "value": date(2026, 1, 1)})
    assert condition is not None and getattr(condition, "value", None) == Moment("2026-01-01T00:00:00.000000+00:00")


# ------------------------------------------------------------------ memories


def test_payload_and_back() -> None:
    whole = item(
        metadata={"a": [1, {"b": None}]},
        sources=("x", "y"),
        slots=Slots("user", "likes", "tea", polarity=False),
        scope=Scope(user_id="ana", run_id="7"),
        older=("z",),
        expires_at="2027-01-01T00:00:00.000000+00:00",
    )
    assert MemoryItem.from_payload(json.loads(json.dumps(whole.to_payload()))) == whole
    assert set(SCOPE_FIELDS) & set(whole.to_payload()) == {"user_id", "run_id"}
    assert MemoryItem.from_payload({**whole.to_payload(), "from_the_future": 1}) == whole


@pytest.mark.covers("U16")
def test_ids() -> None:
    id = new_id()
    assert read_id(id) == read_id(f"mem_{id}") == read_id(id.upper()) == id
    assert read_id("fake-id") is None and read_id(5) is None


@pytest.mark.covers("U22")
@pytest.mark.parametrize("key", ["id", "memory", "hash", "created_at", "updated_at", *SCOPE_FIELDS])
def test_reserved_metadata(key: str) -> None:
    with pytest.raises(InvalidInputError, match=key):
        check_metadata({key: "x"})


@pytest.mark.parametrize("value", [{1: 2}, {"x": object()}, {"x": float("inf")}, {"x": {1: 2}}, [], "x"])
def test_what_is_no_metadata(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="metadata"):
        check_metadata(value)


def test_results_answer_by_key() -> None:
    result = AddResult([MemoryEvent(event="ADD", id="1", new_memory="x", memory="x")])
    assert result["results"][0]["event"] == "ADD"
    assert dict(result) == result.model_dump()
    assert result.get("nothing", 5) == 5
    with pytest.raises(KeyError):
        result["nothing"]
    assert item()["memory"] == "User likes tea" and "score" not in item()


def test_ids_of_one_call_lie_side_by_side_and_are_version_4() -> None:
    first, second = new_ids(300), new_ids(300)
    assert len({*first, *second}) == 600
    assert len({id[:8] for id in first}) == 1 and first[0][:8] != second[0][:8]
    assert all(read_id(id) == id and UUID(id).version == 4 and UUID(id).variant == RFC_4122 for id in first)
    assert new_ids(0) == []
