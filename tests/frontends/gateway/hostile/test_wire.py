"""Hostile requests over the wire: no spelling of a path and no header leads around the door or elsewhere."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from perdure.backends.http.upstream import HttpUpstream
from perdure.domain.errors import InvalidInputError
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import Reply
from tests.frontends.gateway.test_chat import PATH, ask
from tests.frontends.gateway.upstream import KEY, Upstream, upstream
from tests.frontends.server.running import JSON, Running

pytestmark = pytest.mark.covers("U25")

CANARY = "User's bird is called Kiwibird"


@pytest.fixture(scope="module", params=["h11", "httptools"])
def keyed(
    request: pytest.FixtureRequest, model: Upstream, upstream_client: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, str]]:
    """A gateway with keys, by each parser that a server may have, which holds a memory of Ana's; and her key."""
    pytest.importorskip(request.param)
    with gateway_to(tmp_path_factory.mktemp("wire"), model.url, http=request.param) as found:
        secret = found.key("ana", user_id="ana")
        stored = found.client.post("/v1/memory", json={"content": CANARY}, headers={"X-API-Key": secret})
        assert stored.status_code == 200
        yield found, secret


def raw(gateway: Running, target: str, *headers: str, method: str = "GET", body: bytes = b"") -> tuple[int, str]:
    """Send a request as it is written; its status, and all that comes back. 0 where the connection is closed."""
    host = gateway.url.removeprefix("http://")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    address, _, port = host.partition(":")
    with socket.create_connection((address, int(port)), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        found = b""
        while piece := connection.recv(65536):
            found += piece
    status = re.match(rb"HTTP/1\.1 (\d+)", found)
    return int(status[1]) if status else 0, found.decode("latin-1")


def plain(target: str) -> str:
    """A target as a lenient server reads it."""
    path = unquote(unquote(unquote(target.partition("?")[0]))).replace("\\", "/")
    names: list[str] = []
    for part in path.split("/"):
        name = part.partition(";")[0].lower()
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names)


SPELLINGS = (
    "//v1/memory", "/v1//memory", "///v1///memory//", "/v1/./memory", "/./v1/memory", "/v1/x/../memory",
    "/v1/chat/completions/../../memory", "/v1/responses/../memory", "/v1/models/..%2fmemory", "/%76%31/memory",
    "/v1/%6Demory", "/v1%2Fmemory", "/v1%2fmemory?user_id=ana", "/v1/%2e%2e/v1/memory", "/v1/%2E%2e/%2e./v1/memory",
    "/v1/%252e%252e/v1/memory", "/v1/%256Demory", "/v1%252Fmemory", "/v1;x=1/memory", "/v1/memory;x", "/;/v1/memory",
    "/V1/Memory", "/v1\\memory", "/v1/memory/", "/v1/memory%2F", "/v1/memory/%2e", "/v1/x/%2e%2e%2fmemory",
    "/v1/memory/search/x", "/v1/memories//", "/search/../v1/memory", "/v1/sessions//x", "/metrics/..;/v1/memory",
)  # fmt: skip


@pytest.mark.covers("U25")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_our_paths_reaches_the_model_or_passes_the_door(
    keyed: tuple[Running, str], model: Upstream, spelling: str
) -> None:
    gateway, secret = keyed
    host = gateway.url.removeprefix("http://")
    for target in (spelling, f"http://{host}{spelling}", f"http://elsewhere.test{spelling}"):
        for headers in ((), ("Authorization: Bearer sk-theirs",), ("X-Original-URL: /v1/models",)):
            for method in ("GET", "POST", "DELETE"):
                sent = (*headers, "Content-Length: 2") if method == "POST" else headers
                body = b"{}" if method == "POST" else b""
                status, told = raw(gateway, target, *sent, method=method, body=body)
                assert status >= 400 or status == 0, (method, target, told)
                assert "Kiwibird" not in told
    raw(gateway, spelling, f"X-API-Key: {secret}")
    ours = ("/v1/memory", "/v1/memories", "/v1/sessions", "/search", "/metrics")
    led = [each.target for each in model.seen if any(f"{plain(each.target)}/".startswith(f"{own}/") for own in ours)]
    assert led == []


CLIMBING = (
    "/v1/../admin", "/v1/files/../../admin", "/../admin", "/v1/files/..", "/v1/files/../models", "/v1/./models",
    "/v1/%2e%2e/admin", "/v1/%2E./admin", "/v1/.%2e/admin", "/v1/files/%2e%2E", "/v1/files%2f..%2f..%2fadmin",
    "/v1/files/..%2F..%2Fadmin", "/v1/files%2F%2e%2e%2Fadmin", "/v1/files/..%5c..%5cadmin", "/v1/files/..\\admin",
    "/v1/files/%252e%252e/admin", "/v1/files%252f..%252fadmin", "/v1/files/..;x=1/admin",
    "/v1/chat/completions/../../../admin", "/v1/responses/%2e%2e/files", "/v1/responses/..%2ffiles",
    "/v1/memory/../files", "/v1/files/%2e%2e%2fmemory",
)  # fmt: skip


