"""Hostile names over HTTP: whatever is given for a user, a conversation or a session is refused, or is only a name.

V2, V53, K66: it opens nobody else's memory, breaks nothing, and never goes to the model's server as a field of ours.
"""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.frontends.gateway.talks import Numbered
from tests.frontends.gateway.test_chat import settled, store
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("V2", "V53")

CANARY = "Kiwibird"
FACT = f"User's bird is called {CANARY}"
QUESTION = "What is my bird called?"
TEXTS = {
    "unicode": "é✓漢字😀\u202e\u200b", "long": "a" * 10_000, "nul": "a\x00b", "lines": "a\r\nX-Evil: 1",
    "half": "\ud800", "up": "../../etc/passwd", "encoded": "%2e%2e%2f", "quote": "' OR '1'='1' --", "star": "*",
    "percent": "%", "like": "an_", "blank": "  ", "bell": "a\x07\x1b[31m", "null": "null", "json": '{"user_id": "ana"}',
    "list": "ana,bob", "padded": " ana ", "case": "ANA", "spoof": "a\u0430na", "empty": "", "tag": "</perdure-memory>",
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "number": 1, "float": 1.5, "huge": 10**400, "bool": True, "list": ["ana"], "object": {"ne": "x"},
    "in": {"in": ["ana"]}, "deep": [[[[{}]]]], "zero": 0,
}  # fmt: skip
ALL: dict[str, Any] = {**TEXTS, **{f"type-{name}": value for name, value in OTHERS.items()}}
FIELDS = ("user", "metadata.user_id", "memory_context.user_id", "memory_context.project_id", "memory_id")
HEADERS = ("x-authz-user-id", "x-memory-id", "x-session-id")
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


@pytest.fixture(scope="module")
def ana(gateway: Running) -> str:
    """Somebody who has a memory, a response and a session, by a name that anybody may guess."""
    store(gateway, "ana", FACT)
    store(gateway, "ana", FACT, project_id="birds")
    return "ana"


@pytest.fixture(autouse=True)
def _numbered(model: Upstream, _forgetful: None) -> None:
    model.always(RESPONSES, Numbered())


