"""Spec 004 over a real port: its own examples, its tags, its walls and its errors."""

from __future__ import annotations

import shlex
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.frontends.server.running import SECRET, Running, as_member, bearer, token
from tests.frontends.server.teams import Team, detail

pytestmark = pytest.mark.covers(
    "X1",
    "X2",
    "X3",
    "X4",
    "X5",
    "X6",
    "X7",
    "X8",
    "X9",
    "X10",
    "X11",
    "X12",
    "X13",
    "X14",
    "X15",
    "X16",
    "X17",
    "X18",
    "X19",
    "X20",
    "X21",
    "X22",
    "X23",
    "X24",
    "X25",
    "X26",
    "X27",
    "X28",
    "X29",
    "X30",
    "X31",
    "X32",
    "X33",
    "X34",
    "X35",
    "X36",
    "X51",
    "X52",
    "X53",
    "X54",
    "X55",
    "X68",
)

TAGS = ("team_scope", "project_scope", "visibility", "confidence", "truth_level", "source", "validation_status")
SERVER = {"env": {"PERDURE_JWT_SECRET": SECRET}}


# ------------------------------------------------------------------ the spec's own requests
UPSERT = r"""curl -X POST https://api.grooveos.app/v1/memory/upsert \
  -H "Authorization: Bearer $JWT" \
  -H "X-Team-Scope: excalibur" \
  -H "Content-Type: application/json" \
  -d '{
    "item": {
      "content": "The Q2 fundraising target is 2M€",
      "team_scope": "excalibur",
      "project_scope": "fundraising",
      "visibility": "team",
      "confidence": 0.9,
      "truth_level": "WORKING",
      "source": "librechat:conv_abc123",
      "validation_status": "pending"
    }
  }'"""
WITH_ENTITIES = """{
  "item": {
    "content": "Alice leads the fundraising project",
    "team_scope": "excalibur",
    "project_scope": "fundraising",
    "visibility": "team",
    "confidence": 0.85,
    "truth_level": "WORKING",
    "source": "agent-runtime:run_xyz789",
    "validation_status": "pending",
    "metadata": {
      "entities": [
        {"name": "Alice", "type": "person"},
        {"name": "fundraising", "type": "project"}
      ]
    }
  }
}"""
SEARCH = r"""curl "https://api.grooveos.app/v1/memory/search?q=fundraising+target&truth_level_min=WORKING&limit=5" \
  -H "Authorization: Bearer $JWT" \
  -H "X-Team-Scope: excalibur" """
PROMOTION = """{
  "item_id": "mem_abc123",
  "target_level": "VALIDATED",
  "justification": "Confirmed with the client on 2026-05-01"
}"""
DECISION = """{
  "decision": "approved",
  "note": "Verified against signed contract doc"
}"""


def curl(server: Running, command: str, jwt: str) -> httpx.Response:
    """Do what a curl command line says, to the server of the test."""
    words = shlex.split(command.replace("\\\n", " ").replace("$JWT", jwt))[1:]
    method, url, body = "GET", "", None
    headers: dict[str, str] = {}
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0).encode()
        else:
            url = word.removeprefix("https://api.grooveos.app")
    return server.client.request(method, url, headers=headers, content=body)


@pytest.mark.covers("X1", "X27", "X41", "X42")
def test_the_specs_examples_as_they_stand(shared: Running) -> None:
    jwt, client = token("alice", team="excalibur"), shared.client
    headers = as_member("excalibur", "alice") | {"Content-Type": "application/json"}
    first = curl(shared, UPSERT, jwt)
    assert first.status_code == 200 and set(first.json()) == {"id"} and first.json()["id"].startswith("mem_")
    second = client.post("/v1/memory/upsert", headers=headers, content=WITH_ENTITIES.encode())
    assert second.status_code == 200 and second.json()["id"] != first.json()["id"]
    found = curl(shared, SEARCH, jwt)
    assert found.status_code == 200 and found.json()[0]["content"] == "The Q2 fundraising target is 2M€"

    body = PROMOTION.replace("mem_abc123", first.json()["id"])
    asked = client.post("/v1/promotions", headers=headers, content=body.encode())
    assert asked.status_code == 201
    known = asked.json()
    assert known["id"] == known["promotion_id"] and known["status"] == "pending" and known["created_at"]
    assert (known["item_id"], known["target_level"]) == (first.json()["id"], "VALIDATED")
    admin = as_member("excalibur", "merlin", role="admin") | {"Content-Type": "application/json"}
    done = client.patch(f"/v1/promotions/{known['id']}", headers=admin, content=DECISION.encode())
    assert done.status_code == 200
    assert done.json() == {
        "promotion_id": known["id"], "decision": "approved", "item_id": first.json()["id"], "status": "approved",
        "new_truth_level": "VALIDATED",
    }  # fmt: skip
    again = curl(shared, UPSERT, jwt)
    assert again.status_code == 405, "X21: it is VALIDATED by now"
    missing = client.post("/v1/promotions", headers=headers, content=PROMOTION.encode())
    assert missing.status_code == 404, "X46"


