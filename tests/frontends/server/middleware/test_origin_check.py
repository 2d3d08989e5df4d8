"""Host, Origin and Content-Type checks (origin_check.py), before all routes of `serve` and `proxy`."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, WebSocket
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from perdure.domain.errors import ConfigError
from perdure.engine.config.config import MemoryConfig, read_config
from perdure.frontends.server.app import create_app
from perdure.frontends.server.settings import read_settings
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running, running
from tests.frontends.server.served import served

EVIL = "http://evil.example"
CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "I moved to Porto"}]}
ROUTES = [
    ("GET", "/v1/memories?user_id=ana", None),
    ("POST", "/v1/memories", {"messages": "I like tea", "user_id": "ana"}),
    ("DELETE", "/v1/memories?user_id=ana", None),
    ("POST", "/v1/reset", {"confirm": True}),
    ("POST", "/reset", {"confirm": True}),
    ("GET", "/v1/memory?user_id=ana", None),
    ("POST", "/v1/memory/upsert", {}),
    ("POST", "/v1/chat/completions", CHAT),
    ("POST", "/chat/completions", {**CHAT, "stream": True}),
    ("POST", "/v1/responses", {"model": "scripted", "input": "hello"}),
    ("GET", "/v1/models", None),
    ("POST", "/v1/embeddings", {"input": "x"}),
    ("OPTIONS", "/v1/memories", None),
    ("GET", "/metrics", None),
    ("GET", "/openapi.json", None),
    ("GET", "/healthz", None),
    ("GET", "/v1/no/such/route", None),
]
"""Some of every dialect, what is passed on and what is nobody's."""


@pytest.fixture(scope="module")
def model() -> Iterator[Upstream]:
    with upstream(responses=False) as found:
        yield found


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, model: Upstream) -> Iterator[Running]:
    """A server before a model's, which holds something of Ana's."""
    given = {"gateway": {"upstream": {"base_url": model.url, "api_key": "sk-configured"}}}
    with running(tmp_path_factory.mktemp("memory"), **given) as found:
        keep(found)
        yield found


def keep(server: Running) -> None:
    server.client.post("/v1/memories", json={"messages": "I like tea", "user_id": "ana"}).raise_for_status()


def kept(server: Running) -> list[str]:
    answer = server.client.get("/v1/memories", params={"user_id": "ana"}).raise_for_status()
    return [each["memory"] for each in answer.json()["results"]]


@pytest.mark.parametrize("method, path, body", ROUTES, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize(
    "status, headers",
    [
        (421, {"Host": "evil.example"}),
        (421, {"Host": "localhost.evil.example:80"}),
        (421, {"Host": "127.0.0.1.evil.example"}),
        (421, {"Host": ""}),
        (421, {"Host": "10.1.2.3:8100"}),
        (403, {"Origin": EVIL}),
        (403, {"Origin": "null"}),
        (403, {"Origin": "http://127.0.0.1"}),
        (403, {"Origin": "chrome-extension://abcdefgh"}),
        (403, {"Sec-Fetch-Site": "cross-site"}),
        (403, {"Sec-Fetch-Site": "same-site"}),
    ],
    ids=str,
)
def test_no_route_answers_what_a_foreign_page_asks(
    standing: Running, model: Upstream, method: str, path: str, body: Any, status: int, headers: dict[str, str]
) -> None:
    model.clear()
    answer = standing.client.request(method, path, json=body, headers=headers)
    assert answer.status_code == status, answer.text
    told = answer.text
    assert "server.allowed_" in told and "tea" not in told
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert model.seen == [], "nothing is passed on"
    assert kept(standing) == ["User likes tea"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:8100"},
        {"Host": "LOCALHOST."},
        {"Host": "127.8.9.1"},
        {"Host": "[::1]:9"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Host": "localhost:8100", "Origin": "http://localhost:8100", "Sec-Fetch-Site": "same-origin"},
        {"Host": "localhost", "Origin": "https://localhost"},
        {"Host": "localhost", "Origin": "http://localhost:80"},
    ],
    ids=str,
)
def test_its_own_pages_and_every_program_of_this_machine_are_answered(
    standing: Running, headers: dict[str, str]
) -> None:
    answer = standing.client.get("/v1/memories", params={"user_id": "ana"}, headers=headers)
    assert answer.status_code == 200 and "tea" in answer.text


def test_two_hosts_and_two_origins(standing: Running) -> None:
    address = standing.url.removeprefix("http://")
    for pairs, status in (
        ([("Host", address), ("Host", "evil.example")], 421),
        ([("Host", "evil.example"), ("Host", address)], 421),
        ([("Host", address), ("Host", address)], 400),
        ([("Host", address), ("Origin", f"http://{address}"), ("Origin", EVIL)], 403),
        ([("Host", address), ("Origin", f"http://{address}"), ("Origin", f"http://{address}")], 400),
    ):
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.putrequest("GET", "/v1/memories?user_id=ana", skip_host=True)
        for name, value in pairs:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, b"tea" in answer.read()) == (status, False), pairs
        connection.close()