@pytest.mark.parametrize("target", CLIMBING)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_that_climbs_is_a_bad_request_and_goes_nowhere(
    keyed: tuple[Running, str], model: Upstream, target: str, method: str
) -> None:
    gateway, secret = keyed
    status, told = raw(gateway, target, f"X-API-Key: {secret}", "Content-Length: 0", method=method)
    assert status == 400, told
    assert '"param":"path"' in told.replace(": ", ":")
    assert model.seen == []


@pytest.mark.parametrize("target", ["/v1/files/a..b", "/v1/files/...", "/v1/files/.hidden", "/v1/files/a%2Fb.txt"])
def test_dots_in_a_name_are_no_climb(keyed: tuple[Running, str], model: Upstream, target: str) -> None:
    gateway, secret = keyed
    raw(gateway, target, f"X-API-Key: {secret}")
    assert [each.target for each in model.seen] == [target]


@pytest.mark.parametrize(
    "target", ["@elsewhere.test/v1/models", "elsewhere.test:443", "*", "http://elsewhere.test/v1/models", "?x", "x"]
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "CONNECT", "TRACE", "POST"])
def test_a_target_that_is_no_path_leads_nowhere_else(
    keyed: tuple[Running, str], model: Upstream, target: str, method: str
) -> None:
    gateway, secret = keyed
    status, told = raw(gateway, target, f"X-API-Key: {secret}", method=method)
    assert status != 502, told
    here = model.url.removeprefix("http://").removesuffix("/v1")
    for seen in model.seen:  # an address of another server's is as good as its path
        assert (seen.header("host"), seen.target) == (here, "/v1/models")


@pytest.mark.parametrize("path", ["@elsewhere.test/", "elsewhere.test", "", ":443/x", ".elsewhere.test/v1"])
def test_no_path_is_joined_to_the_name_of_another_server(path: str) -> None:
    with pytest.raises(InvalidInputError, match="begin with a slash"):
        HttpUpstream("http://up", api_key="secret").address(path)


# ------------------------------------------------------------------ keys
@pytest.mark.covers("U25")
def test_a_key_of_ours_never_goes_up_wherever_it_stands(keyed: tuple[Running, str], model: Upstream) -> None:
    gateway, secret = keyed
    body = b'{"messages":[{"role":"user","content":"Hello"}]}'
    headers = (
        ("Authorization: Bearer sk-theirs", f"Authorization: Bearer {secret}"),
        (f"Authorization: Bearer {secret}", "Authorization: Bearer sk-theirs"),
        ("X-API-Key: theirs", f"X-API-Key: {secret}"), (f"X-API-Key: {secret}", "X-API-Key: theirs"),
        (f"Authorization: Bearer sk-theirs, Bearer {secret}",), (f"Authorization: ApiKey {secret}",),
        (f"Authorization: Bearer\t{secret}",), (f"authorization: bearer  {secret}",), (f"api-key: {secret}",),
        (f"Cookie: key={secret}",), (f"Proxy-Authorization: Bearer {secret}",), (f"x-anything: {secret.upper()}",),
        (f"Connection: authorization, X-API-Key\r\nX-API-Key: {secret}",), (f"X-API-Key: {secret[:40]}",),
    )  # fmt: skip
    for each in headers:
        for path in (PATH, "/v1/files"):
            sent = (*each, f"Content-Length: {len(body)}")
            raw(gateway, path, *sent, method="POST", body=body)
    assert len(model.seen) > 10
    for seen in model.seen:
        told = str(seen.headers).lower()
        assert secret[:40] not in told, seen.headers


def test_what_looks_like_a_second_header_is_none(keyed: tuple[Running, str], model: Upstream) -> None:
    gateway, secret = keyed
    smuggled = (
        "X-A: b\r\n X-Authz-User-Id: bob", "X-A: b\rx-evil: 1", "X-A: b\x00x-evil: 1",
        "x-evil : 1", "x-a:\x0bx-evil: 1",
    )  # fmt: skip
    for each in smuggled:
        raw(gateway, "/v1/files", f"X-API-Key: {secret}", each)
    assert all(seen.header("x-evil") is None for seen in model.seen)
    # A bare line feed may end a line (RFC 9112, 2.2): then it does so before the door already, and never after it.
    raw(gateway, "/v1/files", f"X-API-Key: {secret}", "X-A: b\nX-Authz-User-Id: bob")
    for seen in model.seen:
        assert seen.header("x-authz-user-id") is None
        assert all("\r" not in value and "\n" not in value for _, value in seen.headers)


