"""An answer over /v1/responses that asks for tools does not end its turn: what they say is read with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.scope import Scope
from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.scripts import Reply, completion, event, response, tool_call
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("V32")

PATH, CHAT = "/v1/responses", "/v1/chat/completions"
HEADERS = {"x-authz-user-id": "ana", "x-session-id": "s"}
LOOK = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "look",
    "arguments": "{}",
    "status": "completed",
}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "20 degrees"}
ASKED = "I live in Lisbon. How warm is it?"
WORDS = "Let me look."


@pytest.fixture(params=["native", "native stream", "translated"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(way: str) -> Iterator[Upstream]:
    with upstream(responses=way != "translated") as found:
        yield found


@pytest.fixture
def gateway(model: Upstream, tmp_path: Path) -> Iterator[Running]:
    settings = knowing(model, {"extraction_batch_size": 1})
    with gateway_to(tmp_path, model.url, gateway=settings, embedder={"provider": "hashed"}) as found:
        yield found


def asking(way: str) -> Reply:
    """An answer that says something and asks for a tool."""
    if way == "translated":
        return Reply.of_json(completion(WORDS, tool_calls=[tool_call("look", {}, "c1")]))
    told = response(WORDS)
    told["output"].append(LOOK)
    if way == "native":
        return Reply.of_json(told)
    return Reply.stream(event({"type": "response.completed", "response": told}, "response.completed"))


def come(gateway: Running) -> tuple[int, int]:
    """How many turns of the session were read, and how many jobs wait, once all that was said is kept."""

    async def look() -> tuple[int, int]:
        door = gateway.app.state.gateway
        while door.under_way:
            await asyncio.sleep(0.005)
        await door.remembering.written()
        ledger = await gateway.service.ledger()
        (session,) = await ledger.sessions.list(Scope(user_id="ana"))
        due = await ledger.jobs.status([door.remembering._work._kind])
        return session.read_turns, due.pending + due.processing

    return gateway.wait(look())


@pytest.mark.covers("V32")
def test_the_turn_is_over_with_the_answer_to_what_the_tools_said(gateway: Running, model: Upstream, way: str) -> None:
    def say(given: Any, **more: Any) -> None:
        body = {"model": "m", "input": given, "store": False, **more}
        gateway.client.post(PATH, json=body, headers=HEADERS).raise_for_status()

    model.play(CHAT if way == "translated" else PATH, asking(way))
    say(ASKED, stream=way == "native stream")
    assert come(gateway) == (0, 0)
    say([{"role": "user", "content": ASKED}, LOOK, RESULT])
    deadline = time.monotonic() + 60
    while (found := come(gateway)) != (1, 0):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    told = gateway.client.get("/v1/memory", headers=HEADERS).json()["memories"]
    assert [each["content"] for each in told] == ["User lives in Lisbon"]
