"""Answers against their schemas, where no generated request gets one: a walk through every dialect with known callers.

`test_schemathesis.py` asks everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import jsonschema
import pytest

from tests.frontends.gateway.upstream import upstream
from tests.frontends.server.running import SECRET, Running, running
from tests.frontends.server.teams import Team


@dataclass
class Walk:
    """A server and its document, by which each answer is judged."""

    server: Running
    document: dict[str, Any]
    seen: set[str] = field(default_factory=set)

    def judged(self, operation: str, answer: httpx.Response) -> Any:
        """The answer, which is a success and as the document says."""
        assert answer.is_success, (operation, answer.text)
        method, path = operation.split()
        told = self.document["paths"][path][method.lower()]["responses"][str(answer.status_code)]
        schema = told["content"]["application/json"]["schema"]
        whole = {**schema, "components": self.document["components"]}
        jsonschema.Draft202012Validator(whole).validate(answer.json())
        self.seen.add(operation)
        return answer.json()

    def ask(self, operation: str, *, at: str | None = None, json: Any = None, **params: Any) -> Any:
        method, path = operation.split()
        return self.judged(operation, self.server.client.request(method, at or path, json=json, params=params))


@pytest.fixture
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    graph = {"provider": "sqlite"}
    with (
        upstream(responses=False) as model,
        running(
            tmp_path_factory.mktemp("memory"),
            env={"PERDURE_JWT_SECRET": SECRET},
            graph_store=graph,
            gateway={"upstream": {"base_url": model.url}},
        ) as server,
    ):
        yield Walk(server, server.client.get("/openapi.json").json())


def test_memories_and_mem0(walk: Walk) -> None:
    ana = {"user_id": "ana"}
    told = {"messages": "I live in Porto and I like tea. Ana was the lead of Atlas until 2026-04-01.", **ana}
    (first, *_) = walk.ask("POST /v1/memories", json=told)["results"]
    id = first["id"]
    walk.ask("POST /v3/memories/add", json={"messages": "I moved to Braga", **ana})
    walk.ask("POST /memories", json={"messages": [{"role": "user", "content": "I have a dog, Rex"}], **ana})
    for path in ("/v1/memories/{id}", "/memories/{id}"):
        walk.ask(f"GET {path}", at=path.format(id=id))
        walk.ask(f"GET {path}/history", at=f"{path.format(id=id)}/history")
        walk.ask(f"PUT {path}", at=path.format(id=id), json={"text": "User likes green tea"})
    walk.ask("POST /v1/memories/{id}/feedback", at=f"/v1/memories/{id}/feedback", json={"verdict": "positive"})
    walk.ask("POST /v1/memories/{id}/distrust", at=f"/v1/memories/{id}/distrust")
    walk.ask("POST /v1/memories/{id}/trust", at=f"/v1/memories/{id}/trust")
    for operation in ("GET /v1/memories", "GET /memories", "GET /v1/events"):
        assert walk.ask(operation, **ana)["results"]
    assert walk.ask("GET /v1/memories", page=1, **ana)["count"]
    walk.ask("GET /v1/memories", fields="memory", page=1, **ana)
    walk.ask("GET /v1/memories/search", query="tea", explain=True, **ana)
    for operation in ("POST /v1/memories/search", "POST /search"):
        assert walk.ask(operation, json={"query": "tea", **ana})["results"]
    for operation in ("POST /v2/memories/search", "POST /v3/memories/search"):
        assert walk.ask(operation, json={"query": "tea", "filters": ana})["results"]
    for operation in ("POST /v2/memories", "POST /v3/memories"):
        assert walk.ask(operation, json={"filters": ana})["results"]
    walk.ask("GET /v1/context", query="tea", **ana)
    walk.ask("GET /v1/ping")
    assert walk.ask("GET /v1/entities")["results"]
    walk.ask("GET /v2/entities/{type}/{name}", at="/v2/entities/user/ana")
    project = "/api/v1/orgs/organizations/perdure/projects/default"
    template = "/api/v1/orgs/organizations/{org_id}/projects/{project_id}"
    walk.ask(f"PATCH {template}", at=project, json={"custom_instructions": "x", "decay": True})
    walk.ask(f"GET {template}", at=project)
    walk.ask("POST /v1/feedback", json={"memory_id": id, "feedback": "POSITIVE"})
    export = walk.ask("POST /v1/exports", json={"schema": {"properties": {"memory": {}}}, **ana})["id"]
    assert walk.ask("POST /v1/exports/get", json={"memory_export_id": export})["memories"]
    assert walk.ask("POST /v1/summary", json={"filters": ana})
    walk.ask("PUT /v1/batch", json={"memories": [{"memory_id": id, "text": "User likes black tea"}]})
    event = walk.ask("GET /v1/memories/{id}/history", at=f"/v1/memories/{id}/history")[-1]["id"]
    walk.ask("GET /v1/event/{id}", at=f"/v1/event/{event}")
    walk.ask("POST /v1/undo", json={"event_id": event})
    walk.ask("POST /v1/reflect", json=ana)
    walk.ask("POST /v1/consolidate", json={"dry_run": True, **ana})
    walk.ask("POST /v1/entities", json=ana)
    walk.ask("POST /v1/graph/revive")
    walk.ask("POST /v1/forget", json={"query": "tea", "dry_run": True, **ana})
    walk.ask("POST /v1/forget", json={"id": id})
    rest = walk.ask("GET /memories", **ana)["results"]
    walk.ask("DELETE /v1/memories/{id}", at=f"/v1/memories/{rest[0]['id']}", delete_linked=True)
    walk.ask("DELETE /v1/batch", json={"memories": [{"memory_id": rest[1]["id"]}]})
    walk.ask("DELETE /v2/entities/{type}/{name}", at="/v2/entities/user/ana")
    for operation in ("DELETE /v1/memories", "DELETE /memories"):
        walk.ask(operation, **ana)
    for operation in ("POST /v1/reset", "POST /reset"):
        walk.ask(operation, json={"confirm": True})


def test_teams(walk: Walk) -> None:
    team = Team(walk.server)
    id = team.stored()
    body = {"item_id": id, "target_level": "VALIDATED", "justification": "checked"}
    walk.judged("POST /v1/promotions", team.ask("POST", "/v1/promotions", json=body))
    assert walk.judged("GET /v1/promotions", team.ask("GET", "/v1/promotions"))["promotions"]
    assert walk.judged("GET /v1/audit", team.ask("GET", "/v1/audit", role="admin"))["entries"]
    walk.judged("GET /v1/system-prompt", team.ask("GET", "/v1/system-prompt?query=target"))


def test_models(walk: Walk) -> None:
    messages = [{"role": "user", "content": "I live in Porto"}]
    walk.ask("POST /v1/chat/completions", json={"model": "m", "messages": messages})
    id = walk.ask("POST /v1/responses", json={"model": "m", "input": "hello", "store": True})["id"]
    at = f"/v1/responses/{id}"
    walk.ask("GET /v1/responses/{response_id}", at=at)
    walk.ask("GET /v1/responses/{response_id}/input_items", at=f"{at}/input_items")
    walk.ask("DELETE /v1/responses/{response_id}", at=at)
