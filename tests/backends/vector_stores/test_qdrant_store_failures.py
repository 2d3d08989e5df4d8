"""The Qdrant store over REST: where its settings come from, and what it says when the server does not do as asked."""

# ruff: noqa: F811 - fixtures are imported and then taken by their names

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from perdure.backends import registry
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import Condition, eq
from tests.backends.vector_stores.qdrant_stores import (  # noqa: F401 - fixtures
    MARKS,
    Open,
    Proxy,
    loop,
    make,
    open_store,
    proxy,
    start,
)
from tests.backends.wire.server import Reply
from tests.contracts.conftest import DIMENSION, ids, row, vector
from tests.engines.qdrant import Server

KEY = "a-very-secret-key"

pytestmark = MARKS

# ------------------------------------------------------------------ settings


def test_the_environment_is_the_fallback(monkeypatch: pytest.MonkeyPatch, proxy: Proxy, open_store: Open) -> None:
    monkeypatch.setenv("QDRANT_HOST", "127.0.0.1")
    monkeypatch.setenv("QDRANT_PORT", proxy.address.rpartition(":")[2])
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    store = registry.build("vector_stores", "qdrant", {"https": False})
    assert store.settings.address() == proxy.address
    assert registry.build("vector_stores", "qdrant", {}).settings.address().startswith("https://127.0.0.1:")
    assert registry.build("vector_stores", "qdrant", {"host": "db", "port": 1, "https": False}).settings.address() == (
        "http://db:1"
    )
    open_store(url=proxy.address)
    assert {heard.headers.get("api-key") for heard in proxy.heard} == {KEY}
    assert KEY not in repr(store.settings)


@pytest.mark.parametrize(
    ("config", "address"),
    [
        ({}, "http://localhost:6333"),
        ({"host": "db", "port": 7000}, "http://db:7000"),
        ({"host": "db", "https": True}, "https://db:6333"),
        ({"host": "db", "api_key": KEY}, "https://db:6333"),
        ({"url": "https://x.example.com"}, "https://x.example.com"),
        ({"url": "http://me:secret@x.example.com:80/q?key=secret"}, "http://x.example.com:80/q"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_addresses(monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], address: str) -> None:
    for name in ("QDRANT_HOST", "QDRANT_PORT", "QDRANT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert registry.build("vector_stores", "qdrant", config).settings.address() == address


@pytest.mark.parametrize(
    "config",
    [
        {"path": "x", "host": "db"},
        {"path": "x", "api_key": KEY},
        {"url": "http://db", "host": "db"},
        {"url": "db:6333"},
        {"prefix": "a/b"},
        {"port": 0},
        {"collection": "c"},
    ],
    ids=str,
)
def test_settings_that_make_no_sense(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.build("vector_stores", "qdrant", config)
    assert KEY not in str(caught.value)


def test_a_port_in_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_PORT", "abc")
    with pytest.raises(ConfigError, match="port"):
        registry.build("vector_stores", "qdrant", {})


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize("given", [None, "wrong-key"])
def test_a_wrong_key_says_where_it_comes_from(start: Callable[..., Server], make: Open, given: str | None) -> None:
    guarded = start(key=KEY)
    with pytest.raises(VectorStoreError, match=r"refused the key.*QDRANT_API_KEY") as caught:
        make(url=guarded.url, api_key=given).open()
    assert guarded.url in str(caught.value)
    assert "wrong-key" not in str(caught.value)
    make(url=guarded.url, api_key=KEY).open()


def test_a_key_that_an_answer_repeats_is_not_shown(proxy: Proxy, make: Open) -> None:
    proxy.instead = lambda request: Reply(status=400, body=f"bad {KEY}".encode())
    with pytest.raises(VectorStoreError, match=r"status 400: bad \*\*\*") as caught:
        make(url=proxy.address, api_key=KEY).open()
    assert len(proxy.heard) == 1
    assert KEY not in str(caught.value)


def test_no_server_at_the_address(make: Open) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(VectorStoreError, match=f"no connection to http://127.0.0.1:{port}.*QDRANT_HOST"):
        make(url=f"http://127.0.0.1:{port}", retries=1).open()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply.of({"title": "another", "version": "1.20.0"}), "no Qdrant server"),
        (Reply(body=b"<html>hello</html>"), "is it a Qdrant server"),
        (Reply.of({"title": "qdrant", "version": "1.15.4"}), r"runs Qdrant 1\.15\.4; perdure needs 1\.16"),
    ],
    ids=["another", "page", "old"],
)
def test_what_answers_must_be_a_qdrant_that_is_new_enough(proxy: Proxy, make: Open, reply: Reply, message: str) -> None:
    proxy.instead = lambda request: reply
    with pytest.raises(VectorStoreError, match=message) as caught:
        make(url=proxy.address).open()
    assert proxy.address in str(caught.value)


def test_older_servers_are_not_asked_for_parts_of_texts(start: Callable[..., Server], open_store: Open) -> None:
    store = open_store(url=start(version="1.17.1").url)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a", memory="Likes tea"), row("b", memory="Likes coffee")])
    assert ids(store.list("c", Condition("memory", "contains", "es te"))) == ["a"]


def test_failures_that_pass_are_tried_again(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address, retries=3)
    store.create_collection("c", DIMENSION)
    replies = [Reply(status=503), Reply.of({"status": {"error": "slow down"}}, 429, **{"retry-after": "0"})]
    replies.append(Reply(reset=True))
    proxy.instead = lambda request: replies.pop() if replies else None
    store.apply("c", [row("a")])
    assert replies == []
    assert ids(store.list("c")) == ["a"]


def test_a_server_that_does_not_answer(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address, timeout=1, retries=1)
    store.create_collection("c", DIMENSION)
    proxy.instead = lambda request: Reply(wait=30)
    before = len(proxy.heard)
    with pytest.raises(VectorStoreError, match=f"no answer from {proxy.address} within 1 s"):
        store.count("c")
    assert len(proxy.heard) == before + 2


def test_a_server_that_dies_and_comes_back_has_everything(start: Callable[..., Server], open_store: Open) -> None:
    own = start()
    store = open_store(url=own.url, retries=0)
    name = store.identity()
    store.create_collection("c", DIMENSION, model="m")
    store.apply("c", [row("a"), row("b", None)], ["absent"])
    own.kill()
    with pytest.raises(VectorStoreError, match="no connection"):
        store.count("c")
    own.start()
    assert store.identity() == name
    assert ids(store.list("c")) == ["a", "b"]
    assert ids(store.search("c", vector(1), 5, eq("user_id", "alice"))) == ["a"]
    assert ids(store.keyword_search("c", "text", 5)) == ["a", "b"]
    assert ids(store.unembedded("c", 5)) == ["b"]


def test_what_the_server_refuses_is_told_once(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address)
    store.create_collection("c", DIMENSION)
    proxy.instead = lambda request: Reply.of({"status": {"error": "Wrong input: strict mode"}}, 400)
    before = len(proxy.heard)
    with pytest.raises(VectorStoreError, match="status 400.*strict mode"):
        store.insert("c", "a", vector(1), {})
    assert len(proxy.heard) == before + 1
