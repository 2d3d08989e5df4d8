"""The Redis store when something is wrong: settings, connections, full and forgetful servers, damage."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from perdure.backends import registry
from perdure.backends.vector_stores.redis import rows
from perdure.backends.vector_stores.redis.store import RedisVectorStore, failure_of
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import eq
from tests.backends.vector_stores.redis_stores import (  # noqa: F401 - fixtures
    MODES,
    Open,
    opening_stores,
    own_loop,
    plain_client,
    starting_servers,
)
from tests.contracts.conftest import DIMENSION, ids, row, vector
from tests.contracts.stores import redis as shared
from tests.engines.redis import Server

# ------------------------------------------------------------------ settings and failures


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    assert RedisVectorStore.Settings().url.get_secret_value() == "redis://localhost:6379/0"
    monkeypatch.setenv("REDIS_URL", "rediss://me:geheim@cache.example:7000/2")
    settings = RedisVectorStore.Settings()
    assert settings.url.get_secret_value() == "rediss://me:geheim@cache.example:7000/2"
    assert "geheim" not in repr(settings)


@pytest.mark.parametrize("url", ["http://geheim@host", "geheim", "redis://:geheim@host:port/0", ""])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="url") as caught:
        registry.build("vector_stores", "redis", {"url": url})
    assert "geheim" not in str(caught.value) + repr(caught.value.value)


def test_a_parameter_that_the_client_does_not_know(open_store: Open) -> None:
    with pytest.raises(ConfigError, match="parameter"):
        open_store(url=shared.server().url() + "?colour=blue")


def test_parameters_of_the_address_change_no_answers(open_store: Open) -> None:
    store = open_store(url=shared.server().url() + "?decode_responses=true&protocol=2")
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a")])
    assert ids(store.search("c", vector(1), 5)) == ["a"]


def test_a_wrong_password(start: Callable[..., Server], open_store: Open) -> None:
    server = start(password="open sesame/@:")
    open_store(url=server.url()).create_collection("c", DIMENSION)
    for wrong in (server.url(password="geheim"), server.url().replace(":open%20sesame%2F%40%3A@", "")):
        with pytest.raises(VectorStoreError, match=f"127.0.0.1:{server.port}/0 refuses .*REDIS_URL") as caught:
            open_store(url=wrong)
        assert "geheim" not in str(caught.value)


def test_nobody_at_the_address(open_store: Open) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(VectorStoreError, match=f"no connection to 127.0.0.1:{port}/0: is Redis running"):
            open_store(url=f"redis://:geheim@127.0.0.1:{port}/0", retries=1, retry_delay=0)


def test_a_server_that_never_answers(open_store: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        with pytest.raises(VectorStoreError, match=f"127.0.0.1:{port}/0 gave no answer within 0.1 s"):
            open_store(url=f"redis://127.0.0.1:{port}/0", timeout=0.1, retries=0)


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_dies_and_comes_back(start: Callable[..., Server], open_store: Open, mode: str) -> None:
    server = start()
    store = open_store(url=server.url(), mode=mode, retries=0)
    patient = open_store(url=server.url(), mode=mode, retries=10, retry_delay=0.05)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a"), row("b", user_id="bob")])
    patient.count("c")
    server.kill()
    with pytest.raises(VectorStoreError, match="no connection"):
        store.search("c", vector(1), 5)
    again = threading.Timer(0.3, server.start)
    again.start()
    patient.apply("c", [row("c")])
    again.join()
    for each in (store, patient):
        assert ids(each.search("c", vector(1), 5, eq("user_id", "alice"))) == ["a", "c"]
        assert ids(each.list("c")) == ["a", "b", "c"]
        assert each.check("c") == []


@pytest.mark.parametrize("mode", MODES)
def test_a_full_server_takes_no_part_of_a_batch(start: Callable[..., Server], open_store: Open, mode: str) -> None:
    server = start()
    store = open_store(url=server.url(), mode=mode)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a")])
    with redis.Redis.from_url(server.url()) as admin:
        admin.config_set("maxmemory", 1)
        with pytest.raises(VectorStoreError, match="out of memory"):
            store.apply("c", [row("b"), row("c")], ["a"])
        admin.config_set("maxmemory", 0)
    assert ids(store.list("c")) == ["a"]
    assert store.check("c") == []


@pytest.mark.parametrize(
    ("error", "said", "passing"),
    [
        (redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "cannot do this now", True),
        (redis.exceptions.ReadOnlyError("You can't write against a read only replica."), "cannot do this now", True),
        (redis.exceptions.ResponseError("BUSY Redis is busy running a script."), "cannot do this now", True),
        (redis.exceptions.NoPermissionError("this user has no permissions to run"), "the user may not do this", False),
        (redis.exceptions.ResponseError("NOAUTH Authentication required."), "refuses the user", False),
        (redis.exceptions.DataError("Invalid input"), "host:1/0: DataError", False),
        (redis.exceptions.ResponseError("x" * 900), "refuses a command: x", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_failures_in_words(error: Exception, said: str, passing: bool) -> None:
    failure = failure_of(error, "host:1/0", 5)
    assert failure is not None
    assert said in failure.message
    assert failure.passing is passing
    assert len(failure.message) < 300
    assert failure_of(ValueError("ours"), "host:1/0", 5) is None


# ------------------------------------------------------------------ care


def test_a_server_that_may_lose_memories_is_told_of(
    start: Callable[..., Server], open_store: Open, caplog: pytest.LogCaptureFixture
) -> None:
    server = start()
    with caplog.at_level(logging.WARNING, "perdure"):
        open_store(url=server.url())
        assert caplog.messages == []
        with redis.Redis.from_url(server.url()) as admin:
            admin.config_set("appendonly", "no")
            admin.config_set("maxmemory", 10**9)
            admin.config_set("maxmemory-policy", "allkeys-lru")
        store = open_store(url=server.url())
        assert ["appendonly is off" in caplog.messages[0], "allkeys-lru" in caplog.messages[1]] == [True, True]
        store.close()


@pytest.mark.parametrize("append", [True, False])
def test_what_was_synced_outlives_the_server(start: Callable[..., Server], open_store: Open, append: bool) -> None:
    """Without an append-only file a snapshot is made: the default of Redis would lose the last hour."""
    server = start(append=append)
    store = open_store(url=server.url())
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a"), row("b")])
    store.sync()
    store.delete("c", "a")
    store.sync()
    server.kill()
    server.start()
    assert ids(store.list("c")) == ["b"]
    assert ids(store.search("c", vector(1), 5)) == ["b"]


@pytest.mark.parametrize("mode", MODES)
def test_scrubbed_text_is_gone_from_the_servers_files(
    start: Callable[..., Server], open_store: Open, mode: str
) -> None:
    server = start()
    with redis.Redis.from_url(server.url()) as admin:
        admin.config_set("save", "3600 1")
        admin.config_set("rdbcompression", "no")  # or a short text could hide in what is left
        store = open_store(url=server.url(), mode=mode)
        store.create_collection("c", DIMENSION)
        store.apply("c", [row("a", memory="a tattoo of a walrus"), row("b", memory="something else")])
        admin.save()
    assert b"walrus" in everything(server.folder)
    store.delete("c", "a")
    store.sync()
    assert store.scrub() is True
    for _ in range(200):  # Redis deletes the file that it has replaced in a thread of its own
        if b"walrus" not in everything(server.folder):
            break
        time.sleep(0.05)
    assert b"walrus" not in everything(server.folder)
    assert b"something else" in everything(server.folder)
    server.kill()
    server.start()
    assert ids(store.list("c")) == ["b"]


def everything(folder: Path) -> bytes:
    found = b""
    for file in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found += file.read_bytes()
    return found


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_the_server_threw_away_are_reported_and_cost_no_others(
    open_store: Open, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(rows, "PAGE", 2)
    store = open_store(mode=mode)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row(name, [1, n]) for n, name in enumerate("abcdef")])
    assert store.check("c") == []
    prefix = shared.settings(mode, tmp_path)["prefix"]
    for name in "abd":
        client.delete(f"{prefix}:1:row:{name}")
    assert any("3 of 6 rows are listed but gone" in sentence for sentence in store.check("c"))
    for one in (None, eq("user_id", "alice")):
        assert ids(store.list("c", one)) == ["c", "e", "f"]
        assert ids(store.list("c", one, 1)) == ["c"]
        assert ids(store.search("c", vector(1), 2, one)) == ["c", "e"]
    store.apply("c", [row(name, [1, n]) for n, name in enumerate("abcdef")])
    assert store.check("c") == []
    assert ids(store.search("c", vector(1), 6)) == list("abcdef")
