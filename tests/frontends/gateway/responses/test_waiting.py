"""Responses that wait for a ledger that nobody can write to: no answer waits long, and they do not pile up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers.sql.ledger import SqlChains
from perdure.domain.scope import Scope
from perdure.domain.session import Link
from perdure.frontends.gateway.responses import chains
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import echo_response
from tests.frontends.gateway.talks import Numbered, Talk
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("V90")

PATH = "/v1/responses"


class Gate:
    """Lets no response into the ledger until it is opened, and counts what wants to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_open = threading.Event()
        self.asked = 0
        put = SqlChains.put

        async def held(desk: SqlChains, link: Link) -> None:
            self.asked += 1
            await run_blocking(self.is_open.wait)
            await put(desk, link)

        monkeypatch.setattr(SqlChains, "put", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.is_open.set()


def knows(gateway: Running, talk: Talk, response_id: str) -> bool:
    """Whether another request can go on from a response."""
    body = {"input": "And now?", "previous_response_id": response_id}
    found = gateway.client.post(PATH, json=body, headers=talk.headers)
    assert found.status_code in (200, 400)
    return found.status_code == 200


@pytest.mark.covers("V90")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_ledger_that_hangs_holds_an_answer_up_for_a_moment_and_the_response_is_kept_later(
    tmp_path: Path, gate: Gate, stream: bool
) -> None:
    settings = {"recall_seconds": 0.2, "upstream": {"responses": "translate"}}
    with upstream(responses=False) as model, gateway_to(tmp_path, model.url, gateway=settings) as gateway:
        talk = Talk(gateway, "ana")
        told = talk.post("I live in Porto", stream=stream)
        assert not gate.is_open.is_set() and gate.asked == 1
        name = told.text.split('"id":"resp_')[1].split('"')[0]
        asked = model.last.messages
        assert knows(gateway, talk, f"resp_{name}"), "it goes on while it is being written"
        assert [each["content"] for each in model.last.messages[:1]] == [asked[-1]["content"]]
        assert gateway.client.get(f"{PATH}/resp_{name}", headers=talk.headers).status_code == 200
        assert gateway.client.get(f"{PATH}/resp_{name}", headers={"x-authz-user-id": "bob"}).status_code == 404
        assert not gate.is_open.is_set()
        gate.is_open.set()
        talk.settled()
        assert knows(gateway, talk, f"resp_{name}")


def test_item7_a_chain_that_the_models_server_has_waits_for_no_ledger(
    tmp_path: Path, model: Upstream, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.always(PATH, Numbered())
    settings = {"recall_seconds": 0.2, "upstream": {"responses": "native"}}
    with gateway_to(tmp_path, model.url, gateway=settings) as gateway:
        talk = Talk(gateway, "ana")
        model.play(PATH, echo_response({"input": "the same id twice"}), echo_response({"input": "again"}))
        assert talk.say("Hello") == talk.say("Hello?", previous_response_id="resp_scripted") == "resp_scripted"
        assert knows(gateway, talk, "resp_scripted")
        first = talk.say("I live in Porto")
        assert knows(gateway, talk, first), "while it is being written"
        another = gateway.client.post(
            PATH, json={"input": "Me too", "previous_response_id": first}, headers={"x-authz-user-id": "bob"}
        )
        assert another.status_code == 400, "whose it is is known all the same"
        assert not gate.is_open.is_set()
        gate.is_open.set()
        talk.settled()
        gate.is_open.clear()
        get = SqlChains.get

        async def held(desk: SqlChains, response_id: str, walls: Scope) -> Link | None:
            await run_blocking(gate.is_open.wait)
            return await get(desk, response_id, walls)

        monkeypatch.setattr(SqlChains, "get", held)
        assert knows(gateway, talk, first)
        assert gateway.client.get(f"{PATH}/{first}", headers=talk.headers).status_code == 404, "the scripted server's"
        assert model.last.method == "GET"
        gate.is_open.set()


def test_responses_that_wait_are_bounded_and_those_that_were_taken_are_kept(
    tmp_path: Path, model: Upstream, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chains, "MOST_UNDER_WAY", 6)
    model.always(PATH, Numbered())
    settings = {"upstream": {"responses": "native"}}
    with (
        caplog.at_level(logging.WARNING, "perdure"),
        gateway_to(tmp_path, model.url, gateway=settings, episodes="off") as gateway,
    ):
        talk = Talk(gateway, "ana")
        names = [talk.say(f"Number {number}") for number in range(20)]
        assert len(gateway.app.state.gateway._tasks) <= 6 + 2
        gate.is_open.set()
        talk.settled()
        assert caplog.text.count("others wait for the ledger") == 20 - gate.asked
        assert 1 <= gate.asked <= 6

        async def kept() -> list[bool]:
            ledger = await gateway.service.ledger()
            return [await ledger.chains.get(name, chains.Scope()) is not None for name in names]

        assert gateway.wait(kept()) == [True] * gate.asked + [False] * (20 - gate.asked)
        assert talk.say("Number 21") not in names
        talk.settled()
        assert gate.asked <= 7 and not gateway.app.state.responses.chains._under_way
