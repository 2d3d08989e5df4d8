"""Nobody learns through the graph what they may not read: scopes, walls, and the members of a team."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.domain.errors import ForbiddenError, NotFoundError, ScopeError
from perdure.domain.graph import Entity, Neighbor
from perdure.domain.scope import Scope
from perdure.engine.requests import GraphQuery, Query
from perdure.engine.team.items import read_member
from perdure.frontends.library.portal import PORTAL
from tests.engine.graph.worlds import ANA, config, edges, put, remember, team_item

pytestmark = pytest.mark.covers("X33", "X35")

Open = Callable[..., Memory]


@pytest.fixture
def memory(open_memory: Open, tmp_path: Path) -> Memory:
    return open_memory(**config(tmp_path / "graphed"))


def test_a_scope_sees_its_own_graph_alone(memory: Memory) -> None:
    remember(memory, "Alice works at Initech")
    remember(memory, "Alice works at Globex", user_id="bob")
    assert edges(memory, "Alice") == [("Alice", "works_at", "Initech")]
    assert edges(memory, "Alice", user_id="bob") == [("Alice", "works_at", "Globex")]
    with pytest.raises(NotFoundError):
        memory.graph.neighbors("Globex", **ANA)
    with pytest.raises(ScopeError):
        memory.graph.entities()


def test_a_view_is_asked_through_its_walls(memory: Memory) -> None:
    view = memory.within(user_id="ana", project_id="p")
    remember(memory, "Alice works at Initech")
    view.add("Bob works at Globex", infer=False)
    assert {entity.name for entity in view.graph.entities()} == {"Bob", "Globex"}
    assert view.graph.queue_status().failed == 0
    with pytest.raises(ForbiddenError):
        view.graph.entities(user_id="bob")
    with pytest.raises(ForbiddenError):
        view.graph.revive()


def neighbors(memory: Memory, member: str, name: str, **arguments: Any) -> list[Neighbor]:
    who = read_member(team="x", member=member, **arguments)
    asked = GraphQuery(scope=who.walls, sees=who.sees())
    return PORTAL.call(memory._memory._engine.graph.neighbors(asked, name, depth=2))


def entities(memory: Memory, member: str, **arguments: Any) -> dict[str, Entity]:
    who = read_member(team="x", member=member, **arguments)
    asked = GraphQuery(scope=who.walls, sees=who.sees())
    return {each.name: each for each in PORTAL.call(memory._memory._engine.graph.entities(asked, limit=2))}


@pytest.mark.covers("X35")
def test_a_private_memory_shows_to_its_author_alone(memory: Memory) -> None:
    put(memory, team_item("Alice leads Apollo", author="ana", entities=["Alice"]))
    put(memory, team_item("Alice works at Globex", author="ana", visibility="private", entities=["Alice", "Mallory"]))
    put(memory, team_item("Mallory works at Initech", author="ana", visibility="private"))
    assert {each.name for each in neighbors(memory, "ana", "Alice")} == {"Apollo", "Globex", "Mallory"}
    for other in ("bob", "root"):
        role = "admin" if other == "root" else "member"
        found = neighbors(memory, other, "Alice", role=role)
        assert [each.name for each in found] == ["Apollo"], "neither an edge nor a mention of hers"
        with pytest.raises(NotFoundError):
            neighbors(memory, other, "Mallory", role=role)


@pytest.mark.covers("X35")
def test_a_private_edge_ends_nothing_for_those_who_do_not_see_it(memory: Memory) -> None:
    put(memory, team_item("Alice leads Apollo", author="ana"))
    put(memory, team_item("Bob leads Apollo since 2026-05-02", author="ana", visibility="private"))
    assert [each.name for each in neighbors(memory, "bob", "Apollo")] == ["Alice"]
    assert [each.name for each in neighbors(memory, "ana", "Apollo")] == ["Bob"]


@pytest.mark.covers("X35")
def test_a_project_shows_to_its_members(memory: Memory) -> None:
    put(memory, team_item("Alice works at Globex", author="ana", visibility="project", project="p"))
    assert [each.name for each in neighbors(memory, "bob", "Alice", projects=["p"])] == ["Globex"]
    assert [each.name for each in neighbors(memory, "root", "Alice", role="admin")] == ["Globex"]
    with pytest.raises(NotFoundError):
        neighbors(memory, "carl", "Alice", projects=["q"])


@pytest.mark.covers("X34")
def test_what_others_have_does_not_use_up_the_limit(memory: Memory) -> None:
    for number in range(6):
        put(memory, team_item(f"Secret{number} met", author="bob", visibility="private", entities=[f"Secret{number}"]))
        put(memory, team_item("again", author="bob", visibility="private", entities=[f"Secret{number}"]))
    put(memory, team_item("They met", author="ana", entities=["Zoe", "Yan"]))
    assert set(entities(memory, "ana")) == {"Yan", "Zoe"}


@pytest.mark.covers("X35")
def test_types_and_names_do_not_come_out_of_private_memories(memory: Memory) -> None:
    private = team_item("Doctor Eve Turing works at Globex", author="bob", visibility="private")
    secret = {"entities": [{"name": "Apollo", "type": "acquisition", "description": "to be bought"}]}
    put(memory, private)
    put(memory, team_item("x", author="bob", visibility="private").with_(metadata=secret))
    put(memory, team_item("They met", author="ana", entities=["Apollo"]))
    known = entities(memory, "ana")["Apollo"]
    assert (known.type, known.description, len(known.memory_ids)) == ("person", "", 1), "as she listed it"


@pytest.mark.covers("X33")
def test_another_team_and_a_person_see_nothing(memory: Memory) -> None:
    put(memory, team_item("Alice leads Apollo", author="ana"))
    graph = memory._memory._engine.graph
    for scope in (Scope(team_id="y"), Scope(user_id="ana"), Scope(team_id="x", project_id="q")):
        with pytest.raises(NotFoundError):
            PORTAL.call(graph.neighbors(GraphQuery(scope=scope), "Alice"))
        assert PORTAL.call(graph.entities(GraphQuery(scope=scope, as_of=datetime.now(UTC)))) == []
    assert PORTAL.call(graph.queue_status(Scope(team_id="y"))).pending == 0


def test_a_search_behind_walls_follows_no_edge_of_others(memory: Memory) -> None:
    remember(memory, "Alice's manager is Bob", user_id="bob")
    remember(memory, "Bob lives in Porto")
    remember(memory, "Carl lives in Rome")
    found = memory.search("Where does Alice's manager live?", explain=True, **ANA).results
    assert all("graph" not in (item.explanation or {}) for item in found)


@pytest.mark.covers("X35")
def test_a_search_is_not_led_by_another_s_private_memory(memory: Memory) -> None:
    put(memory, team_item("Alice's manager is Bob", author="ana", visibility="private"))
    put(memory, team_item("Bob lives in Porto", author="ana"))

    def led(member: str) -> list[str]:
        who = read_member(team="x", member=member)
        query = Query(text="Where does Alice's manager live?", scope=who.walls, filters=who.sees(), explain=True)
        found = PORTAL.call(memory._memory._engine.read.search(query)).results
        return [item.memory for item in found if (item.explanation or {}).get("graph", {}).get("through")]

    assert (led("ana"), led("bob")) == (["Bob lives in Porto"], [])


@pytest.mark.covers("X35")
def test_a_private_name_does_not_become_the_name_of_what_others_wrote(memory: Memory) -> None:
    put(memory, team_item("Ana works at Initech Ltd.", author="ana", visibility="private"))
    put(memory, team_item("Bob works at Initech", author="bob"))
    assert [each.name for each in neighbors(memory, "carl", "Bob")] == ["Initech"]
