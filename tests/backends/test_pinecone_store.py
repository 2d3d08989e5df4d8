"""What the `pinecone` store asks of the service, and what its indexes and namespaces are like."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.backends.vector_stores import _pinecone_client
from perdure.backends.vector_stores import pinecone as module
from perdure.backends.vector_stores._facets import BARE, moment_mark, token
from perdure.backends.vector_stores._narrowing import narrow
from perdure.backends.vector_stores._pinecone_filter import INDEXED, PineconeGrammar
from perdure.backends.vector_stores.pinecone import PineconeVectorStore
from perdure.domain.errors import ConfigError, InvalidInputError, VectorStoreError
from perdure.domain.filter import Condition, Filter, Moment, Not, all_of, eq, parse_filter
from tests.backends import pinecone_calls
from tests.backends.pinecone_calls import make
from tests.backends.wire.server import Heard, Reply
from tests.contracts.conftest import DIMENSION, Sync, ids, moment, row, vector
from tests.engines import pinecone as fake
from tests.engines.pinecone import Pinecone
from tests.engines.service import Server

loop, service, store = pinecone_calls.loop, pinecone_calls.service, pinecone_calls.store
ALICE = eq("user_id", "alice")


def bodies(service: Pinecone, route: str) -> list[dict[str, Any]]:
    return [request.json for request in service.heard if request.path.endswith(route)]


# ------------------------------------------------------------------ what is asked


def tokens(operator: str, path: str, *values: Any) -> dict[str, Any]:
    return {"tokens": {operator: [token(path, value) for value in values]}}


NOW = Moment(moment(100))
MICROSECONDS = 1767225700000000.0


@pytest.mark.parametrize(
    ("filters", "clause", "exact"),
    [
        (ALICE, {"user_id": {"$eq": "alice"}}, True),
        (Not(ALICE), {"user_id": {"$ne": "alice"}}, True),
        (Condition("run_id", "in", ("a", "b")), {"run_id": {"$in": ["a", "b"]}}, True),
        (Condition("run_id", "nin", ("a", "b")), {"run_id": {"$nin": ["a", "b"]}}, True),
        (eq("user_id", "$ne"), {"user_id": {"$eq": "$ne"}}, True),
        (eq("user_id", ""), tokens("$in", "user_id", ""), True),
        (eq("user_id", "a\x00"), tokens("$in", "user_id", "a\x00"), True),
        (eq("tag", "work"), tokens("$in", "metadata.tag", "work"), True),
        (Condition("tag", "nin", ("a", 5)), tokens("$nin", "metadata.tag", "a", 5), True),
        (Condition("n", "gt", 4), None, False),
        (Condition("memory", "contains", "x"), None, False),
        (
            Condition("expires_at", "lte", NOW),
            {"expires_at": {"$gte": -1e17, "$lte": MICROSECONDS}},
            True,
        ),
        (
            Not(Condition("expires_at", "lte", NOW)),
            {
                "$or": [
                    {"tokens": {"$nin": [moment_mark("expires_at")]}},
                    {"expires_at": {"$gte": MICROSECONDS + 1}},
                ]
            },
            True,
        ),
        (
            parse_filter({"OR": [{"user_id": "alice"}, {"AND": [{"agent_id": "x"}, {"tag": "y"}]}]}),
            {
                "$or": [
                    {"user_id": {"$eq": "alice"}},
                    {"$and": [{"agent_id": {"$eq": "x"}}, tokens("$in", "metadata.tag", "y")]},
                ]
            },
            True,
        ),
    ],
)  # fmt: skip
def test_filters_in_pinecones_terms(filters: Filter, clause: Any, exact: bool) -> None:
    narrowed = narrow(filters, PineconeGrammar())
    assert (narrowed.clause, narrowed.exact) == (clause, exact)


def test_a_search_asks_for_the_scope_and_fetches_the_best(service: Pinecone, store: Sync) -> None:
    store.apply("c", [row(str(n), [1, n], user_id=("alice", "bob")[n % 2]) for n in range(20)])
    service.heard.clear()
    assert ids(store.search("c", vector(1), 3, ALICE)) == ["0", "2", "4"]
    (query,) = bodies(service, "/query")
    assert query["vector"] == vector(1).tolist()
    alice_with_vector = {"$and": [{"user_id": {"$eq": "alice"}}, {"tokens": {"$nin": [BARE]}}]}
    assert query["filter"] == {"$and": [{"tokens": {"$in": ["row"]}}, alice_with_vector]}
    assert (query["topK"], query["includeValues"], query["includeMetadata"]) == (10_000, False, False)
    assert [request.path.rpartition("/")[2] for request in service.heard] == ["query", "fetch"]


def test_an_index_for_each_dimension_and_a_namespace_for_each_collection(service: Pinecone, store: Sync) -> None:
    store.create_collection("other", DIMENSION)
    store.create_collection("small", 3)
    assert set(service.indexes) == {"perdure-collections", "perdure-8", "perdure-3"}
    index = service.indexes["perdure-8"]
    assert (index.dimension, index.metric) == (8, "dotproduct")
    assert index.described["deployment"]["region"] == "us-east-1"
    assert set(index.namespaces) == {"main.c.1", "main.other.1"}
    fields = index.namespaces["main.c.1"].fields
    assert fields is not None
    assert next(iter(fields)) == "user_id", "V81"
    assert tuple(fields) == INDEXED
    assert "record" not in fields


def test_every_row_has_every_field_that_can_be_asked_for(service: Pinecone, store: Sync) -> None:
    store.apply("c", [row("a", user_id=...), row("b", user_id="lone \ud800"), row("c", None)])
    for record in service.indexes["perdure-8"].namespaces["main.c.1"].records.values():
        assert not record.metadata or set(record.metadata) == {*INDEXED, "record"}
    assert store.count("c", Condition("user_id", "ne", "alice")) == 2


def test_what_the_service_cannot_tell_is_finished_here(service: Pinecone, store: Sync) -> None:
    """Every tenth row matches, and the nearest ones do not; more are asked for until there are enough."""
    store.apply("c", [row(f"{n:03}", [1, n / 500], memory=f"row {n % 10}", n=n % 10) for n in range(300)])
    hits = store.search("c", vector(1), 20, all_of(ALICE, Condition("memory", "contains", "row 9")))
    assert ids(hits) == [f"{n:03}" for n in range(9, 200, 10)]
    assert store.count("c", Condition("memory", "icontains", "ROW 9")) == 30


def test_a_scope_of_more_rows_than_a_query_gives(
    service: Pinecone, store: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply("c", [row(f"{n:03}", [1, n / 500], user_id=("alice", "bob")[n % 2]) for n in range(300)])
    monkeypatch.setattr(_pinecone_client, "MOST_HITS", 50)
    monkeypatch.setattr(module, "MOST_HITS", 50)
    monkeypatch.setattr(PineconeVectorStore, "most_hits", 50)
    assert store.count("c") == 300
    assert store.count("c", ALICE) == 150
    assert len(ids(store.search("c", vector(1), 10, ALICE))) == 10
    assert len(ids(store.search("c", vector(1), 200, ALICE))) == 150


# ------------------------------------------------------------------ limits


def test_requests_stay_below_the_limits(service: Pinecone, store: Sync) -> None:
    """The fake refuses more: 1,000 records or 2 MB in an upsert, 1,000 ids in a delete, a line of 16 KB in a fetch."""
    points = [row(str(n), memory="x" * 3000) for n in range(1200)]
    store.apply("c", points)
    assert len(bodies(service, "/vectors/upsert")) == 3
    assert len(store.get_many("c", [str(n) for n in range(1200)])) == 1200
    store.apply("c", [], [str(n) for n in range(1200)])
    assert [len(body["ids"]) for body in bodies(service, "/vectors/delete")] == [1000, 200]
    assert store.count("c") == 0


def test_a_row_that_is_too_large_is_refused_before_anything_is_written(service: Pinecone, store: Sync) -> None:
    with pytest.raises(InvalidInputError, match=r"40960 bytes \(40 KB\)") as caught:
        store.apply("c", [row("small"), row("large", memory="x" * 41_000)])
    assert caught.value.field == "payload"
    assert store.count("c") == 0
    assert bodies(service, "/vectors/upsert") == []


# ------------------------------------------------------------------ freshness


def test_a_write_returns_when_it_can_be_read(store: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "LATE", 0.15)
    store.apply("c", [row("a"), row("b")])
    assert ids(store.search("c", vector(1), 5, ALICE)) == ["a", "b"]
    store.delete("c", "a")
    assert ids(store.list("c")) == ["b"]


def test_a_write_that_does_not_show_is_told(
    service: Pinecone, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = make(service, loop, timeout=1.0)
    opened.open()
    opened.create_collection("c", DIMENSION)
    monkeypatch.setattr(fake, "LATE", 60)
    with pytest.raises(VectorStoreError, match=r"did not show it within 1 s"):
        opened.apply("c", [row("a")])
    opened.close()


def test_a_service_without_sequence_numbers(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What such a service took can be read at once."""

    class Local(Pinecone):
        def respond(self, request: Heard) -> Reply:
            reply = super().respond(request)
            for name in ("x-pinecone-request-lsn", "x-pinecone-max-indexed-lsn"):
                reply.headers.pop(name, None)
            return reply

    monkeypatch.setattr(fake, "LATE", 0.0)
    service = Local()
    with Server(service):
        opened = make(service, loop)
        opened.open()
        opened.create_collection("c", DIMENSION)
        opened.apply("c", [row("a")])
        assert ids(opened.list("c")) == ["a"]
        opened.close()