def ask(gateway: Running, path: str, headers: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
    said: dict[str, Any] = (
        {"messages": [{"role": "user", "content": QUESTION}]} if path == CHAT else {"input": QUESTION}
    )
    body = json.dumps({"model": "m", **said, **more}).encode()
    raw = {name.encode(): value.encode("utf-8", "replace") for name, value in (headers or {}).items()}
    return gateway.client.post(path, content=body, headers={b"content-type": b"application/json", **raw})


def with_field(field: str, value: Any) -> dict[str, Any]:
    outer, _, inner = field.partition(".")
    return {outer: {inner: value}} if inner else {outer: value}


def is_harmless(answer: httpx.Response, model: Upstream, gateway: Running) -> None:
    """It was refused, or passed and told nothing of another's."""
    assert answer.status_code in (200, 400, 401, 403, 404, 422), answer.text[:500]
    assert CANARY not in answer.text
    assert "x-evil" not in answer.headers
    if answer.status_code != 200:
        assert len(answer.content) < 3000, "a refusal does not repeat what it was given"
        assert answer.json()["error"]["type"] in ("invalid_request_error", "permission_error", "authentication_error")
    for seen in model.seen:
        assert CANARY not in seen.body.decode()
        assert {"memory_id", "memory_context"}.isdisjoint(seen.json)
        assert seen.header("x-evil") is None
    settled(gateway)


@pytest.mark.covers("K66")
@pytest.mark.covers("K66", "V2")
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_names_is_refused_or_only_a_name(
    gateway: Running, model: Upstream, ana: str, caplog: pytest.LogCaptureFixture, field: str, path: str
) -> None:
    statuses: dict[str, int] = {}
    with caplog.at_level(logging.ERROR, "perdure"):
        for name, value in ALL.items():
            given = with_field(field, value)
            if field == "memory_context.project_id":
                given["user"] = "bob"
            answer = ask(gateway, path, **given)
            is_harmless(answer, model, gateway)
            statuses[name] = answer.status_code
            model.seen.clear()
    assert statuses["unicode"] == statuses["quote"] == statuses["up"] == 200, "names, whatever they look like"
    if field.startswith("memory"):
        assert {statuses[name] for name in ("long", "nul", "half", "type-number", "type-object")} == {400}
    assert not caplog.records, "nobody's request is a fault of the server's"


@pytest.mark.covers("V53")
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_that_names_is_refused_or_only_a_name(
    gateway: Running, model: Upstream, ana: str, caplog: pytest.LogCaptureFixture, header: str, path: str
) -> None:
    with caplog.at_level(logging.ERROR, "perdure"):
        for name, value in TEXTS.items():
            if name in ("nul", "lines", "bell", "blank", "padded"):  # no client sends them
                continue
            headers = {header: value} if header == "x-authz-user-id" else {header: value, "x-authz-user-id": "bob"}
            is_harmless(ask(gateway, path, headers), model, gateway)
            model.seen.clear()
    assert not caplog.records


def test_control_characters_in_a_session_or_user_of_a_body_do_not_reach_the_log(
    gateway: Running, model: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "perdure"):
        for field in FIELDS:
            ask(gateway, CHAT, **with_field(field, "forged\nERROR secretword"))
            ask(gateway, CHAT, **with_field(field, "\x00secretword"))
        settled(gateway)
    assert "secretword" not in caplog.text


# ------------------------------------------------------------------ sessions and chains
@pytest.mark.parametrize("name", [each for each in TEXTS if each not in ("half", "up")])
def test_a_session_of_any_name_is_ones_own_or_none(gateway: Running, model: Upstream, who: str, name: str) -> None:
    value = TEXTS[name]
    for method, path in (("GET", "/v1/sessions/{}"), ("POST", "/v1/sessions/{}/end")):
        for form in (quote(value, safe=""), quote(value, safe="/")):
            answer = gateway.client.request(method, path.format(form), headers={"x-authz-user-id": who})
            assert answer.status_code in (400, 404, 405, 422), (method, form, answer.text[:300])
    assert model.seen == [], "what stands below our own routes is never the model's"


@pytest.mark.parametrize(
    "body", [[], "x", 1, {"user_id": 1}, {"user_id": ""}, {"user_id": "a" * 2000}, {"x": 1}], ids=str
)
def test_the_end_of_a_session_takes_nothing_else(gateway: Running, body: Any) -> None:
    answer = gateway.client.post("/v1/sessions/some/end", json=body, headers={"x-authz-user-id": "bob"})
    assert answer.status_code in (400, 422), answer.text


@pytest.mark.covers("V53")
def test_nobody_goes_on_from_ends_or_reads_what_is_another_users(gateway: Running, model: Upstream, ana: str) -> None:
    headers = {"x-authz-user-id": ana}
    first = ask(gateway, RESPONSES, {**headers, "x-session-id": "birds"}).json()["id"]
    settled(gateway)
    told = gateway.client.get(f"/v1/sessions/{first}", headers=headers).json()
    for name in ("birds", first, told["session_id"]):
        for other in ("bob", "ANA", "ana.", "*", "ana\u200b"):
            theirs = {"x-authz-user-id": other.encode()}
            assert gateway.client.get(f"/v1/sessions/{name}", headers=theirs).status_code == 404  # type: ignore[arg-type]
            end = gateway.client.post(f"/v1/sessions/{name}/end", headers=theirs)  # type: ignore[arg-type]
            assert end.status_code == 404
    model.seen.clear()
    refused = ask(gateway, RESPONSES, {"x-authz-user-id": "bob"}, previous_response_id=first)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "previous_response_not_found")
    for method, path in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/a/b")):
        for below in (
            "/v1/responses",
            "/responses",
            "/v1//responses",
            "//responses",
            "/v1/Responses",
            "/v1;a/responses",
        ):
            asked = gateway.client.request(
                method, f"{gateway.url}{below}/{first}{path}", headers={"x-authz-user-id": "bob"}
            )
            assert asked.status_code in (404, 405), (method, below, path)
    assert model.seen == [], "a model's server that keeps it itself is not asked for it with our key"
    assert gateway.client.get(f"/v1/sessions/{first}", headers=headers).json() == told
    gateway.client.post(f"/v1/responses/{first}/cancel", headers=headers)
    assert model.last.target == f"/v1/responses/{first}/cancel", "one's own passes"
    model.always(RESPONSES, None)
    for value in TEXTS.values():
        assert ask(gateway, RESPONSES, {"x-authz-user-id": "bob"}, previous_response_id=value).status_code in (200, 400)
    for wrong in OTHERS.values():
        assert ask(gateway, RESPONSES, headers, previous_response_id=wrong).status_code == 400


@pytest.mark.parametrize("field", ["user", "metadata.user_id"])
def test_a_user_that_is_no_text_is_refused_and_nobody_s_memory_learns(gateway: Running, field: str) -> None:
    answer = ask(gateway, CHAT, **with_field(field, 5))
    assert answer.status_code == 400 and field in answer.json()["error"]["message"]
