"""The graph beside a memory: what memories state is asked by name and by time, and joins a search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.domain.errors import ConfigError, GraphError, InvalidInputError, NotFoundError
from perdure.domain.graph import MENTIONED_WITH
from tests.engine.graph.worlds import ANA, config, edges, remember

Open = Callable[..., Memory]


@pytest.fixture
def memory(open_memory: Open, tmp_path: Path) -> Memory:
    return open_memory(**config(tmp_path / "graphed"))


@pytest.mark.covers("T33")
def test_entities_are_read_out_of_what_was_said(memory: Memory) -> None:
    memory.add("Alice works at Google.", **ANA)
    found = {entity.name: entity.type for entity in memory.graph.entities(**ANA)}
    assert (found["Alice"], found["Google"]) == ("person", "organization")


@pytest.mark.covers("T34")
def test_relations_are_read_out_of_what_was_said(memory: Memory) -> None:
    memory.add("Alice works at Google.", **ANA)
    assert edges(memory, "Alice") == [("Alice", "works_at", "Google")]
    assert edges(memory, "GOOGLE") == [("Alice", "works_at", "Google")], "a name is one in whatever case"


@pytest.mark.covers("T35")
def test_a_search_that_names_an_entity_brings_memories_of_those_connected(memory: Memory) -> None:
    remember(memory, "Alice works at Initech")
    remember(memory, "Initech is based in Austin")
    for number in range(12):
        remember(memory, f"Nobody noticed matter {number} of the quarterly figures")
    result = memory.search("What is known of Alice?", limit=8, explain=True, **ANA)
    assert result.results[0].memory == "Alice works at Initech"
    (related,) = [item for item in result.results if item.memory == "Initech is based in Austin"]
    assert related.explanation is not None
    assert related.explanation["graph"]["through"] == ["Initech"]
    scores = [item.score for item in result.results]
    assert scores == sorted(scores, key=lambda score: -(score or 0.0))
    assert all(0 <= (score or 0.0) <= 1 for score in scores)


@pytest.mark.covers("X65")
def test_posts_of_what_has_a_plain_noun_alone_are_answered_at_a_time(memory: Memory) -> None:
    for text in (
        "Vera was the lead of the lighthouse until 2026-03-31",
        "Omar is the lead of the lighthouse since 2026-04-01",
        "Nina was the head of the harbour until Q2 2026",
    ):
        remember(memory, text)
    assert {"lighthouse", "harbour"} <= {each.name for each in memory.graph.entities(**ANA)}

    def leads(place: str, at: str) -> list[str]:
        return [each.source for each in memory.graph.relations(place, at=at, **ANA)]

    assert [leads("lighthouse", at) for at in ("2026-03-31", "2026-04-02")] == [["Vera"], ["Omar"]]
    assert [leads("harbour", at) for at in ("2026-02-01", "2026-05-01")] == [["Nina"], []]


@pytest.mark.covers("V76")
@pytest.mark.parametrize("preset", ["best", "plain"])
def test_a_question_of_two_steps_is_answered_through_linked_memories(memory: Memory, preset: str) -> None:
    remember(memory, "Alice's manager is Bob")
    remember(memory, "Bob lives in Porto")
    for name in ("Carl", "Dora", "Emil", "Finn", "Gina", "Hans", "Iris", "Jo"):
        remember(memory, f"{name} lives in Rome")
    result = memory.search("Where does Alice's manager live?", limit=3, preset=preset, explain=True, **ANA)
    assert [item.memory for item in result.results[:2]] == ["Alice's manager is Bob", "Bob lives in Porto"]
    assert result.results[1].explanation is not None
    assert result.results[1].explanation["graph"]["through"] == ["Bob"]


@pytest.mark.covers("V76")
def test_without_a_graph_the_second_step_is_not_found(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(**{**config(tmp_path / "plain"), "graph_store": None})
    remember(memory, "Alice's manager is Bob")
    remember(memory, "Bob lives in Porto")
    for name in ("Carl", "Dora", "Emil", "Finn", "Gina", "Hans", "Iris", "Jo"):
        remember(memory, f"{name} lives in Rome")
    found = memory.search("Where does Alice's manager live?", limit=10, preset="plain", **ANA).results
    scores = {item.memory: item.score or 0.0 for item in found}
    asked = scores.pop("Bob lives in Porto")
    assert found[0].memory == "Alice's manager is Bob"
    others = [score for memory, score in scores.items() if "Rome" in memory]
    assert asked <= max(others), "what sets it apart is the graph's"


@pytest.mark.covers("X66")
def test_a_search_that_asks_about_a_time_follows_the_edges_of_that_time(memory: Memory) -> None:
    remember(memory, "Alice was the lead of Apollo until 2026-04-01", timestamp="2026-05-02T00:00:00Z")
    remember(memory, "Bob leads Apollo since 2026-04-01", timestamp="2026-05-03T00:00:00Z")
    for name in ("Alice", "Bob"):
        remember(memory, f"{name} sits in the office of {name}ville", timestamp="2026-05-04T00:00:00Z")
    for number in range(9):
        remember(memory, f"Nobody noticed matter {number}")
    asked: dict[str, Any] = {**ANA, "limit": 6, "reference_time": "2026-11-01T00:00:00Z", "explain": True}
    result = memory.search("Where did the lead of Apollo sit in February 2026?", **asked)
    told = {
        item.memory: item.explanation["graph"]["through"]
        for item in result.results
        if item.explanation is not None and "graph" in item.explanation
    }
    assert told.get("Alice sits in the office of Aliceville") == ["Alice"]
    assert "Bob sits in the office of Bobville" not in told


@pytest.mark.parametrize("preset", ["best", "plain"])
def test_direct_answers_keep_their_order_and_a_threshold_holds(
    memory: Memory, open_memory: Open, tmp_path: Path, preset: str
) -> None:
    without = open_memory(**{**config(tmp_path / "plain"), "graph_store": None})
    for each in (memory, without):
        for text in ("Alice's manager is Bob", "Alice lives in Lisbon", "Bob lives in Porto"):
            remember(each, text)
    arguments: dict[str, Any] = {**ANA, "preset": preset}
    expected = [(item.memory, item.score) for item in without.search("Where does Alice live?", **arguments).results]
    assert [
        (item.memory, item.score) for item in memory.search("Where does Alice live?", **arguments).results
    ] == expected
    least = expected[0][1]
    found = memory.search("Where does Alice live?", threshold=least, **arguments).results
    assert [item.memory for item in found] == [expected[0][0]]


def test_forgetting_by_query_takes_nothing_that_is_merely_related(memory: Memory) -> None:
    remember(memory, "Alice's manager is Bob")
    kept = remember(memory, "Bob lives in Porto")
    memory.forget(query="Alice's manager is Bob", **ANA)
    assert memory.get(kept) is not None


# ------------------------------------------------------------------ asked by name
@pytest.mark.covers("X57", "X58")
def test_entities_of_the_metadata_with_their_types(memory: Memory) -> None:
    entities = [{"name": "Alice", "type": "person"}, {"name": "apollo", "type": "project"}, {"type": "ghost"}, "Zed"]
    id = remember(memory, "They met", metadata={"entities": entities})
    found = {entity.name: (entity.type, entity.memory_ids) for entity in memory.graph.entities(**ANA)}
    assert found == {"Alice": ("person", (id,)), "apollo": ("project", (id,)), "Zed": ("concept", (id,))}


@pytest.mark.covers("X59")
def test_neighbours_are_connected_or_named_beside(memory: Memory) -> None:
    remember(memory, "Alice works at Initech")
    remember(memory, "They met", metadata={"entities": [{"name": "Alice"}, {"name": "Bob", "type": "person"}]})
    found = {(each.name, each.relationship, each.depth) for each in memory.graph.neighbors("alice", **ANA)}
    assert found == {("Initech", "works_at", 1), ("Bob", MENTIONED_WITH, 1)}


@pytest.mark.covers("X59")
def test_depth_is_one_to_three(memory: Memory) -> None:
    remember(memory, "Alice's manager is Bob")
    remember(memory, "Bob works at Initech")
    remember(memory, "Initech is based in Austin")
    reached = [{each.name for each in memory.graph.neighbors("Alice", depth=depth, **ANA)} for depth in (1, 2, 3)]
    assert reached == [{"Bob"}, {"Bob", "Initech"}, {"Bob", "Initech", "Austin"}]
    for depth in (0, 4, True):
        with pytest.raises(InvalidInputError, match="depth"):
            memory.graph.neighbors("Alice", depth=depth, **ANA)


@pytest.mark.covers("X60")
def test_an_unknown_entity_is_an_error(memory: Memory) -> None:
    remember(memory, "Alice works at Initech")
    for ask in (memory.graph.relations, memory.graph.neighbors):
        with pytest.raises(NotFoundError, match="Zoe"):
            ask("Zoe", **ANA)
        with pytest.raises(NotFoundError):
            ask("Alice", user_id="bob")


@pytest.mark.covers("X65", "X66")
def test_until_makes_a_bounded_edge_and_a_moment_sees_what_held_then(memory: Memory) -> None:
    remember(memory, "Alice was the lead of Apollo until Q2", timestamp="2026-05-02T00:00:00Z")
    remember(memory, "Bob leads Apollo since Q2", timestamp="2026-05-03T00:00:00Z")
    then = memory.graph.neighbors("Apollo", at="2026-02-01", **ANA)
    now = memory.graph.neighbors("Apollo", **ANA)
    assert [each.name for each in then] == ["Alice"]
    assert then[0].valid_until is not None and then[0].valid_until.startswith("2026-04-01")
    assert [each.name for each in now] == ["Bob"]


@pytest.mark.covers("X67")
def test_a_contradicting_fact_closes_the_old_edge_and_both_are_kept(memory: Memory) -> None:
    first = remember(memory, "Alice leads Apollo", timestamp="2026-01-10T00:00:00Z")
    second = remember(memory, "Bob leads Apollo", timestamp="2026-06-01T00:00:00Z")
    kept = memory.graph.relations("Apollo", include_past=True, **ANA)
    assert [(edge.source, edge.valid_until is None) for edge in kept] == [("Alice", False), ("Bob", True)]
    assert (kept[0].memory_ids, kept[0].closed_by) == ((first,), second)
    assert [edge.source for edge in memory.graph.relations("Alice", at="2026-03-01", **ANA)] == ["Alice"]
    assert memory.graph.relations("Alice", **ANA) == [], "who leads now is two edges away, and ends hers all the same"


# ------------------------------------------------------------------ set up
def test_the_file_lies_beside_the_store(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(
        embedder={"provider": "hashed"},
        vector_store={"provider": "sqlite", "config": {"path": str(tmp_path / "there" / "memories.db")}},
        graph_store={"provider": "sqlite"},
    )
    remember(memory, "Alice works at Initech")
    assert edges(memory, "Alice")
    assert (tmp_path / "there" / "graph.db").exists()


def test_without_a_graph_asking_it_is_an_error(quick: Memory) -> None:
    for ask in (lambda: quick.graph.entities(**ANA), quick.graph.queue_status, quick.graph.revive):
        with pytest.raises(GraphError, match="graph_store"):
            ask()


def test_an_unknown_graph_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'sqlite'"):
        Memory(config(tmp_path) | {"graph_store": {"provider": "sqlit"}})
