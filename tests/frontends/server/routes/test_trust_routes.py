"""POST /v1/memories/{id}/trust and /distrust over a real port: the marks, and what a prompt leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("V79")

NOBODY = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"


def row(server: Running, id: str) -> dict[str, Any]:
    (found,) = [
        each
        for each in server.client.get("/v1/memories", params={"user_id": "trusting"}).json()["results"]
        if each["id"] == id
    ]
    return dict(found)


def context(server: Running) -> str:
    asked = {"user_id": "trusting", "query": "when does the train leave?"}
    return str(server.client.get("/v1/context", params=asked).json()["context"])


@pytest.mark.covers("V79")
def test_a_memory_is_trusted_and_distrusted_over_http(shared: Running) -> None:
    said = {"messages": [{"role": "tool", "content": "The train leaves at nine."}], "infer": False}
    (event,) = shared.client.post("/v1/memories", json={**said, "user_id": "trusting"}).json()["results"]
    id = event["id"]
    assert (row(shared, id)["origin"], row(shared, id)["quarantined"]) == ("tool", "tool")
    assert "train" not in context(shared)
    trusted = shared.client.post(f"/v1/memories/{id}/trust")
    assert trusted.status_code == 200 and "quarantined" not in trusted.json() and trusted.json()["origin"] == "tool"
    assert "train" in context(shared)
    assert shared.client.post(f"/v1/memories/{id}/distrust").json()["quarantined"] == "distrusted"
    again = shared.client.post(f"/v1/memories/{id}/distrust", json={"reason": "found on a page"})
    assert again.json()["quarantined"] == row(shared, id)["quarantined"] == "found on a page"
    assert "train" not in context(shared)


def test_trust_of_nothing_and_a_reason_that_is_none_are_refused(shared: Running) -> None:
    assert shared.client.post(f"/v1/memories/{NOBODY}/trust").status_code == 404
    said = {"messages": "green tea", "infer": False, "user_id": "trusting"}
    id = shared.client.post("/v1/memories", json=said).json()["results"][0]["id"]
    for body in ({"reason": " "}, {"reason": "x" * 201}, {"why": "so"}):
        assert shared.client.post(f"/v1/memories/{id}/distrust", json=body).status_code in (400, 422)
