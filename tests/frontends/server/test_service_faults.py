"""What the service's callers see while a part of it fails, and that it comes back.

Over a real port, with no restart unless one is said: what was acknowledged is there afterwards, and what was refused
is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.engine.maintenance.doctor import examine, repair
from tests.backends.wire.openai import KEY, OpenAIWire, failure
from tests.backends.wire.server import Heard, Reply
from tests.engine.graph.worlds import FAULTY, FaultyGraph
from tests.frontends.server.failing import STORE, FailingStore, locked
from tests.frontends.server.running import SECRET, Running, as_member, bearer, running
from tests.frontends.server.running import token as token_of

pytestmark = pytest.mark.covers("X61", "X62", "X63")

ANA = {"user_id": "ana"}
TEAM = as_member("red", "ana", role="admin")
ENV = {"PERDURE_JWT_SECRET": SECRET}


@pytest.fixture(autouse=True)
def well() -> Iterator[None]:
    yield
    FaultyGraph.mend()
    FailingStore.is_down = False


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": text, "infer": False, **ANA, **more}


def item(text: str, source: str = "chat:1") -> dict[str, Any]:
    return {
        "item": {
            "content": text, "team_scope": "red", "project_scope": None, "visibility": "team", "confidence": 0.5,
            "truth_level": "WORKING", "source": source, "validation_status": "pending",
            "metadata": {"entities": [{"name": "Alice"}, {"name": "Atlas"}]},
        }
    }  # fmt: skip


WRITES: dict[str, Callable[[Running, str], httpx.Response]] = {
    "facts": lambda server, text: server.client.post("/v1/memories", json=said(text)),
    "mem0": lambda server, text: server.client.post("/v3/memories/add", json=said(text)),
    "explicit": lambda server, text: server.client.post("/v1/memory", json={"content": text, **ANA}),
    "team": lambda server, text: server.client.post(
        "/v1/memory/upsert", json=item(text, f"chat:{text.replace(' ', '-')}"), headers=TEAM
    ),
}
"""A write in each dialect."""


def texts(server: Running) -> set[str]:
    """Everything that stands, by the reads of each dialect."""
    facts = server.client.get("/v1/memories", params=ANA)
    team = server.client.get("/v1/memory/search", params={"q": "fact", "limit": 100}, headers=TEAM)
    assert (facts.status_code, team.status_code) == (200, 200), (facts.text, team.text)
    return {each["memory"] for each in facts.json()["results"]} | {each["content"] for each in team.json()}


def refused(answer: httpx.Response, status: int, code: str) -> bool:
    """Whether an answer is a refusal in the shape of its dialect, which tells nothing of the inside."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert "db.internal" not in answer.text and "Traceback" not in answer.text
    if "error" in body and isinstance(body["error"], dict):
        assert {*body["error"]} == {"code", "message", "timestamp"}
        assert body["error"]["code"] == ("MEMORY_NOT_AVAILABLE" if status == 503 else code.upper())
    elif "code" in body:
        assert body["code"] == code and body["detail"]
    else:
        assert {*body} == {"detail"} and body["detail"]
    return True


def ready(server: Running) -> dict[str, str]:
    """What /readyz says of the parts; the process lives whatever it is."""
    assert server.client.get("/healthz").status_code == 200
    answer = server.client.get("/readyz")
    body: dict[str, str] = answer.json()
    assert answer.status_code == (200 if body["status"] == "ready" else 503)
    return body


def write_all(server: Running, when: str) -> set[str]:
    """A write in each dialect that must be acknowledged; the texts."""
    for dialect, write in WRITES.items():
        answer = write(server, f"fact {when} in {dialect}")
        assert answer.status_code == 200, (dialect, answer.text)
    return {f"fact {when} in {dialect}" for dialect in WRITES}


