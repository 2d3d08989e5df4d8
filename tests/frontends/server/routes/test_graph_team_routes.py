"""A team's graph over a real port: what upserts state, at a time, and to whom it is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.frontends.server.running import SECRET, Running, bearer, running, token
from tests.frontends.server.teams import Team, detail

pytestmark = pytest.mark.covers("X57", "X58", "X59", "X60", "X65", "X66", "X67")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for all: each test has a team of its own."""
    graph = {"graph_store": {"provider": "sqlite"}}
    with running(tmp_path_factory.mktemp("memory"), env={"PERDURE_JWT_SECRET": SECRET}, **graph) as found:
        yield found


@pytest.fixture
def team(shared: Running) -> Team:
    return Team(shared)


def ask(team: Team, entity: str, sub: str = "alice", *, claims: dict[str, Any] | None = None, **query: Any) -> Any:
    """The answer to who lies around an entity."""
    params = httpx.QueryParams({"entity": entity, **query})
    return team.ask("GET", f"/v1/graph/neighbors?{params}", sub, **(claims or {}))


def told(team: Team, entity: str, sub: str = "alice", **arguments: Any) -> list[tuple[str, str]]:
    """Names and relationships of who lies around an entity, for somebody who knows of it."""
    answer = ask(team, entity, sub, **arguments)
    assert answer.status_code == 200, answer.text
    return [(each["name"], each["relationship"]) for each in answer.json()["neighbors"]]


# ------------------------------------------------------------------ what upserts make of it
@pytest.mark.covers("X57", "X59")
def test_the_specs_item_makes_entities_and_who_lies_around_them(team: Team) -> None:
    entities = [{"name": "Alice", "type": "person"}, {"name": "fundraising", "type": "project"}]
    id = team.stored(
        "Alice leads the fundraising project", source="agent-runtime:run_xyz789", metadata={"entities": entities}
    )
    answer = ask(team, "Alice").json()
    (neighbor,) = answer["neighbors"]
    assert (answer["entity"], answer["team_scope"]) == ("Alice", team.name)
    assert {"name", "relationship", "valid_from", "valid_until"} <= set(neighbor)
    assert (neighbor["name"], neighbor["relationship"], neighbor["type"]) == ("fundraising", "leads", "project")
    assert (neighbor["direction"], neighbor["depth"], neighbor["valid_until"]) == ("out", 1, None)
    assert neighbor["memory_ids"] == [id]
    assert team.ask("GET", f"/v1/memory/{id}").status_code == 200, "as the routes of memories show it"


@pytest.mark.covers("X57", "X59")
def test_entities_of_one_memory_are_neighbours(team: Team) -> None:
    team.stored("They met", metadata={"entities": [{"name": "Alice"}, {"name": "Bob"}]})
    assert told(team, "alice") == [("Bob", "mentioned_with")]


@pytest.mark.covers("X58")
def test_an_entry_without_a_name_is_skipped_and_a_type_is_concept(team: Team) -> None:
    entities = [
        {"name": "Alice"},
        {"type": "ghost"},
        {"name": ""},
        {"name": "Apollo", "type": "project"},
        {"name": "Q"},
    ]
    team.stored("They met", metadata={"entities": entities})
    found = {each["name"]: each["type"] for each in ask(team, "Alice").json()["neighbors"]}
    assert found == {"Apollo": "project", "Q": "concept"}


@pytest.mark.covers("X59")
def test_depth(team: Team) -> None:
    for number, text in enumerate(("Alice's manager is Bob", "Bob works at Initech", "Initech is based in Austin")):
        team.stored(text, source=f"a:{number}")
    reached = [[name for name, _ in told(team, "Alice", depth=depth)] for depth in (1, 2, 3)]
    assert reached == [["Bob"], ["Bob", "Initech"], ["Bob", "Initech", "Austin"]]


@pytest.mark.covers("X60")
def test_an_unknown_entity_is_404(team: Team) -> None:
    answer = ask(team, "Zoe")
    assert answer.status_code == 404 and "Zoe" in detail(answer)