@given(host=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40))
def test_no_other_host_is_answered(standing: Running, host: str) -> None:
    answer = standing.client.get("/v1/memories", params={"user_id": "ana"}, headers={"Host": host})
    assert answer.status_code in (400, 421) or host.lower().startswith(("localhost", "127."))


# ---------------------------------------------------------------------- what is said
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", None]
)
@pytest.mark.parametrize(
    "method, path, body", [each for each in ROUTES if each[2] is not None], ids=lambda v: str(v)[:30]
)
def test_what_is_read_as_json_says_that_it_is(
    standing: Running, model: Upstream, method: str, path: str, body: Any, kind: str | None
) -> None:
    model.clear()
    headers = {"Content-Type": kind} if kind else {}
    answer = standing.client.request(method, path, content=json.dumps(body), headers=headers)
    if path == "/v1/embeddings":  # goes on as it came
        assert model.seen[0].body == json.dumps(body).encode()
        return
    assert answer.status_code == 415 and "application/json" in answer.text
    assert model.seen == [] and kept(standing) == ["User likes tea"]


def test_json_in_its_spellings_is_taken_and_an_upload_is_passed_on(standing: Running, model: Upstream) -> None:
    body = json.dumps({"query": "tea", "user_id": "ana"})
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"):
        found = standing.client.post("/v1/memories/search", content=body, headers={"Content-Type": kind})
        assert found.status_code == 200, kind
    model.clear()
    form = {"file": ("a.txt", b"words", "text/plain")}
    assert standing.client.post("/v1/files", files=form).status_code == 200
    assert b"words" in model.seen[0].body
    model.clear()
    assert standing.client.post("/v1/files", files=form, headers={"Origin": EVIL}).status_code == 403
    assert model.seen == []


def test_a_memory_is_cleared_by_a_word_alone(server: Running) -> None:
    keep(server)
    for path in ("/v1/reset", "/reset"):
        for body in (None, {}, {"confirm": False}, {"confirm": "yes"}):
            refused = server.client.post(path, json=body)
            assert (refused.status_code == 422 and "confirm" in refused.text) or body is None, refused.text
            assert refused.status_code == 422
    assert kept(server) == ["User likes tea"]
    assert server.client.post("/v1/reset", json={"confirm": True}).status_code == 200
    assert kept(server) == []


# ---------------------------------------------------------------------- who is let in
PAGE = "https://chat.example.com"
ALLOWED = {
    "settings": {"allowed_origins": [PAGE], "allowed_hosts": ["box.lan", "*.example.com"], "rate_per_minute": 99}
}