# ------------------------------------------------------------------ the tags
@pytest.mark.parametrize("missing", TAGS, ids=[f"x{number}-{name}" for number, name in enumerate(TAGS, 2)])
def test_a_missing_tag_is_named(team: Team, missing: str) -> None:
    item = team.item()
    del item[missing]
    answer = team.upsert(item)
    assert answer.status_code == 422
    assert f"Missing required field: item.{missing}" in detail(answer)
    assert team.search() == []


REFUSED = [
    ("x11", {"visibility": "everyone"}), ("x12", {"confidence": 1.01}), ("x12", {"confidence": -0.01}),
    ("x12", {"confidence": "high"}), ("x12", {"confidence": True}), ("x13", {"truth_level": "TRUE"}),
    ("x14", {"validation_status": "validated"}), ("x15", {"source": "conv_abc123"}), ("x15", {"source": 5}),
    ("x16", {"content": ""}), ("x16", {"content": "  "}), ("x17", {"truth_levle": "WORKING"}),
    ("x17", {"user_id": "alice"}), ("x2", {"team_scope": None}), ("x9", {"project_scope": ""}),
]  # fmt: skip


@pytest.mark.parametrize(("number", "changes"), REFUSED, ids=str)
def test_a_wrong_value_is_422_and_is_named(team: Team, number: str, changes: dict[str, Any]) -> None:
    answer = team.upsert(team.item(**changes))
    assert answer.status_code == 422, number
    assert next(iter(changes)) in detail(answer)
    assert team.search() == []


@pytest.mark.parametrize(
    "changes",
    [{"project_scope": None}, {"confidence": 0}, {"confidence": 1}, {"source": "librechat:conv:msg_7"}],
    ids=["x9", "x12-0", "x12-1", "x15"],
)
def test_a_value_at_the_edge_is_taken(team: Team, changes: dict[str, Any]) -> None:
    assert team.upsert(team.item(**changes)).status_code == 200
    (found,) = team.search()
    assert found[next(iter(changes))] == next(iter(changes.values()))


@pytest.mark.parametrize("body", ["{}", "[]", "null", '{"item": []}', '{"items": {}}', "{", ""])
def test_a_body_of_another_shape_is_422(team: Team, body: str) -> None:
    headers = as_member(team.name) | {"Content-Type": "application/json"}
    assert team.server.client.post("/v1/memory/upsert", content=body, headers=headers).status_code == 422


@pytest.mark.covers("X18", "X19", "X20", "X21")
def test_one_item_for_a_source_of_a_team(team: Team, shared: Running) -> None:
    id = team.stored()
    assert team.stored("Now 3M€", sub="bob") == id
    assert [found["content"] for found in team.search()] == ["Now 3M€"]
    other = Team(shared)
    assert other.stored("Theirs") != id
    answer = team.upsert(team.item("Mine", truth_level="VALIDATED"), role="admin")
    assert answer.status_code == 405 and "promotion" in detail(answer)
    assert [found["content"] for found in team.search()] == ["Now 3M€"]
    rows = team.ask("GET", f"/v1/memory/{id}/history").json()["history"]
    assert [(row["event"], row["memory_id"]) for row in rows] == [("ADD", id), ("UPDATE", id)]
    lines = team.ask("GET", f"/v1/audit?subject_id={id}", role="admin").json()["entries"]
    assert [(line["actor"], line["action"]) for line in lines] == [("alice", "upsert"), ("bob", "upsert")]


@pytest.mark.covers("U23")
@pytest.mark.covers("U23")
@pytest.mark.parametrize(
    ("level", "role", "status"),
    [("VALIDATED", "member", 403), ("CANONICAL", "member", 403), ("PUBLIC", "admin", 403), ("PUBLIC", "service", 403),
     ("VALIDATED", "service", 200), ("CANONICAL", "admin", 200), ("EPHEMERAL", "member", 200)],
)  # fmt: skip
def test_who_writes_at_which_level(team: Team, level: str, role: str, status: int) -> None:
    assert team.upsert(team.item(truth_level=level), role=role).status_code == status


