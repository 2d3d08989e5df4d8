"""001 §11 over real HTTP: whatever of memory fails, the request goes on without it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.test_chat import ask, store
from tests.frontends.gateway.upstream import Upstream

pytestmark = pytest.mark.covers("U21", "V3", "V4")


def levels(caplog: pytest.LogCaptureFixture, text: str) -> set[str]:
    """The levels of the lines that hold a text."""
    return {record.levelname for record in caplog.records if text in record.getMessage()}


@pytest.mark.covers("V3")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("broken", ["store", "ledger"])
def test_what_is_down_at_the_start_costs_memory_and_no_request(
    tmp_path: Path, model: Upstream, caplog: pytest.LogCaptureFixture, broken: str, stream: bool
) -> None:
    (tmp_path / "a folder").mkdir()
    place = str(tmp_path / "a folder")  # where a file is wanted
    config: dict[str, Any] = {"vector_store": {"provider": "sqlite", "config": {"path": place}}}
    if broken == "ledger":
        config = {"history": {"provider": "sqlite", "db_path": place}}
    with caplog.at_level(logging.DEBUG, "perdure"), gateway_to(tmp_path / "memory", model.url, **config) as gateway:
        answers = [ask(gateway, "I live in Porto, and my cat is Luna", user="ana", stream=stream) for _ in range(2)]
        assert gateway.client.get("/v1/models").status_code == 200
    assert [each.status_code for each in answers] == [200, 200]
    assert len(model.of("/v1/chat/completions")) == 2
    if broken == "store":
        assert {each.headers["x-memory-status"] for each in answers} == {"unavailable"}
        assert levels(caplog, "unavailable, memory disabled") == {"ERROR"}
    assert "Luna" not in caplog.text


@pytest.mark.covers("V4")
def test_a_search_that_takes_too_long_is_done_without(
    tmp_path: Path, model: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.DEBUG, "perdure"),
        gateway_to(tmp_path / "memory", model.url, gateway={"recall_seconds": 1e-6}) as gateway,
    ):
        store(gateway, "ana", "User's cat is called Luna")
        answer = ask(gateway, "What is my cat Luna called?", user="ana")
    assert answer.status_code == 200
    assert (answer.headers["x-memory-status"], answer.json()["memory_hits"]) == ("unavailable", [])
    assert "called Luna" not in model.last.body.decode()
    assert levels(caplog, "Memory search timeout, skipping") == {"WARNING"}
