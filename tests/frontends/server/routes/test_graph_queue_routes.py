"""The graph's work over a real port: it fails no write, is told of, and is done when it can be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.engine.graph import jobs
from tests.engine.graph.worlds import FAULTY, FaultyGraph
from tests.frontends.server.running import SECRET, Running, bearer, running
from tests.frontends.server.served import Served, served
from tests.frontends.server.teams import Team, detail

pytestmark = pytest.mark.covers("X61", "X62", "X63", "X64")


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server whose graph fails as `FaultyGraph` says, and tries again soon."""
    FaultyGraph.mend()
    monkeypatch.setattr(jobs, "FIRST_PAUSE", 0.02)
    graph = {"provider": FAULTY, "config": {"path": str(tmp_path / "graph.db")}}
    try:
        with running(tmp_path / "memory", env={"PERDURE_JWT_SECRET": SECRET}, graph_store=graph) as found:
            yield found
    finally:
        FaultyGraph.mend()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the server does in its own time."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come about")


def queue(team: Team, sub: str = "alice") -> Any:
    """The state of the team's queue, which has X64's shape and nothing else."""
    answer = team.ask("GET", "/v1/graph/queue-status", sub)
    assert answer.status_code == 200, answer.text
    status = answer.json()
    assert set(status) == {"pending", "processing", "failed", "oldest_pending_at", "by_kind"}
    return status


def is_done(team: Team) -> bool:
    status = queue(team)
    return not (status["pending"] or status["processing"] or status["failed"])


ENTITIES = {"entities": [{"name": "Alice", "type": "person"}, {"name": "Ann"}]}


@pytest.mark.covers("X61", "X62", "X63", "X64")
def test_a_graph_that_is_down_fails_no_upsert_and_is_caught_up(faulty: Running) -> None:
    team, other = Team(faulty), Team(faulty)
    FaultyGraph.is_down = True
    answer = team.upsert(team.item("Alice works at Initech", metadata=ENTITIES))
    assert answer.status_code == 200 and answer.json()["id"].startswith("mem_")
    status = queue(team)
    assert status["pending"] + status["processing"] == 2 and status["failed"] == 0
    assert status["by_kind"] == {"entities": 1, "temporal": 1}
    until(lambda: queue(team)["oldest_pending_at"] is not None)
    assert is_done(other), "another team's work is not told of"
    assert [each["content"] for each in team.search(q="Initech")] == ["Alice works at Initech"], "memory works on"
    asked = team.ask("GET", "/v1/graph/neighbors?entity=Alice")
    assert asked.status_code == 503 and detail(asked) == "the graph cannot be used now; try again later"
    FaultyGraph.is_down = False
    until(lambda: is_done(team))
    assert queue(team)["oldest_pending_at"] is None
    found = team.ask("GET", "/v1/graph/neighbors?entity=Alice").json()["neighbors"]
    assert [each["name"] for each in found] == ["Initech", "Ann"]


@pytest.mark.covers("X62")
def test_what_was_changed_while_the_graph_was_down_is_as_it_is_now(faulty: Running) -> None:
    team = Team(faulty)
    FaultyGraph.is_down = True
    kept = team.stored("Alice works at Initech", source="a:1")
    team.stored("Alice works at Globex", source="a:1")
    gone = team.stored("Bob works at Initech", source="a:2")
    assert team.ask("DELETE", f"/v1/memory/{gone}").status_code == 200
    FaultyGraph.is_down = False
    until(lambda: is_done(team))
    (found,) = team.ask("GET", "/v1/graph/neighbors?entity=Alice").json()["neighbors"]
    assert (found["name"], found["memory_ids"]) == ("Globex", [kept])
    assert team.ask("GET", "/v1/graph/neighbors?entity=Bob").status_code == 404


@pytest.mark.covers("X62")
def test_erasing_while_the_graph_is_down_is_caught_up_too(faulty: Running) -> None:
    team = Team(faulty)
    id = team.stored("Alice works at Initech")
    until(lambda: is_done(team))
    FaultyGraph.is_down = True
    assert team.ask("DELETE", f"/v1/memory/{id}?erase=true").status_code == 200
    assert queue(team)["by_kind"].get("erase") == 1, "what is still to go is told of"
    FaultyGraph.is_down = False
    until(lambda: is_done(team))
    assert set(queue(team)["by_kind"]) == {"entities", "temporal"}
    assert team.ask("GET", "/v1/graph/neighbors?entity=Alice").status_code == 404


@pytest.mark.covers("X64")
def test_what_fails_too_often_is_parked_and_an_admin_of_the_server_revives_it(
    faulty: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "FIRST_PAUSE", 0.001)
    team = Team(faulty)
    FaultyGraph.refuses = True
    team.stored("Alice works at Initech")
    until(lambda: bool(queue(team)["failed"] == 1))
    assert queue(team) == {
        "pending": 0, "processing": 0, "failed": 1, "oldest_pending_at": None,
        "by_kind": {"entities": 0, "temporal": 1},
    }  # fmt: skip
    FaultyGraph.refuses = False
    assert team.ask("POST", "/v1/graph/revive", role="admin").status_code == 403, "an admin of one team"
    assert team.ask("POST", "/v1/graph/revive").status_code == 403
    root = bearer(faulty.key("root", role="admin"))
    assert faulty.client.get("/v1/graph/queue-status", headers=root).json()["failed"] == 1
    assert faulty.client.post("/v1/graph/revive", headers=root).json() == {"revived": 1}
    until(lambda: is_done(team))
    (found,) = team.ask("GET", "/v1/graph/neighbors?entity=Alice").json()["neighbors"]
    assert found["name"] == "Initech"


@pytest.mark.covers("X61")
def test_a_personal_write_goes_on_and_a_search_says_what_was_left_out(faulty: Running) -> None:
    FaultyGraph.is_down = True
    body = {"messages": "Alice works at Initech", "infer": False, "user_id": "ana"}
    assert faulty.client.post("/v1/memories", json=body).status_code == 200
    found = faulty.client.get("/v1/memories/search", params={"q": "Alice", "user_id": "ana"})
    assert found.status_code == 200 and found.json()["results"]
    assert any("the graph was not searched" in warning for warning in found.json()["warnings"])
    for answer in (
        faulty.client.post("/v1/entities", json={"user_id": "ana"}),
        faulty.client.get("/v1/graph/neighbors?entity=Alice&user_id=ana"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (503, "graph_down")
        assert "told to be" not in answer.text, "no words of the graph's own"
    status = faulty.client.get("/v1/graph/queue-status?user_id=ana").json()
    assert status["by_kind"] == {"entities": 0, "temporal": 1}


# ------------------------------------------------------------------ the real program
def served_names(server: Served, entity: str) -> list[str]:
    answer = server.client.get("/v1/graph/neighbors", params={"entity": entity, "user_id": "ana"})
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()["neighbors"]]


@pytest.mark.covers("X62")
def test_perdure_serve_has_a_graph_and_a_kill_loses_nothing_of_it(tmp_path: Path) -> None:
    with served(tmp_path / "memory") as server:
        for number in range(5):
            body = {"messages": f"Alice works with Colleague{number}", "infer": False, "user_id": "ana"}
            assert server.client.post("/v1/memories", json=body).status_code == 200
        server.kill()
    with served(tmp_path / "memory") as server:
        assert sorted(served_names(server, "Alice")) == [f"Colleague{number}" for number in range(5)]
        assert server.stop() == 0
