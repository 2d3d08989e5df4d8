"""Records of spec 003's runtime: read from what callers give, answering in both cases."""

from __future__ import annotations

from datetime import UTC, date, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.errors import InvalidInputError
from perdure.domain.runtime import (
    Component,
    Entity,
    Relationship,
    Room,
    Task,
    camel,
    milliseconds,
    read_key,
    read_names,
    read_time,
    read_uuid,
    snake,
)

pytestmark = pytest.mark.covers("C22", "U15", "Z2")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TIMES = st.integers(0, 10**13)
TASKS = st.builds(
    Task,
    id=IDS,
    agent_id=IDS,
    name=TEXT,
    description=TEXT,
    room_id=st.none() | IDS,
    tags=st.lists(TEXT, unique=True, max_size=3).map(tuple),
    metadata=st.dictionaries(TEXT, JSON, max_size=3),
    due_at=st.none() | TIMES,
    created_at=TIMES,
    updated_at=TIMES,
)
NAMES = st.lists(st.text("abcdefgh", min_size=2, max_size=5), min_size=1, max_size=3).map("_".join)


@given(NAMES)
def test_names_go_there_and_back(name: str) -> None:
    assert snake(camel(name)) == name == snake(name)


@pytest.mark.covers("Z2")
@given(TASKS)
def test_a_record_is_read_from_what_it_answers(task: Task) -> None:
    dump = task.model_dump()
    assert Task.of(dump) == task
    assert Task.of({snake(name): value for name, value in dump.items()}) == task
    assert dict(task) == dump
    assert all(name in task and task[name] == task[snake(name)] == value for name, value in dump.items())
    assert set(Task.changes(dump)) == {snake(name) for name in dump}


def test_what_has_no_value_is_none_by_key_and_not_in_the_dump() -> None:
    room = Room(id="r", agent_id="a", created_at=1)
    assert (room["worldId"], room.get("worldId"), room.get("world_id", "x"), room.get("other", 7)) == (
        None,
        None,
        "x",
        7,
    )
    assert "worldId" not in room
    assert "world_id" not in room.model_dump()
    with pytest.raises(KeyError):
        room["worlds"]


def test_what_a_read_adds_is_not_read_back() -> None:
    piece = Component(id="c", agent_id="a", entity_id="e", type="t", created_at=1)
    entity = Entity(id="e", agent_id="a", names=("Ann",), created_at=1, components=(piece,))
    assert entity["components"] == [piece.model_dump()]
    assert Entity.of(entity.model_dump()).components is None
    assert "components" not in Entity.changes(entity.model_dump())


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"sourceEntityId": "a"}, "target_entity_id", "targetEntityId of the relationship is required"),
        ({"sourceEntityId": "a", "targetEntityId": None}, "target_entity_id", "must be an id"),
        ({"sourceEntty": "a"}, "sourceEntty", "did you mean sourceEntityId"),
        ({"tags": [], "Tags": []}, "tags", "twice"),
        ({3: "x"}, "3", "has no 3"),
        ({"tags": "friend", "sourceEntityId": "a", "targetEntityId": "b"}, "tags", "list of texts"),
        ({"metadata": {"a": {1}}, "sourceEntityId": "a", "targetEntityId": "b"}, "metadata", "must be text, a number"),
        ({"sourceEntityId": "a" * 1025, "targetEntityId": "b"}, "source_entity_id", "1 to 1024"),
        ({"sourceEntityId": "a\x00", "targetEntityId": "b"}, "source_entity_id", "must be an id"),
    ],
)
def test_what_is_wrong_is_named(given: dict, field: str, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says) as caught:
        Relationship.of(given, id="l", agent_id="a", created_at=1)
    assert caught.value.field == field


@pytest.mark.covers("U15")
def test_times_are_milliseconds_and_read_from_dates_too() -> None:
    noon = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    assert milliseconds(noon) == round(noon.timestamp() * 1000)
    for value in (noon, noon.isoformat(), milliseconds(noon), float(milliseconds(noon))):
        assert read_time(value, "dueAt") == milliseconds(noon)
    assert read_time(date(1970, 1, 2), "dueAt") == 86_400_000
    for wrong in (True, -1, float("nan"), float("inf"), 10**15, "soon", None, [1]):
        with pytest.raises(InvalidInputError, match="dueAt must be milliseconds"):
            read_time(wrong, "due_at")


@pytest.mark.covers("C22")
def test_ids_are_any_text_and_stand_for_a_uuid_where_one_is_needed() -> None:
    id = uuid4()
    assert read_key(id) == read_uuid(id) == read_uuid(str(id).upper()) == str(id)
    assert read_key("user-1") == "user-1"
    assert read_uuid("user-1") == read_uuid("user-1") != read_uuid("user-2")
    assert UUID(read_uuid("user-1")).version == 5
    for wrong in ("", None, 7, "\ud800"):
        for read in (read_key, read_uuid):
            with pytest.raises(InvalidInputError):
                read(wrong, "user_id")


def test_names_of_any_kind_may_be_let_in() -> None:
    assert read_names({"roomId": 1, "x": 2}, None, "it") == {"room_id": 1, "x": 2}
    with pytest.raises(InvalidInputError):
        read_names({"": 1}, None, "it")
