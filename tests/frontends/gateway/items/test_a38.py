"""A38's black-box cases that are not about files: the original proxy's own tests, over real HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.domain.scope import Scope
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import CHAT, Speaker
from tests.frontends.gateway.items.test_read import hits
from tests.frontends.gateway.scripts import DONE, Reply, completion
from tests.frontends.gateway.upstream import MODELS, Upstream, upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("A38")


@pytest.fixture
def ana(gateway: Running, model: Upstream) -> Speaker:
    return Speaker(gateway, model, "chat")


def said(ana: Speaker) -> list[str]:
    """The roles of what is kept of somebody's words."""

    async def read() -> list[str]:
        found = await (await ana.gateway.service.ledger()).recent_episodes(Scope(user_id=ana.user), 100)
        return [each.role for each in found]

    return ana.gateway.wait(read())


@pytest.mark.covers("A38")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("summaries", [False, True], ids=["two-turns", "with-a-summary"])
def test_a_round_trip_keeps_two_turns_its_facts_and_a_summary_where_that_is_set(
    tmp_path: Path, model: Upstream, stream: bool, summaries: bool
) -> None:
    with gateway_to(
        tmp_path / "memory", model.url, gateway={"summaries": summaries, "default_retrieval_limit": 1}
    ) as gateway:
        ana = Speaker(gateway, model, "chat")
        answer = ana.post("My wife is Jane. I live in Lisbon.", stream=stream)
        assert answer.content.endswith(DONE) == stream
        ana.read()
        assert said(ana) == ["user", "assistant"]
        assert len(ana.memories) == 2
        ana.new_session()
        told = ana.asked("Who is my wife?")
        until = time.monotonic() + 60
        while summaries and "Conversation summar" not in told:  # it is written once the turn counts as read
            assert time.monotonic() < until, told
            told = ana.asked("Who is my wife?")
        assert "Jane" in told and ("Conversation summar" in told) == summaries


@pytest.mark.covers("A38")
def test_jane_becomes_anne_and_jane_is_gone(ana: Speaker) -> None:
    ana.told("My wife is Jane.")
    (before,) = ana.rows
    ana.told("My wife is Anne.")
    (after,) = ana.rows
    assert "Jane" in before["content"] and "Anne" in after["content"] and "Jane" not in after["content"]
    ana.new_session()
    told = ana.asked("Who is my wife?")
    assert "Anne" in told and "Jane" not in told


@pytest.mark.covers("A38")
def test_a_question_adds_no_fact(ana: Speaker) -> None:
    ana.told("My wife is Jane.")
    ana.told("Who is my wife?", "What is the weather like in Lisbon?")
    assert len(ana.memories) == 1


@pytest.mark.covers("A38")
def test_what_is_different_beats_what_says_nearly_the_same(ana: Speaker) -> None:
    ana.store("User likes hiking in the alps", "User really likes hiking in the alps", "User likes alpine cheese")
    found = [text for text, _ in hits(ana, "What do I like in the alps, hiking?", memory_top_k=2)]
    assert len(found) == 2 and "User likes alpine cheese" in found


@pytest.mark.covers("A38")
@pytest.mark.parametrize("top_k", [0, -3])
def test_a_top_k_of_zero_leaves_the_request_as_it_is(ana: Speaker, top_k: int) -> None:
    ana.store("User likes hiking in the alps")
    ana.post("What do I like in the alps?", memory_top_k=top_k)
    assert ana.model.last.json == ana.body("What do I like in the alps?")
    ana.post("What do I like in the alps?", headers={"x-memory-top-k": str(top_k)})
    assert ana.model.last.json == ana.body("What do I like in the alps?")


@pytest.mark.covers("A38")
def test_models_pass_through(ana: Speaker) -> None:
    assert ana.gateway.client.get("/v1/models").json() == MODELS


@pytest.fixture
def gone() -> Iterator[str]:
    """The address of a model's server that is no longer there."""
    with upstream() as found:
        address = found.url
    yield address


@pytest.mark.covers("A38")
def test_a_server_that_is_not_there_is_502(tmp_path: Path, gone: str) -> None:
    with gateway_to(tmp_path / "memory", gone) as gateway:
        body = {"messages": [{"role": "user", "content": "I live in Lisbon."}], "user": "ana"}
        assert gateway.client.post(CHAT, json=body).status_code == 502
        assert gateway.client.get("/v1/models").status_code == 502


@pytest.mark.covers("A38")
def test_thoughts_are_kept_out_of_what_is_remembered(ana: Speaker) -> None:
    ana.model.chat(Reply.of_json(completion("<think>She lives in Porto.</think>Good to know.")))
    ana.told("I live in Lisbon.")
    assert not any("Porto" in each for each in ana.memories) and said(ana) == ["user", "assistant"]