# ------------------------------------------------------------------ names

NAMES = ("c", "C", "a.b", "a/b", "ünï", "with space", "x" * 200, "x" * 199 + "y", "main.c.1", "..", "\n", "lone \ud800")


def test_names_of_every_kind_are_collections_of_their_own(store: Sync) -> None:
    for name in NAMES:
        store.create_collection(name, DIMENSION)
        store.apply(name, [row(name)])
    assert store.list_collections() == sorted(NAMES)
    for name in NAMES:
        assert ids(store.list(name)) == [name]
        store.delete_collection(name)
    assert store.list_collections() == []


def test_stores_of_other_namespaces_share_indexes_and_see_nothing_of_each_other(
    service: Pinecone, store: Sync, loop: asyncio.AbstractEventLoop
) -> None:
    other = make(service, loop, namespace="other")
    other.open()
    assert other.identity() != store.identity()
    assert other.list_collections() == []
    other.create_collection("c", DIMENSION)
    other.apply("c", [row("theirs")])
    assert store.count("c") == 0
    store.reset()
    store.delete_collection("c")
    assert ids(other.list("c")) == ["theirs"]
    assert set(service.indexes) == {"perdure-collections", "perdure-8"}
    other.close()


def test_a_collection_that_others_made_again_for_another_length(
    service: Pinecone, store: Sync, loop: asyncio.AbstractEventLoop
) -> None:
    other = make(service, loop)
    other.open()
    for write in (lambda: store.apply("c", [row("a")]), lambda: store.search("c", vector(1), 1)):
        store.count("c")
        other.delete_collection("c")
        other.create_collection("c", 3)
        with pytest.raises(VectorStoreError, match="dimension of the index 3"):
            write()
        with pytest.raises(InvalidInputError):
            write()
        other.delete_collection("c")
        other.create_collection("c", DIMENSION)
    store.apply("c", [row("a")])
    assert ids(other.list("c")) == ["a"]
    assert set(service.indexes["perdure-8"].namespaces) == {"main.c.5"}
    other.close()


def test_an_index_of_somebody_elses_is_left_alone(service: Pinecone, loop: asyncio.AbstractEventLoop) -> None:
    values = {"type": "dense_vector", "dimension": 1, "metric": "dotproduct"}
    deployment = {"deployment_type": "managed", "cloud": "aws", "region": "x"}
    service._create(
        {"name": "perdure-collections", "schema": {"fields": {"_values": values}}, "deployment": deployment}
    )
    with pytest.raises(ConfigError, match="choose another") as caught:
        make(service, loop).open()
    assert caught.value.field == "vector_store.config.index"
