"""Spec 001 §7 over a real port: /v1/memory of users."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.frontends.server.running import SECRET, Running, as_member, bearer, running, token

pytestmark = pytest.mark.covers("B19", "B20", "U5", "U6", "U16", "U19", "V48", "V49", "V50", "V51", "V52", "V53", "V86")

FIELDS = {"id", "type", "content", "user_id", "project_id", "source", "created_at", "access_count", "importance"}
ANA = {"x-authz-user-id": "ana"}
BO = {"x-authz-user-id": "bo"}


def stored(server: Running, content: str = "User likes tea", **fields: Any) -> dict[str, Any]:
    answer = server.client.post("/v1/memory", json={"content": content, "user_id": "ana", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int, code: str) -> str:
    """The sentence of an error in 001's shape, and nothing else beside it."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert {*body} == {"error"}
    assert {*body["error"]} == {"code", "message", "timestamp"}
    assert body["error"]["code"] == code
    assert datetime.fromisoformat(body["error"]["timestamp"]).tzinfo is not None
    return body["error"]["message"]


# ------------------------------------------------------------------ store and update: V48, V86
@pytest.mark.covers("V86")
def test_store_get_update(server: Running) -> None:
    kept = stored(server, "Budget for Hawaii is $10,000", project_id="trip", source="conversation", importance=0.75)
    assert {*kept} == FIELDS
    assert kept["id"].startswith("mem_")
    expected = {
        "type": "semantic",
        "user_id": "ana",
        "project_id": "trip",
        "source": "conversation",
        "importance": 0.75,
    }
    assert expected.items() <= kept.items()
    path = f"/v1/memory/{kept['id']}"
    assert server.client.get(path).json() == kept
    changed = server.client.put(path, json={"content": "Budget for Hawaii is $15,000", "type": "episodic"})
    assert changed.status_code == 200
    assert changed.json() | {"content": "", "type": "", "updated_at": ""} == kept | {
        "content": "",
        "type": "",
        "updated_at": "",
    }
    assert changed.json()["updated_at"] > kept["created_at"]
    listed = server.client.get("/v1/memory", params={"user_id": "ana"}).json()
    assert listed == {"memories": [changed.json()], "total": 1, "limit": 20}


@pytest.mark.covers("V86")
def test_a_whole_memory_may_come_back(server: Running) -> None:
    kept = stored(server)
    answer = server.client.put(f"/v1/memory/{kept['id']}", json={**kept, "content": "User likes coffee"})
    assert answer.json()["content"] == "User likes coffee"
    moved = server.client.put(f"/v1/memory/{kept['id']}", json={"content": "x", "user_id": "bo"})
    refused(moved, 400, "INVALID_USER_ID")


@pytest.mark.covers("V86")
def test_an_id_of_ones_own(server: Running) -> None:
    id = str(uuid4())
    assert stored(server, id=id)["id"] == f"mem_{UUID(id).hex}"
    again = server.client.post("/v1/memory", json={"content": "x", "user_id": "bo", "id": id})
    refused(again, 409, "CONFLICT")


@pytest.mark.covers("U16")
def test_both_forms_of_an_id_and_a_trailing_slash(server: Running) -> None:
    kept = stored(server)
    bare = str(UUID(kept["id"].removeprefix("mem_")))
    for path in (f"/v1/memory/{bare}", f"/v1/memory/{kept['id']}/", f"/v1/memories/{kept['id']}"):
        assert server.client.get(path).status_code == 200, path
    assert server.client.get("/v1/memory/", params={"user_id": "ana"}).json()["total"] == 1
    assert server.client.delete(f"/v1/memory/{bare}/").status_code == 200


@pytest.mark.covers("V86")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"user_id": "ana"}, "INVALID_CONTENT"),
        ({"user_id": "ana", "content": " "}, "INVALID_CONTENT"),
        ({"user_id": "ana", "content": 7}, "INVALID_CONTENT"),
        ({"user_id": "ana", "content": "x", "type": "fact"}, "INVALID_TYPE"),
        ({"user_id": "ana", "content": "x", "importance": 2}, "INVALID_IMPORTANCE"),
        ({"user_id": "ana", "content": "x", "id": "mem_7"}, "INVALID_ID"),
        ({"user_id": "ana", "content": "x", "project_id": ""}, "INVALID_PROJECT_ID"),
        ({"user_id": 'x" || user_id != "y', "content": "x"}, "INVALID_USER_ID"),
        ({"user_id": "ana", "content": "x", "embedding": [0.1]}, "INVALID_EMBEDDING"),
        ({"user_id": "ana", "content": "x", "access_count": 7}, "INVALID_ACCESS_COUNT"),
        ([], "INVALID_INPUT"),
    ],
)
def test_what_is_wrong_is_named(server: Running, body: Any, code: str) -> None:
    refused(server.client.post("/v1/memory", json=body), 400, code)
    assert server.client.get("/v1/memory", params={"user_id": "ana"}).json()["total"] == 0


