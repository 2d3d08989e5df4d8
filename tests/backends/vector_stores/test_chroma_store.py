"""The `chroma` store beyond the contract: what it asks of Chroma, its settings, and what it says when Chroma fails."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import SecretStr, ValidationError

from perdure.backends import registry
from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.chroma import store as client
from perdure.backends.vector_stores.chroma import store as rows
from perdure.backends.vector_stores.chroma.filter import GRAMMAR, is_plain, sortable
from perdure.backends.vector_stores.chroma.store import ChromaVectorStore
from perdure.backends.vector_stores.common.filter_clauses import narrow, number_mark, token
from perdure.domain.errors import DependencyError, InvalidInputError, VectorStoreError
from perdure.domain.filter import Condition, eq, parse_filter
from tests.contracts.conftest import DIMENSION, Sync, ids, row, vector
from tests.contracts.stores.chroma import ChromaServer

KEY = "secret-key-that-nobody-may-read"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


def build(loop: asyncio.AbstractEventLoop, **settings: Any) -> Sync:
    return Sync(ChromaVectorStore(ChromaVectorStore.Settings(**{"retry_delay": 0.0, **settings})), loop)


@pytest.fixture
def store(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> Iterator[Sync]:
    """One in this process."""
    opened = build(loop, path=tmp_path / "chroma")
    opened.open()
    opened.create_collection("c", DIMENSION)
    yield opened
    opened.close()


# ------------------------------------------------------------------ clauses

TAG = {"tokens": {"$contains": token("metadata.tag", "work")}}
CLAUSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "scope": ({"user_id": "alice"}, {"user_id": {"$eq": "alice"}}),
    "two scopes": (
        {"AND": [{"user_id": "alice"}, {"agent_id": "bot"}]},
        {"$and": [{"user_id": {"$eq": "alice"}}, {"agent_id": {"$eq": "bot"}}]},
    ),
    "a scope and a tag": (
        {"AND": [{"user_id": "alice"}, {"tag": "work"}]},
        {"$and": [{"user_id": {"$eq": "alice"}}, TAG]},
    ),
    "some users": ({"field": "user_id", "operator": "in", "value": ["a", "b"]}, {"user_id": {"$in": ["a", "b"]}}),
    "not a user": ({"NOT": {"user_id": "alice"}}, {"user_id": {"$ne": "alice"}}),
    "not some users": ({"field": "user_id", "operator": "nin", "value": ["a", "b"]}, {"user_id": {"$nin": ["a", "b"]}}),
    "not a tag": ({"NOT": {"tag": "work"}}, {"tokens": {"$not_contains": token("metadata.tag", "work")}}),
    "number": (
        {"field": "n", "operator": "gte", "value": 5},
        {
            "$and": [
                {"tokens": {"$contains": number_mark("metadata.n")}},
                {"number:metadata.n": {"$gte": sortable(5.0)}},
            ]
        },
    ),
    "text": (
        {"field": "memory", "operator": "contains", "value": 'a"%\n'},
        {"#document": {"$contains": 'a\\"%\\n'}},
    ),
}


@pytest.mark.parametrize(("expression", "where"), CLAUSES.values(), ids=CLAUSES)
def test_clauses(expression: dict[str, Any], where: dict[str, Any]) -> None:
    assert narrow(parse_filter(expression), GRAMMAR).clause == where


@pytest.mark.parametrize("user", ["lone \ud800", "nul\x00"], ids=["surrogate", "nul"])
def test_a_scope_that_chroma_cannot_keep_goes_by_its_token(user: str) -> None:
    assert not is_plain(user)
    assert narrow(eq("user_id", user), GRAMMAR).clause == {"tokens": {"$contains": token("user_id", user)}}


def test_numbers_sort_as_whole_numbers() -> None:
    numbers = [-1.7976931348623157e308, -5.5, -1.0, -5e-324, 0.0, 5e-324, 0.1, 0.1 + 0.2, 1.0, 2.0**53, 1e22, 1e308]
    wholes = [sortable(number) for number in numbers]
    assert wholes == sorted(set(wholes))
    assert all(-(2**63) <= whole < 2**63 for whole in wholes)
    assert sortable(-0.0) == sortable(0.0)


# ------------------------------------------------------------------ names, ids and rows

NAMES = [
    "memories",
    "Memories",
    "a-",
    "-a",
    "_",
    "a.b",
    "a",
    "ünï",
    "",
    "m" * 60,
    "m" * 200,
    "a/../b",
    "perdure.a",
    "lone\ud800",
]


def test_names_are_apart_and_good_for_chroma(store: Sync) -> None:
    assert len({rows.collection_name(name) for name in NAMES}) == len(NAMES)
    for name in NAMES:
        store.create_collection(name, 2)
        store.insert(name, "a", np.ones(2, np.float32), {"memory": name})
    assert store.list_collections() == sorted([*NAMES, "c"])
    for name in NAMES:
        assert store.get(name, "a").payload == {"memory": name}


def test_another_programs_collections_are_left_alone(store: Sync) -> None:
    api = store.store._api
    api.create_collection("memories")
    api.create_collection("perdure.taken", metadata={"perdure": 5})
    assert store.list_collections() == ["c"]
    with pytest.raises(VectorStoreError, match="perdure did not make"):
        store.create_collection("taken", 3)
    store.create_collection("memories", 3)
    store.delete_collection("memories")
    assert sorted(model.name for model in api.list_collections()) == ["memories", "perdure.c", "perdure.taken"]


def test_a_rewritten_row_keeps_nothing_of_the_old_one(store: Sync) -> None:
    store.apply("c", [row("a", agent_id="bot", metadata={"age": 5, "tag": "x"}, expires_at="2026-01-01")])
    store.apply("c", [row("a", metadata={"size": 1.5})])
    collection = store.store._look("c").collection
    (metadata,) = collection.get(ids=["a"])["metadatas"]
    assert set(metadata) == {"user_id", "tokens", "number:metadata.size", "moment:created_at"}
    assert store.count("c", Condition("age", "gte", 0)) == 0


def test_a_row_with_too_many_values_is_refused_before_anything_is_written(store: Sync) -> None:
    """Chroma could never read the collection again."""
    many = list(range(rows.MOST_ENTRIES + 1))
    with pytest.raises(InvalidInputError, match="5000 values"):
        store.apply("c", [row("good"), row("bad", metadata={"list": many})])
    with pytest.raises(InvalidInputError, match="5000 values"):
        store.apply("c", [row("bad", metadata={str(n): n for n in many})])
    assert store.count("c") == 0


def test_a_text_of_very_many_words_is_kept_and_found_by_its_first(store: Sync) -> None:
    words = [f"w{n}x" for n in range(20_000)]
    store.apply("c", [row("long", memory=" ".join(words), metadata={"tag": "work"}), row("short")])
    assert ids(store.keyword_search("c", "w7x", 5)) == ["long"]
    assert ids(store.search("c", vector(1), 5, eq("tag", "work"))) == ["long"]
    assert store.get("c", "long").payload["memory"] == " ".join(words)


def test_many_rows_go_in_several_requests(store: Sync) -> None:
    records = [rows.Record(str(n), np.ones(2, np.float32), {"tokens": []}, "x" * 5) for n in range(1200)]
    assert [len(batch) for batch in rows.batches(records)] == [500, 500, 200]
    large = [rows.Record(str(n), np.ones(2, np.float32), {"tokens": []}, "x" * 5_000_000) for n in range(3)]
    assert [len(batch) for batch in rows.batches(large)] == [1, 1, 1]
    assert list(rows.batches([])) == []


def test_the_index_that_gives_too_few_is_helped(store: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chroma's index gives fewer rows than it is asked for when it is asked for many."""
    monkeypatch.setattr(ChromaVectorStore, "few_rows", 50)
    random = np.random.default_rng(1)
    points = [row(f"{n:04}", random.normal(size=DIMENSION).tolist()) for n in range(1500)]
    store.insert_many("c", points)
    query = vector(1, 0.5)
    hits = store.search("c", query, 1400, eq("user_id", "alice"))
    scores = {p.id: float(p.vector @ query / np.linalg.norm(p.vector) / np.linalg.norm(query)) for p in points}
    assert len(hits) == 1400
    best = sorted(scores, key=lambda id: -scores[id])[:10]
    assert sorted(ids(hits)[:10]) == sorted(best)