@pytest.mark.covers("X59")
@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"entity": ""}, "entity"),
        ({"depth": 0}, "depth"),
        ({"depth": 4}, "depth"),
        ({"at": "soon"}, "at"),
        ({"deep": 1}, "deep"),
        ({"user_id": "alice"}, "user_id"),
        ({"as_of": "2026-01-01"}, "as_of"),
    ],
    ids=str,
)
def test_what_is_wrong_is_422_and_named(team: Team, query: dict[str, Any], named: str) -> None:
    team.stored("They met", metadata={"entities": [{"name": "Alice"}]})
    answer = ask(team, **{"entity": "Alice", **query})
    assert answer.status_code == 422 and named in detail(answer)


def last_q2() -> int:
    """The year whose second quarter has begun last."""
    now = datetime.now(UTC)
    return now.year if now.month >= 4 else now.year - 1


@pytest.mark.covers("X65", "X66")
def test_alice_was_the_lead_until_q2_and_a_question_about_q1_gets_q1(team: Team) -> None:
    year = last_q2()
    team.stored("Alice was the lead until Q2", source="meeting:1")
    team.stored("Bob is the lead since Q2", source="meeting:2")
    then, now = ask(team, "fundraising", at=f"{year}-02-01").json(), ask(team, "fundraising").json()
    assert [each["name"] for each in then["neighbors"]] == ["Alice"]
    assert then["neighbors"][0]["valid_until"].startswith(f"{year}-04-01"), "bounded, by its own words"
    assert [(each["name"], each["valid_until"]) for each in now["neighbors"]] == [("Bob", None)]
    assert told(team, "Alice") == [], "she leads nothing now"
    assert told(team, "Alice", at=f"{year}-02-01") == [("fundraising", "leads")]


@pytest.mark.covers("X65")
def test_a_bound_alone_bounds(team: Team) -> None:
    team.stored("Alice was the lead until Q2")
    assert told(team, "fundraising") == []
    assert told(team, "fundraising", at=f"{last_q2()}-02-01") == [("Alice", "leads")]


@pytest.mark.covers("X67")
def test_a_contradicting_fact_closes_the_old_edge_and_both_are_kept(team: Team) -> None:
    first = team.stored("Alice leads Apollo since 2026-01-10", source="a:1")
    second = team.stored("Bob leads Apollo since 2026-05-02", source="a:2")
    assert told(team, "Apollo") == [("Bob", "leads")]
    kept = ask(team, "Apollo", include_past="true").json()["neighbors"]
    assert {each["name"]: each["valid_until"] for each in kept} == {"Alice": kept[1]["valid_from"], "Bob": None}
    assert [each["memory_ids"] for each in kept] == [[first], [second]]
    # What closed it is taken back: it is open again, and nothing was lost.
    assert team.ask("DELETE", f"/v1/memory/{second}", "alice").status_code == 200
    assert [(each["name"], each["valid_until"]) for each in ask(team, "Apollo").json()["neighbors"]] == [
        ("Alice", None)
    ]


@pytest.mark.covers("X67")
def test_two_that_merely_resemble_each_other_both_hold(team: Team) -> None:
    team.stored("Alice works at Initech", source="a:1")
    team.stored("Bob works at Initech", source="a:2")
    assert {name for name, _ in told(team, "Initech")} == {"Alice", "Bob"}


@pytest.mark.covers("X18")
def test_an_upsert_in_place_and_a_patch_change_what_is_stated(team: Team) -> None:
    id = team.stored("Alice works at Initech")
    team.stored("Alice works at Globex")
    assert told(team, "Alice") == [("Globex", "works_at")]
    assert team.ask("PATCH", f"/v1/memory/{id}", json={"content": "Alice works at Hooli"}).status_code == 200
    assert told(team, "Alice") == [("Hooli", "works_at")]
    assert ask(team, "Initech").status_code == 404


@pytest.mark.covers("U4")
@pytest.mark.parametrize("query", ["", "?erase=true"], ids=["delete", "erase"])
def test_what_is_gone_is_not_told_of(team: Team, query: str) -> None:
    id = team.stored("Alice works at Initech", metadata={"entities": [{"name": "Zed"}]})
    assert told(team, "Alice")
    assert team.ask("DELETE", f"/v1/memory/{id}{query}").status_code == 200
    for entity in ("Alice", "Initech", "Zed"):
        assert ask(team, entity).status_code == 404


