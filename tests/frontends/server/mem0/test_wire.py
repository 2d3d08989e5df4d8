"""mem0's older clients and its open server, by what they send: v1 and v2 paths, `/memories`, `/search`."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure.backends.llms.scripted import ScriptedLLM
from tests.frontends.server.running import Running

OLD = {"org_id": "perdure", "project_id": "default", "version": "v1", "output_format": "v1.1"}
"""What clients of 1.0 add to every request."""


def ask(server: Running, method: str, path: str, **more: Any) -> Any:
    answer = server.client.request(method, path, headers={"Authorization": "Token any"}, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_v1_add_search_list_delete(shared: Running, who: str) -> None:
    body = {"messages": [{"role": "user", "content": "I moved to Lisbon"}], "user_id": who, **OLD}
    extra = {"async_mode": False, "enable_graph": False, "custom_instructions": "Be brief", "immutable": False}
    (event,) = ask(shared, "POST", "/v1/memories/", json=body | extra)["results"]
    assert (event["event"], event["data"]["memory"], event["memory"]) == ("ADD", *["User moved to Lisbon"] * 2)
    found = ask(shared, "POST", "/v1/memories/search/", json={"query": "Lisbon", "user_id": who, "top_k": 5, **OLD})
    assert [each["id"] for each in found["results"]] == [event["id"]]
    listed = ask(shared, "GET", "/v1/memories/", params={"user_id": who, **OLD})
    assert [each["session_id"] for each in listed["results"]] == [None]
    paged = ask(shared, "GET", "/v1/memories/", params={"user_id": who, "page": 1, "page_size": 10, **OLD})
    assert paged["count"] == 1 and paged["next"] is None
    for more, count in (({"metadata": '{"k": 1}'}, 0), ({"start_date": "2020-01-01"}, 1), ({"categories": "x"}, 0)):
        for page in ({}, {"page": 1}):
            narrowed = ask(shared, "GET", "/v1/memories/", params={"user_id": who, **more, **page})
            assert len(narrowed["results"]) == count
    changed = ask(shared, "PUT", f"/v1/memories/{event['id']}/", json={"text": "User moved to Porto"}, params=OLD)
    assert changed["memory"] == "User moved to Porto"
    assert len(ask(shared, "GET", f"/v1/memories/{event['id']}/history/", params=OLD)) == 2
    ask(shared, "DELETE", f"/v1/memories/{event['id']}/", params=OLD)
    ask(shared, "DELETE", "/v1/memories/", params={"user_id": who, **OLD})
    assert ask(shared, "GET", "/v1/memories/", params={"user_id": who})["results"] == []


def test_notes_are_not_in_this_dialect(shared: Running, who: str) -> None:
    """Its clients know one kind of memory: a statement."""
    german = "Ich habe gestern den Vertrag bei der Stadtbibliothek unterschrieben."
    ask(shared, "POST", "/v1/memories/", json={"messages": [{"role": "user", "content": german}], "user_id": who})
    question = {"query": "Vertrag", "filters": {"user_id": who}}
    for path in ("/v2/memories/search/", "/v3/memories/search/"):
        assert not ask(shared, "POST", path, json=question).get("results")
    assert ask(shared, "GET", "/v1/memories/", params={"user_id": who, **OLD})["results"] == []
    ours = ask(shared, "POST", "/v1/memories/search/", json={"query": "Vertrag", "user_id": who})
    assert [each["memory"] for each in ours["results"]] == [german], "the first version's route is perdure's own too"


def test_v2_search_and_list(shared: Running, who: str) -> None:
    body = {"messages": "note of work", "user_id": who, "infer": False, "metadata": {"categories": ["work"]}}
    (event,) = ask(shared, "POST", "/v1/memories/", json=body)["results"]
    filters = {"AND": [{"user_id": who}, {"categories": {"contains": "work"}}]}
    found = ask(shared, "POST", "/v2/memories/search/", json={"query": "note", "filters": filters, **OLD})
    assert [each["id"] for each in found["results"]] == [event["id"]]
    listed = ask(shared, "POST", "/v2/memories/", json={"filters": filters, "page": 1, "page_size": 50, **OLD})
    assert [each["id"] for each in listed["results"]] == [event["id"]] and listed["count"] == 1


def test_a_session_is_a_run(shared: Running, who: str) -> None:
    body = {"messages": "note", "infer": False, "user_id": who, "session_id": "s1"}
    (event,) = ask(shared, "POST", "/v3/memories/add/", json=body)["results"]
    assert ask(shared, "GET", f"/v1/memories/{event['id']}/")["run_id"] == "s1"
    filters = {"user_id": who, "session_id": "s1"}
    assert ask(shared, "POST", "/v3/memories/", json={"filters": filters})["count"] == 1


def test_keys_that_this_server_does_not_know_are_mem0s_to_send(shared: Running, who: str) -> None:
    body = {"messages": "note", "infer": False, "user_id": who, "source": "CLI", "brand_new": {"x": 1}}
    told = ask(shared, "POST", "/v3/memories/add/", json=body | {"immutable": True, "custom_categories": [{"a": "b"}]})
    assert len(told["results"]) == 1 and len(told["warnings"]) == 2
    ask(shared, "POST", "/v3/memories/search/", json={"query": "x", "filters": {"user_id": who}, "source": "CLI"})


def test_the_open_server(server: Running) -> None:
    body = {"messages": [{"role": "user", "content": "I moved to Lisbon"}], "user_id": "ana"}
    (event,) = ask(server, "POST", "/memories", json=body)["results"]
    id = event["id"]
    assert (event["event"], event["memory"]) == ("ADD", "User moved to Lisbon")
    assert [each["id"] for each in ask(server, "GET", "/memories", params={"user_id": "ana"})["results"]] == [id]
    assert ask(server, "GET", f"/memories/{id}")["memory"] == "User moved to Lisbon"
    assert server.client.get(f"/memories/{uuid.uuid4()}").status_code == 404
    for form in ({"filters": {"user_id": "ana"}}, {"user_id": "ana"}):
        found = ask(server, "POST", "/search", json={"query": "Lisbon", "top_k": 3, **form})["results"]
        assert [each["id"] for each in found] == [id]
    changed = ask(server, "PUT", f"/memories/{id}", json={"text": "User moved to Porto"})
    assert changed["memory"] == "User moved to Porto" and changed["message"]
    assert [each["event"] for each in ask(server, "GET", f"/memories/{id}/history")] == ["ADD", "UPDATE"]
    ask(server, "DELETE", f"/memories/{id}")
    ask(server, "POST", "/memories", json=body | {"infer": False})
    for path in ("/memories", "/search"):
        method = "GET" if path == "/memories" else "POST"
        answer = server.client.request(method, path, **({} if method == "GET" else {"json": {"query": "x"}}))
        assert answer.status_code == 400 and "At least one of user_id" in answer.json()["detail"]
    assert server.client.delete("/memories").status_code == 400
    ask(server, "DELETE", "/memories", params={"user_id": "ana"})
    assert ask(server, "GET", "/memories", params={"user_id": "ana"})["results"] == []
    assert server.client.post("/reset").status_code == 422
    ask(server, "POST", "/reset", json={"confirm": True})
    for method, path in (("GET", "/configure"), ("POST", "/configure"), ("POST", "/generate-instructions")):
        assert server.client.request(method, path, json={}).status_code == 501


LLM = {"llm": {"provider": "scripted", "config": {"rules": [{"match": ".", "answer": {"facts": []}}]}}}


@pytest.mark.parametrize("server", [LLM], indirect=True)
def test_instructions_are_added_to_what_the_model_is_told(server: Running) -> None:
    def told(**body: Any) -> str:
        ask(server, "POST", "/v3/memories/add/", json={"messages": f"I like tea {body}"} | body)
        llm = server.service.engine.kernel.llm
        assert isinstance(llm, ScriptedLLM)
        return llm.calls[-1].system_prompt

    usual = told(user_id="ana")
    asked = told(user_id="ana", custom_instructions="Only drinks.", includes="tea", excludes="coffee", timestamp=0)
    assert asked.startswith(usual[:500]) and "1970" in asked
    assert all(words in asked for words in ("Only drinks.", "concerns: tea", "concerns: coffee"))
    agents = {"custom_instructions": "Of users.", "agent_custom_instructions": "Of agents."}
    assert "Of agents." in told(agent_id="helper", **agents) and "Of users." in told(user_id="ana", **agents)
    assert told(user_id="ana", prompt="My own prompt.", custom_instructions="x") == "My own prompt."
    path = "/api/v1/orgs/organizations/perdure/projects/default/"
    changed = ask(
        server,
        "PATCH",
        path,
        json={"custom_instructions": "Of the project.", "agent_custom_instructions": "Of its agents."},
    )
    assert "warnings" not in changed
    assert "Of the project." in told(user_id="ana") and "Of its agents." in told(agent_id="helper")
    mine = told(user_id="ana", custom_instructions="Of the call.")
    assert "Of the call." in mine and "Of the project." not in mine


def test_many_adds_at_once_lose_nothing_and_a_repeated_key_adds_once(shared: Running, who: str) -> None:
    def add(number: int) -> str:
        body = {"messages": f"note {number}", "user_id": who, "infer": False, "idempotency_key": f"k{number % 10}"}
        event: str = ask(shared, "POST", "/v3/memories/add/", json=body)["event_id"]
        return event

    with ThreadPoolExecutor(8) as pool:
        events = set(pool.map(add, range(20)))
    assert len(events) == 10
    assert ask(shared, "POST", "/v3/memories/", json={"filters": {"user_id": who}})["count"] == 10
    assert {ask(shared, "GET", f"/v1/event/{event}")["status"] for event in events} == {"SUCCEEDED"}


def test_delete_users_of_0_1_67(shared: Running, who: str) -> None:
    """The requests of the real client of that version: it deletes by the `id` that the list of entities tells."""
    told = {"org_id": "perdure", "project_id": "default"}
    name = f"{who}/of the office: user:x"
    for user in (name, f"{who} stays"):
        body = {"messages": [{"role": "user", "content": "note"}], "user_id": user, "infer": False, **told}
        ask(shared, "POST", "/v1/memories/", json=body)
    entities = ask(shared, "GET", "/v1/entities/", params=told)["results"]
    (entity,) = [each for each in entities if (each["type"], each["name"]) == ("user", name)]
    assert ask(shared, "DELETE", f"/v1/entities/{entity['type']}/{entity['id']}/", params=told)["message"]
    left = [each["name"] for each in ask(shared, "GET", "/v1/entities/", params=told)["results"]]
    assert name not in left and f"{who} stays" in left
    assert ask(shared, "DELETE", f"/v1/entities/user/{who} stays/")["message"], "its name does as well"
    assert shared.client.delete(f"/v1/entities/group/group:{who}").status_code == 422


def test_get_memory_export_of_0_1_67(shared: Running, who: str) -> None:
    told = {"org_id": "perdure", "project_id": "default"}
    body = {"messages": [{"role": "user", "content": "I live in Porto"}], "user_id": who, **told}
    ask(shared, "POST", "/v1/memories/", json=body)
    schema = '{"properties": {"memory": {"type": "string"}}}'
    made = shared.client.post("/v1/exports/", json={"schema": schema, "user_id": who, **told})
    assert made.status_code == 201
    (row,) = ask(shared, "GET", "/v1/exports/", params={"user_id": who, **told})["memories"]
    assert (row["memory"], row["user_id"]) == ("User lives in Porto", who)
    by_id = {"memory_export_id": made.json()["id"], **told}
    assert ask(shared, "GET", "/v1/exports/", params=by_id)["memories"] == [{"memory": "User lives in Porto"}]
    assert shared.client.get("/v1/exports/", params=told).status_code == 400, "whose memories?"
    assert shared.client.get("/v1/exports/", params={"memory_export_id": "x"}).status_code == 404


@pytest.mark.parametrize("name", ["..", ".", "a/../{who}", "{who}?x", "{who}#x", "{who}%2e", "{who}/b", "ü {who}"])
def test_a_user_of_any_name_is_deleted_by_the_listed_name_and_nobody_else(shared: Running, who: str, name: str) -> None:
    def listed() -> list[str]:
        return [each["name"] for each in ask(shared, "GET", "/v1/entities/")["results"]]

    ask(shared, "POST", "/v3/memories/add/", json={"messages": "note", "user_id": who, "infer": False})
    before = listed()
    odd = name.format(who=who)
    ask(shared, "POST", "/v3/memories/add/", json={"messages": "note", "user_id": odd, "infer": False})
    (told,) = set(listed()) - set(before)
    ask(shared, "DELETE", f"/v2/entities/user/{told}/")
    assert listed() == before and who in before