def test_a_clause_that_chroma_cannot_write_is_finished_here(store: Sync) -> None:
    store.apply("c", [row(f"r{n:02}", [1, n], memory=("Straße", "road")[n % 2]) for n in range(40)])
    found = store.search("c", vector(1), 15, Condition("memory", "icontains", "STRASSE"))
    assert ids(found) == [f"r{n:02}" for n in range(0, 30, 2)]


# ------------------------------------------------------------------ settings


def test_the_environment_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMA_HOST", "https://chroma.example:9000")
    monkeypatch.setenv("CHROMA_PORT", "8123")
    monkeypatch.setenv("CHROMA_API_KEY", KEY)
    settings = ChromaVectorStore.Settings()
    assert settings.address() == ("chroma.example", 9000, True)
    assert settings.api_key == SecretStr(KEY)
    monkeypatch.setenv("CHROMA_HOST", "chroma.example")
    assert ChromaVectorStore.Settings().address() == ("chroma.example", 8123, False)
    assert ChromaVectorStore.Settings(host="other", port=1, ssl=True).address() == ("other", 1, True)
    assert ChromaVectorStore.Settings(path=Path("x")).path == Path("x"), "a path needs no server"
    monkeypatch.setenv("CHROMA_PORT", "many")
    with pytest.raises(ValidationError, match="port"):
        ChromaVectorStore.Settings()
    for name in ("CHROMA_HOST", "CHROMA_PORT", "CHROMA_API_KEY"):
        monkeypatch.delenv(name)
    assert ChromaVectorStore.Settings().address() == ("localhost", 8000, False)


