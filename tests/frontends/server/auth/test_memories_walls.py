"""Two tenants with a key each: whatever route, dialect or id one uses, the other's memories are not there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from perdure.domain.errors import ScopeError
from perdure.domain.memory import read_id
from perdure.domain.scope import Scope
from perdure.frontends.library.team import AsyncTeamMemory
from tests.frontends.server.mem0.clients import MemoryClient, mem0_client, mem0_errors
from tests.frontends.server.running import Running, bearer, running

pytestmark = pytest.mark.covers("U22")

SECRET_TEXT = "the launch code is walnut"


@dataclass(frozen=True)
class Tenants:
    """A server with the memory of Ana, and the keys of both."""

    server: Running
    ana: dict[str, str]
    bob: dict[str, str]
    reader: dict[str, str]
    bobs_secret: str
    memory_id: str
    event_id: str
    record_id: str
    export_id: str

    def ask(self, who: dict[str, str], method: str, path: str, **more: Any) -> httpx.Response:
        return self.server.client.request(method, path, headers=who, **more)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with running(tmp_path_factory.mktemp("walls")) as server:
        ana, bobs = bearer(server.key("ana", user_id="ana")), server.key("bob", user_id="bob")
        reader = bearer(server.key("reader", role="reader", user_id="ana"))
        post = server.client.post
        added = post("/v3/memories/add/", json={"messages": SECRET_TEXT, "user_id": "ana", "infer": False}, headers=ana)
        export = post("/v1/exports/", json={"schema": {}, "user_id": "ana"}, headers=ana).json()["id"]
        (result,) = added.json()["results"]
        yield Tenants(
            server, ana, bearer(bobs), reader, bobs, result["id"], added.json()["event_id"], result["event_id"], export
        )


def test_ana_sees_her_own(tenants: Tenants) -> None:
    for path in (
        f"/v1/memories/{tenants.memory_id}",
        "/v1/memories?user_id=ana",
        "/v1/memories",  # her key says who she is
        f"/v1/event/{tenants.event_id}",
        f"/v1/event/{tenants.record_id}",
        "/v1/events",
        "/memories",
    ):
        answer = tenants.ask(tenants.ana, "GET", path)
        assert answer.status_code == 200 and SECRET_TEXT in answer.text, path
    got = tenants.ask(tenants.ana, "POST", "/v1/exports/get", json={"memory_export_id": tenants.export_id})
    assert SECRET_TEXT in got.text


IDS = ["memory", "event", "record", "export"]
BY_ID: list[tuple[str, str, Any]] = [
    ("GET", "/v1/memories/{memory}", None),
    ("GET", "/memories/{memory}", None),
    ("PUT", "/v1/memories/{memory}", {"text": "mine now"}),
    ("PUT", "/memories/{memory}", {"text": "mine now"}),
    ("DELETE", "/v1/memories/{memory}", None),
    ("DELETE", "/v1/memories/{memory}?erase=true", None),
    ("DELETE", "/v1/memories/{memory}?delete_linked=true", None),
    ("DELETE", "/memories/{memory}", None),
    ("GET", "/v1/memories/{memory}/history", None),
    ("GET", "/memories/{memory}/history", None),
    ("PUT", "/v1/batch", {"memories": [{"memory_id": "{memory}", "text": "mine now"}]}),
    ("DELETE", "/v1/batch", {"memories": [{"memory_id": "{memory}"}]}),
    ("POST", "/v1/feedback", {"memory_id": "{memory}", "feedback": "NEGATIVE"}),
    ("POST", "/v1/memories/{memory}/feedback", {"verdict": "negative"}),
    ("POST", "/v1/undo", {"event_id": "{record}"}),
    ("POST", "/v1/consolidate", {"memory_ids": ["{memory}", "{record}"]}),
    ("GET", "/v1/event/{event}", None),
    ("GET", "/v1/event/{record}", None),
    ("POST", "/v1/exports/get", {"memory_export_id": "{export}"}),
]
FILTERS = [
    {"user_id": "ana"},
    {"OR": [{"user_id": "ana"}]},
    {"OR": [{"user_id": "bob"}, {"user_id": "ana"}]},
    {"user_id": {"in": ["ana", "bob"]}},
    {"user_id": "*"},
    {"NOT": {"user_id": "bob"}},
    {"field": "user_id", "operator": "ne", "value": "bob"},
    {"memory_ids": ["{memory}"]},
    {"agent_id": "*"},
]
BY_SCOPE: list[tuple[str, str, Any]] = [
    ("GET", "/v1/memories?user_id=ana", None),
    ("GET", "/v1/memories?user_id=ana&page=1", None),
    ("GET", "/v1/memories/search?q=launch+code&user_id=ana", None),
    ("GET", "/v1/context?query=launch+code&user_id=ana", None),
    ("GET", "/v1/context?query=launch+code", None),
    ("GET", "/v1/entities", None),
    ("GET", "/v1/events", None),
    ("GET", "/v1/events?user_id=ana", None),
    ("GET", "/v2/entities/user/ana", None),
    ("GET", "/memories", None),
    ("GET", "/memories?user_id=ana", None),
    ("POST", "/v1/forget", {"user_id": "ana"}),
    ("POST", "/v1/consolidate", {"user_id": "ana"}),
    ("POST", "/v1/reflect", {"user_id": "ana"}),
    ("POST", "/v1/reflect", {}),
    ("POST", "/v1/forget", {"id": "{memory}"}),
    ("POST", "/v1/forget", {"query": "launch code", "threshold": 0}),
    ("DELETE", "/v1/memories?user_id=ana", None),
    ("DELETE", "/memories?user_id=ana", None),
    ("DELETE", "/v2/entities/user/ana", None),
    ("DELETE", "/v2/entities/user/ana?erase=true", None),
    ("POST", "/v1/reset", {"confirm": True}),
    ("POST", "/reset", {"confirm": True}),
    *(("DELETE", "/v1/memories", filters) for filters in FILTERS),
    *(("POST", path, {"query": "launch code", "filters": filters}) for filters in FILTERS for path in
      ("/v3/memories/search", "/v1/memories/search", "/search")),
    *(("POST", path, {"filters": filters}) for filters in FILTERS for path in
      ("/v3/memories", "/v2/memories", "/v1/summary", "/v1/exports/get")),
]  # fmt: skip


def filled(value: Any, ids: dict[str, str]) -> Any:
    """The value with the ids in their places."""
    if isinstance(value, str):
        for name, id in ids.items():
            value = value.replace("{" + name + "}", id)
        return value
    if isinstance(value, list):
        return [filled(each, ids) for each in value]
    return {name: filled(each, ids) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("method, path, body", [*BY_ID, *BY_SCOPE], ids=lambda value: str(value)[:60])
def test_bob_finds_nothing_of_anas_and_changes_nothing(tenants: Tenants, method: str, path: str, body: Any) -> None:
    ids = {
        "memory": tenants.memory_id, "event": tenants.event_id, "record": tenants.record_id, "export": tenants.export_id
    }  # fmt: skip
    more: dict[str, Any] = {} if body is None else {"json": filled(body, ids)}
    if method == "DELETE" and path == "/v1/memories":
        more = {"params": {"filters": str(filled(body, ids))}}
    answer = tenants.ask(tenants.bob, method, filled(path, ids), **more)
    assert "walnut" not in answer.text and '"ana"' not in answer.text
    assert answer.status_code < 500
    if (method, path, body) in BY_ID:
        assert answer.status_code in (403, 404)
    still = tenants.ask(tenants.ana, "GET", f"/v1/memories/{tenants.memory_id}").json()
    assert still["memory"] == SECRET_TEXT and still["metadata"] == {} and still["user_id"] == "ana"
    assert len(tenants.ask(tenants.ana, "GET", f"/v1/memories/{tenants.memory_id}/history").json()) == 1


def test_bob_cannot_write_for_ana(tenants: Tenants) -> None:
    for path, body in (
        ("/v1/memories", {"user_id": "ana"}),
        ("/v3/memories/add", {"user_id": "ana"}),
        ("/v3/memories/add", {"filters": {"user_id": "ana"}}),
        ("/memories", {"user_id": "ana"}),
    ):
        answer = tenants.ask(tenants.bob, "POST", path, json=body | {"messages": "planted", "infer": False})
        assert answer.status_code == 403 and answer.json()["detail"], path
    mine = tenants.ask(tenants.bob, "POST", "/v3/memories/add", json={"messages": "my own", "infer": False}).json()
    assert tenants.ask(tenants.bob, "GET", f"/v1/memories/{mine['results'][0]['id']}").json()["user_id"] == "bob"
    assert "planted" not in tenants.ask(tenants.ana, "GET", "/v1/memories").text


def test_a_reader_reads_and_writes_nothing(tenants: Tenants) -> None:
    read = tenants.ask(tenants.reader, "POST", "/v3/memories/search", json={"query": "launch", "filters": {}})
    assert SECRET_TEXT in read.text
    for method, path, body in (
        ("POST", "/v1/memories", {"messages": "x"}),
        ("POST", "/v3/memories/add", {"messages": "x"}),
        ("PUT", f"/v1/memories/{tenants.memory_id}", {"text": "x"}),
        ("DELETE", f"/v1/memories/{tenants.memory_id}", None),
        ("DELETE", "/v1/memories", None),
        ("POST", "/v1/forget", {}),
        ("DELETE", "/v2/entities/user/ana", None),
        ("POST", "/v1/feedback", {"memory_id": tenants.memory_id}),
        ("POST", f"/v1/memories/{tenants.memory_id}/feedback", {"verdict": "positive"}),
    ):
        assert tenants.ask(tenants.reader, method, path, json=body).status_code == 403, path


def test_mem0s_client_within_its_walls(tenants: Tenants) -> None:
    with mem0_client(tenants.server.url, tenants.bobs_secret) as client:
        client.add("note of bob", infer=False)
        assert {each["name"] for each in client.users()["results"]} == {"bob"}
        with pytest.raises(mem0_errors.AuthenticationError, match="outside"):
            client.search("launch code", filters={"user_id": "ana"})
        with pytest.raises(mem0_errors.ValidationError, match="At least one of user_id"):
            client.delete_all()  # the key's own user has to be named
        assert client.users()["count"] == 1
        client.delete_all(user_id="bob")
        assert client.users()["results"] == []
    assert tenants.ask(tenants.ana, "GET", f"/v1/memories/{tenants.memory_id}").status_code == 200


def test_what_removes_a_scope_must_name_it(tenants: Tenants) -> None:
    for method, path, body in (
        ("DELETE", "/v1/memories", None),
        ("DELETE", "/v1/memories?filters=%7B%7D", None),
        ("DELETE", "/memories", None),
        ("POST", "/v1/forget", {}),
    ):
        answer = tenants.ask(tenants.ana, method, path, json=body)
        assert answer.status_code == 400 and answer.json()["detail"] == ScopeError.TEXT
    assert tenants.ask(tenants.ana, "GET", f"/v1/memories/{tenants.memory_id}").status_code == 200


def test_a_key_that_is_not_known_is_refused_by_name(tenants: Tenants) -> None:
    with httpx.Client(timeout=60) as http, pytest.raises(ValueError, match="key"):
        MemoryClient(api_key=uuid.uuid4().hex, host=tenants.server.url, client=http)
    assert tenants.server.client.get("/v1/stats/").status_code == 401
    assert tenants.server.client.get("/v1/memories/", params={"user_id": "ana"}).status_code == 401


@pytest.mark.covers("U22")
def test_a_teams_memory_is_in_no_personal_route(server: Running) -> None:
    item = {
        "content": SECRET_TEXT, "team_scope": "blue", "project_scope": None, "visibility": "private",
        "confidence": 1.0, "truth_level": "WORKING", "source": "chat:1", "validation_status": "pending",
    }  # fmt: skip

    async def store() -> str:
        return await AsyncTeamMemory(server.service.memory, team="blue", member="ana").upsert(item)

    id = read_id(server.wait(store()))
    record = server.wait(server.service.engine.read.history(id, Scope(team_id="blue")))[0].id
    for method, path, body in (
        ("GET", f"/v1/memories/{id}", None),
        ("PUT", f"/v1/memories/{id}", {"text": "mine"}),
        ("GET", f"/v1/memories/{id}/history", None),
        ("GET", f"/v1/event/{record}", None),
        ("DELETE", f"/v1/memories/{id}", None),
        ("DELETE", f"/v1/memories/{id}?erase=true", None),
        ("POST", "/v1/undo", {"event_id": record}),
        ("POST", f"/v1/memories/{id}/feedback", {"verdict": "positive"}),
        ("PUT", "/v1/batch", {"memories": [{"memory_id": id, "text": "mine"}]}),
    ):
        assert server.client.request(method, path, json=body).status_code == 404, path
    server.client.post("/v1/forget", json={"id": id})
    for path in ("/v1/events", "/v1/entities", "/v1/memories?user_id=ana"):
        assert server.client.get(path).json()["results"] == [], path
    found = server.client.post("/v3/memories/search", json={"query": "walnut", "filters": {"user_id": "ana"}})
    assert found.json()["results"] == []
    still = server.wait(server.service.engine.read.get(id, Scope(team_id="blue")))
    assert still is not None and still.memory == SECRET_TEXT


@pytest.mark.covers("U6")
@pytest.mark.parametrize("server", [{"settings": {"trust_client_user_id": False}}], indirect=True)
def test_behind_a_proxy_that_says_who_it_is(server: Running) -> None:
    def ask(user: str | None, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {} if user is None else {"x-authz-user-id": user}
        return server.client.request(method, path, headers=headers, **more)

    body = {"messages": SECRET_TEXT, "infer": False}
    id = ask("ana", "POST", "/v1/memories", json=body).json()["results"][0]["id"]
    assert ask("ana", "GET", f"/v1/memories/{id}").json()["user_id"] == "ana"
    assert ask("bob", "GET", f"/v1/memories/{id}").status_code == 404
    assert ask("bob", "GET", "/v1/memories?user_id=ana").status_code == 403
    assert ask("bob", "POST", "/v3/memories", json={"filters": {"user_id": "ana"}}).status_code == 403
    assert ask("bob", "GET", "/v1/entities").json()["results"] == []
    for path in ("/v1/memories?user_id=ana", f"/v1/memories/{id}", "/v1/entities", "/v1/memories?run_id=r"):
        assert ask(None, "GET", path).status_code == 401
