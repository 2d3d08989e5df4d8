"""What the `pinecone` store asks of the service, and what its indexes and namespaces are like."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.backends.vector_stores import pinecone as client
from perdure.backends.vector_stores import pinecone as module
from perdure.backends.vector_stores.common.filter_clauses import BARE, moment_mark, narrow, token
from perdure.backends.vector_stores.pinecone import GRAMMAR, INDEXED, PineconeVectorStore
from perdure.domain.errors import ConfigError, InvalidInputError
from perdure.domain.filter import Condition, Filter, Moment, Not, eq, parse_filter
from tests.backends.vector_stores import hosted_stores
from tests.backends.vector_stores.hosted_stores import PINECONE, Hosted, Make
from tests.backends.wire.server import Heard, Reply
from tests.contracts.conftest import DIMENSION, Sync, ids, moment, row, vector
from tests.engines import pinecone as fake
from tests.engines.pinecone import Pinecone
from tests.engines.service import Server

loop, service, make, store = hosted_stores.loop, hosted_stores.service, hosted_stores.make, hosted_stores.store
ALICE = eq("user_id", "alice")


@pytest.fixture
def hosted() -> Hosted:
    return PINECONE


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
    narrowed = narrow(filters, GRAMMAR)
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


def test_a_scope_of_more_rows_than_a_query_gives(
    service: Pinecone, store: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply("c", [row(f"{n:03}", [1, n / 500], user_id=("alice", "bob")[n % 2]) for n in range(300)])
    monkeypatch.setattr(client, "MOST_HITS", 50)
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
        opened = PINECONE.make(service, loop)
        opened.open()
        opened.create_collection("c", DIMENSION)
        opened.apply("c", [row("a")])
        assert ids(opened.list("c")) == ["a"]
        opened.close()


# ------------------------------------------------------------------ names


def test_stores_of_other_namespaces_share_indexes(service: Pinecone, make: Make, store: Sync) -> None:
    other = make(namespace="other")
    other.open()
    other.create_collection("c", DIMENSION)
    assert set(service.indexes["perdure-8"].namespaces) == {"main.c.1", "other.c.1"}
    store.delete_collection("c")
    assert set(service.indexes["perdure-8"].namespaces) == {"other.c.1"}
    assert set(service.indexes) == {"perdure-collections", "perdure-8"}
    other.close()


def test_a_collection_that_is_made_again_has_another_namespace(service: Pinecone, store: Sync) -> None:
    for dimension in (3, DIMENSION):
        store.delete_collection("c")
        store.create_collection("c", dimension)
    store.apply("c", [row("a")])
    assert set(service.indexes["perdure-3"].namespaces) == set()
    assert set(service.indexes["perdure-8"].namespaces) == {"main.c.3"}


def test_an_index_of_somebody_elses_is_left_alone(service: Pinecone, make: Make) -> None:
    values = {"type": "dense_vector", "dimension": 1, "metric": "dotproduct"}
    deployment = {"deployment_type": "managed", "cloud": "aws", "region": "x"}
    service._create(
        {"name": "perdure-collections", "schema": {"fields": {"_values": values}}, "deployment": deployment}
    )
    with pytest.raises(ConfigError, match="choose another") as caught:
        make().open()
    assert caught.value.field == "vector_store.config.index"
