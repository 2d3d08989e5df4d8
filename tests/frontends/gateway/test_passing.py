"""Pass-through: what is not ours goes to the model's server and back as it is."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.backends.http.upstream import HttpUpstream
from perdure.domain.errors import InvalidInputError
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import Play, Reply
from tests.frontends.gateway.upstream import KEY, Upstream
from tests.frontends.server.hostile import routed
from tests.frontends.server.running import JSON, Running, running

pytestmark = pytest.mark.covers("A2", "U25")


# ------------------------------------------------------------------ addresses
@pytest.mark.covers("A2")
@pytest.mark.parametrize(
    ("base", "path", "query", "address"),
    [
        ("http://up/v1", "/v1/models", "", "http://up/v1/models"),
        ("http://up/v1", "/v1", "", "http://up/v1"),
        ("http://up/v1/", "/v1/models", "limit=2", "http://up/v1/models?limit=2"),
        ("http://up/v1", "/other/path", "foo=bar", "http://up/v1/other/path?foo=bar"),
        ("http://up/v1", "/v10/models", "", "http://up/v1/v10/models"),
        ("http://up", "/v1/models", "", "http://up/v1/models"),
        ("http://up/v1", "/v1/files/a%2Fb", "q=%20", "http://up/v1/files/a%2Fb?q=%20"),
    ],
)
def test_the_base_and_the_path_name_v1_once(base: str, path: str, query: str, address: str) -> None:
    assert HttpUpstream(base, api_key=None).address(path, query) == address


@pytest.mark.parametrize("path", ["/v1/../admin", "/v1/%2e%2E/admin", "/./v1"])
def test_no_path_leads_out_of_the_base(path: str) -> None:
    with pytest.raises(InvalidInputError, match="path"):
        HttpUpstream("http://up/v1", api_key=None).address(path)


# ------------------------------------------------------------------ as it came
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_passes_with_its_body_and_its_headers(gateway: Running, model: Upstream, method: str) -> None:
    body = b"\x00\xffbytes\r\n" if method not in ("GET", "OPTIONS") else b""
    model.play(
        "/v1/fine-tunes/a b", Reply(418, [("X-Kept", "yes"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], b"t")
    )
    answer = gateway.client.request(
        method, "/v1/fine-tunes/a%20b?x=1&x=2&y=%2F", content=body, headers={"X-Mine": "kept", "Cookie": "c=3"}
    )  # fmt: skip
    assert (answer.status_code, answer.content) == (418, b"t")
    assert answer.headers["x-kept"] == "yes"
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    seen = model.last
    assert (seen.method, seen.target, seen.body) == (method, "/v1/fine-tunes/a%20b?x=1&x=2&y=%2F", body)
    assert (seen.header("x-mine"), seen.header("cookie")) == ("kept", "c=3")
    assert seen.header("host") == model.url.removeprefix("http://").removesuffix("/v1")
    assert seen.header("authorization") == f"Bearer {KEY}"
    gateway.client.cookies.clear()
    gateway.client.get("/v1/elsewhere")
    assert model.last.header("cookie") is None, "one caller's cookies are not another's"


def test_a_trailing_slash_and_compressed_bytes_stay_as_they_are(gateway: Running, model: Upstream) -> None:
    packed = gzip.compress(b"packed" * 50)
    model.play("/v1/files/", Reply(200, [("Content-Encoding", "gzip"), ("Content-Type", "text/plain")], packed))
    with gateway.client.stream("GET", "/v1/files/") as answer:
        assert b"".join(answer.iter_raw()) == packed
    assert answer.headers["content-encoding"] == "gzip"
    assert model.last.target == "/v1/files/"


def test_head_has_the_headers_and_no_body(gateway: Running, model: Upstream) -> None:
    answer = gateway.client.head("/v1/models")
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) > 50
    assert (model.last.method, answer.content) == ("HEAD", b"")


def test_headers_of_one_connection_and_our_own_end_here(gateway: Running, model: Upstream) -> None:
    told = [("Connection", "X-Secret-Hop"), ("X-Secret-Hop", "1"), ("Proxy-Authenticate", "Basic"), ("X-Far", "1")]
    model.play("/v1/files", Reply(200, told, b"ok"))
    sent = {"Connection": "keep-alive, X-Hop", "X-Hop": "1", "TE": "trailers", "X-Memory-Id": "m", "X-Near": "1"}
    answer = gateway.client.get("/v1/files", headers=sent)
    assert {"x-secret-hop", "proxy-authenticate"}.isdisjoint(answer.headers)
    assert answer.headers["x-far"] == "1"
    assert [model.last.header(name) for name in ("x-hop", "te", "x-memory-id", "x-near")] == [None, None, None, "1"]


def test_a_redirect_is_the_clients_to_follow(gateway: Running, model: Upstream) -> None:
    model.play("/v1/old", Reply(307, [("Location", "http://elsewhere.test/")], b""))
    answer = gateway.client.get("/v1/old")
    assert (answer.status_code, answer.headers["location"]) == (307, "http://elsewhere.test/")


# ------------------------------------------------------------------ both ways in pieces
def test_an_answer_comes_piece_by_piece(gateway: Running, model: Upstream) -> None:
    more = threading.Event()
    model.play("/v1/audio", Reply(200, [("Content-Type", "audio/wav")], steps=[b"first", more, b"second"]))
    with gateway.client.stream("POST", "/v1/audio", content=b"say it") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"first", "it comes although the rest does not"
        more.set()
        assert b"".join(pieces) == b"second"


def test_a_body_goes_up_piece_by_piece(gateway: Running, model: Upstream) -> None:
    def body() -> Iterator[bytes]:
        yield b"first"
        assert model.until(lambda: "/v1/files" in model.begun), (
            "the model's server is asked before the body is all here"
        )
        yield b"second"

    assert gateway.client.post("/v1/files", content=body()).content == b"firstsecond"


def test_a_chat_of_megabytes_goes_up_as_it_is(gateway: Running, model: Upstream) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 3_000_000}}
    model.chat(Reply(200, [("Content-Type", "text/plain")], b"seen"))
    body = json.dumps({"messages": [{"role": "user", "content": [image]}]}, indent=1).encode()
    assert gateway.client.post("/v1/chat/completions", content=body, headers=JSON).content == b"seen"
    assert model.last.body == body
    assert model.last.header("content-length") == str(len(body))


def test_a_body_that_is_too_large_is_refused(model: Upstream, tmp_path: Path) -> None:
    with gateway_to(tmp_path / "memory", model.url, settings={"max_body_bytes": 1000}) as gateway:
        assert gateway.client.post("/v1/files", content=b"x" * 1001).status_code == 413
        pieces = (b"x" * 400 for _ in range(4))
        assert gateway.client.post("/v1/files", content=pieces).status_code == 413
        assert gateway.client.post("/v1/files", content=b"x" * 1000).status_code == 200


def test_who_leaves_is_worked_for_no_longer(gateway: Running, model: Upstream) -> None:
    model.play("/v1/audio", Reply(200, steps=[b"first", Play.HANG]), Reply(200, steps=[Play.HANG]))
    with gateway.client.stream("GET", "/v1/audio") as answer:
        next(answer.iter_raw())
    assert model.until(lambda: model.gone == 1)


# ------------------------------------------------------------------ what goes wrong
def test_an_unreachable_model_is_502_and_the_next_request_works(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path / "memory", "http://127.0.0.1:9/v1") as gateway:
        for path in ("/v1/models", "/anything"):
            answer = gateway.client.get(path)
            assert answer.status_code == 502
            assert answer.json()["error"]["type"] == "server_error"
            assert "127.0.0.1" not in answer.text
        assert gateway.client.get("/healthz").status_code == 200


def test_an_answer_that_breaks_off_breaks_off_here_too(gateway: Running, model: Upstream) -> None:
    model.play("/v1/audio", Reply(200, steps=[b"first", Play.BREAK_OFF]))
    with pytest.raises(httpx.RemoteProtocolError), gateway.client.stream("GET", "/v1/audio") as answer:
        b"".join(answer.iter_raw())


# ------------------------------------------------------------------ what is ours
@pytest.mark.covers("U25")
def test_nothing_at_or_below_our_own_routes_ever_passes(gateway: Running, model: Upstream) -> None:
    ours = sorted({each.partition(" ")[2].partition("{")[0].rstrip("/") for each in routed(gateway.app)} - {""})
    assert {"/v1/memories", "/v1/memory", "/search", "/v1/exports", "/metrics", "/v1/sessions"} <= {*ours}
    for path in ours:
        if path.removeprefix("/v1").startswith(("/chat", "/responses")):
            continue
        for asked in (f"{path}/no/such/thing", f"{path}//", path):
            gateway.client.request("OPTIONS", asked)
            gateway.client.request("TRACE", asked)
    gateway.client.get("/v1/memories/../memories/x/y")
    assert model.seen == []
    assert gateway.client.put("/v1/audit").status_code == 405
    assert gateway.client.get("/v1/memoriesque").content == b"nothing was sent", "another name is another's"


@pytest.mark.covers("U25")
def test_serve_without_a_model_passes_nothing_and_says_what_to_set(tmp_path: Path) -> None:
    with running(tmp_path / "memory") as server:
        assert server.client.get("/v1/models").status_code == 404
        answer = server.client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}]})
        assert answer.status_code == 503
        assert "gateway.upstream.base_url" in answer.json()["error"]["message"]
