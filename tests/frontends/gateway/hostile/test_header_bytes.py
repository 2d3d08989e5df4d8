"""What stands in headers beyond ASCII: UTF-8 is read and goes on as it came, other bytes are refused, none is a 500."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.frontends.gateway.dialects import CHAT
from tests.frontends.gateway.talks import PATH as RESPONSES
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

GREEK = "Ζωή-漢字-😀"
LATIN = "Zoë".encode("latin-1")
OURS = ("x-memory-id", "x-session-id", "x-authz-user-id")
Sent = dict[str, str | bytes]


def sent(headers: Sent) -> list[tuple[bytes, bytes]]:
    given = {"content-type": "application/json", **headers}
    return [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in given.items()]


def ask(gateway: Running, path: str, headers: Sent, **more: Any) -> httpx.Response:
    text = "My fern lives in the kitchen, next to the window."
    said: dict[str, Any] = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"input": text}
    body = json.dumps({"model": "m", **said, **more}).encode()
    return gateway.client.post(path, content=body, headers=sent(headers))


@pytest.mark.covers("K66")
@pytest.mark.covers("K66", "V53")
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_a_name_in_utf8_is_the_same_in_a_header_and_in_a_body(gateway: Running, who: str, path: str) -> None:
    named = f"{GREEK}-{who}"
    assert ask(gateway, path, {"x-memory-id": named, "x-authz-user-id": f"ü-{who}"}).status_code == 200
    body = {"memory_id": named, "memory_context": {"user_id": f"ü-{who}"}}
    assert ask(gateway, path, {}, **body).status_code == 200
    query = {"memory_id": named, "user_id": f"ü-{who}"}
    found = gateway.client.get(f"/v1/sessions/{quote(named)}", params=query)
    assert (found.status_code, found.json()["id"], found.json()["turns"]) == (200, named, 2)


@pytest.mark.covers("V34")
def test_a_session_has_the_name_that_its_header_says(gateway: Running, who: str) -> None:
    named = f"Küche-{who}"
    assert ask(gateway, RESPONSES, {"x-session-id": named, "x-authz-user-id": who}).status_code == 200
    found = gateway.client.get(f"/v1/sessions/{quote(named)}", headers={"x-authz-user-id": who})
    assert (found.status_code, found.json()["id"]) == (200, named)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("name", [*OURS, "x-team-scope", "x-custom"])
def test_what_is_no_utf8_is_refused_by_the_headers_name(
    gateway: Running, model: Upstream, path: str, name: str
) -> None:
    answer = ask(gateway, path, {name: LATIN})
    assert answer.status_code == 400, answer.text
    assert name in answer.json()["error"]["message"] and "UTF-8" in answer.json()["error"]["message"]
    assert model.seen == []


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "x-request-id", "traceparent", "cookie", "accept"])
@pytest.mark.parametrize("value", [LATIN, GREEK.encode(), b"Bearer " + LATIN, b"Bearer " + GREEK.encode()])
@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/v1/memories?user_id=ana", "/v1/memory?user_id=ana"])
def test_no_header_makes_the_server_fail(gateway: Running, path: str, name: str, value: bytes) -> None:
    if path == CHAT:
        answer = ask(gateway, path, {name: value})
    else:
        answer = gateway.client.get(path, headers=sent({name: value}))
    assert answer.status_code in (200, 400, 401, 403), answer.text


@pytest.mark.covers("A2")
@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
def test_bytes_go_up_as_they_came(gateway: Running, model: Upstream, path: str) -> None:
    headers: Sent = {"x-custom": GREEK, "user-agent": f"agent/1 ({GREEK})", "authorization": f"Bearer {GREEK}"}
    ask(gateway, path, headers)
    told = {name: model.last.header(name) for name in headers}
    assert told == {name: str(value).encode().decode("latin-1") for name, value in headers.items()}


@pytest.mark.parametrize("route", ["/v1/memories", "/v3/memories/add"])
def test_an_idempotency_key_is_the_same_in_a_header_and_in_a_body(gateway: Running, who: str, route: str) -> None:
    key = f"{GREEK}-{who}"
    body = {"messages": [{"role": "user", "content": "I live in Porto"}], "user_id": who, "infer": False}
    by_header = gateway.client.post(route, content=json.dumps(body), headers=sent({"Idempotency-Key": key}))
    by_body = gateway.client.post(route, json={**body, "idempotency_key": key})
    first, second = by_header.json()["results"], by_body.json()["results"]
    assert [each["id"] for each in first] == [each["id"] for each in second] != []
    refused = gateway.client.post(route, content=json.dumps(body), headers=sent({"Idempotency-Key": LATIN}))
    assert refused.status_code == 400 and "Idempotency-Key" in refused.text


@pytest.mark.covers("V53")
def test_a_users_own_memories_are_by_the_name_in_utf8(gateway: Running, who: str) -> None:
    headers = sent({"x-authz-user-id": f"ü-{who}"})
    body = json.dumps({"messages": "I live in Porto", "infer": False})
    gateway.client.post("/v1/memories", content=body, headers=headers).raise_for_status()
    found = gateway.client.get("/v1/memories", params={"user_id": f"ü-{who}"}).json()["results"]
    assert [each["user_id"] for each in found] == [f"ü-{who}"]
    assert gateway.client.get("/v1/memories", headers=sent({"x-authz-user-id": LATIN})).status_code == 400