# ------------------------------------------------------------------ who asks
@pytest.mark.covers("X23", "X24", "X25", "X26")
def test_what_comes_first_when_several_are_wrong(team: Team) -> None:
    client, good, bad = team.server.client, team.item(), team.item(truth_level="TRUE")
    theirs = team.item(team_scope="avalon")

    def status(headers: dict[str, str], item: dict[str, Any]) -> int:
        answer = client.post("/v1/memory/upsert", json={"item": item}, headers=headers)
        assert answer.status_code == 200 or detail(answer)
        return answer.status_code

    scope = {"X-Team-Scope": team.name}
    for headers in (
        {},
        {"Authorization": token(team=team.name)},
        bearer(token(team=team.name, seconds=-10)),
        bearer(token(team=team.name, secret="another secret of more than 32 bytes, nobody's own")),
        bearer("nonsense"),
        {"Authorization": f"Basic {token(team=team.name)}"},
    ):
        assert status(scope | headers, good) == 401
        assert status(scope | headers, bad | {"team_scope": "avalon"}) == 401
    foreign = scope | bearer(token(team="avalon"))
    assert status(foreign, good) == status(foreign, bad) == status(foreign, theirs) == 403
    own = as_member(team.name)
    assert status(own, bad | {"team_scope": "avalon"}) == 422
    assert status(own, theirs) == 403
    assert status(own, good) == 200


@pytest.mark.covers("X36")
def test_a_write_without_a_team_is_refused(team: Team) -> None:
    id, client = team.stored(), team.server.client
    known = bearer(token("alice", team=team.name))
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/v1/memory/upsert", {"item": team.item()}),
        ("PATCH", f"/v1/memory/{id}", {"confidence": 1}),
        ("POST", "/v1/promotions", {"item_id": id, "target_level": "VALIDATED", "justification": "x"}),
        ("PATCH", f"/v1/promotions/{id}", {"decision": "approved"}),
        ("GET", "/v1/promotions", None),
        ("GET", "/v1/audit", None),
        ("GET", "/v1/system-prompt?query=target", None),
    ]
    for method, path, body in requests:
        assert client.request(method, path, json=body, headers=known).status_code == 403, path
        assert client.request(method, path, json=body).status_code == 401, path


@pytest.mark.covers("X36")
def test_what_is_public_is_read_by_everybody(team: Team) -> None:
    id = team.stored("A published target of pearls", metadata={"page": 3})
    team.stored("A secret target of pearls", source="a:2", truth_level="CANONICAL")
    team.promote(id, "VALIDATED", "CANONICAL", "PUBLIC")
    client = team.server.client
    query = {"q": "published target of pearls", "limit": 100}
    for headers in ({}, bearer("nonsense"), bearer(token("eve", team="avalon")), {"X-API-Key": "nobody's"}):
        answer = client.get("/v1/memory/search", params=query, headers=headers)
        assert answer.status_code == 200
        assert "A secret target of pearls" not in answer.text
        (found,) = [each for each in answer.json() if each["team_scope"] == team.name]
        assert (found["id"], found["truth_level"]) == (id, "PUBLIC")
        assert found["written_by"] is None and found["metadata"] is None, "these are the team's own"
    avalon = client.get("/v1/memory/search", params=query, headers=as_member("avalon", "eve"))
    assert avalon.json() == []
    assert client.get("/v1/memory/search").status_code == 422


@pytest.mark.covers("X33")
def test_nothing_of_a_team_is_there_for_another(team: Team, shared: Running) -> None:
    id = team.stored()
    asked = team.ask(
        "POST", "/v1/promotions", json={"item_id": id, "target_level": "VALIDATED", "justification": "x"}
    ).json()
    other = Team(shared)
    assert other.search(visibility="team") == []
    for method, path, body in (
        ("GET", f"/v1/memory/{id}", None),
        ("GET", f"/v1/memory/{id}/history", None),
        ("PATCH", f"/v1/memory/{id}", {"confidence": 1}),
        ("DELETE", f"/v1/memory/{id}", None),
        ("DELETE", f"/v1/memory/{id}?erase=true", None),
        ("POST", "/v1/promotions", {"item_id": id, "target_level": "VALIDATED", "justification": "x"}),
        ("PATCH", f"/v1/promotions/{asked['id']}", {"decision": "approved"}),
    ):
        answer = other.ask(method, path, json=body, role="admin")
        assert answer.status_code == 404, (method, path)
        assert "2M€" not in answer.text
    for path, name in (("/v1/promotions", "promotions"), ("/v1/audit", "entries")):
        assert other.ask("GET", path, role="admin").json() == {name: []}
    assert other.ask("GET", "/v1/system-prompt?query=target&min_level=EPHEMERAL").json()["fact_count"] == 0
    assert team.ask("GET", f"/v1/memory/{id}").json()["confidence"] == 0.9


