"""mem0's memories and LangGraph's items as facts: ids, scopes, times and metadata stay."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.domain.errors import InvalidInputError
from perdure.pipeline.curation.importers import detect
from perdure.pipeline.curation.importers.langgraph import LangGraphReader, NamespacePattern
from perdure.pipeline.curation.importers.mem0 import Mem0Reader
from perdure.pipeline.curation.importers.records import Damaged, ForeignFact, Found, LeftOut
from tests.pipeline.curation.importers.samples import EXPIRING, HISTORY, ITEM, OPEN, PLATFORM, POINT, ROW


def mem0(value: Any) -> Found:
    (found,) = Mem0Reader().read(value, "item 1")
    return found


def fact(found: Found) -> dict[str, Any]:
    assert isinstance(found, ForeignFact), found
    return found.line


# ------------------------------------------------------------------ mem0


def test_a_memory_of_the_library_keeps_everything() -> None:
    assert fact(mem0(OPEN)) == {
        "id": OPEN["id"], "memory": OPEN["memory"], "user_id": "ana", "agent_id": "travel", "run_id": "r1",
        "source": "import:mem0", "created_at": OPEN["created_at"], "updated_at": OPEN["updated_at"],
        "timestamp": OPEN["updated_at"],
        "metadata": {"tag": "work", "n": 1.5, "deep": {"a": [1, None]}, "actor_id": "Ana", "role": "user"},
    }  # fmt: skip


def test_a_point_of_the_vector_store_is_the_same_memory() -> None:
    point, memory = fact(mem0(POINT)), fact(mem0(OPEN))
    del memory["metadata"]["n"], memory["metadata"]["actor_id"]
    assert point == memory


def test_an_expiring_memory_is_there_through_the_whole_of_its_day() -> None:
    assert fact(mem0(EXPIRING))["expires_at"] == "2030-02-01T00:00:00.000000+00:00"
    odd = fact(mem0({**EXPIRING, "expiration_date": "some day"}))
    assert "expires_at" not in odd  # mem0 takes it for "never"
    assert odd["metadata"]["expiration_date"] == "some day"
    assert "expires_at" not in fact(mem0({**EXPIRING, "expiration_date": "9999-12-31"}))


def test_the_platform_s_fields_become_metadata() -> None:
    line = fact(mem0(PLATFORM))
    assert line["metadata"] == {
        "category": "hobbies", "mem0_user_id": "shadow", "app_id": "diary", "categories": ["sports", "hobbies"],
        "immutable": True, "owner": "org-1", "lifecycle_state": "active", "structured_attributes": {"day": 26},
    }  # fmt: skip
    assert (line["user_id"], "agent_id" in line, "valid_to" in line) == ("alex", False, False)


def test_a_memory_that_another_replaced_is_past() -> None:
    line = fact(mem0({**PLATFORM, "lifecycle_state": "superseded", "replaced_by": "another"}))
    assert (line["valid_from"], line["valid_to"]) == (PLATFORM["created_at"], PLATFORM["updated_at"])
    assert line["metadata"]["replaced_by"] == "another"


def test_an_id_that_is_no_uuid_becomes_one_that_stays() -> None:
    first, again, other = (fact(mem0({**OPEN, "id": id})) for id in ("m-1", "m-1", "m-2"))
    assert first["id"] == again["id"] != other["id"]
    assert first["metadata"]["mem0_id"] == "m-1"


def test_metadata_that_has_a_field_of_the_platform_keeps_both() -> None:
    line = fact(mem0({**OPEN, "metadata": {"role": "chef"}}))
    assert (line["metadata"]["role"], line["metadata"]["mem0_role"]) == ("chef", "user")


def test_history_is_left_out_and_damage_is_told_without_the_text() -> None:
    assert isinstance(mem0(HISTORY), LeftOut)
    for bad in (5, [], {"id": "x"}, {**OPEN, "memory": 5}, {**OPEN, "memory": " "}, {**OPEN, "metadata": "secret"}):
        found = mem0(bad)
        assert isinstance(found, Damaged)
        assert "secret" not in found.reason
        assert "Porto" not in f"{found.where}{found.reason}"


def test_times_in_seconds_are_read() -> None:
    assert fact(mem0({**OPEN, "created_at": 1_735_722_000}))["created_at"] == "2025-01-01T09:00:00.000000+00:00"
    assert fact(mem0({**OPEN, "updated_at": 1_735_722_000_000}))["timestamp"] == "2025-01-01T09:00:00.000000+00:00"


# ------------------------------------------------------------------ LangGraph


def items(values: list[Any], *patterns: str) -> list[Found]:
    reader = LangGraphReader([NamespacePattern.parse(pattern) for pattern in patterns])
    return [found for number, value in enumerate(values, 1) for found in reader.read(value, f"item {number}")]


def test_an_item_of_langmem_and_a_row_of_the_table() -> None:
    item, row = map(fact, items([ITEM, ROW], "memories,{user_id}"))
    assert (item["memory"], item["user_id"]) == ("Ana plays the cello", "ana")
    assert item["metadata"] == {"kind": "Memory", "namespace": ["memories", "ana"], "key": "k1"}
    assert (item["created_at"], item["timestamp"]) == (ITEM["created_at"], ITEM["updated_at"])
    assert (row["memory"], row["user_id"], row["id"]) == ("Ben swims", "ben", ROW["key"])
    assert row["metadata"] == {"mood": "calm", "namespace": ["memories", "ben"]}


@pytest.mark.parametrize(
    ("value", "text", "rest"),
    [
        ({"data": "likes tea"}, "likes tea", {}),
        ({"memory": "likes tea", "context": "said so"}, "likes tea", {"context": "said so"}),
        ("likes tea", "likes tea", {}),
        ('{"text": "likes tea"}', "likes tea", {}),
        (
            {"kind": "Profile", "content": {"name": "Ana", "languages": ["pt", "en"], "home": {"city": "Porto"}}},
            'name: Ana; languages: ["pt", "en"]; home: city: Porto',
            {"value": {"name": "Ana", "languages": ["pt", "en"], "home": {"city": "Porto"}}, "kind": "Profile"},
        ),
        ({"food": "pizza", "loud": True}, "food: pizza; loud: true", {"value": {"food": "pizza", "loud": True}}),
    ],
)
def test_the_text_of_a_value(value: Any, text: str, rest: dict[str, Any]) -> None:
    line = fact(items([{**ITEM, "value": value}])[0])
    assert line["memory"] == text
    assert line["metadata"] == {**rest, "namespace": ["memories", "ana"], "key": "k1"}
    assert "user_id" not in line


def test_a_key_is_an_id_in_the_namespace_where_it_came_first() -> None:
    other = {**ROW, "prefix": "memories.ana"}
    ben, ana, again = map(fact, items([ROW, other, other]))
    assert ben["id"] == ROW["key"]
    assert ana["id"] == again["id"] != ben["id"]
    assert ana["metadata"]["key"] == ROW["key"]


def test_patterns_say_whose_a_namespace_is() -> None:
    values = [{**ITEM, "namespace": labels} for labels in (["ana", "memories"], ["bot", "x", "ana"], ["cache"])]
    found = items(values, "{user_id}, memories", "{agent_id},*,{user_id}")
    assert [fact(each).get("agent_id") for each in found[:2]] == [None, "bot"]
    assert [fact(each)["user_id"] for each in found[:2]] == ["ana", "ana"]
    assert isinstance(found[2], LeftOut)
    assert "cache/k1" in found[2].where


@pytest.mark.parametrize("pattern", ["", "memories,", "{person}", "{user_id},{user_id}", "{}"])
def test_a_pattern_that_names_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInputError, match="namespace pattern") as caught:
        NamespacePattern.parse(pattern)
    assert caught.value.field == "namespace"


@pytest.mark.parametrize(
    "bad",
    [5, None, {}, {**ITEM, "namespace": 5}, {**ITEM, "namespace": [5]}, {**ITEM, "key": 5}, {**ITEM, "value": {}},
     {**ITEM, "value": None}, {**ITEM, "value": {"content": " "}}, {**ITEM, "value": []}],
)  # fmt: skip
def test_damage_is_told(bad: Any) -> None:
    (found,) = items([bad])
    if isinstance(found, ForeignFact):  # a value with a blank text is told key by key
        assert found.line["memory"].strip()
    else:
        assert isinstance(found, Damaged)


# ------------------------------------------------------------------ telling them apart


@pytest.mark.parametrize(
    ("value", "format"),
    [
        (OPEN, "mem0"), (PLATFORM, "mem0"), (POINT, "mem0"), (HISTORY, "mem0"), ({"results": [OPEN]}, "mem0"),
        ([{"results": [OPEN]}], "mem0"), (ITEM, "langgraph"), (ROW, "langgraph"), ({"items": [ITEM]}, "langgraph"),
        ({"memory": "User likes tea", "user_id": "ana"}, "perdure"), ({"role": "user", "content": "x"}, "perdure"),
        ({"messages": []}, "perdure"), ({"perdure": 1}, "perdure"), ({"record": "memory"}, "perdure"),
        ({"memory": "x", "hash": "y", "told_at": "z"}, "perdure"), ({"a": 1}, None), (5, None), ([], None),
        ({"results": []}, None),
    ],
)  # fmt: skip
def test_formats_are_told_by_what_they_hold(value: Any, format: str | None) -> None:
    assert detect(value) == format