# ------------------------------------------------------------------ list: B19
@pytest.mark.covers("B19")
def test_newest_first_with_a_limit(server: Running) -> None:
    for number in range(23):
        stored(server, f"fact {number}", type="procedural" if number % 2 else "semantic", project_id=f"P{number % 3}")

    def listed(**params: Any) -> dict[str, Any]:
        answer = server.client.get("/v1/memory", params={"user_id": "ana", **params})
        assert answer.status_code == 200, answer.text
        return answer.json()

    page = listed()
    assert [memory["content"] for memory in page["memories"]] == [f"fact {number}" for number in range(22, 2, -1)]
    assert (page["total"], page["limit"]) == (23, 20)
    assert [memory["content"] for memory in listed(limit=2)["memories"]] == ["fact 22", "fact 21"]
    assert (listed(limit=101)["limit"], listed(limit=10**30)["limit"]) == (100, 100)
    assert listed(type="procedural")["total"] == 11
    assert listed(type="procedural,semantic")["total"] == 23
    assert listed(type="episodic") == {"memories": [], "total": 0, "limit": 20}
    assert {memory["project_id"] for memory in listed(project_id="P1")["memories"]} == {"P1"}


@pytest.mark.covers("B20")
@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"limit": "abc"}, "INVALID_LIMIT"),
        ({"limit": "0"}, "INVALID_LIMIT"),
        ({"limit": "-1"}, "INVALID_LIMIT"),
        ({"type": "fact"}, "INVALID_TYPE"),
        ({"type": "semantic,"}, "INVALID_TYPE"),
        ({"user_id": "an a"}, "INVALID_USER_ID"),
        ({"user_id": ""}, "INVALID_USER_ID"),
        ({"project_id": ""}, "INVALID_PROJECT_ID"),
        ({"projekt_id": "P"}, "INVALID_PROJEKT_ID"),
    ],
)
def test_wrong_parameters(server: Running, params: dict[str, str], code: str) -> None:
    refused(server.client.get("/v1/memory", params={"user_id": "ana", **params}), 400, code)


# ------------------------------------------------------------------ whose: V53, U6, U19
@pytest.mark.covers("U19")
def test_nothing_without_a_user(server: Running) -> None:
    stored(server)
    for method, body in (("GET", None), ("DELETE", None), ("POST", {"content": "x"})):
        refused(server.client.request(method, "/v1/memory", json=body), 401, "MISSING_USER_ID")
    refused(server.client.delete("/v1/memory", params={"project_id": "P"}), 401, "MISSING_USER_ID")
    assert server.client.get("/v1/memory", params={"user_id": "ana"}).json()["total"] == 1


@pytest.mark.covers("U6")
def test_the_header_beats_what_a_client_says(server: Running) -> None:
    kept = server.client.post("/v1/memory", json={"content": "secret of Ana", "user_id": "bo"}, headers=ANA).json()
    assert kept["user_id"] == "ana"
    assert server.client.get("/v1/memory", params={"user_id": "bo"}, headers=ANA).json()["total"] == 1
    assert server.client.get("/v1/memory", params={"user_id": "ana"}, headers=BO).json()["total"] == 0
    path = f"/v1/memory/{kept['id']}"
    for headers, params in ((BO, {}), (BO, {"user_id": "ana"}), ({}, {"user_id": "bo"})):
        refused(server.client.get(path, headers=headers, params=params), 404, "NOT_FOUND")
        refused(server.client.delete(path, headers=headers, params=params), 404, "NOT_FOUND")
        refused(server.client.put(path, headers=headers, params=params, json={"content": "mine"}), 404, "NOT_FOUND")
    assert server.client.get(path, headers=ANA).json()["content"] == "secret of Ana"


@pytest.mark.covers("U6")
@pytest.mark.parametrize("server", [{"settings": {"trust_client_user_id": False}}], indirect=True)
def test_a_client_is_not_believed_where_that_is_set(server: Running) -> None:
    id = server.client.post("/v1/memory", json={"content": "x"}, headers=ANA).json()["id"]
    for method, path in (("GET", "/v1/memory"), ("DELETE", "/v1/memory"), ("GET", f"/v1/memory/{id}")):
        for params in ({"user_id": "ana"}, {}):
            refused(server.client.request(method, path, params=params), 401, "MISSING_USER_ID")
    assert server.client.get(f"/v1/memory/{id}", headers=ANA).status_code == 200


