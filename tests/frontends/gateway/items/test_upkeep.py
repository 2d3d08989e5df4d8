"""What becomes of memories without anybody asking, as a model's prompts show it over real HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("V65", "V66", "V67", "V68", "V69", "V70", "V71", "V72", "V73", "V74")

GATEWAY = {"default_similarity_threshold": 0.0}
DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses"])


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.covers("V65")
@DIALECTS
def test_silence_ends_a_session_and_one_memory_tells_of_it(tmp_path: Path, model: Upstream, dialect: str) -> None:
    with gateway_to(tmp_path / "memory", model.url, gateway={**GATEWAY, "session_minutes": 0.02}) as gateway:
        ana = Speaker(gateway, model, dialect)
        ana.post("My budget for the Hawaii trip is $10,000.")
        until(lambda: any(each["type"] == "episodic" for each in ana.rows))
        (account,) = [each for each in ana.rows if each["type"] == "episodic"]
        assert account["content"].startswith("On ") and "Hawaii" in account["content"]
        assert account["source"] == "session"


@pytest.mark.covers("V66")
def test_a_change_of_subject_has_read_what_came_before_it(tmp_path: Path, model: Upstream) -> None:
    settings = {**GATEWAY, "drift_threshold": 0.2}
    with gateway_to(tmp_path / "memory", model.url, gateway=settings, embedder={"provider": "minilm"}) as gateway:
        ana = Speaker(gateway, model, "responses")
        ana.post("My budget for the Hawaii trip is $10,000, is that enough for surfing?")
        ana.post("Is my budget for the Hawaii trip enough for surfing at good beaches?")
        path = f"/v1/sessions/{ana.session}"
        assert gateway.client.get(path, headers=ana.headers).json()["read_turns"] == 0
        ana.post("How do I rename a column in a PostgreSQL table?")
        until(lambda: gateway.client.get(path, headers=ana.headers).json()["read_turns"] == 3)
        assert any("10,000" in each for each in ana.memories)


@pytest.mark.covers("V69", "V70")
@DIALECTS
def test_the_end_of_a_session_consolidates_and_reflects_where_that_is_set(
    tmp_path: Path, model: Upstream, dialect: str
) -> None:
    settings = {**GATEWAY, "at_session_end": ["consolidate", "reflect"]}
    with gateway_to(tmp_path / "memory", model.url, gateway=settings) as gateway:
        ana = Speaker(gateway, model, dialect)
        ana.store("User deploys the shop with docker-compose", "User deployed the blog using docker-compose")
        ana.store("User's build failed of port conflicts", "User had port conflicts when deploying the dev server")
        ana.store("User's kettle is blue and new", "User's kettle is blue and new today")
        ana.post("I live in Lisbon.")
        gateway.client.post(f"/v1/sessions/{ana.session}/end", headers=ana.headers, timeout=60).raise_for_status()
        assert any(each["type"] == "reflective" for each in ana.rows), "V70"
        assert sum("kettle" in each for each in ana.memories) == 1, "V69"


@pytest.mark.covers("V72")
@DIALECTS
def test_what_is_used_is_counted_and_feedback_moves_its_importance(
    gateway: Running, model: Upstream, dialect: str
) -> None:
    ana = Speaker(gateway, model, dialect)
    (id,) = ana.store("User's boat is called Argo")
    for _ in range(3):
        assert "Argo" in ana.asked("What is my boat called?", memory_config={"similarity_threshold": 0.0})
    until(lambda: ana.rows[0]["access_count"] == 3)
    before = ana.rows[0]["importance"]
    gateway.client.post(f"/v1/memories/{id}/feedback", json={"verdict": "positive"}).raise_for_status()
    assert ana.rows[0]["importance"] > before


@pytest.mark.covers("V74")
def test_how_something_is_done_is_told_first(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "responses")
    ana.store("The payment service is deployed", type="semantic")
    ana.store("The payment service is deployed by npm build and push", type="procedural")
    threshold = {"memory_config": {"similarity_threshold": 0.0}}
    told = ana.asked("How do I get the payment service deployed?", **threshold)
    assert told.index("npm build") < told.index("- The payment service is deployed\\n")


@pytest.mark.covers("V68")
@DIALECTS
def test_what_has_expired_is_in_no_prompt(gateway: Running, model: Upstream, dialect: str) -> None:
    ana = Speaker(gateway, model, dialect)
    for text, day in (("User's code is 4711", "2020-01-01"), ("User's code is 0815", "2999-01-01")):
        body = {"messages": text, "user_id": ana.user, "infer": False, "expiration_date": day}
        gateway.client.post("/v1/memories", json=body).raise_for_status()
    told = ana.asked("What is my code?", memory_config={"similarity_threshold": 0.0})
    assert "0815" in told and "4711" not in told
