"""Whose memories a mem0 filter speaks of: it is never more than what the filter itself lets through."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.errors import FilterError, InvalidInputError, ScopeError
from perdure.domain.filter import all_of, matches, scope_filter
from perdure.domain.scope import OWNER_FIELDS, Scope
from perdure.frontends.server.routes.scope_resolver import resolve_one_scope, resolve_scopes
from perdure.frontends.server.schemas import views
from perdure.frontends.server.schemas.fields import day_end, last_day, read_time
from perdure.frontends.server.schemas.filters import read_filters
from tests.frontends.server.running import Running

OPEN = Scope()
names = st.sampled_from(["a", "b", "c"])
axes = st.sampled_from(["user_id", "agent_id", "run_id", "app_id", "session_id"])
leaves = st.one_of(
    st.builds(lambda axis, name: {axis: name}, axes, names),
    st.builds(lambda axis, found: {axis: {"in": found}}, axes, st.lists(names, max_size=3)),
    st.builds(lambda axis, found: {axis: found}, axes, st.lists(names, max_size=2)),
    st.builds(lambda axis, name: {axis: {"ne": name}}, axes, names),
    st.builds(lambda axis: {axis: "*"}, axes),
    st.builds(lambda value: {"metadata": {"k": value}}, names),
    st.builds(lambda value: {"categories": {"contains": value}}, names),
    st.just({}),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            lambda word, parts: {word: parts}, st.sampled_from(["AND", "OR", "NOT"]), st.lists(inner, max_size=3)
        ),
        st.builds(lambda part: {"NOT": part}, inner),
        st.builds(lambda one, other: {**one, **other}, inner, inner),
    ),
    max_leaves=8,
)
rows = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional={"k": names, "categories": st.lists(names, max_size=2)})},
    optional=dict.fromkeys((*OWNER_FIELDS, "world_id"), names),
)


@given(trees, st.lists(rows, max_size=20), st.sampled_from([OPEN, Scope(user_id="a"), Scope(project_id="p")]))
def test_the_reaches_of_a_filter_are_the_filter(tree: dict[str, Any], payloads: list[Any], walls: Scope) -> None:
    """Inside of the walls the union of all reaches is exactly what the filter matches, and each reach has an owner."""
    parsed = read_filters(tree)
    try:
        found = resolve_scopes(OPEN, parsed, walls)
    except ScopeError:
        return  # it could not be told whose memories were meant
    for reach in found:
        assert {*reach.scope.given(), *walls.given()} & {*OWNER_FIELDS}
    for payload in payloads:
        within = matches(scope_filter(walls), payload)
        expected = within and matches(parsed, payload)
        reached = any(matches(all_of(scope_filter(reach.scope), reach.filters), payload) for reach in found)
        assert (within and reached) == expected


@given(trees)
def test_a_filter_is_the_same_as_json_and_as_python(tree: dict[str, Any]) -> None:
    import json

    assert read_filters(str(tree)) == read_filters(json.dumps(tree)) == read_filters(tree)


@given(st.text(max_size=200))
def test_no_text_is_more_than_a_filter_or_an_error(text: str) -> None:
    try:
        resolve_scopes(OPEN, read_filters(text), OPEN)
    except InvalidInputError:
        pass
    else:
        pytest.fail(f"{text!r} names an owner")


def test_what_a_request_names_itself_comes_first() -> None:
    reach = resolve_one_scope(Scope(user_id="a"), read_filters({"user_id": "b"}), OPEN)
    assert reach.scope == Scope(user_id="a") and reach.narrows  # and nothing meets both
    assert not matches(all_of(scope_filter(reach.scope), reach.filters), {"user_id": "a"})


@pytest.mark.parametrize(
    "filters",
    [
        {}, {"k": "v"}, {"app_id": "shop"}, {"user_id": {"ne": "a"}}, {"user_id": "*"}, {"user_id": None},
        {"OR": []}, {"OR": [{"user_id": "a"}, {}]}, {"NOT": {"user_id": "a"}}, {"user_id": {"in": []}},
        {"user_id": {"contains": "a"}}, {"AND": [{"OR": [{"user_id": "a"}, {"k": "v"}]}]},
    ],
)  # fmt: skip
def test_a_filter_that_names_nobody_reaches_nobody(filters: dict[str, Any]) -> None:
    with pytest.raises(ScopeError) as caught:
        resolve_scopes(OPEN, read_filters(filters), OPEN)
    assert str(caught.value) == ScopeError.TEXT


def test_several_scopes_where_one_is_wanted() -> None:
    with pytest.raises(FilterError, match="names 2"):
        resolve_one_scope(OPEN, read_filters({"user_id": ["a", "b"]}), OPEN)
    assert resolve_one_scope(OPEN, read_filters({"user_id": ["a"]}), OPEN).scope == Scope(user_id="a")
    assert resolve_one_scope(OPEN, read_filters({"user_id": 7}), OPEN).scope == Scope(user_id="7")


@pytest.mark.parametrize(
    "value", [1704067200, 1704067200.0, "1704067200", 1704067200000, "2024-01-01", "2024-01-01T00:00:00Z"]
)
def test_times_in_every_form(value: object) -> None:
    assert read_time(value, "t").isoformat() == "2024-01-01T00:00:00+00:00"


@pytest.mark.parametrize("value", [True, None, "", "soon", float("nan"), float("inf"), 1e300, -(10**400), [], {}])
def test_what_is_no_time(value: object) -> None:
    with pytest.raises(InvalidInputError, match="t must be"):
        read_time(value, "t")


@given(st.dates())
def test_a_day_ends_with_itself(day: Any) -> None:
    try:
        end = day_end(day.isoformat(), "t")
    except InvalidInputError:
        assert day.isoformat() == "9999-12-31"
    else:
        assert last_day(end.isoformat()) == day.isoformat()


@given(st.text(max_size=60))
def test_an_invented_id_opens_nothing(text: str) -> None:
    assert views.unseal(text) is None or isinstance(views.unseal(text), tuple)
    sealed = views.seal("ADD", key=text)
    assert views.unseal(sealed) == ("ADD", {"key": text}) and sealed.isascii()


def test_created_at_is_the_timestamp_that_a_memory_came_with(shared: Running, who: str) -> None:
    post = shared.client.post
    for text, more in (("note of 2023", {"timestamp": 1_690_000_000}), ("note of today", {})):
        added = post("/v3/memories/add", json={"messages": text, "user_id": who, "infer": False, **more})
        assert added.status_code == 200
    told = {"user_id": who, "timestamp": "2024-02-03T10:00:00Z", "messages": "I live in Porto"}
    (porto,) = post("/v3/memories/add", json=told).json()["results"]

    def found(*conditions: Any, **beside: Any) -> set[str]:
        filters = {"AND": [{"user_id": who}, *conditions]}
        listed = post("/v3/memories", json={"filters": filters, **beside}).json()["results"]
        asked = {"filters": filters, "query": "note", "threshold": 0, **beside}
        searched = post("/v3/memories/search", json=asked).json()["results"]
        assert {each["id"] for each in listed} == {each["id"] for each in searched}
        return {each["memory"] for each in listed}

    today, old, home = "note of today", "note of 2023", "User lives in Porto"
    assert found({"created_at": {"gte": "2023-01-01", "lte": "2023-12-31"}}) == {old}
    assert found({"created_at": {"lt": "2024-12-31"}}) == {old, home}
    assert found({"created_at": {"gte": "2025-01-01"}}) == {today}
    assert found({"field": "created_at", "operator": "lt", "value": "2024-01-01"}) == {old}
    assert found({"NOT": [{"created_at": {"gte": "2024-01-01"}}]}) == {old}
    assert found(start_date="2024-01-01", end_date="2024-12-31") == {home}
    assert found({"created_at": "2024-02-03T10:00:00Z"}) == {home}
    changed = shared.client.put(f"/v1/memories/{porto['id']}", json={"text": "User lives in Lisbon"}).json()
    assert found({"created_at": {"lt": "2024-12-31"}}) == {old, "User lives in Lisbon"}, "an update moves it no more"
    clock = shared.client.get(f"/v1/memories/{porto['id']}").json()["created_at"]
    assert clock == changed["created_at"] > "2026", "what it shows is the clock's"