@pytest.mark.covers("V53")
def test_a_key_of_one_user_has_its_own_memories_alone(server: Running) -> None:
    other = stored(server, "secret of Bo", user_id="bo")
    ana = bearer(server.key("ana's", user_id="ana"))
    assert server.client.post("/v1/memory", json={"content": "x"}, headers=ana).json()["user_id"] == "ana"
    assert server.client.get("/v1/memory", headers=ana).json()["total"] == 1
    refused(server.client.get(f"/v1/memory/{other['id']}", headers=ana), 404, "NOT_FOUND")
    for headers, params in ((ana, {"user_id": "bo"}), (ana | BO, {})):
        for method in ("GET", "DELETE"):
            refused(server.client.request(method, "/v1/memory", headers=headers, params=params), 403, "FORBIDDEN")
    refused(server.client.get("/v1/memory", params={"user_id": "bo"}), 401, "UNAUTHENTICATED")
    free = bearer(server.key("program"))
    refused(server.client.get("/v1/memory", headers=free), 401, "MISSING_USER_ID")
    assert server.client.get("/v1/memory", params={"user_id": "bo"}, headers=free).json()["total"] == 1


@pytest.mark.covers("U6")
@pytest.mark.parametrize("server", [{"env": {"PERDURE_JWT_SECRET": SECRET}}], indirect=True)
def test_a_team_and_its_members_own_memories_are_apart(server: Running) -> None:
    team, ana = as_member("excalibur", "ana"), bearer(token("ana", team="excalibur"))
    mine = server.client.post("/v1/memory", json={"content": "mine alone"}, headers=ana).json()
    assert mine["user_id"] == "ana", "a token's sub is the user (V53)"
    tags = {"team_scope": "excalibur", "project_scope": None, "visibility": "team", "confidence": 1.0}
    tags |= {"truth_level": "WORKING", "source": "test:1", "validation_status": "pending"}
    upsert = {"item": {"content": "the team's", **tags}}
    ours = server.client.post("/v1/memory/upsert", json=upsert, headers=team).json()["id"]
    assert server.client.get(f"/v1/memory/{ours}", headers=team).json()["content"] == "the team's"
    for path in (f"/v1/memory/{ours}", f"/v1/memory/{ours}/history"):
        refused(server.client.get(path, headers=ana), 404, "NOT_FOUND")
        refused(server.client.get(path), 404, "NOT_FOUND")
        assert server.client.get(path.replace(ours, mine["id"]), headers=team).status_code == 404
    refused(server.client.delete(f"/v1/memory/{ours}", headers=ana), 404, "NOT_FOUND")
    refused(server.client.put(f"/v1/memory/{ours}", json={"content": "x"}, headers=ana), 404, "NOT_FOUND")
    for method, path in (("GET", ""), ("POST", ""), ("DELETE", ""), ("PUT", f"/{ours}")):
        answer = server.client.request(method, f"/v1/memory{path}", json={"content": "x"}, headers=team)
        assert (answer.status_code, [*answer.json()]) == (403, ["detail"]), "the team has no such route"
    assert server.client.delete(f"/v1/memory/{ours}", headers=team).status_code == 200
    assert server.client.get("/v1/memory", headers=ana).json()["total"] == 1


@pytest.mark.covers("V53")
def test_a_key_of_a_project_and_one_that_reads(server: Running) -> None:
    stored(server, project_id="Q")
    shop = bearer(server.key("shop", project_id="P"))
    assert (
        server.client.post("/v1/memory", json={"content": "x", "user_id": "ana"}, headers=shop).json()["project_id"]
        == "P"
    )
    found = server.client.get("/v1/memory", params={"user_id": "ana"}, headers=shop).json()
    assert [memory["content"] for memory in found["memories"]] == ["x"]
    refused(
        server.client.get("/v1/memory", params={"user_id": "ana", "project_id": "Q"}, headers=shop), 403, "FORBIDDEN"
    )
    reader = bearer(server.key("reader", role="reader"))
    id = found["memories"][0]["id"]
    assert server.client.get(f"/v1/memory/{id}", headers=reader).status_code == 200
    for method, path, body in (
        ("POST", "/v1/memory", {"content": "x", "user_id": "ana"}),
        ("PUT", f"/v1/memory/{id}", {"content": "y"}),
        ("DELETE", f"/v1/memory/{id}", None),
        ("DELETE", "/v1/memory?user_id=ana", None),
    ):
        refused(server.client.request(method, path, json=body, headers=reader), 403, "FORBIDDEN")


