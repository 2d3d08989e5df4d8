"""The gateway's routes in /openapi.json: each has examples, and what an example asks is answered as another says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import Reply, completion
from tests.frontends.gateway.talks import Numbered
from tests.frontends.gateway.test_chat import store
from tests.frontends.gateway.upstream import KEY, Upstream, upstream
from tests.frontends.server.running import Running

ROUTES = {
    "/health": ("get",),
    "/v1/chat/completions": ("post",),
    "/v1/responses": ("post",),
    "/v1/responses/{response_id}": ("get", "delete"),
    "/v1/responses/{response_id}/input_items": ("get",),
    "/v1/sessions/{session_id}": ("get",),
    "/v1/sessions/{session_id}/end": ("post",),
    "/v1/memories/{id}/feedback": ("post",),
    "/v1/memories/{id}/trust": ("post",),
    "/v1/memories/{id}/distrust": ("post",),
}
ALL = [(method, path) for path, methods in ROUTES.items() for method in methods]


@pytest.fixture(scope="module")
def document(gateway: Running) -> dict[str, Any]:
    found: dict[str, Any] = gateway.client.get("/openapi.json").json()
    return found


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        schema = next(each for each in schema["anyOf"] if each.get("type") != "null")
    if "$ref" in schema:
        found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def has_example(content: dict[str, Any], document: dict[str, Any]) -> bool:
    """Whether a body of JSON is shown: whole, or field by field."""
    if "example" in content or "examples" in content:
        return True
    schema = resolved(content["schema"], document)
    fields = [resolved(each, document) | each for each in schema.get("properties", {}).values()]
    return "example" in schema or any({"example", "examples", "description"} & each.keys() for each in fields)


@pytest.mark.parametrize(("method", "path"), ALL, ids=lambda each: each)
def test_each_route_is_described_with_examples(document: dict[str, Any], method: str, path: str) -> None:
    told = document["paths"][path][method]
    assert told["summary"] and told["description"]
    assert has_example(told["responses"]["200"]["content"]["application/json"], document)
    if "requestBody" in told:
        assert has_example(told["requestBody"]["content"]["application/json"], document)
    assert {"401", "403", "413", "429", "502", "503"} <= {*told["responses"]}
    assert told["security"]


def test_what_the_document_asks_a_model_is_answered_as_it_says(
    gateway: Running, model: Upstream, document: dict[str, Any]
) -> None:
    store(gateway, "ana", "User's cat is called Luna")
    model.always("/v1/responses", Numbered())
    for path in ("/v1/chat/completions", "/v1/responses"):
        told = document["paths"][path]["post"]
        asked = told["requestBody"]["content"]["application/json"]["example"]
        shown = told["responses"]["200"]["content"]["application/json"]["example"]
        model.chat(Reply.of_json(completion("Luna.")))
        wide = {**asked.get("memory_config", {}), "similarity_threshold": 0}  # the tests' embedder knows words alone
        answer = gateway.client.post(path, json={**asked, "memory_config": wide})
        assert answer.status_code == 200
        assert "called Luna" in model.last.body.decode()
        assert {*shown} <= {*answer.json()}, "the answer has all that the example shows"
        assert {*told["responses"]["200"]["headers"]} <= {name.lower() for name in answer.headers}
        statuses = told["responses"]["200"]["headers"]["x-memory-status"]["schema"]["enum"]
        assert answer.headers["x-memory-status"] == "used" and "used" in statuses
        if "memory_hits" in shown:
            (hit,) = answer.json()["memory_hits"]
            assert {name: type(value) for name, value in hit.items()} == {
                name: type(value) for name, value in shown["memory_hits"][0].items()
            }
            assert (hit["role"], hit["content"]) == (
                shown["memory_hits"][0]["role"],
                shown["memory_hits"][0]["content"],
            )
        assert not {"memory_config", "memory_context", "memory_top_k"} & {*model.last.json}, "nothing of ours goes up"


def test_the_document_of_earlier_responses_shows_what_they_are(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    with upstream(responses=False) as model, gateway_to(tmp_path_factory.mktemp("earlier"), model.url) as gateway:
        asked = document["paths"]["/v1/responses"]["post"]["requestBody"]["content"]["application/json"]["example"]
        id = gateway.client.post("/v1/responses", json=asked).json()["id"]
        headers = {"x-authz-user-id": "ana"}
        for method, path in ALL:
            if method != "get" or not path.startswith("/v1/responses/"):
                continue
            shown = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["example"]
            answer = gateway.client.request(method, path.format(response_id=id), headers=headers)
            assert answer.status_code == 200
            assert {*shown} <= {*answer.json()}
        path = "/v1/responses/{response_id}"
        shown = document["paths"][path]["delete"]["responses"]["200"]["content"]["application/json"]["example"]
        gone = gateway.client.delete(path.format(response_id=id), headers=headers)
        assert gone.json() == {**shown, "id": id}


def test_no_secret_stands_in_the_document(document: dict[str, Any]) -> None:
    assert KEY not in str(document)