@pytest.mark.parametrize("server", [ALLOWED], indirect=True)
def test_a_page_that_is_allowed_asks_by_cors(server: Running) -> None:
    asked = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
    wanted = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
        "Access-Control-Request-Private-Network": "true",
    }
    before = server.client.options("/v1/memories", headers=asked | wanted)
    assert before.status_code == 204 and before.content == b""
    assert before.headers["access-control-allow-origin"] == PAGE and before.headers["vary"] == "Origin"
    assert "POST" in before.headers["access-control-allow-methods"]
    assert before.headers["access-control-allow-headers"] == "authorization,content-type"
    assert before.headers["access-control-allow-private-network"] == "true"
    assert "access-control-allow-credentials" not in before.headers
    for path, body, status in (
        ("/v1/memories", {"messages": "I like tea", "user_id": "ana"}, 200),
        ("/v1/memories", {}, 422),
    ):
        answer = server.client.post(path, json=body, headers=asked)
        assert answer.status_code == status and answer.headers["access-control-allow-origin"] == PAGE
        assert "X-RateLimit-Remaining" in answer.headers and answer.headers["vary"] == "Origin"
    # An image or a form of that page brings no Origin, and asks nobody beforehand.
    assert server.client.get("/v1/models", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    for stranger in (EVIL, f"{PAGE}.evil.example", f"{PAGE}:8443", "http://chat.example.com"):
        refused = server.client.options("/v1/memories", headers={"Origin": stranger} | wanted)
        assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize("server", [{"settings": {"allowed_origins": ["*"]}}], indirect=True)
def test_any_page_may_ask_where_any_is_allowed(server: Running) -> None:
    answer = server.client.get("/healthz", headers={"Origin": EVIL, "Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == "*"
    assert server.client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("server", [ALLOWED], indirect=True)
def test_a_host_that_is_configured_is_answered(server: Running) -> None:
    for host, status in (
        ("box.lan", 200),
        ("BOX.lan:8100", 200),
        ("memory.example.com", 200),
        ("a.b.example.com", 200),
        ("example.com", 421),
        ("badexample.com", 421),
        ("box.lan.evil.example", 421),
    ):
        assert server.client.get("/healthz", headers={"Host": host}).status_code == status, host


@pytest.mark.parametrize(
    "setting, value",
    [
        ("allowed_hosts", ["http://box.lan"]),
        ("allowed_hosts", ["box.lan:8100"]),
        ("allowed_hosts", ["a*b"]),
        ("allowed_hosts", [""]),
        ("allowed_origins", ["chat.example.com"]),
        ("allowed_origins", ["https://chat.example.com/"]),
        ("allowed_origins", ["null"]),
        ("allowed_origins", ["https://*.example.com"]),
        ("allowed_origins", "[broken"),
    ],
)
def test_a_setting_that_cannot_be_is_told(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as told:
        read_settings(MemoryConfig(server={setting: value}))
    assert setting in str(told.value)


def test_the_environment_sets_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for told in ('["box.lan", "10.0.0.7"]', "box.lan, 10.0.0.7"):
        monkeypatch.setenv("PERDURE_SERVER__ALLOWED_HOSTS", told)
        config = read_config({"path": str(tmp_path)})
        assert read_settings(config).allowed_hosts == ("box.lan", "10.0.0.7")


def test_a_server_for_all_addresses_answers_by_address_and_by_the_names_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "perdure.toml").write_text(
        '[embedder]\nprovider = "hashed"\n[server]\nallowed_hosts = ["box.lan"]\n'
    )
    with served(tmp_path / "memory", "--host", "0.0.0.0", "--open") as found:
        for host, status in (("box.lan", 200), ("127.0.0.1", 200), ("0.0.0.0:1", 200), ("nas.lan", 421)):
            answer = found.client.get("/healthz", headers={"Host": host})
            assert answer.status_code == status, host
        assert "server.allowed_hosts" in answer.json()["detail"]


def test_a_websocket_of_a_foreign_page_is_refused(tmp_path: Path) -> None:
    """No route speaks it yet; one that will is behind the same check."""
    router = APIRouter()

    @router.websocket("/probe")
    async def probe(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    app = create_app(read_config({"path": str(tmp_path), "embedder": {"provider": "hashed"}}))
    app.include_router(router)
    client = TestClient(app, base_url="http://127.0.0.1:8100")
    with client.websocket_connect("ws://127.0.0.1:8100/probe", headers={"Origin": "http://127.0.0.1:8100"}):
        pass
    for headers in ({"Origin": EVIL}, {"Host": "evil.example"}):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("ws://127.0.0.1:8100/probe", headers=headers):
            pass
