"""Spec 000's cases of scoping and filters, and a restart, on a `Memory` over every vector store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory, ScopeError
from perdure.backends import registry
from tests.contracts.stores import Provider, all_providers

pytestmark = pytest.mark.covers("T41")

PROVIDERS = all_providers()


def pytest_param(id: str) -> Any:
    marks = [pytest.mark.xdist_group(id)] if PROVIDERS[id].server else []
    return pytest.param(PROVIDERS[id], id=id, marks=marks)


@pytest.fixture(params=[pytest_param(id) for id in sorted(PROVIDERS)])
def provider(request: pytest.FixtureRequest) -> Provider:
    found: Provider = request.param
    return found


@pytest.fixture
def config(provider: Provider, tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "store"
    folder.mkdir()
    store = {"provider": provider.name, "config": provider.settings(folder)}
    return {"path": tmp_path, "vector_store": store, "embedder": {"provider": "hashed"}}


@pytest.fixture
def memory(config: dict[str, Any]) -> Iterator[Memory]:
    with Memory(config) as opened:
        yield opened


def texts(found: Any) -> list[str]:
    return sorted(item.memory for item in found.results)


@pytest.mark.covers("T19", "T20", "T22")
def test_walls_stand_between_users_agents_and_runs(memory: Memory) -> None:
    memory.add("My name is Alice", user_id="alice", infer=False)
    memory.add("My name is Bob", user_id="bob", infer=False)
    memory.add("Alice asked the helper", user_id="alice", agent_id="helper", infer=False)
    memory.add("said in one", user_id="alice", run_id="session-1", infer=False)
    memory.add("said in two", user_id="alice", run_id="session-2", infer=False)
    assert texts(memory.search("name", user_id="bob")) == ["My name is Bob"]
    assert texts(memory.search("helper", user_id="alice", agent_id="helper")) == ["Alice asked the helper"]
    assert texts(memory.search("helper", user_id="bob", agent_id="helper")) == []
    assert texts(memory.get_all(user_id="alice", run_id="session-1")) == ["said in one"]
    assert texts(memory.get_all(user_id="alice", run_id="session-2")) == ["said in two"]
    assert len(memory.get_all(user_id="alice").results) == 4
    for hostile in ("*", "%", "al*", "' OR '1'='1"):
        assert texts(memory.search("name", user_id=hostile)) == []
    with pytest.raises(ScopeError):  # T21
        memory.search("name")


@pytest.mark.parametrize(
    ("number", "filters", "expected"),
    [
        ("T27", {"field": "tag", "operator": "eq", "value": "work"}, ["User likes Python for ML"]),
        ("T28", {"field": "tag", "operator": "in", "value": ["home", "x"]}, ["User likes tea"]),
        ("T29", {"AND": [{"tag": "work"}, {"n": {"gt": 1}}]}, ["User likes Python for ML"]),
        ("T30", {"OR": [{"tag": "work"}, {"tag": "home"}]}, ["User likes Python for ML", "User likes tea"]),
        ("T31", {"NOT": {"tag": "work"}}, ["User likes tea", "User plays chess"]),
        ("T32", {"field": "memory", "operator": "contains", "value": "Python"}, ["User likes Python for ML"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_filters(memory: Memory, number: str, filters: dict[str, Any], expected: list[str]) -> None:
    memory.add_facts(["User likes Python for ML"], user_id="u", metadata={"tag": "work", "n": 2})
    memory.add_facts(["User likes tea"], user_id="u", metadata={"tag": "home", "n": 1})
    memory.add_facts(["User plays chess"], user_id="u")
    memory.add_facts(["Another likes Python"], user_id="v", metadata={"tag": "work", "n": 9})
    assert texts(memory.search("what does the user like", user_id="u", filters=filters)) == expected, number
    assert texts(memory.get_all(user_id="u", filters=filters)) == expected, number


@pytest.mark.covers("V62")
@pytest.mark.covers("T41", "V62", "V68")
def test_a_life_on_this_store(config: dict[str, Any], provider: Provider) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    with Memory(config) as memory:
        memory.add("I live in Lisbon.", user_id="ana")
        memory.add("I moved to Porto.", user_id="ana")
        memory.add("expired", user_id="ana", infer=False, expires_at=datetime.now(UTC) - timedelta(seconds=1))
        memory.add("expires later", user_id="ana", infer=False, expires_at=soon)
        kept = memory.add("to be changed", user_id="ana", infer=False).results[0]
        memory.update(kept.id, "changed and kept")
        gone = memory.add("to be forgotten", user_id="ana", infer=False).results[0]
        memory.forget(id=gone.id)
        expected = ["User moved to Porto", "changed and kept", "expires later"]
        assert texts(memory.get_all(user_id="ana")) == expected
    if not registry.load("vector_stores", provider.name).durable:
        return
    with Memory(config) as memory:
        assert texts(memory.get_all(user_id="ana")) == expected
        assert memory.search("Where does she live? Porto", user_id="ana").results[0].memory == "User moved to Porto"
        assert [record.event for record in memory.history(kept.id)] == ["ADD", "UPDATE"]
        assert "to be forgotten" not in str(memory.search("forgotten", user_id="ana", include_past=True).model_dump())
        memory.delete_all(user_id="ana")
        assert texts(memory.get_all(user_id="ana")) == []