@pytest.mark.parametrize(
    "lengths",
    [
        ("Content-Length: 4", "Transfer-Encoding: chunked"), ("Content-Length: 4", "Content-Length: 40"),
        ("Transfer-Encoding: chunked, identity",), ("Transfer-Encoding: xchunked",), ("Content-Length: +4",),
        ("Content-Length: 4, 4",), ("Transfer-Encoding : chunked",), ("Transfer-Encoding: identity, chunked",),
    ],
    ids=str,
)  # fmt: skip
def test_no_request_is_smuggled_behind_another(
    keyed: tuple[Running, str], model: Upstream, lengths: tuple[str, ...]
) -> None:
    gateway, secret = keyed
    hidden = b"0\r\n\r\nGET /v1/hidden HTTP/1.1\r\nHost: x\r\nX-API-Key: theirs\r\n\r\n"
    for path in ("/v1/files", PATH):
        raw(gateway, path, f"X-API-Key: {secret}", *lengths, method="POST", body=hidden)
    gateway.client.get("/v1/after", headers={"X-API-Key": secret})
    assert model.of("/v1/hidden") == []
    assert model.last.path == "/v1/after"
    assert all(b"/v1/hidden" not in seen.body for seen in model.seen)


def test_hop_by_hop_headers_cannot_take_the_walls_away(keyed: tuple[Running, str], model: Upstream) -> None:
    gateway, _ = keyed
    bob = gateway.key(f"bob-{len(model.seen)}-{gateway.url}", user_id="bob")
    for hop in ("x-api-key", "x-authz-user-id", "authorization, host, content-length", "x-team-scope", "close"):
        headers = {"X-API-Key": bob, "Connection": hop}
        answer = ask(gateway, "What is my bird Kiwibird called?", headers=headers)
        assert (answer.status_code, answer.json()["memory_hits"]) == (200, [])
        assert ask(gateway, "Hello", headers={**headers, "x-authz-user-id": "ana"}).status_code == 403
    assert all(KEY in str(seen.header("authorization")) for seen in model.seen)
    assert all("called Kiwibird\\n" not in seen.body.decode() for seen in model.seen)


# ------------------------------------------------------------------ our upstream key
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_takes_our_upstream_key_elsewhere(gateway: Running, model: Upstream, who: str, status: int) -> None:
    with upstream() as elsewhere:
        told = Reply(status, [("Location", f"{elsewhere.url}/models"), ("Refresh", f"0; url={elsewhere.url}")], b"{}")
        model.chat(told)
        model.play("/v1/responses", told, told)
        model.play("/v1/models", told)
        answers = [
            ask(gateway, "Hello", user=who),
            gateway.client.post("/v1/responses", json={"input": "Hello", "user": who}),
            gateway.client.get("/v1/models"),
        ]
        assert [each.status_code for each in answers] == [status] * 3
        assert elsewhere.connections == 0
    for name in ("X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Original-URL", "X-Rewrite-URL", "Host"):
        gateway.client.get("/v1/models", headers={name: "elsewhere.test"})
    here = model.url.removeprefix("http://").removesuffix("/v1")
    assert {seen.header("host") for seen in model.seen} == {here}


def test_our_upstream_key_is_told_nowhere(
    tmp_path_factory: pytest.TempPathFactory, model: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level("DEBUG"),
        gateway_to(tmp_path_factory.mktemp("secret"), model.url, gateway={"recall_seconds": 1.0}) as gateway,
    ):
        model.chat(Reply.error(401), Reply.error(500), Reply(200, [("Content-Type", "application/json")], b"{"))
        told = [ask(gateway, "Hello").text for _ in range(4)]
        for path in ("/metrics", "/openapi.json", "/health", "/readyz", "/v1/models", "/docs", "/v1/memory?user_id=a"):
            answer = gateway.client.get(path)
            told += [answer.text, str(answer.headers)]
        told.append(gateway.client.post(PATH, content=b"{", headers=JSON).text)
    with gateway_to(tmp_path_factory.mktemp("gone"), "http://127.0.0.1:9/v1") as gateway, caplog.at_level("DEBUG"):
        told += [ask(gateway, "Hello").text, gateway.client.get("/v1/models").text]
        told.append(repr(gateway.app.state.gateway.settings))
    assert KEY not in "".join(told)
    assert KEY not in caplog.text
    assert KEY in str(model.seen[0].headers), "and it is what goes up"
