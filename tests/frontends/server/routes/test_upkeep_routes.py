"""V69, V70 over a real port and in the library: memories of one matter become one, and what they show is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from perdure import Consolidation, Insight, InvalidInputError, Memory, MemoryStore, NotFoundError, Reflected, ScopeError
from perdure.domain.maintenance import REFLECTION
from tests.frontends.server.running import Running, bearer, running

pytestmark = pytest.mark.covers("V69", "V70")

BUDGETS = ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000")
MERGED = "Hawaii budget is $12,000 (updated from initial $10,000)"
DEPLOYED = tuple(f"I deployed to staging on {day}." for day in ("Monday", "Tuesday", "Wednesday"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("upkeep")) as found:
        yield found


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory({"path": str(tmp_path / "memory"), "embedder": {"provider": "hashed"}}) as found:
        yield found


def keep(server: Running, who: str, *texts: str) -> list[str]:
    """Store memories as they are; their ids."""
    ids = []
    for text in texts:
        body = {"content": text, "type": "semantic", "user_id": who}
        answer = server.client.post("/v1/memory", json=body)
        answer.raise_for_status()
        ids.append(str(UUID(answer.json()["id"].removeprefix("mem_"))))
    return ids


def say(server: Running, who: str, *texts: str) -> None:
    for text in texts:
        server.client.post("/v1/memories", json={"messages": text, "user_id": who}).raise_for_status()


def ask(server: Running, route: str, status: int = 200, **body: Any) -> Any:
    answer = server.client.post(route, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def texts(server: Running, who: str) -> list[str]:
    found = server.client.get("/v1/memories", params={"user_id": who}).json()["results"]
    return [each["memory"] for each in found]


# ------------------------------------------------------------------ over HTTP
@pytest.mark.covers("V69")
def test_a_scope_is_consolidated_over_http_and_undo_takes_it_back(server: Running) -> None:
    ids = keep(server, "ana", *BUDGETS)
    keep(server, "ben", *BUDGETS)
    (would,) = ask(server, "/v1/consolidate", user_id="ana", dry_run=True)["results"]
    assert would["dry_run"] and would["memory"]["memory"] == MERGED and texts(server, "ana") == [*BUDGETS]
    assert ask(server, "/v1/consolidate", user_id="ana", at_least=4) == {"results": []}
    (done,) = ask(server, "/v1/consolidate", user_id="ana")["results"]
    assert (done["by"], done["dry_run"], {each["id"] for each in done["removed"]}) == ("rules", False, {*ids})
    assert texts(server, "ana") == [MERGED] and texts(server, "ben") == [*BUDGETS], "nobody else's"
    (event,) = [each for each in server.client.get(f"/v1/memories/{ids[0]}/history").json() if each["event"] != "ADD"]
    ask(server, "/v1/undo", event_id=event["id"])
    assert BUDGETS[0] in texts(server, "ana")
    added = server.client.get(f"/v1/memories/{done['memory']['id']}/history").json()[0]
    undone = ask(server, "/v1/undo", event_id=added["id"])["results"]
    assert [each["event"] for each in undone] == ["DELETE", "ADD", "ADD"]
    assert sorted(texts(server, "ana")) == sorted(BUDGETS)


@pytest.mark.covers("V69")
def test_named_memories_become_one_over_http(server: Running) -> None:
    first, second, _ = keep(server, "cleo", *BUDGETS)
    (done,) = ask(server, "/v1/consolidate", memory_ids=[first, second])["results"]
    assert [each["id"] for each in done["removed"]] == [first, second]
    assert done["memory"]["memory"] in texts(server, "cleo") and len(texts(server, "cleo")) == 2
    for wrong, status in (
        ({}, 400),
        ({"memory_ids": [first, second]}, 404),
        ({"memory_ids": ["no-id", second]}, 404),
        ({"memory_ids": [done["memory"]["id"]]}, 400),
        ({"memory_ids": [first, second], "user_id": "cleo"}, 400),
        ({"user_id": "cleo", "at_least": 0}, 400),
        ({"user_id": "cleo", "dry_run": "perhaps"}, 422),
        ({"user_id": "cleo", "of": "all"}, 422),
    ):
        ask(server, "/v1/consolidate", status, **wrong)
    assert len(texts(server, "cleo")) == 2, "what is refused changes nothing"


@pytest.mark.covers("V70")
def test_what_a_scope_shows_is_told_over_http_and_kept(server: Running) -> None:
    say(server, "dora", *DEPLOYED)
    told = ask(server, "/v1/reflect", user_id="dora", dry_run=True)
    (insight,) = [each for each in told["results"] if each["pattern"] == "count"]
    assert (insight["count"], insight["id"], told["added"]) == (3, None, 0)
    kept = ask(server, "/v1/reflect", user_id="dora")
    assert kept["added"] == len(kept["results"]) and all(each["id"] for each in kept["results"])
    assert insight["content"] in texts(server, "dora")
    assert ask(server, "/v1/reflect", user_id="dora", about="holidays")["results"] == []
    again = ask(server, "/v1/reflect", user_id="dora", about="staging")
    assert again["added"] == 0 and insight["content"] in [each["content"] for each in again["results"]]
    for wrong, status in (({}, 400), ({"user_id": "dora", "about": " "}, 400), ({"user_id": ""}, 400)):
        ask(server, "/v1/reflect", status, **wrong)


@pytest.mark.covers("U22")
def test_whoever_may_only_read_or_stands_outside_does_neither(tmp_path: Path) -> None:
    with running(tmp_path / "memory") as server:
        writer = bearer(server.key("writer", user_id="ana"))
        reader = bearer(server.key("reader", role="reader", user_id="ana"))
        outside = bearer(server.key("ben", user_id="ben"))
        for text in BUDGETS:
            body = {"content": text, "type": "semantic"}
            server.client.post("/v1/memory", json=body, headers=writer).raise_for_status()
        for route in ("/v1/consolidate", "/v1/reflect"):
            assert server.client.post(route, json={}, headers=reader).status_code == 403
            assert server.client.post(route, json={"user_id": "ana"}, headers=outside).status_code == 403
            assert server.client.post(route, json={"user_id": "ana"}).status_code == 401
        assert server.client.post("/v1/consolidate", json={}, headers=outside).json() == {"results": []}
        assert len(server.client.post("/v1/consolidate", json={}, headers=writer).json()["results"]) == 1


# ------------------------------------------------------------------ in the library
@pytest.mark.covers("V69", "V70")
def test_memory_consolidates_and_reflects(memory: Memory) -> None:
    store = MemoryStore(memory)
    for text in BUDGETS:
        store.store(text, user_id="ana")
    for text in DEPLOYED:
        memory.add(text, user_id="ana")
    (would,) = memory.consolidate(user_id="ana", dry_run=True)
    assert isinstance(would, Consolidation) and would.dry_run and would.memory.memory == MERGED
    (done,) = memory.within(user_id="ana").consolidate()
    assert done.memory.memory == MERGED and memory.get(done.memory.id) is not None
    assert memory.consolidate(user_id="ben") == []
    told = memory.reflect(user_id="ana", about="staging", dry_run=True)
    assert isinstance(told, Reflected) and all(isinstance(each, Insight) for each in told.insights)
    assert [each.count for each in told.insights if each.pattern == "count"] == [3] and told.added == 0
    kept = [each.id for each in memory.reflect(user_id="ana").insights]
    found = [memory.get(id) for id in kept if id is not None]
    assert found and all(item is not None and item.source == REFLECTION for item in found)


@pytest.mark.covers("V69")
def test_what_is_asked_wrongly_is_refused_and_changes_nothing(memory: Memory) -> None:
    ids = [memory.add(text, infer=False, user_id="ana").results[0].id for text in BUDGETS]
    with pytest.raises(ScopeError):
        memory.consolidate()
    with pytest.raises(ScopeError):
        memory.reflect()
    with pytest.raises(InvalidInputError, match="not both"):
        memory.consolidate(ids, user_id="ana")
    with pytest.raises(InvalidInputError):
        memory.consolidate(user_id="ana", at_least=0)
    with pytest.raises(NotFoundError):
        memory.within(user_id="ben").consolidate(ids)
    assert [item.memory for item in memory.get_all(user_id="ana").results] == [*BUDGETS]
    (done,) = memory.consolidate(ids[:2])
    assert [item.id for item in done.removed] == ids[:2]