@pytest.mark.parametrize(
    "wrong",
    [{"host": "ftp://x"}, {"host": "x/y"}, {"host": ""}, {"host": "u:p@x"}, {"port": 0}, {"path": "x", "host": "y"},
     {"api_key": f"{KEY} x"}, {"api_key": f"{KEY}\n\n:"}, {"hots": "x"}, {"token_header": "cookie"}],
    ids=str,
)  # fmt: skip
def test_settings_that_are_wrong(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        ChromaVectorStore.Settings(**wrong)
    assert KEY not in str(caught.value)


def test_a_folder_needs_the_whole_package(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "find_spec", {"chromadb.is_thin_client": "there"}.get)
    with pytest.raises(DependencyError, match="chromadb-client"):
        build(loop, path=tmp_path / "chroma").open()


def test_a_folder_is_for_one_store_at_a_time(store: Sync, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    other = build(loop, path=tmp_path / "chroma")
    with pytest.raises(VectorStoreError, match="another store has the folder"):
        other.open()
    store.close()
    other.open()
    assert other.list_collections() == ["c"]
    other.close()


def test_a_path_that_is_no_folder(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(VectorStoreError, match="file"):
        build(loop, path=tmp_path / "file").open()


# ------------------------------------------------------------------ failures


class Answers(BaseHTTPRequestHandler):
    """Answers each request with the next of `answers`: (status, body), or keeps silent for None."""

    answers: ClassVar[list[tuple[int, bytes] | None]] = []
    asked: ClassVar[list[dict[str, str]]] = []
    silence: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        type(self).asked.append(dict(self.headers))
        answer = type(self).answers.pop(0) if len(type(self).answers) > 1 else type(self).answers[0]
        if answer is None:
            type(self).silence.wait(5)
            return
        self.send_response(answer[0])
        self.send_header("Content-Length", str(len(answer[1])))
        self.end_headers()
        self.wfile.write(answer[1])

    do_POST = do_GET

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def fake() -> Iterator[int]:
    """The port of a server that answers as it is told."""
    Answers.asked = []
    Answers.silence = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    Answers.silence.set()
    server.shutdown()
    server.server_close()
    thread.join()


FAILURES = {
    "wrong key": ((401, b'{"error":"AuthError","message":"no"}'), "api_key", 1),
    "forbidden": ((403, b"go away"), "api_key", 1),
    "too many": ((429, b"slow down"), "429", 3),
    "gone wrong": ((503, b"later"), "503: later", 3),
    "no chroma": ((200, b"<html>"), "no Chroma server", 1),
    "something else": ((418, b"teapot"), "teapot", 1),
    "silence": (None, "no answer .* within 0.2 s", 3),
}


@pytest.mark.parametrize(("answer", "said", "attempts"), FAILURES.values(), ids=FAILURES)
def test_what_is_said_of_a_failure(
    loop: asyncio.AbstractEventLoop, fake: int, answer: tuple[int, bytes] | None, said: str, attempts: int
) -> None:
    Answers.answers = [answer]
    store = build(loop, host="127.0.0.1", port=fake, api_key=KEY, timeout=0.2, retries=2)
    with pytest.raises(VectorStoreError, match=said) as caught:
        store.open()
    assert f"127.0.0.1:{fake}" in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(Answers.asked) == attempts
    assert all(headers["x-chroma-token"] == KEY for headers in Answers.asked)


def test_a_failure_that_passes_is_outlived(loop: asyncio.AbstractEventLoop, fake: int) -> None:
    Answers.answers = [(503, b""), (429, b""), (200, b'{"id":"1","name":"d","tenant":"t"}')]
    store = build(loop, host="127.0.0.1", port=fake, api_key=KEY, token_header="authorization")
    store.open()
    store.close()
    assert [headers["authorization"] for headers in Answers.asked] == [f"Bearer {KEY}"] * 3


def test_no_server(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(VectorStoreError, match=f"127.0.0.1:{port}.*chroma run.*CHROMA_HOST"):
        build(loop, host="127.0.0.1", port=port, retries=1).open()


def test_a_server_that_dies_and_comes_back(loop: asyncio.AbstractEventLoop) -> None:
    server = ChromaServer()
    try:
        server.start()
        store = build(loop, host="127.0.0.1", port=server.port, retries=1)
        store.open()
        name = store.identity()
        store.create_collection("c", DIMENSION)
        store.apply("c", [row("a")])
        server.stop()
        with pytest.raises(VectorStoreError, match="cannot reach"):
            store.count("c")
        server.start()
        assert ids(store.search("c", vector(1), 5, eq("user_id", "alice"))) == ["a"]
        store.apply("c", [Point("b", vector(0, 1), {"memory": "more"})])
        assert store.count("c") == 2
        assert store.identity() == name
        store.close()
    finally:
        server.remove()


def test_the_provider_has_its_name() -> None:
    assert registry.load("vector_stores", "chroma") is ChromaVectorStore