# ------------------------------------------------------------------ graph
@pytest.mark.covers("X61", "X62", "X63")
def test_writes_go_on_without_the_graph_and_it_catches_up(tmp_path: Path) -> None:
    FaultyGraph.is_down = True
    graph = {"provider": FAULTY, "config": {"path": str(tmp_path / "graph.db")}}
    with running(tmp_path / "memory", env=ENV, graph_store=graph) as server:
        kept = write_all(server, "without graph")
        assert WRITES["team"](server, "Alice was the lead of Atlas until 2026-04-01").status_code == 200
        assert kept <= texts(server)
        asked = {"entity": "Alice"}
        for answer in (
            server.client.get("/v1/graph/neighbors", params=asked, headers=TEAM),
            server.client.get("/v1/graph/neighbors", params=asked | ANA),
            server.client.post("/v1/entities", json=ANA),
        ):
            assert refused(answer, 503, "graph_down")
        waiting = server.client.get("/v1/graph/queue-status", headers=TEAM).json()
        assert waiting["pending"] + waiting["processing"] > 0 and waiting["by_kind"]["temporal"] > 0
        assert waiting["by_kind"]["entities"] > 0 and waiting["oldest_pending_at"] and waiting["failed"] == 0
        assert ready(server)["status"] == "ready", "the graph is no reason to take the server away"
        FaultyGraph.is_down = False
        assert server.client.post("/v1/graph/revive").status_code == 200
        found = server.client.get("/v1/graph/neighbors", params=asked | {"include_past": True}, headers=TEAM)
        assert found.status_code == 200, found.text
        assert "Atlas" in {each["name"] for each in found.json()["neighbors"]}
        assert server.client.get("/v1/graph/queue-status", headers=TEAM).json()["pending"] == 0


# ------------------------------------------------------------------ vector store
def failing_store(folder: Path) -> dict[str, Any]:
    return {"vector_store": {"provider": STORE, "config": {"path": str(folder / "memories.db")}}}


def test_a_store_that_is_down_is_503_everywhere_and_comes_back(tmp_path: Path) -> None:
    with running(tmp_path / "memory", env=ENV, **failing_store(tmp_path)) as server:
        kept = write_all(server, "before")
        id = server.client.get("/v1/memories", params=ANA).json()["results"][0]["id"]
        FailingStore.is_down = True
        assert ready(server) == {"status": "unready", "ledger": "ok", "vector_store": "down"}
        for write in WRITES.values():
            assert refused(write(server, "fact during"), 503, "vector_store_error")
        get, put, delete = server.client.get, server.client.put, server.client.delete
        for answer in (
            get("/v1/memories", params=ANA),
            get("/v1/memories/search", params=ANA | {"q": "fact"}),
            get(f"/v1/memories/{id}"),
            put(f"/v1/memories/{id}", json={"text": "changed"}),
            delete(f"/v1/memories/{id}"),
            get("/v1/context", params=ANA | {"query": "fact"}),
            get("/v1/memory", params=ANA),
            get(f"/v1/memory/{id}", params=ANA),
            get("/v1/memory/search", params={"q": "fact"}),
            get("/v1/memory/search", params={"q": "fact"}, headers=TEAM),
            get("/v1/system-prompt", params={"query": "fact"}, headers=TEAM),
            server.client.post("/v1/forget", json=ANA),
        ):
            assert refused(answer, 503, "vector_store_error")
        FailingStore.is_down = False
        assert ready(server)["status"] == "ready"
        assert texts(server) == kept
        assert texts(server) < write_all(server, "after") | kept == texts(server)


def test_a_server_that_starts_before_its_store_serves_once_it_is_there(tmp_path: Path) -> None:
    FailingStore.is_down = True
    with running(tmp_path / "memory", env=ENV, **failing_store(tmp_path)) as server:
        assert ready(server)["vector_store"] == "down"
        assert refused(WRITES["facts"](server, "fact too early"), 503, "vector_store_error")
        FailingStore.is_down = False
        assert write_all(server, "later") == texts(server)


# ------------------------------------------------------------------ ledger
def test_a_ledger_that_is_locked_refuses_writes_and_lets_reads_through(tmp_path: Path) -> None:
    history = {"provider": "sqlite", "config": {"path": str(tmp_path / "history.db"), "busy_timeout": 0.3}}
    with running(tmp_path / "memory", env=ENV, history=history) as server:
        kept = write_all(server, "before")
        id = server.client.get("/v1/memories", params=ANA).json()["results"][0]["id"]
        with locked(tmp_path / "history.db"):
            for write in WRITES.values():
                assert refused(write(server, "fact during"), 503, "ledger_error")
            for answer in (
                server.client.put(f"/v1/memories/{id}", json={"text": "changed"}),
                server.client.delete(f"/v1/memories/{id}"),
                server.client.delete("/v1/memory", params=ANA),
            ):
                assert refused(answer, 503, "ledger_error")
            assert texts(server) == kept
            found = server.client.get("/v1/memories/search", params=ANA | {"q": "fact before"})
            assert found.status_code == 200 and found.json()["results"]
        assert texts(server) < write_all(server, "after") | kept == texts(server)
        assert len(server.client.get(f"/v1/memories/{id}/history").json()) == 1


