"""A project that a request of spec 000 or mem0 names is a wall, as it is in `/v1/memory`: not a word is dropped."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.frontends.server.running import Running, bearer, running


def keep(server: Running, who: str, text: str, **more: Any) -> str:
    body = {"messages": text, "user_id": who, "infer": False, **more}
    answer = server.client.post("/v1/memories", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["results"][0]["id"])


def texts(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    return {each["memory"] for each in answer.json()["results"]}


def test_a_project_is_kept_and_told(shared: Running, who: str) -> None:
    id = keep(shared, who, "note of p", project_id="p")
    assert shared.client.get(f"/v1/memories/{id}").json()["project_id"] == "p"
    stored = shared.client.get("/v1/memory", params={"user_id": who, "project_id": "p"}).json()["memories"]
    assert [(each["content"], each["project_id"]) for each in stored] == [("note of p", "p")]


def test_searches_and_lists_stay_inside(shared: Running, who: str) -> None:
    for project in ("p", "q"):
        keep(shared, who, f"note of {project}", project_id=project)
    keep(shared, who, "note of none")
    mine = {"user_id": who, "project_id": "p"}
    for method, path, more in (
        ("POST", "/v1/memories/search", {"json": mine | {"query": "note"}}),
        ("GET", "/v1/memories/search", {"params": mine | {"query": "note"}}),
        ("GET", "/v1/memories", {"params": mine}),
        ("GET", "/v1/memories", {"params": mine | {"page": 1}}),
        ("POST", "/v2/memories/search", {"json": mine | {"query": "note"}}),
        ("POST", "/v3/memories/search", {"json": {"query": "note", "filters": mine}}),
        ("POST", "/v3/memories", {"json": {"filters": mine}}),
        ("POST", "/v3/memories", {"json": {"filters": {"user_id": who}, "project_id": "p"}}),
        ("GET", "/memories", {"params": mine}),
    ):
        assert texts(shared.client.request(method, path, **more)) == {"note of p"}, (path, more)  # type: ignore[arg-type]
    context = shared.client.get("/v1/context", params=mine | {"query": "note"}).json()["context"]
    assert "note of p" in context and "note of q" not in context
    everything = shared.client.post("/v1/memories/search", json={"user_id": who, "query": "note"})
    assert texts(everything) == {"note of p", "note of q", "note of none"}, "who names no project asks for all"


@pytest.mark.parametrize("change", ["get", "put in the address", "put in the body", "delete", "history"])
def test_one_of_another_project_is_not_there(shared: Running, who: str, change: str) -> None:
    id = keep(shared, who, "note of p", project_id="p")

    def ask(project: str) -> int:
        address, params = f"/v1/memories/{id}", {"project_id": project}
        if change == "put in the body":
            return shared.client.put(address, json={"text": "changed", **params}).status_code
        if change == "put in the address":
            return shared.client.put(address, json={"text": "changed"}, params=params).status_code
        if change == "history":
            return shared.client.get(f"{address}/history", params=params).status_code
        return shared.client.request(change.upper(), address, params=params).status_code

    assert ask("q") == 404
    assert shared.client.get(f"/v1/memories/{id}").json()["memory"] == "note of p", "nothing has changed"
    assert ask("p") == 200


def test_deleting_a_project_leaves_the_others(shared: Running, who: str) -> None:
    for project in ("p", "q"):
        keep(shared, who, f"note of {project}", project_id=project)
    assert shared.client.delete("/v1/memories", params={"user_id": who, "project_id": "p"}).status_code == 200
    assert texts(shared.client.get("/v1/memories", params={"user_id": who})) == {"note of q"}


def test_what_is_told_in_one_project_changes_nothing_in_another(shared: Running, who: str) -> None:
    for project, city in (("p", "Lisbon"), ("q", "Porto")):
        body = {"messages": f"I live in {city}", "user_id": who, "project_id": project}
        assert [each["event"] for each in shared.client.post("/v1/memories", json=body).json()["results"]] == ["ADD"]


def test_a_client_that_repeats_the_first_answer_names_no_project(shared: Running, who: str) -> None:
    told = shared.client.get("/v1/ping").json()
    repeated = {name: told[name] for name in ("org_id", "project_id")}
    id = keep(shared, who, "note", **repeated)
    assert "project_id" not in shared.client.get(f"/v1/memories/{id}", params=repeated).json()
    ours = shared.client.get("/v1/ping", params={"org_id": "acme", "project_id": "p"}).json()
    assert ours["project_id"] == "p", "a client of one project is told that it is in it"


def test_a_project_must_have_a_name_and_a_key_keeps_to_its_own(shared: Running, who: str, tmp_path: Any) -> None:
    for body in ({"project_id": ""}, {"project_id": "x" * 5_000}):
        answer = shared.client.post("/v1/memories", json={"messages": "note", "user_id": who, **body})
        assert answer.status_code == 400 and "project_id" in answer.text
    with running(tmp_path / "memory") as server:
        key = bearer(server.key("bound", project_id="p"))
        body = {"messages": "note", "user_id": who, "infer": False}
        assert server.client.post("/v1/memories", json=body | {"project_id": "q"}, headers=key).status_code == 403
        assert server.client.post("/v1/memories", json=body | {"project_id": "p"}, headers=key).status_code == 200
        assert server.client.get("/v1/memories?user_id=x&project_id=q", headers=key).status_code == 403
