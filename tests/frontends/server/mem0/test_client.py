"""The unmodified MemoryClient of mem0ai 2.2.1 against a real server: memories kept, found, changed and told of."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from perdure.domain.memory import MemoryItem
from perdure.engine.core.batch import Batch
from tests.frontends.server.mem0.clients import MemoryClient, mem0_errors, mem0_types
from tests.frontends.server.running import Running


def keep(client: MemoryClient, who: str, *texts: str, **more: object) -> list[str]:
    added = client.add([{"role": "user", "content": text} for text in texts], user_id=who, infer=False, **more)
    return [each["id"] for each in added["results"]]


def test_the_client_starts_and_knows_its_project(client: MemoryClient) -> None:
    assert (client.org_id, client.project_id) == ("perdure", "default")
    assert client.project.org_id == "perdure"


def test_add_is_read_at_once_and_its_event_tells_of_it(client: MemoryClient, shared: Running, who: str) -> None:
    added = client.add("I moved to Lisbon", user_id=who)
    assert added["status"] == "PENDING"
    (found,) = client.search("moved to Lisbon", filters={"user_id": who})["results"]
    assert found["memory"] == "User moved to Lisbon" and found["user_id"] == who and 0 < found["score"] <= 1
    event = shared.client.get(f"/v1/event/{added['event_id']}/").json()
    assert event["status"] == "SUCCEEDED" and event["event_type"] == "ADD"
    assert [(each["id"], each["event"], each["data"]) for each in event["results"]] == [
        (found["id"], "ADD", {"memory": "User moved to Lisbon"})
    ]


def test_adds_of_one_scope_are_in_order(client: MemoryClient, who: str) -> None:
    client.add("I live in Porto", user_id=who)
    client.add("I moved to Lisbon", user_id=who)
    texts = [each["memory"] for each in client.get_all(filters={"user_id": who})["results"]]
    assert "User lives in Porto" not in texts and any("Lisbon" in text for text in texts)


def test_infer_false_answers_with_what_was_stored(client: MemoryClient, who: str) -> None:
    added = client.add(
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], user_id=who, infer=False
    )
    assert added["status"] == "SUCCEEDED"
    assert [(each["event"], each["data"]["memory"]) for each in added["results"]] == [("ADD", "a"), ("ADD", "b")]


def test_typed_options_put_ids_into_filters(client: MemoryClient, who: str) -> None:
    options = mem0_types.AddMemoryOptions(
        filters={"user_id": who, "run_id": "r1"}, metadata={"k": "v"}, infer=False, timestamp=1704067200
    )
    (id,) = [each["id"] for each in client.add("note one", options=options)["results"]]
    got = client.get(id)
    assert (got["user_id"], got["run_id"], got["session_id"], got["metadata"]) == (who, "r1", "r1", {"k": "v"})
    assert got["valid_from"].startswith("2024-01-01T00:00:00")
    found = client.search("note", options=mem0_types.SearchMemoryOptions(filters={"user_id": who}, top_k=1))
    assert [each["id"] for each in found["results"]] == [id]
    listed = client.get_all(options=mem0_types.GetAllMemoryOptions(filters={"run_id": "r1", "user_id": who}))
    assert [each["id"] for each in listed["results"]] == [id]


def test_an_app_stands_beside_a_user(client: MemoryClient, who: str) -> None:
    (id,) = keep(client, who, "note one", app_id="shop")
    assert client.get(id)["app_id"] == "shop"
    assert client.get_all(filters={"user_id": who, "app_id": "shop"})["count"] == 1
    assert client.get_all(filters={"user_id": who, "app_id": "bank"})["count"] == 0
    with pytest.raises(mem0_errors.ValidationError, match="At least one of user_id"):
        client.get_all(filters={"app_id": "shop"})
    with pytest.raises(mem0_errors.ValidationError, match="At least one of user_id"):
        client.add("note", app_id="shop")


def test_search_narrows_as_it_is_told(client: MemoryClient, who: str) -> None:
    keep(client, who, "note of work", metadata={"categories": ["work"], "n": 1})
    keep(client, who, "note of home", metadata={"categories": ["home"], "n": 2})

    def texts(**more: object) -> list[str]:
        found = client.search("note", **({"filters": {"user_id": who}} | more))["results"]
        return sorted(each["memory"] for each in found)

    everything = ["note of home", "note of work"]
    assert texts() == everything
    assert texts(categories=["work"]) == ["note of work"]
    assert texts(metadata={"n": 2}) == ["note of home"]
    assert texts(filters={"AND": [{"user_id": who}, {"categories": {"contains": "work"}}]}) == ["note of work"]
    assert texts(filters={"AND": [{"user_id": who}, {"metadata": {"n": 1}}]}) == ["note of work"]
    assert texts(filters={"user_id": who, "NOT": {"categories": {"in": ["work"]}}}) == ["note of home"]
    assert texts(filters={"user_id": who, "NOT": [{"metadata": {"n": 1}}]}) == ["note of home"]
    assert texts(filters={"user_id": who, "keywords": {"icontains": "HOME"}}) == ["note of home"]
    assert texts(filters={"user_id": who, "created_at": {"gte": "2024-01-01", "lte": "2024-12-31"}}) == []
    assert texts(threshold=1.0, top_k=1, rerank=True)[:1] in ([], ["note of home"], ["note of work"])
    only = client.search("note", filters={"user_id": who}, fields=["memory", "score"])["results"]
    assert [set(each) for each in only] == [{"id", "memory", "score"}] * 2
    for date in ("2026-01-31", 1704067200):
        assert len(client.search("note last week", filters={"user_id": who}, reference_date=date)["results"]) == 2


def test_a_root_or_of_one_id_is_that_scope_and_of_two_their_union(client: MemoryClient, who: str) -> None:
    other, third = f"{who}-b", f"{who}-c"
    for each in (who, other, third):
        keep(client, each, f"note of {each}")
    assert client.get_all(filters={"OR": [{"user_id": who}]})["count"] == 1
    union = {"OR": [{"user_id": who}, {"user_id": other}]}
    assert {each["user_id"] for each in client.get_all(filters=union)["results"]} == {who, other}
    assert {each["user_id"] for each in client.search("note", filters=union)["results"]} == {who, other}
    in_list = {"user_id": {"in": [who, third]}}
    assert {each["user_id"] for each in client.search("note", filters=in_list)["results"]} == {who, third}
    assert len(client.search("note", filters=union, top_k=1)["results"]) == 1
    for wide in ({"OR": [{"user_id": who}, {"k": "v"}]}, {"user_id": "*"}, {}, {"NOT": {"user_id": who}}):
        with pytest.raises(mem0_errors.ValidationError, match="At least one of user_id"):
            client.search("note", filters=wide)
    assert client.search("note", filters={"user_id": who, "run_id": "*"})["results"] == []


def test_get_all_by_page_and_by_date(client: MemoryClient, who: str) -> None:
    ids = keep(client, who, *(f"note {number}" for number in range(5)))
    pages = [client.get_all(filters={"user_id": who}, page=page, page_size=2) for page in (1, 2, 3, 4)]
    assert [[each["id"] for each in page["results"]] for page in pages] == [ids[:2], ids[2:4], ids[4:], []]
    assert {page["count"] for page in pages} == {5}
    assert [bool(page["next"]) for page in pages] == [True, True, False, False]
    assert [bool(page["previous"]) for page in pages] == [False, True, True, True]
    today = datetime.now(UTC).date()
    ask = {"filters": {"user_id": who}}
    assert client.get_all(**ask, start_date=str(today - timedelta(days=1)), end_date=str(today))["count"] == 5
    assert client.get_all(**ask, start_date=str(today + timedelta(days=1)))["count"] == 0


def test_get_update_delete_history(client: MemoryClient, who: str) -> None:
    (id,) = keep(client, who, "User lives in Porto")
    for time in (1704067200, 1704067200.5, "2024-01-01T00:00:00Z"):
        assert client.update(id, timestamp=time)["valid_from"].startswith("2024-01-01T00:00:00")
    assert client.update(id, text="User lives in Lisbon", metadata={"k": 1})["memory"] == "User lives in Lisbon"
    assert client.update(id, expiration_date="2099-01-31")["expiration_date"] == "2099-01-31"
    assert client.update(id, expiration_date=None)["expiration_date"] is None
    assert client.get(id)["metadata"] == {"k": 1}
    history = client.history(id)
    assert (history[0]["event"], history[0]["new_memory"]) == ("ADD", "User lives in Porto")
    assert {each["event"] for each in history[1:]} == {"UPDATE"} and {each["memory_id"] for each in history} == {id}
    assert client.delete(id) == {"message": "Memory deleted successfully!", "id": id}
    for call in (client.get, client.delete, lambda gone: client.update(gone, text="x")):
        with pytest.raises(mem0_errors.MemoryNotFoundError, match=r"(?i)memory"):
            call(id)
    assert client.history(id)[-1]["event"] == "DELETE"


def test_what_expires_lasts_through_its_day(client: MemoryClient, who: str) -> None:
    now = datetime.now(UTC)
    keep(client, who, "note of today", expiration_date=str(now.date()))
    keep(client, who, "note of old", expiration_date=str((now - timedelta(days=2)).date()))

    def texts(**more: object) -> list[str]:
        return [each["memory"] for each in client.get_all(filters={"user_id": who}, **more)["results"]]

    assert texts() == ["note of today"]
    assert texts(show_expired=True) == ["note of today", "note of old"]
    assert len(client.search("note", filters={"user_id": who}, show_expired=True)["results"]) == 2


def test_delete_linked_takes_what_it_may_have_replaced(client: MemoryClient, shared: Running, who: str) -> None:
    first, second, third, other = keep(client, who, "note 1", "note 2", "note 3", "note 4")
    kernel = shared.service.engine.kernel

    async def link(id: str, older: str) -> None:
        """As a curator does that is not sure enough to retire the older one."""
        point = await kernel.store.get(kernel.collection, id)
        assert point is not None
        before, batch = MemoryItem.from_payload(point.payload), Batch(kernel.clock)
        after = before.with_(older=(older,))
        batch.replace(before, after, point.vector, point.vector, actor="update", reason="newer")
        await kernel.commit(batch.changes, batch.vectors)

    for id, older in ((second, first), (third, second), (first, third)):  # a ring ends too
        shared.wait(link(id, older))
    assert client.delete(third, delete_linked=True)["cascade_count"] == 2
    assert [each["id"] for each in client.get_all(filters={"user_id": who})["results"]] == [other]
    assert client.delete(other, delete_linked=True)["cascade_count"] == 0


def test_delete_all_in_every_form(client: MemoryClient, shared: Running, who: str) -> None:
    other = f"{who}-b"

    def counts() -> list[int]:
        return [client.get_all(filters={"user_id": each})["count"] for each in (who, other)]

    for each in (who, other):
        keep(client, each, "note one")
        keep(client, each, "note two", metadata={"categories": ["work"]})
    # The client writes the options' filters as Python, not as JSON.
    options = mem0_types.DeleteAllMemoryOptions(filters={"user_id": who, "categories": {"in": ["work"]}})
    client.delete_all(options=options)
    assert counts() == [1, 2]
    done = client.delete_all(options=mem0_types.DeleteAllMemoryOptions(filters={"user_id": who}))
    assert counts() == [0, 2] and "message" in done
    assert shared.client.get(f"/v1/event/{done['event_id']}/").json()["status"] == "SUCCEEDED"
    for refused in (
        {},
        {"filters": {}},
        {"filters": {"OR": [{"user_id": who}, {"user_id": other}]}},
        {"filters": {"user_id": "*"}},
        {"filters": "{'user_id': __import__('os').getcwd()}"},
        {"filters": "user_id"},
        {"filters": "[" * 5000},
    ):
        with pytest.raises(mem0_errors.ValidationError):
            client.delete_all(**refused)
    client.delete_all(user_id="*")  # somebody of that name, and nobody else
    assert counts() == [0, 2]
    client.delete_all(user_id=other)
    assert counts() == [0, 0]


def test_errors_are_the_clients_own(client: MemoryClient, shared: Running, who: str) -> None:
    with pytest.raises(mem0_errors.ValidationError, match="top_k|limit"):
        client.search("x", filters={"user_id": who}, top_k=0)
    with pytest.raises(mem0_errors.ValidationError, match="metadata"):
        client.add("x", user_id=who, metadata={"user_id": "another"})
    with pytest.raises(mem0_errors.ValidationError, match="timestamp"):
        client.add("x", user_id=who, timestamp="last week")
    with pytest.raises(mem0_errors.MemoryNotFoundError):
        client.get("no uuid")
    with pytest.raises(mem0_errors.MemoryNotFoundError):
        client.history(str(uuid.uuid4()))
    for id in (str(uuid.uuid4()), "WyJBREQiLHt9XQ", "WyJYIix7fV0", "%00", "=" * 100):
        answer = shared.client.get(f"/v1/event/{id}")
        assert answer.status_code == 404 and answer.json()["detail"], id
