"""Sessions over HTTP: how far one has come, and its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.talks import PATH, Talk
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running, bearer

pytestmark = pytest.mark.covers("V65")


@pytest.fixture(scope="module")
def model() -> Iterator[Upstream]:
    with upstream(responses=False) as found:
        yield found


def memory(gateway: Running, name: str, user: str) -> dict[str, Any]:
    found: dict[str, Any] = gateway.client.get(f"/v1/memory/{name}", headers={"x-authz-user-id": user}).json()
    return found


@pytest.mark.covers("V65")
def test_an_end_reads_what_is_unread_and_keeps_a_summary(gateway: Running) -> None:
    talk = Talk(gateway, "ana")
    first = talk.say("I am planning a trip to Hawaii.")
    talk.say("My budget for the trip is $10,000.", previous_response_id=first)
    before = talk.session(first)
    assert before is not None
    assert (before["turns"], before["read_turns"], before["ended_at"]) == (2, 0, None)
    ended = talk.end(first).json()
    assert (ended["id"], ended["session_id"], ended["turns"]) == (first, before["session_id"], 2)
    assert ended["facts"] >= 1
    assert ended["is_read"]
    assert any("$10,000" in each for each in talk.memories)
    told = memory(gateway, ended["summary_id"], "ana")
    assert told["type"] == "episodic"
    assert re.match(r"On \d+ \w+ \d{4}, ", told["content"])
    after = talk.session(first)
    assert after is not None
    assert after["ended_at"] is not None


@pytest.mark.covers("V65")
def test_a_session_that_goes_on_is_open_again(gateway: Running) -> None:
    talk = Talk(gateway, "ben")
    first = talk.say("I live in Lisbon.")
    assert talk.end(first).status_code == 200
    assert talk.end(first).status_code == 200  # who ends it twice ends nothing more
    talk.say("I work in Porto.", previous_response_id=first)
    found = talk.session(first)
    assert found is not None
    assert (found["turns"], found["ended_at"]) == (2, None)


def test_item3_chats_have_sessions_too(gateway: Running) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "I live in Lisbon."}], "memory_id": "trips/2026"}
    for user in ("cleo", "dora"):
        headers = {"x-authz-user-id": user}
        gateway.client.post("/v1/chat/completions", json=body, headers=headers).raise_for_status()
    found = gateway.client.get("/v1/sessions/trips%2F2026?memory_id=trips/2026", headers={"x-authz-user-id": "cleo"})
    assert (found.status_code, found.json()["turns"]) == (200, 1)
    ended = gateway.client.post(
        "/v1/sessions/trips%2F2026/end", json={"memory_id": "trips/2026"}, headers={"x-authz-user-id": "cleo"}
    )
    assert ended.status_code == 200
    # The other user's session of the same name goes on.
    other = gateway.client.get("/v1/sessions/trips/2026?memory_id=trips/2026", headers={"x-authz-user-id": "dora"})
    assert (other.json()["turns"], other.json()["ended_at"]) == (1, None)


@pytest.mark.covers("V65")
@pytest.mark.parametrize("name", ["resp_none", "x" * 2000, "a%00b", "%ED%A0%80", "a/b/c"])
def test_unknown_sessions(gateway: Running, name: str) -> None:
    talk = Talk(gateway, "ana")
    assert talk.session(name) is None
    assert talk.end(name).status_code == 404


@pytest.mark.covers("V53")
def test_sessions_of_others_are_unknown(gateway: Running) -> None:
    talk = Talk(gateway, "ana")
    first = talk.say("I live in Lisbon.")
    own = talk.session(first)
    assert own is not None
    other = Talk(gateway, "eve")
    for name in (first, own["session_id"]):
        assert talk.session(name) == own
        assert other.session(name) is None
        assert other.end(name).status_code == 404
    body = {"user_id": "ana"}
    assert gateway.client.post(f"/v1/sessions/{first}/end", json=body, headers=other.headers).status_code == 404


@pytest.mark.covers("V53")
def test_keys_reach_their_own_sessions(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path, model.url) as gateway:
        ana = bearer(gateway.key("ana", user_id="ana"))
        ben = bearer(gateway.key("ben", user_id="ben"))
        reader = bearer(gateway.key("reader", role="reader", user_id="ana"))
        service = bearer(gateway.key("service", role="service"))
        body = {"model": "m", "input": "I live in Lisbon."}
        first = gateway.client.post(PATH, json=body, headers=ana).json()["id"]
        address = f"/v1/sessions/{first}"
        assert gateway.client.get(address, headers=ana).status_code == 200
        assert gateway.client.get(address, headers=reader).status_code == 200
        assert gateway.client.get(address, headers=ben).status_code == 404
        assert gateway.client.get(address, params={"user_id": "ana"}, headers=ben).status_code == 404
        assert gateway.client.post(f"{address}/end", headers=ben).status_code == 404
        assert gateway.client.post(f"{address}/end", headers=reader).status_code == 403
        assert gateway.client.get(address).status_code == 401
        assert gateway.client.get(address, headers=bearer("sk-foreign")).status_code == 401
        proxied = service | {"x-authz-user-id": "ana"}
        assert gateway.client.post(f"{address}/end", headers=proxied).status_code == 200


@pytest.mark.covers("V65")
def test_a_body_that_is_wrong_is_refused(gateway: Running) -> None:
    talk = Talk(gateway, "ana")
    first = talk.say("I live in Lisbon.")
    for body in ({"user_id": 7}, {"unknown": "x"}, {"memory_id": ""}):
        found = gateway.client.post(f"/v1/sessions/{first}/end", json=body, headers=talk.headers)
        assert found.status_code == 422, body