@pytest.mark.covers("U22")
def test_personal_requests_have_no_way_to_a_teams_memory(team: Team) -> None:
    id, client = team.stored(), team.server.client
    bare = str(UUID(id.removeprefix("mem_")))
    for headers in ({}, bearer(token("alice", team=team.name)), {"X-Authz-User-Id": "alice"}):
        for path in (f"/v1/memory/{id}", f"/v1/memory/{id}/history", f"/v1/memories/{bare}"):
            answer = client.get(path, headers=headers)
            assert answer.status_code in (401, 404), (path, answer.text)
            assert "2M€" not in answer.text
        for path in (f"/v1/memory/{id}", f"/v1/memories/{bare}", f"/v1/memories/{bare}?erase=true"):
            assert client.delete(path, headers=headers).status_code in (401, 404), path
        listed = client.get("/v1/memories", params={"user_id": "alice"}, headers=headers)
        assert "2M€" not in listed.text
    assert team.ask("GET", f"/v1/memory/{id}").status_code == 200


@pytest.mark.covers("X35")
def test_each_member_sees_what_is_theirs(team: Team) -> None:
    private = team.stored("A private target", visibility="private", source="a:1")
    project = team.stored("A project's target", visibility="project", source="a:2")
    callers: list[tuple[str, dict[str, Any], int, int]] = [
        ("alice", {}, 200, 404),
        ("bob", {}, 404, 404),
        ("bob", {"projects": ["fundraising"]}, 404, 200),
        ("bob", {"projects": ["legal"]}, 404, 404),
        ("bob", {"role": "admin"}, 404, 200),
        ("alice", {"role": "service"}, 200, 200),
    ]
    for sub, claims, private_status, project_status in callers:
        assert team.ask("GET", f"/v1/memory/{private}", sub, **claims).status_code == private_status
        assert team.ask("GET", f"/v1/memory/{project}", sub, **claims).status_code == project_status
        assert len(team.search(sub, claims=claims, visibility="private")) == (private_status == 200)
        assert len(team.search(sub, claims=claims, visibility="project")) == (project_status == 200)
        assert team.search(sub, claims=claims) == []


@pytest.mark.parametrize("server", [{"env": {"PERDURE_JWT_SECRET": SECRET}}], indirect=True)
def test_a_key_of_a_team_reads_and_writes_inside_of_its_walls(server: Running) -> None:
    team = Team(server)

    def headers(name: str, **walls: Any) -> dict[str, str]:
        return {**bearer(team.server.key(f"{team.name}-{name}", **walls)), "X-Team-Scope": team.name}

    def ask(method: str, path: str, by: dict[str, str], body: Any) -> httpx.Response:
        return team.server.client.request(method, path, json=body, headers=by)

    bot = headers("bot", team_id=team.name, role="service")
    held = headers("held", team_id=team.name, project_id="fundraising")
    reader = headers("reader", team_id=team.name, role="reader")
    wrong = headers("wrong", team_id="avalon")
    id = ask("POST", "/v1/memory/upsert", bot, {"item": team.item(truth_level="CANONICAL")}).json()["id"]
    legal = {"item": team.item(project_scope="legal", source="a:2")}
    assert ask("POST", "/v1/memory/upsert", held, legal).status_code == 403
    assert ask("POST", "/v1/memory/upsert", bot, legal).status_code == 200
    assert [each["id"] for each in ask("GET", "/v1/memory/search?q=target", held, None).json()] == [id]
    assert ask("GET", f"/v1/memory/{id}", reader, None).status_code == 200
    assert ask("DELETE", f"/v1/memory/{id}", reader, None).status_code == 403
    assert ask("GET", f"/v1/memory/{id}", wrong, None).status_code == 403
    personal = {name: value for name, value in bot.items() if name != "X-Team-Scope"}
    assert ask("GET", f"/v1/memory/{id}", personal, None).status_code == 403
