"""A conversation's summary tells over HTTP what stands now, not what stood when it was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("K53", "V86", "V87")

QUESTION = "What else do you know about me?"


@pytest.fixture(scope="module")
def gateway(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    # What is put in as a memory is not said once more by the summary: of three facts one is left to it at least.
    bounds = {"default_retrieval_limit": 2, "default_similarity_threshold": 0.0}
    with gateway_to(tmp_path_factory.mktemp("memory"), model.url, gateway=bounds) as found:
        yield found


@pytest.fixture(params=["chat", "responses"])
def ana(request: pytest.FixtureRequest, gateway: Running, model: Upstream) -> Speaker:
    """Somebody of whose facts a summary was made."""
    found = Speaker(gateway, model, request.param)
    found.told("My dear wife is called Anne.", "I live in Lisbon.", "I work at Nokia.", "I have a dog named Rex.")
    found.new_session()
    told = found.asked(QUESTION)
    assert "onversation summar" in told and "Anne" in told and "Lisbon" in told
    return found


def change(ana: Speaker, method: str, **more: Any) -> None:
    (home,) = (each["id"] for each in ana.rows if "Lisbon" in each["content"] and each["type"] != "episodic")
    found = ana.gateway.client.request(method, f"/v1/memory/{home}", headers=ana.headers, **more)
    assert found.status_code in (200, 204), found.text


def summary(told: str) -> str:
    """The line of a prompt that tells the summary."""
    return next(line for line in told.rpartition("onversation summar")[2].split("\\n")[1:] if line.strip())


def test_what_a_put_changed_is_told_as_it_is_now(ana: Speaker) -> None:
    change(ana, "PUT", json={"content": "User lives in Bergen"})
    told = ana.asked(QUESTION)
    assert "Lisbon" not in summary(told)
    assert "Anne" in told and "Bergen" in told and "User lives in Lisbon" not in told


def test_what_was_forgotten_is_told_no_more(ana: Speaker) -> None:
    change(ana, "DELETE")
    assert "Lisbon" not in ana.asked(QUESTION)