def test_a_ledger_that_cannot_be_opened_lets_nobody_in_and_tells(tmp_path: Path) -> None:
    """Whether there are keys stands in it: without it nobody can be made sure of, but for who brings a token."""
    (tmp_path / "history.db").mkdir()
    history = {"provider": "sqlite", "config": {"path": str(tmp_path / "history.db")}}
    with running(tmp_path / "memory", env=ENV, history=history) as server:
        assert ready(server) == {"status": "unready", "ledger": "down", "vector_store": "ok"}
        for dialect in ("facts", "mem0", "explicit"):
            assert refused(WRITES[dialect](server, "fact during"), 503, "ledger_error")
        assert refused(WRITES["team"](server, "fact during"), 503, "ledger_error"), "a team has all on record"
        token = bearer(token_of("ana"))
        stored = server.client.post("/v1/memories", json=said("fact without history"), headers=token)
        assert stored.status_code == 200, "memory works on without history (000 §14.3)"
        found = server.client.get("/v1/memories/search", params={"q": "fact"}, headers=token)
        assert [each["memory"] for each in found.json()["results"]] == ["fact without history"]
        (tmp_path / "history.db").rmdir()
        assert ready(server)["status"] == "ready", "it is opened once it can be"
        assert write_all(server, "after") | {"fact without history"} == texts(server)


# ------------------------------------------------------------------ models
class Moody(OpenAIWire):
    """A model's service that does as it is told; while `way` is set, it fails in that way."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers, intercept=self._fails)
        self.way: str | None = None

    def _fails(self, request: Heard) -> Reply | None:
        return None if self.way is None else failure(self.way)


def service_of(wire: OpenAIWire) -> dict[str, Any]:
    settings = {"base_url": wire.base_url, "api_key": KEY, "retries": 0, "timeout": 2.0}
    return {"provider": "openai", "config": settings}


@pytest.mark.parametrize("way", ["timeout", "server", "connection"])
def test_a_model_that_hangs_costs_facts_and_neither_the_request_nor_the_messages(tmp_path: Path, way: str) -> None:
    facts = ['{"facts": ["User plays chess"]}', '{"facts": ["User keeps bees"]}']
    with (
        Moody(*facts) as wire,
        running(tmp_path / "memory", env=ENV, llm=service_of(wire), reconcile="append") as server,
    ):
        wire.way = way
        lost = server.client.post("/v1/memories", json={"messages": "I keep bees", **ANA})
        assert lost.status_code == 200 and lost.json()["results"] == []
        assert "the messages are kept" in lost.json()["warnings"][0]
        kept = write_all(server, "meanwhile")
        assert texts(server) == kept
        wire.way = None
        told = server.client.post("/v1/memories", json={"messages": "I play chess", "user_id": "bob"})
        assert [each["memory"] for each in told.json()["results"]] == ["User plays chess"]
        engine = server.service.engine

        async def mend() -> list[str]:
            return (await repair(engine, await examine(engine))).failed

        assert server.wait(mend()) == []
        assert texts(server) == kept | {"User keeps bees"}, "what was told meanwhile is read in the end"


def test_an_embedder_that_fails_is_502_or_a_warning_and_comes_back(tmp_path: Path) -> None:
    with Moody() as wire, running(tmp_path / "memory", env=ENV, embedder=service_of(wire)) as server:
        kept = write_all(server, "before")
        wire.way = "server"
        for dialect in ("explicit", "team"):
            assert refused(WRITES[dialect](server, "fact during"), 502, "embedding_error")
        for dialect in ("facts", "mem0"):
            answer = WRITES[dialect](server, "fact skipped")
            assert answer.status_code == 200, "000 §14.3: skip that fact, and continue"
            assert answer.json()["results"] == [] and answer.json()["warnings"]
        found = server.client.get("/v1/memories/search", params=ANA | {"q": "fact before"})
        assert refused(found, 502, "embedding_error")
        assert server.client.get("/v1/memories", params=ANA).status_code == 200
        wire.way = None
        assert texts(server) == kept
        assert texts(server) < write_all(server, "after") | kept == texts(server)
