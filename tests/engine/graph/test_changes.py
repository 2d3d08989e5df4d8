"""Whatever becomes of a memory becomes of what it states: the graph follows every kind of change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure import Memory
from perdure.domain.errors import NotFoundError
from tests.engine.graph.worlds import ANA, config, edges, remember

Open = Callable[..., Memory]


@pytest.fixture
def memory(open_memory: Open, tmp_path: Path) -> Memory:
    return open_memory(**config(tmp_path / "graphed"))


def test_an_update_replaces_what_the_text_stated_and_undo_brings_it_back(memory: Memory) -> None:
    id = remember(memory, "Alice works at Initech")
    memory.update(id, "Alice works at Globex")
    assert edges(memory, "Alice", include_past=True) == [("Alice", "works_at", "Globex")], "a correction, no history"
    memory.undo(memory.history(id)[-1].id)
    assert edges(memory, "Alice", include_past=True) == [("Alice", "works_at", "Initech")]


def test_a_deletion_takes_it_back_and_undo_states_it_again(memory: Memory) -> None:
    id = remember(memory, "Alice works at Initech", metadata={"entities": [{"name": "Zed"}]})
    assert edges(memory, "Alice")
    memory.delete(id)
    assert memory.graph.entities(**ANA) == []
    memory.undo(memory.history(id)[-1].id)
    assert edges(memory, "Alice") == [("Alice", "works_at", "Initech")]
    assert "Zed" in {entity.name for entity in memory.graph.entities(**ANA)}


def test_undoing_what_closed_an_edge_opens_it_again(memory: Memory) -> None:
    remember(memory, "Alice leads Apollo", timestamp="2026-01-10T00:00:00Z")
    id = remember(memory, "Bob leads Apollo", timestamp="2026-06-01T00:00:00Z")
    assert edges(memory, "Apollo") == [("Bob", "leads", "Apollo")]
    memory.undo(memory.history(id)[0].id)
    (edge,) = memory.graph.relations("Apollo", **ANA)
    assert (edge.source, edge.valid_until) == ("Alice", None)


def test_a_rollback_reaches_the_graph(memory: Memory) -> None:
    remember(memory, "Alice works at Initech")
    before = datetime.now(UTC)
    id = remember(memory, "Bob works at Globex")
    memory.update(id, "Bob works at Hooli")
    assert edges(memory, "Bob")
    memory.rollback(to=before, **ANA)
    assert {entity.name for entity in memory.graph.entities(**ANA)} == {"Alice", "Initech"}


def test_delete_all_takes_everything_of_the_scope_back(memory: Memory) -> None:
    remember(memory, "Alice works at Initech")
    remember(memory, "Bob works at Globex", user_id="bob")
    memory.delete_all(**ANA)
    assert memory.graph.entities(**ANA) == []
    assert edges(memory, "Bob", user_id="bob")


@pytest.mark.covers("X67")
def test_what_is_told_late_takes_its_place_in_time(memory: Memory) -> None:
    remember(memory, "Bob leads Apollo", timestamp="2026-06-01T00:00:00Z")
    remember(memory, "Alice leads Apollo", timestamp="2026-01-10T00:00:00Z")
    found = memory.graph.relations("Apollo", include_past=True, **ANA)
    assert [(edge.source, edge.valid_until) for edge in found] == [("Alice", found[1].valid_from), ("Bob", None)]
    assert [each.name for each in memory.graph.neighbors("Apollo", at="2026-03-01", **ANA)] == ["Alice"]


def test_as_of_knows_what_had_been_told_by_then(memory: Memory) -> None:
    remember(memory, "Alice leads Apollo", timestamp="2026-01-10T00:00:00Z")
    remember(memory, "Bob leads Apollo", timestamp="2026-06-01T00:00:00Z")
    assert [edge.source for edge in memory.graph.relations("Apollo", as_of="2026-03-01", **ANA)] == ["Alice"]
    with pytest.raises(NotFoundError):
        memory.graph.relations("Bob", as_of="2026-03-01", **ANA)


def test_as_of_still_sees_what_was_deleted_since(memory: Memory) -> None:
    id = remember(memory, "Alice works at Initech")
    assert edges(memory, "Alice")
    before = datetime.now(UTC)
    memory.delete(id)
    assert edges(memory, "Alice", as_of=before) == [("Alice", "works_at", "Initech")]
    with pytest.raises(NotFoundError):
        edges(memory, "Alice")


@pytest.mark.covers("X67")
@pytest.mark.parametrize("updates", ["in_place", "supersede"])
def test_a_life_that_changes_closes_the_old_edge_and_keeps_it(open_memory: Open, tmp_path: Path, updates: str) -> None:
    memory = open_memory(**config(tmp_path / "m", updates=updates))
    memory.add("I live in Porto.", timestamp="2026-01-10T00:00:00Z", **ANA)
    result = memory.add("I moved to Lisbon.", timestamp="2026-06-01T00:00:00Z", **ANA)
    assert [event.event for event in result.results] == ["UPDATE"], "the case that is meant"
    then = memory.graph.neighbors("User", at="2026-03-01", **ANA)
    now = memory.graph.neighbors("User", **ANA)
    assert ([each.name for each in then], [each.name for each in now]) == (["Porto"], ["Lisbon"])
    event = result.results[0].event_id
    assert event is not None
    memory.undo(event)
    assert [each.name for each in memory.graph.neighbors("User", **ANA)] == ["Porto"]


def test_a_memory_that_runs_out_states_nothing(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(**config(tmp_path / "m"))
    remember(memory, "Alice works at Initech", expires_at="2999-01-01")
    assert edges(memory, "Alice")
    remember(memory, "Bob works at Globex", expires_at="2020-01-01")
    with pytest.raises(NotFoundError):
        edges(memory, "Bob")


def test_names_that_are_nearly_the_same_are_one_entity(memory: Memory) -> None:
    remember(memory, "Alice works at Initech")
    remember(memory, "Bob works at Initech Inc.")
    assert {source for source, _, _ in edges(memory, "Initech")} == {"Alice", "Bob"}


def test_a_search_of_an_earlier_moment_follows_what_was_told_by_then(memory: Memory) -> None:
    first = remember(memory, "Alice's manager is Bob", timestamp="2026-01-01T00:00:00Z")
    remember(memory, "Bob lives in Porto", timestamp="2026-01-02T00:00:00Z")
    assert edges(memory, "Alice")
    before = datetime.now(UTC)
    memory.delete(first)
    question = "Where does Alice's manager live?"
    then = memory.search(question, as_of=before, explain=True, **ANA)
    now = memory.search(question, explain=True, **ANA)
    led = [
        {item.memory: item.explanation["graph"]["through"] for item in found.results if "graph" in item.explanation}  # type: ignore[operator,index]
        for found in (then, now)
    ]
    assert led == [{"Alice's manager is Bob": [], "Bob lives in Porto": ["Bob"]}, {}]
    assert then.warnings == now.warnings == []
