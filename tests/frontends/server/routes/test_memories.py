"""Spec 000 §12 over a real port: each route, with the cases T1 to T32 that it carries."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.errors import ScopeError
from tests.frontends.server.running import Running, bearer, running

pytestmark = pytest.mark.covers(
    "T1",
    "T2",
    "T3",
    "T4",
    "T5",
    "T6",
    "T7",
    "T8",
    "T9",
    "T10",
    "T11",
    "T12",
    "T13",
    "T14",
    "T15",
    "T16",
    "T17",
    "T18",
    "T19",
    "T20",
    "T21",
    "T22",
    "T23",
    "T24",
    "T25",
    "T26",
    "T27",
    "T28",
    "T29",
    "T30",
    "T31",
    "T32",
)


@pytest.fixture
def server(shared: Running) -> Running:
    """One server for all of them, cleared before each."""
    shared.client.post("/v1/reset", json={"confirm": True}).raise_for_status()
    return shared


def add(server: Running, text: str, **body: Any) -> list[dict[str, Any]]:
    answer = server.client.post("/v1/memories", json={"messages": text, "infer": False, **body})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


@pytest.mark.covers("T1")
def test_add_answers_with_an_event(server: Running) -> None:
    answer = server.client.post("/v1/memories/", json={"messages": "My name is Bob", "user_id": "bob"})
    (event,) = answer.json()["results"]
    assert answer.status_code == 200
    assert event["event"] == "ADD" and event["new_memory"] == event["memory"] == "User's name is Bob"
    assert event["data"] == {"memory": "User's name is Bob"}  # where mem0's programs look
    got = server.client.get(f"/v1/memories/{event['id']}/").json()
    assert got["memory"] == "User's name is Bob" and got["user_id"] == "bob"


@pytest.mark.covers("T2")
def test_a_conversation_gives_several_facts(server: Running) -> None:
    messages = [
        {"role": "user", "content": "I moved to Lisbon. I have a dog named Rex."},
        {"role": "assistant", "content": "Nice!"},
    ]
    answer = server.client.post("/v1/memories", json={"messages": messages, "user_id": "ana"}).json()
    assert {event["event"] for event in answer["results"]} == {"ADD"}
    assert len(answer["results"]) >= 2


@pytest.mark.covers("T3")
def test_small_talk_gives_nothing(server: Running) -> None:
    answer = server.client.post("/v1/memories", json={"messages": "hello", "user_id": "x"})
    assert answer.status_code == 200 and answer.json()["results"] == []


@pytest.mark.covers("T4", "T5")
def test_search_by_get_and_by_post(server: Running) -> None:
    for number in range(5):
        add(server, f"User likes tea of sort {number}", user_id="ana")
    query = {"q": "tea", "user_id": "ana", "limit": 3}
    found = server.client.get("/v1/memories/search/", params=query).json()
    assert len(found["results"]) == 3
    scores = [each["score"] for each in found["results"]]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
    body = {"query": "tea", "user_id": "ana", "limit": 3}
    assert server.client.post("/v1/memories/search", json=body).json()["results"] == found["results"]


def test_search_takes_the_librarys_arguments(server: Running) -> None:
    add(server, "User lives in Porto", user_id="ana", metadata={"tag": "home"}, timestamp="2024-01-01T00:00:00Z")
    add(server, "User likes Porto", user_id="ana", metadata={"tag": "taste"}, type="preference")
    ask = {"q": "Porto", "user_id": "ana"}

    def texts(**more: Any) -> list[str]:
        found = server.client.get("/v1/memories/search", params=ask | more)
        assert found.status_code == 200, found.text
        return sorted(each["memory"] for each in found.json()["results"])

    assert texts() == ["User likes Porto", "User lives in Porto"]
    assert texts(filters='{"field": "tag", "operator": "eq", "value": "home"}') == ["User lives in Porto"]
    assert texts(filters='{"tag": "home"}') == ["User lives in Porto"]
    assert texts(types="preference") == ["User likes Porto"]
    assert texts(as_of="2024-06-01") == ["User lives in Porto"]
    assert texts(as_of="1717200000") == ["User lives in Porto"]
    assert texts(threshold=1.0, preset="plain") == []
    explained = server.client.get("/v1/memories/search", params=ask | {"explain": True, "preset": "plain"}).json()
    assert explained["results"][0]["explanation"]["preset"] == "plain"
    hydrated = server.client.get("/v1/memories/search", params=ask | {"hydrate": True}).json()
    assert hydrated["results"][0]["messages"][0]["content"] == hydrated["results"][0]["memory"]
    window = {"query": "Porto", "user_id": "ana", "time_window": ["2023-01-01", "2024-02-01"]}
    assert server.client.post("/v1/memories/search", json=window).status_code == 200
    short = server.client.get("/v1/memories/search", params=ask | {"fields": "memory"}).json()["results"]
    assert [set(each) for each in short] == [{"id", "memory"}] * 2


def test_results_come_oldest_first_on_request(server: Running) -> None:
    for day, user, text in (
        ("2026-01-03", "ana", "the ferry to Hvar was late"),
        ("2026-01-01", "ana", "the ferry to Hvar"),
        ("2026-01-02", "ben", "the ferry"),
    ):
        add(server, text, user_id=user, timestamp=f"{day}T00:00:00Z", infer=False)
    ask = {"query": "the ferry to Hvar was late", "order": "time"}

    def texts(**more: Any) -> list[str]:
        found = server.client.post("/v1/memories/search", json=ask | more)
        assert found.status_code == 200, found.text
        return [each["memory"] for each in found.json()["results"]]

    assert texts(user_id="ana") == ["the ferry to Hvar", "the ferry to Hvar was late"]
    both = {"filters": {"OR": [{"user_id": "ana"}, {"user_id": "ben"}]}}
    assert texts(**both) == ["the ferry to Hvar", "the ferry", "the ferry to Hvar was late"]
    assert texts(**both, limit=1) == ["the ferry to Hvar was late"], "the best one is chosen"
    by_query = server.client.get("/v1/memories/search", params=ask | {"user_id": "ana"}).json()["results"]
    assert [each["memory"] for each in by_query] == texts(user_id="ana")
    refused = server.client.post("/v1/memories/search", json=ask | {"user_id": "ana", "order": "age"})
    assert refused.status_code == 422 and "order" in refused.json()["detail"]


@pytest.mark.covers("T6", "T7")
def test_get(server: Running) -> None:
    (event,) = add(server, "User likes tea", user_id="ana", metadata={"categories": ["taste"]})
    got = server.client.get(f"/v1/memories/{event['id']}").json()
    assert got["hash"] == hashlib.md5(b"User likes tea").hexdigest()
    assert got["categories"] == ["taste"] and got["metadata"] == {"categories": ["taste"]}
    assert {"created_at", "updated_at", "score"} - set(got) == {"score"}
    for unknown in ("fake-id", str(uuid.uuid4())):
        answer = server.client.get(f"/v1/memories/{unknown}")
        assert answer.status_code == 404 and answer.json()["error"]


@pytest.mark.covers("U16")
def test_ids_in_both_forms(server: Running) -> None:
    (event,) = add(server, "User likes tea", user_id="ana")
    prefixed = "mem_" + event["id"].replace("-", "")
    assert server.client.get(f"/v1/memories/{prefixed}").json()["id"] == event["id"]
    assert server.client.delete(f"/v1/memories/{prefixed}").status_code == 200
    assert server.client.get(f"/v1/memories/{event['id']}").status_code == 404


@pytest.mark.covers("T8")
def test_list_page_by_page(server: Running) -> None:
    wanted = [add(server, f"note {number}", user_id="ana")[0]["id"] for number in range(5)]
    add(server, "another's note", user_id="bob")
    seen: list[str] = []
    query: dict[str, Any] = {"user_id": "ana", "limit": 2}
    while True:
        page = server.client.get("/v1/memories/", params=query).json()
        seen += [each["id"] for each in page["results"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == wanted
    numbered = server.client.get("/v1/memories", params={"user_id": "ana", "page": 2, "page_size": 2}).json()
    assert [each["id"] for each in numbered["results"]] == wanted[2:4]
    assert numbered["count"] == 5 and "page=3" in numbered["next"] and "page=1" in numbered["previous"]


@pytest.mark.covers("T9", "T10")
def test_update(server: Running) -> None:
    (event,) = add(server, "User lives in Porto", user_id="ana", metadata={"a": 1})
    path = f"/v1/memories/{event['id']}"
    changed = server.client.put(path, json={"text": "User lives in Lisbon", "metadata": {"b": 2}})
    assert changed.status_code == 200
    got = server.client.get(path).json()
    assert got["memory"] == "User lives in Lisbon" and got["metadata"] == {"a": 1, "b": 2}
    assert got["hash"] == hashlib.md5(b"User lives in Lisbon").hexdigest() and changed.json()["hash"] == got["hash"]
    found = server.client.get("/v1/memories/search", params={"q": "Lisbon", "user_id": "ana"}).json()["results"]
    assert [each["id"] for each in found] == [event["id"]]
    assert server.client.put(f"/v1/memories/{uuid.uuid4()}", json={"text": "x"}).status_code == 404


def test_update_of_metadata_and_times_leaves_the_text(server: Running) -> None:
    (event,) = add(server, "User lives in Porto", user_id="ana")
    path = f"/v1/memories/{event['id']}"
    changed = server.client.put(path, json={"timestamp": 1704067200, "metadata": {"k": "v"}}).json()
    assert changed["memory"] == "User lives in Porto" and changed["valid_from"].startswith("2024-01-01T00:00:00")
    found = server.client.get("/v1/memories/search", params={"q": "Porto", "user_id": "ana"}).json()["results"]
    assert [each["similarity"] > 0 for each in found] == [True]  # its vector stayed
    assert server.client.put(path, json={"expiration_date": "2020-01-01"}).json()["expiration_date"] == "2020-01-01"
    assert server.client.get("/v1/memories", params={"user_id": "ana"}).json()["results"] == []
    assert server.client.put(path, json={"expiration_date": None}).json()["expires_at"] is None
    assert len(server.client.get("/v1/memories", params={"user_id": "ana"}).json()["results"]) == 1


@pytest.mark.covers("T11", "T25")
def test_delete_and_u23d_erase(server: Running) -> None:
    kept, gone = add(server, "User likes tea", user_id="ana")[0], add(server, "User likes rum", user_id="ana")[0]
    assert server.client.delete(f"/v1/memories/{kept['id']}/").status_code == 200
    assert server.client.delete(f"/v1/memories/{gone['id']}", params={"erase": True}).status_code == 200
    for each in (kept, gone):
        assert server.client.get(f"/v1/memories/{each['id']}").status_code == 404
        assert server.client.delete(f"/v1/memories/{each['id']}").status_code == 404
    last = server.client.get(f"/v1/memories/{kept['id']}/history").json()[-1]
    assert last["event"] == "DELETE" and last["is_deleted"] and last["old_value"] == "User likes tea"
    assert "User likes rum" not in server.client.get(f"/v1/memories/{gone['id']}/history").text


@pytest.mark.covers("T12")
def test_delete_all(server: Running) -> None:
    for user in ("ana", "bob"):
        add(server, "User likes tea", user_id=user)
    assert server.client.delete("/v1/memories/", params={"user_id": "ana"}).status_code == 200
    assert server.client.get("/v1/memories", params={"user_id": "ana"}).json()["results"] == []
    assert len(server.client.get("/v1/memories", params={"user_id": "bob"}).json()["results"]) == 1


@pytest.mark.covers("T13")
def test_reset(server: Running) -> None:
    (event,) = add(server, "User likes tea", user_id="ana")
    assert server.client.post("/v1/reset/", json={"confirm": True}).status_code == 200
    assert server.client.get("/v1/memories", params={"user_id": "ana"}).json()["results"] == []
    assert server.client.get(f"/v1/memories/{event['id']}/history").status_code == 404


@pytest.mark.covers("U26")
def test_reset_needs_an_admins_key_where_keys_exist(tmp_path: Path) -> None:
    with running(tmp_path / "memory") as server:
        add(server, "User likes tea", user_id="ana")
        member, admin = server.key("member"), server.key("admin", role="admin")
        within = server.key("in a project", role="admin", project_id="p")

        def reset(secret: str) -> int:
            return server.client.post("/v1/reset", json={"confirm": True}, headers=bearer(secret)).status_code

        assert [reset(member), reset(within)] == [403, 403]
        listed = server.client.get("/v1/memories", params={"user_id": "ana"}, headers={"X-API-Key": admin})
        assert len(listed.json()["results"]) == 1
        assert reset(admin) == 200


@pytest.mark.covers("T21", "T38")
@pytest.mark.parametrize("method, path", [("GET", "/v1/memories"), ("DELETE", "/v1/memories")])
def test_u23f_a_missing_scope_is_400_with_the_specs_text(server: Running, method: str, path: str) -> None:
    answer = server.client.request(method, path)
    assert answer.status_code == 400 and answer.json()["detail"] == ScopeError.TEXT


@pytest.mark.covers("T21")
def test_missing_scope_of_add_and_search(server: Running) -> None:
    for answer in (
        server.client.post("/v1/memories", json={"messages": "I like tea"}),
        server.client.get("/v1/memories/search", params={"q": "tea"}),
        server.client.post("/v1/memories/search", json={"query": "tea", "filters": {"tag": "x"}}),
    ):
        assert answer.status_code == 400 and answer.json()["detail"] == ScopeError.TEXT


@pytest.mark.covers("T19", "T20", "T22")
def test_scopes_are_apart(server: Running) -> None:
    add(server, "User likes tea", user_id="ana", agent_id="helper", run_id="one")

    def count(**scope: str) -> int:
        return len(server.client.get("/v1/memories", params=scope).json()["results"])

    assert count(user_id="ana") == count(user_id="ana", agent_id="helper") == count(run_id="one") == 1
    assert count(user_id="bob") == count(user_id="ana", agent_id="other") == count(run_id="two") == 0
    found = server.client.get("/v1/memories/search", params={"q": "tea", "user_id": "bob"}).json()
    assert found["results"] == []


@pytest.mark.covers("T23", "T24", "T26", "U26")
def test_history_under_both_names(server: Running) -> None:
    (event,) = add(server, "User lives in Porto", user_id="ana")
    server.client.put(f"/v1/memories/{event['id']}", json={"text": "User lives in Lisbon"})
    first, second = server.client.get(f"/v1/memories/{event['id']}/history/").json()
    assert (first["event"], first["old_value"], first["new_value"]) == ("ADD", None, "User lives in Porto")
    assert (second["event"], second["old_value"]) == ("UPDATE", "User lives in Porto")
    for record in (first, second):
        assert record["old_memory"] == record["old_value"] and record["new_memory"] == record["new_value"]
        assert record["created_at"] == record["timestamp"]
    assert first["timestamp"] <= second["timestamp"]
    undone = server.client.post("/v1/undo", json={"event_id": second["id"]})
    assert undone.status_code == 200 and undone.json()["results"][0]["memory"] == "User lives in Porto"
    assert server.client.post("/v1/undo", json={"event_id": first["id"]}).status_code == 200
    assert server.client.get(f"/v1/memories/{event['id']}").status_code == 404
    assert server.client.post("/v1/undo", json={"event_id": str(uuid.uuid4())}).status_code == 404


def test_deleted_memories_are_listed_for_undo(server: Running) -> None:
    said = {"role": "user", "content": "I live in Oslo.", "timestamp": "2024-03-03T10:00:00Z"}
    server.client.post("/v1/memories", json={"messages": [said], "user_id": "ana"})
    server.client.post("/v1/memories", json={"messages": "Forget that I live in Oslo.", "user_id": "ana"})
    (other,) = add(server, "User has a pin", user_id="ana")
    (third,) = add(server, "of bob", user_id="bob")
    for id in (other["id"], third["id"]):
        server.client.delete(f"/v1/memories/{id}")

    def listed(**query: Any) -> dict[str, Any]:
        found = server.client.get("/v1/memories", params={"user_id": "ana", "deleted": True, **query})
        assert found.status_code == 200, found.text
        return dict(found.json())

    first, second = listed()["results"]
    assert (first["memory"], first["deleted"]["actor"], first["lifecycle_state"]) == (
        "User has a pin", "delete", "deleted",
    )  # fmt: skip
    assert (second["memory"], second["deleted"]["said"]) == ("User lives in Oslo", "Forget that I live in Oslo.")
    page = listed(limit=1)
    assert listed(limit=1, cursor=page["next_cursor"])["results"] == [second]
    server.client.delete(f"/v1/memories/{other['id']}", params={"erase": True})
    server.client.post("/v1/forget", json={"id": other["id"]})
    assert listed()["results"] == [second]
    assert server.client.post("/v1/undo", json={"event_id": second["deleted"]["event_id"]}).status_code == 200
    assert listed()["results"] == []
    records = server.client.get(f"/v1/memories/{second['id']}/history").json()
    assert records[0]["told_at"][:10] == "2024-03-03" and records[0]["timestamp"][:4] > "2024"
    for wrong in ({"page": 1}, {"as_of": "2026-01-01"}, {"cursor": "x"}):
        refused = server.client.get("/v1/memories", params={"user_id": "ana", "deleted": True, **wrong})
        assert refused.status_code in (400, 422), refused.text


def test_undo_of_what_a_later_event_built_on_is_a_conflict(server: Running) -> None:
    (event,) = add(server, "User lives in Porto", user_id="ana")
    server.client.put(f"/v1/memories/{event['id']}", json={"text": "User lives in Lisbon"})
    answer = server.client.post("/v1/undo", json={"event_id": event["event_id"]})
    assert answer.status_code == 409 and answer.json()["code"] == "conflict"


@pytest.mark.parametrize(
    "filters, wanted",
    [
        ({"field": "tag", "operator": "eq", "value": "work"}, {"a"}),
        ({"field": "tag", "operator": "in", "value": ["work", "home"]}, {"a", "b"}),
        ({"AND": [{"tag": "work"}, {"field": "n", "operator": "gte", "value": 1}]}, {"a"}),
        ({"OR": [{"tag": "home"}, {"n": {"gt": 2}}]}, {"b", "c"}),
        ({"NOT": {"tag": "work"}}, {"b", "c"}),
        ({"field": "memory", "operator": "contains", "value": "note a"}, {"a"}),
    ],
    ids=["T27", "T28", "T29", "T30", "T31", "T32"],
)
def test_filters(server: Running, filters: dict[str, Any], wanted: set[str]) -> None:
    for number, (name, tag) in enumerate((("a", "work"), ("b", "home"), ("c", "club")), 1):
        add(server, f"note {name}", user_id="ana", metadata={"tag": tag, "n": number, "name": name})
    ask = {"user_id": "ana", "filters": json.dumps(filters)}
    listed = server.client.get("/v1/memories", params=ask).json()["results"]
    found = server.client.get("/v1/memories/search", params=ask | {"q": "note"}).json()["results"]
    assert {each["metadata"]["name"] for each in listed} == wanted
    assert {each["metadata"]["name"] for each in found} == wanted
    posted = server.client.post("/v1/memories/search", json={"query": "note", "user_id": "ana", "filters": filters})
    assert {each["metadata"]["name"] for each in posted.json()["results"]} == wanted


def test_an_idempotency_key_in_body_or_header(server: Running) -> None:
    for more in ({"json": {"idempotency_key": "k"}}, {"headers": {"Idempotency-Key": "h"}}):
        body = {"messages": "User likes tea", "infer": False, "user_id": "ana", **more.get("json", {})}
        first, second = (
            server.client.post("/v1/memories", json=body, headers=more.get("headers")).json() for _ in range(2)
        )
        assert first["results"] == second["results"]
    assert len(server.client.get("/v1/memories", params={"user_id": "ana"}).json()["results"]) == 2


@pytest.mark.covers("U26")
def test_version_1_0_answers_add_with_a_bare_list(tmp_path: Path) -> None:
    with running(tmp_path / "memory", version="v1.0") as server:
        body = {"messages": "User likes tea", "infer": False, "user_id": "ana"}
        for path in ("/v1/memories", "/memories"):
            assert [event["event"] for event in server.client.post(path, json=body).json()] == ["ADD"]


def test_context_and_forget(server: Running) -> None:
    (event,) = add(server, "User likes oolong tea", user_id="ana")
    block = server.client.get("/v1/context", params={"query": "oolong tea", "user_id": "ana"}).json()["context"]
    assert "User likes oolong tea" in block
    add(server, "User drank the first oolong tea", user_id="ana", timestamp="2020-02-01")
    params = {"query": "oolong tea", "user_id": "ana", "order": "time"}
    block = server.client.get("/v1/context", params=params).json()["context"]
    assert 0 < block.index("drank the first") < block.index("likes oolong tea"), "oldest first"
    assert server.client.get("/v1/context", params={**params, "order": "age"}).status_code == 422
    dry = server.client.post("/v1/forget", json={"id": event["id"], "dry_run": True}).json()
    assert [each["id"] for each in dry["results"]] == [event["id"]] and dry["dry_run"]
    assert dry["reasons"] == {event["id"]: "matched"} and dry["unsourced"] == []
    report = server.client.post("/v1/forget", json={"user_id": "ana"}).json()
    assert {place["place"] for place in report["places"]} >= {"store", "history"}
    assert server.client.get("/v1/memories", params={"user_id": "ana"}).json()["results"] == []
    assert "oolong" not in server.client.get(f"/v1/memories/{event['id']}/history").text
    assert server.client.post("/v1/forget", json={}).json()["detail"] == ScopeError.TEXT


def test_the_document_has_an_example_for_every_body_and_core_answer(server: Running) -> None:
    document = server.client.get("/openapi.json").json()
    for path, method in (("/v1/memories", "post"), ("/v1/memories/search", "get"), ("/v1/memories/{id}", "get")):
        answer = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]
        assert answer["example"], path
    for name in ("FactsAdd", "FactsSearchBody", "UpdateBody", "SearchForm", "BatchForm", "FeedbackForm"):
        properties = document["components"]["schemas"][name]["properties"]
        assert any("examples" in each for each in properties.values()), name


def test_notes_are_listed_by_their_kind(server: Running) -> None:
    german = "Ich habe gestern den Vertrag bei der Stadtbibliothek unterschrieben."
    answer = server.client.post("/v1/memories", json={"messages": german, "user_id": "ana"}).json()
    assert (answer["results"], answer["notes"]) == ([], 1)

    def listed(**more: str) -> Any:
        return server.client.get("/v1/memories", params={"user_id": "ana", **more})

    assert listed().json()["results"] == []
    assert [each["memory"] for each in listed(kind="notes").json()["results"]] == [german]
    refused = listed(kind="letters")
    assert refused.status_code in (400, 422)
    assert "kind" in refused.text