# ------------------------------------------------------------------ walls
@pytest.mark.covers("X33")
def test_two_teams_and_a_person_know_entities_of_the_same_name(shared: Running, team: Team) -> None:
    other, person = Team(shared), f"person-{team.name}"
    team.stored("Alice works at Initech", metadata={"entities": [{"name": "Alice"}, {"name": "Ann"}]})
    other.stored("Alice works at Globex", metadata={"entities": [{"name": "Alice"}, {"name": "Olga"}]})
    body = {"messages": "Alice works at Hooli", "infer": False}
    themself = bearer(token(person, team=team.name))
    assert shared.client.post("/v1/memories", json=body, headers=themself).status_code == 200
    assert told(team, "Alice") == [("Initech", "works_at"), ("Ann", "mentioned_with")]
    assert told(other, "Alice") == [("Globex", "works_at"), ("Olga", "mentioned_with")]
    assert told(team, "Alice", person) == [("Initech", "works_at"), ("Ann", "mentioned_with")]
    found = shared.client.get("/v1/graph/neighbors?entity=Alice", headers=themself).json()["neighbors"]
    assert [each["name"] for each in found] == ["Hooli"]
    for entity in ("Initech", "Ann", "Globex", "Olga"):
        assert (ask(team, entity).status_code == 200) is (entity in ("Initech", "Ann"))
        answer = shared.client.get("/v1/graph/neighbors", params={"entity": entity}, headers=themself)
        assert answer.status_code == 404


@pytest.mark.covers("X24", "X25", "X36")
def test_a_teams_graph_is_its_members(shared: Running, team: Team) -> None:
    team.stored("Alice works at Initech")
    for path in ("/v1/graph/neighbors?entity=Alice", "/v1/graph/queue-status"):
        assert shared.client.get(path, headers={"X-Team-Scope": team.name}).status_code == 401
        elsewhere = {**Team(shared).headers(), "X-Team-Scope": team.name}
        assert shared.client.get(path, headers=elsewhere).status_code == 403
    key = bearer(shared.key(f"of {team.name}", team_id=team.name))
    answer = shared.client.get("/v1/graph/neighbors?entity=Alice", headers={**key, "X-Team-Scope": team.name})
    assert [each["name"] for each in answer.json()["neighbors"]] == ["Initech"]
    assert shared.client.get("/v1/graph/neighbors?entity=Alice", headers=key).status_code == 403
    assert team.ask("POST", "/v1/entities", json={}).status_code == 403, "000's entities are personal"


@pytest.mark.covers("X35")
def test_a_private_memory_tells_its_author_alone(team: Team) -> None:
    team.stored("Alice leads Apollo since 2026-01-10", source="a:1")
    secret = {"visibility": "private", "metadata": {"entities": [{"name": "Alice"}, {"name": "Mallory"}]}}
    team.stored("Alice works at Globex", source="a:2", **secret)
    team.stored("Bob leads Apollo since 2026-05-02", source="a:3", visibility="private")
    assert set(told(team, "Alice")) == {("Globex", "works_at"), ("Mallory", "mentioned_with")}
    assert told(team, "Apollo") == [("Bob", "leads")]
    for claims in ({}, {"role": "admin"}, {"role": "service"}):
        assert told(team, "Alice", "carl", claims=claims) == [("Apollo", "leads")]
        assert told(team, "Apollo", "carl", claims=claims) == [("Alice", "leads")], "nothing that they see ended it"
        for entity in ("Globex", "Mallory", "Bob"):
            assert ask(team, entity, "carl", claims=claims).status_code == 404


@pytest.mark.covers("X35")
def test_a_project_tells_its_members(team: Team) -> None:
    team.stored("Alice works at Globex", visibility="project", project_scope="merger")
    assert told(team, "Alice", "bob", claims={"projects": ["merger"]}) == [("Globex", "works_at")]
    assert told(team, "Alice", "root", claims={"role": "admin"}) == [("Globex", "works_at")]
    for claims in ({}, {"projects": ["fundraising"]}):
        assert ask(team, "Globex", "carl", claims=claims).status_code == 404


@pytest.mark.covers("X35")
def test_what_becomes_private_is_told_to_others_no_more(team: Team) -> None:
    id = team.stored("Alice works at Globex")
    assert told(team, "Alice", "carl")
    assert team.ask("PATCH", f"/v1/memory/{id}", json={"visibility": "private"}).status_code == 200
    assert ask(team, "Alice", "carl").status_code == 404
    assert told(team, "Alice") == [("Globex", "works_at")]
