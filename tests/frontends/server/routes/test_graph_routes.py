"""The graph of personal memory over a real port: 000 §12's routes, T33 to T35, walls and errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from tests.frontends.server.running import SECRET, Running, bearer, running, token

pytestmark = pytest.mark.covers("T33", "T34", "T35", "X59", "X60", "X66")

_NUMBERS = count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for all: each test has a user of its own."""
    graph = {"graph_store": {"provider": "sqlite"}}
    with running(tmp_path_factory.mktemp("memory"), env={"PERDURE_JWT_SECRET": SECRET}, **graph) as found:
        yield found


class User:
    """Somebody whom nobody else asks for."""

    def __init__(self, server: Running) -> None:
        self.client, self.name = server.client, f"user-{next(_NUMBERS)}"

    def remember(self, text: str, **more: Any) -> str:
        body = {"messages": text, "infer": False, "user_id": self.name, **more}
        answer = self.client.post("/v1/memories/", json=body)
        assert answer.status_code == 200, answer.text
        id: str = answer.json()["results"][0]["id"]
        return id

    def entities(self, **body: Any) -> list[dict[str, Any]]:
        answer = self.client.post("/v1/entities/", json={"user_id": self.name, **body})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["results"]
        return found

    def ask(self, path: str, **query: Any) -> httpx.Response:
        return self.client.get(path, params={"user_id": self.name, **query})

    def relations(self, name: str, **query: Any) -> list[tuple[str, str, str]]:
        answer = self.ask(f"/v1/entities/{name}/relations/", **query)
        assert answer.status_code == 200, answer.text
        return [(each["source"], each["relation"], each["target"]) for each in answer.json()["results"]]

    def neighbors(self, entity: str, **query: Any) -> list[str]:
        answer = self.ask("/v1/graph/neighbors", entity=entity, **query)
        assert answer.status_code == 200, answer.text
        return [each["name"] for each in answer.json()["neighbors"]]


@pytest.fixture
def user(shared: Running) -> User:
    return User(shared)


# ------------------------------------------------------------------ 000
@pytest.mark.covers("T33")
def test_entities_of_what_was_said(user: User) -> None:
    said = [{"role": "user", "content": "I met Alice. Alice works at Google."}]
    assert user.client.post("/v1/memories", json={"messages": said, "user_id": user.name}).status_code == 200
    found = {each["name"]: each for each in user.entities()}
    assert (found["Alice"]["type"], found["Google"]["type"]) == ("person", "organization")
    assert set(found["Alice"]) == {"name", "type", "description", "memory_ids", "updated_at"}
    (id,) = found["Google"]["memory_ids"]
    assert "Google" in user.client.get(f"/v1/memories/{id}").json()["memory"]


@pytest.mark.covers("T34")
def test_relations_of_what_was_said(user: User) -> None:
    id = user.remember("Alice works at Google")
    answer = user.ask("/v1/entities/alice/relations/").json()
    (edge,) = answer["results"]
    assert answer["entity"] == "alice"
    assert (edge["source"], edge["relation"], edge["target"]) == ("Alice", "works_at", "Google")
    assert (edge["memory_ids"], edge["valid_until"], edge["closed_by"]) == ([id], None, None)


@pytest.mark.covers("T35")
def test_a_search_brings_memories_of_connected_entities(user: User) -> None:
    user.remember("Alice works at Initech")
    user.remember("Initech is based in Austin")
    for number in range(12):
        user.remember(f"Nobody noticed matter {number} of the quarterly figures")
    query = {"q": "What is known of Alice?", "limit": 8, "explain": True}
    found = {each["memory"]: each for each in user.ask("/v1/memories/search", **query).json()["results"]}
    related = found["Initech is based in Austin"]["explanation"]
    assert related["graph"]["through"] == ["Initech"]


def test_entities_by_name_and_limit(user: User) -> None:
    user.remember("Alice works at Initech")
    user.remember("Alice lives in Porto")
    assert [each["name"] for each in user.entities(limit=1)] == ["Alice"], "named most"
    assert [each["name"] for each in user.entities(names=["initech", "Zoe"])] == ["Initech"]
    assert user.entities(names=[]) == []
    assert user.entities(as_of="2020-01-01") == []


@pytest.mark.covers("V76")
def test_relations_of_two_steps(user: User) -> None:
    for text in ("Alice's manager is Bob", "Bob works at Initech", "Initech is based in Austin"):
        user.remember(text)
    reached = [len(user.relations("Alice", depth=depth)) for depth in (1, 2, 3)]
    assert reached == [1, 2, 3]
    assert user.relations("Alice", depth=2)[-1][-1] == "Initech"
    assert [user.neighbors("Alice", depth=depth) for depth in (1, 2)] == [["Bob"], ["Bob", "Initech"]]


