"""Clients whose base URL has no /v1 have memory too, over both APIs, and reach the same of the model's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import Reply, completion
from tests.frontends.gateway.talks import Talk
from tests.frontends.gateway.upstream import KEY, Upstream, upstream
from tests.frontends.server.running import Running, bearer

BIKE = "User rides a red Brompton bike"
QUESTION = "Which bike does the user ride?"
GATEWAY = {"default_similarity_threshold": 0.0}


@pytest.fixture
def client(gateway: Running, who: str) -> Iterator[openai.OpenAI]:
    """OpenAI's own client, with an address that somebody forgot the /v1 of."""
    with openai.OpenAI(
        base_url=gateway.url, api_key="theirs", default_headers={"x-authz-user-id": who}, max_retries=0
    ) as found:
        yield found


def test_a_chat_remembers(client: openai.OpenAI, gateway: Running, model: Upstream, who: str) -> None:
    talk = Talk(gateway, who)
    talk.remember(BIKE)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": QUESTION}])
    assert BIKE in model.last.messages[-1]["content"]
    assert model.last.path == "/v1/chat/completions"
    assert ("user", QUESTION) in talk.said()


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "translated"])
def test_responses_remember_and_go_on(is_native: bool, tmp_path: Path, who: str) -> None:
    with (
        upstream(responses=is_native) as model,
        gateway_to(tmp_path, model.url, gateway=GATEWAY) as gateway,
        openai.OpenAI(
            base_url=gateway.url, api_key="theirs", default_headers={"x-authz-user-id": who}, max_retries=0
        ) as client,
    ):
        Talk(gateway, who).remember(BIKE)
        first = client.responses.create(model="m", input=QUESTION)
        assert BIKE.encode() in model.last.body
        assert model.last.path == ("/v1/responses" if is_native else "/v1/chat/completions")
        client.responses.create(model="m", input="And why?", previous_response_id=first.id)
        if not is_native:
            assert QUESTION.encode() in model.last.body
            assert client.responses.retrieve(first.id).id == first.id
            assert client.responses.input_items.list(first.id).data[0].type == "message"
            client.responses.delete(first.id)
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(first.id)


def test_a_base_without_v1_is_asked_as_the_client_asks(model: Upstream, tmp_path: Path, who: str) -> None:
    """Servers whose API stands elsewhere: `https://host/openai/deployments/name` with `/chat/completions` behind it."""
    base = model.url.removesuffix("/v1") + "/deployments/name"
    model.play("/deployments/name/chat/completions", Reply.of_json(completion("Red.")))
    with gateway_to(tmp_path, base, gateway=GATEWAY) as gateway:
        Talk(gateway, who).remember(BIKE)
        body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
        answer = gateway.client.post("/chat/completions?api-version=1", json=body, headers={"x-authz-user-id": who})
        assert answer.json()["memory_hits"][0]["content"] == BIKE
        assert model.last.target == "/deployments/name/chat/completions?api-version=1"


@pytest.mark.covers("U25")
def test_the_door_is_the_same(model: Upstream, tmp_path: Path, who: str) -> None:
    with gateway_to(tmp_path, model.url, gateway=GATEWAY) as gateway:
        key = gateway.key("ana", user_id=who)
        gateway.client.post("/v1/memory", json={"content": BIKE}, headers=bearer(key)).raise_for_status()
        body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
        for credentials, status in ((key, "used"), ("somebody-elses", "policy_blocked")):
            answer = gateway.client.post("/chat/completions", json=body, headers=bearer(credentials))
            is_ours = credentials == key
            assert answer.headers["x-memory-status"] == status
            assert (BIKE.encode() in model.last.body) is is_ours
            assert model.last.header("authorization") == f"Bearer {KEY if is_ours else credentials}"
        wrong = gateway.client.post("/chat/completions", json={}, headers=bearer(key))
        assert wrong.status_code == 400
        assert {*wrong.json()["error"]} == {"message", "type", "param", "code"}