# ------------------------------------------------------------------ forgetting: V49 to V52, U4, U5
def holding(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.covers("V49", "V52")
def test_a_deleted_memory_is_nowhere(tmp_path: Path) -> None:
    with running(tmp_path / "memory") as server:
        kept = stored(server, "User's wifi password is Xylophone-77")
        path = f"/v1/memory/{kept['id']}"
        server.client.put(path, json={"content": "User's wifi password is Xylophone-78"})
        answer = server.client.delete(path)
        assert answer.status_code == 200
        assert answer.json() == {"success": True, "message": "Memory deleted successfully"}
        refused(server.client.get(path), 404, "NOT_FOUND")
        refused(server.client.delete(path), 404, "NOT_FOUND")
        refused(server.client.put(path, json={"content": "x"}), 404, "NOT_FOUND")
        found = server.client.post("/v1/memories/search", json={"query": "wifi password", "user_id": "ana"})
        assert "Xylophone" not in found.text
        assert holding(tmp_path, "Xylophone") == []


@pytest.mark.covers("U4")
def test_history_is_kept_where_asked(server: Running) -> None:
    kept = stored(server)
    assert server.client.delete(f"/v1/memory/{kept['id']}", params={"erase": "false"}).status_code == 200
    gone = stored(server, "User likes coffee")
    server.client.put(f"/v1/memory/{gone['id']}", json={"content": "User likes cocoa"})
    assert server.client.delete(f"/v1/memory/{gone['id']}").status_code == 200

    def history(memory: dict[str, Any], **params: str) -> list[tuple[str, str | None, bool]]:
        rows = server.client.get(f"/v1/memory/{memory['id']}/history", params=params).json()["history"]
        assert {row["memory_id"] for row in rows} == {memory["id"]}
        return [(row["event"], row["new_value"] or row["old_value"], row["erased"]) for row in rows]

    assert history(kept) == [("ADD", "User likes tea", False), ("DELETE", "User likes tea", False)]
    assert history(gone, user_id="ana") == [(event, None, True) for event in ("ADD", "UPDATE", "DELETE")]
    for path in (f"/v1/memory/{kept['id']}/history?user_id=bo", f"/v1/memory/{uuid4()}/history"):
        refused(server.client.get(path), 404, "NOT_FOUND")


@pytest.mark.covers("V50", "V51")
def test_scopes_go_alone(server: Running, tmp_path: Path) -> None:
    for user in ("ana", "bo"):
        for project in ("P", "Q"):
            stored(server, f"Quokka of {user} in {project}", user_id=user, project_id=project, type="procedural")

    def left() -> set[str]:
        pages = [server.client.get("/v1/memory", params={"user_id": user}).json() for user in ("ana", "bo")]
        return {memory["content"] for page in pages for memory in page["memories"]}

    def forget(**params: str) -> str:
        answer = server.client.delete("/v1/memory", params=params)
        assert answer.status_code == 200, answer.text
        assert answer.json()["success"] is True
        return answer.json()["message"]

    assert forget(user_id="ana", type="semantic") == "Successfully deleted all memories of type: semantic"
    assert len(left()) == 4
    forget(user_id="ana", project_id="P")
    assert left() == {"Quokka of ana in Q", "Quokka of bo in P", "Quokka of bo in Q"}
    assert holding(tmp_path, "Quokka of ana in P") == []
    assert forget(user_id="ana") == "Successfully deleted all memories"
    assert left() == {"Quokka of bo in P", "Quokka of bo in Q"}
    assert holding(tmp_path, "Quokka of ana") == []
    forget(user_id="bo", type="procedural", project_id="Q")
    assert left() == {"Quokka of bo in P"}


@pytest.mark.covers("B20")
def test_ids_that_no_memory_has(server: Running) -> None:
    for id in (str(uuid4()), f"mem_{uuid4().hex}", "mem_7"):
        refused(server.client.get(f"/v1/memory/{id}"), 404, "NOT_FOUND")
    for id in ("a b", "a'b", "a%22b"):
        refused(server.client.get(f"/v1/memory/{id}"), 400, "INVALID_ID")


@pytest.mark.covers("U5")
def test_the_names_of_004_are_no_ids(server: Running) -> None:
    for id in ("upsert", "search"):
        for method in ("PUT", "DELETE"):
            answer = server.client.request(method, f"/v1/memory/{id}", json={"content": "x"})
            assert answer.status_code in (404, 405), answer.text
    assert server.client.get("/v1/memory/search", params={"q": "tea"}).status_code == 200, "PUBLIC facts (X36)"


@pytest.mark.covers("B20")
@pytest.mark.parametrize(
    "server", [{"vector_store": {"provider": "sqlite", "config": {"path": "/proc/no/m.db"}}}], indirect=True
)
def test_a_store_that_is_down(server: Running) -> None:
    message = refused(server.client.get("/v1/memory", params={"user_id": "ana"}), 503, "MEMORY_NOT_AVAILABLE")
    assert "/proc" not in message, "what is wrong on our side is for the log"