@pytest.mark.covers("X66", "X67")
def test_relations_of_a_time_with_what_closed_them(user: User) -> None:
    first = user.remember("Alice leads Apollo", timestamp="2026-01-10T00:00:00Z")
    second = user.remember("Bob leads Apollo", timestamp="2026-06-01T00:00:00Z")
    assert user.relations("Apollo", at="2026-03-01") == [("Alice", "leads", "Apollo")]
    assert user.relations("Apollo") == [("Bob", "leads", "Apollo")]
    kept = user.ask("/v1/entities/Apollo/relations", include_past=True).json()["results"]
    assert [(edge["memory_ids"], edge["closed_by"]) for edge in kept] == [([first], second), ([second], None)]
    assert user.neighbors("Apollo", at="2026-03-01") == ["Alice"]
    assert user.neighbors("Apollo", as_of="2026-03-01") == ["Alice"]
    # Seconds since 1970 are a time too, as everywhere below /v1/memories.
    assert user.relations("Apollo", at=1772323200) == [("Alice", "leads", "Apollo")]


def test_names_with_slashes_and_accents_are_names(user: User) -> None:
    entities = [{"name": "TCP/IP"}, {"name": "José"}, {"name": "a/relations"}]
    user.remember("They met", metadata={"entities": entities})
    for name in ("TCP%2FIP", "Jos%C3%A9", "a%2Frelations"):
        assert user.relations(name) == []
    assert sorted(user.neighbors("TCP/IP")) == ["José", "a/relations"]


def test_the_routes_beside_mem0s_are_both_there(user: User) -> None:
    user.remember("Alice works at Initech")
    listed = user.client.get("/v1/entities/").json()
    assert user.name in [each["name"] for each in listed["results"]]
    assert user.entities()
    assert user.client.delete(f"/v2/entities/user/{user.name}").status_code == 200
    assert user.entities() == []


# ------------------------------------------------------------------ 004's, without a team
@pytest.mark.covers("X59")
def test_neighbors_of_a_person(user: User) -> None:
    id = user.remember("Alice works at Initech", metadata={"entities": [{"name": "Alice"}, {"name": "Bob"}]})
    answer = user.ask("/v1/graph/neighbors", entity="Alice").json()
    assert (answer["entity"], answer["team_scope"]) == ("Alice", None)
    found = {each["name"]: each for each in answer["neighbors"]}
    assert {name: each["relationship"] for name, each in found.items()} == {
        "Initech": "works_at",
        "Bob": "mentioned_with",
    }
    assert found["Initech"]["memory_ids"] == [id]


@pytest.mark.covers("X64")
def test_the_queue_of_a_scope(user: User) -> None:
    assert user.ask("/v1/graph/queue-status").json() == {
        "pending": 0, "processing": 0, "failed": 0, "oldest_pending_at": None,
        "by_kind": {"entities": 0, "temporal": 0},
    }  # fmt: skip
    assert user.client.get("/v1/graph/queue-status").status_code == 200, "of all that the caller may ask for"


def test_erasing_reaches_the_graph(user: User) -> None:
    id = user.remember("Alice works at Initech")
    assert user.entities()
    report = user.client.post("/v1/forget", json={"id": id}).json()
    assert [place["status"] for place in report["places"] if place["place"] == "graph"] == ["erased"]
    assert user.entities() == []


# ------------------------------------------------------------------ errors
@pytest.mark.covers("X60")
@pytest.mark.parametrize(
    ("path", "query", "status", "field"),
    [
        ("/v1/entities/Zoe/relations", {}, 404, None),
        ("/v1/graph/neighbors", {"entity": "Zoe"}, 404, None),
        ("/v1/graph/neighbors", {}, 422, "entity"),
        ("/v1/graph/neighbors", {"entity": " "}, 422, "entity"),
        ("/v1/graph/neighbors", {"entity": "Zoe", "depth": 4}, 422, "depth"),
        ("/v1/graph/neighbors", {"entity": "Zoe", "deep": 1}, 422, "deep"),
        ("/v1/graph/neighbors", {"entity": "Zoe", "at": "soon"}, 400, "at"),
        ("/v1/graph/neighbors", {"entity": "Zoe", "as_of": "soon"}, 400, "as_of"),
        ("/v1/entities/Zoe/relations", {"depth": 0}, 422, "depth"),
        ("/v1/entities/Zoe/relations", {"at": "soon"}, 400, "at"),
        ("/v1/entities/%20/relations", {}, 400, "name"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(user: User, path: str, query: dict[str, Any], status: int, field: str) -> None:
    answer = user.ask(path, **query)
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text
    assert set(answer.json()) - {"field"} == {"detail", "error", "code"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"user_id": ""}, 400),
        ({"user_id": "ana", "limit": 0}, 400),
        ({"user_id": "ana", "names": [" "]}, 400),
        ({"user_id": "ana", "as_of": "soon"}, 400),
        ({"user_id": "ana", "nmaes": []}, 422),
    ],
    ids=str,
)
def test_entities_are_asked_for_in_a_scope(shared: Running, body: dict[str, Any], status: int) -> None:
    answer = shared.client.post("/v1/entities", json=body)
    assert answer.status_code == status, answer.text


