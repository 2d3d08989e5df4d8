"""Feedback over HTTP moves a memory's importance: the own route and mem0's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("V72")

UNKNOWN = "3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55"


def stored(server: Running) -> str:
    body = {"messages": "the kettle is blue", "user_id": "ana", "infer": False}
    return str(server.client.post("/v1/memories", json=body).json()["results"][0]["id"])


def importance(server: Running, id: str) -> float:
    return float(server.client.get(f"/v1/memories/{id}").json()["importance"])


def judge(server: Running, id: str, verdict: Any, **more: Any) -> Any:
    return server.client.post(f"/v1/memories/{id}/feedback", json={"verdict": verdict, **more})


@pytest.mark.covers("V72")
def test_feedback_over_http_and_as_mem0_sends_it(server: Running) -> None:
    id = stored(server)
    answer = judge(server, id, "positive", reason="used")
    assert answer.status_code == 200 and answer.json()["importance"] == 0.75
    assert answer.json()["metadata"]["feedback_reason"] == "used"
    told = server.client.post("/v1/feedback", json={"memory_id": id, "feedback": "VERY_NEGATIVE"})
    assert told.json()["feedback"] == "VERY_NEGATIVE" and importance(server, id) == 0.0
    assert judge(server, id, None).json()["importance"] == 0.5
    actors = [record["actor"] for record in server.client.get(f"/v1/memories/{id}/history").json()]
    assert actors == ["add", "feedback", "feedback", "feedback"]


@pytest.mark.covers("V72")
@pytest.mark.parametrize(
    ("id", "body", "status"),
    [
        (None, {"verdict": "great"}, 400),
        (None, {}, 422),
        (None, {"verdict": 3}, 422),
        (None, {"verdict": "positive", "why": "x"}, 422),
        (UNKNOWN, {"verdict": "positive"}, 404),
        ("nonsense", {"verdict": "positive"}, 404),
    ],
    ids=str,
)
def test_what_is_wrong_is_told(server: Running, id: str | None, body: dict[str, Any], status: int) -> None:
    mine = stored(server)
    assert server.client.post(f"/v1/memories/{id or mine}/feedback", json=body).status_code == status
    assert importance(server, mine) == 0.5