def test_a_missing_scope_is_told_in_the_specs_words(shared: Running) -> None:
    for path in ("/v1/entities/Zoe/relations", "/v1/graph/neighbors?entity=Zoe"):
        answer = shared.client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (400, "scope_missing")


def test_without_a_graph_the_server_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("plain"), env={"PERDURE_JWT_SECRET": SECRET}) as server:
        asked = [
            server.client.post("/v1/entities", json={"user_id": "ana"}),
            server.client.get("/v1/entities/Alice/relations?user_id=ana"),
            server.client.get("/v1/graph/neighbors?entity=Alice&user_id=ana"),
            server.client.get("/v1/graph/queue-status"),
            server.client.post("/v1/graph/revive"),
        ]
        for answer in asked:
            assert (answer.status_code, answer.json()["code"]) == (501, "no_graph")
            assert "graph_store" in answer.json()["detail"]
        team = {**bearer(token(team="red")), "X-Team-Scope": "red"}
        answer = server.client.get("/v1/graph/neighbors?entity=Alice", headers=team)
        assert answer.status_code == 501 and set(answer.json()) == {"detail"}


# ------------------------------------------------------------------ walls
@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with keys, and two users who know entities of the same name."""
    graph = {"graph_store": {"provider": "sqlite"}}
    with running(tmp_path_factory.mktemp("keyed"), env={"PERDURE_JWT_SECRET": SECRET}, **graph) as found:
        for user, employer in (("ana", "Initech"), ("bob", "Globex")):
            body = {"messages": f"Alice works at {employer}", "infer": False, "user_id": user}
            assert found.client.post("/v1/memories", json=body).status_code == 200
        yield found


@pytest.mark.covers("U22")
def test_a_users_key_asks_that_users_graph_alone(keyed: Running) -> None:
    ana = bearer(keyed.key("ana", user_id="ana"))
    for query in ({}, {"user_id": "ana"}):
        answer = keyed.client.get("/v1/graph/neighbors", params={"entity": "Alice", **query}, headers=ana)
        assert [each["name"] for each in answer.json()["neighbors"]] == ["Initech"]
    for answer in (
        keyed.client.get("/v1/graph/neighbors?entity=Alice&user_id=bob", headers=ana),
        keyed.client.get("/v1/entities/Alice/relations?user_id=bob", headers=ana),
        keyed.client.post("/v1/entities", json={"user_id": "bob"}, headers=ana),
        keyed.client.get("/v1/graph/queue-status?user_id=bob", headers=ana),
    ):
        assert answer.status_code == 403 and "Globex" not in answer.text
    assert keyed.client.get("/v1/graph/neighbors?entity=Globex", headers=ana).status_code == 404


@pytest.mark.covers("U22")
def test_a_token_and_a_proxy_name_the_user(keyed: Running) -> None:
    jwt = bearer(token("bob"))
    answer = keyed.client.post("/v1/entities", json={}, headers=jwt)
    assert {each["name"] for each in answer.json()["results"]} == {"Alice", "Globex"}
    key = bearer(keyed.key("proxy"))
    answer = keyed.client.post("/v1/entities", json={}, headers={**key, "x-authz-user-id": "ana"})
    assert {each["name"] for each in answer.json()["results"]} == {"Alice", "Initech"}
    assert keyed.client.post("/v1/entities", json={"user_id": "ana"}).status_code == 401


def test_readers_read_the_graph_and_admins_alone_revive(keyed: Running) -> None:
    reader, member, admin = (bearer(keyed.key(role, role=role)) for role in ("reader", "member", "admin"))
    assert keyed.client.post("/v1/entities", json={"user_id": "ana"}, headers=reader).status_code == 200
    assert keyed.client.get("/v1/graph/queue-status", headers=reader).status_code == 200
    for headers in (reader, member, bearer(token("ana", role="admin")), {**admin, "x-authz-user-id": "ana"}):
        assert keyed.client.post("/v1/graph/revive", headers=headers).status_code == 403
    assert keyed.client.post("/v1/graph/revive", headers=admin).json() == {"revived": 0}
