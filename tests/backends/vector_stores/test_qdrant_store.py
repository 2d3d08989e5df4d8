"""The Qdrant store over REST beside its contract: what it asks the server, and what it leaves there."""

# ruff: noqa: F811 - fixtures are imported and then taken by their names

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.common.filter_clauses import narrow, token
from perdure.backends.vector_stores.qdrant import store as _qdrant_server
from perdure.backends.vector_stores.qdrant.filter import GRAMMAR, WITHOUT_SUBSTRINGS, as_filter
from perdure.backends.vector_stores.qdrant.folder import point_id
from perdure.domain.errors import InvalidInputError, VectorStoreError
from perdure.domain.filter import Condition, Moment, all_of, eq, parse_filter
from tests.backends.vector_stores.qdrant_stores import MARKS, Open, Proxy, loop, make, open_store, proxy  # noqa: F401 - fixtures
from tests.backends.wire.server import Reply
from tests.contracts.conftest import DIMENSION, Sync, ids, moment, row, vector
from tests.contracts.stores.qdrant import served, server

pytestmark = MARKS

# ------------------------------------------------------------------ filters

ALICE = {"key": "user_id", "match": {"value": "alice"}}

CLAUSES = [
    ({"user_id": "alice"}, {"must": [ALICE]}),
    ({"user_id": "*"}, {"must": [{"key": "user_id", "match": {"value": "*"}}]}),
    (
        {"field": "agent_id", "operator": "in", "value": ["a", "b"]},
        {"must": [{"key": "agent_id", "match": {"any": ["a", "b"]}}]},
    ),
    ({"field": "user_id", "operator": "ne", "value": "alice"}, {"must_not": [ALICE]}),
    (
        {"project_id": "p"},
        {"must": [{"key": "tokens", "match": {"any": [token("project_id", "p")]}}]},
    ),
    ({"tag": "work"}, {"must": [{"key": "tokens", "match": {"any": [token("metadata.tag", "work")]}}]}),
    (
        {"NOT": {"tag": "work"}},
        {"must_not": [{"key": "tokens", "match": {"any": [token("metadata.tag", "work")]}}]},
    ),
    (
        {"AND": [{"user_id": "alice"}, {"OR": [{"n": 1}, {"n": 2}]}]},
        {
            "must": [
                ALICE,
                {"should": [{"key": "tokens", "match": {"any": [token("metadata.n", n)]}} for n in (1, 2)]},
            ]
        },
    ),
    (
        {"field": "created_at", "operator": "gt", "value": "2026-01-01"},
        {
            "must": [
                {
                    "key": "moments.created_at",
                    "range": {"gte": "2026-01-01T00:00:00.000001Z", "lte": "9999-12-31T23:59:59.999999Z"},
                }
            ]
        },
    ),
    (
        {"field": "due", "operator": "lte", "value": "2027-06-30T12:00:00+02:00"},
        {
            "must": [
                {
                    "key": "moments.metadata.due",
                    "range": {"gte": "0001-01-01T00:00:00.000000Z", "lte": "2027-06-30T10:00:00.000000Z"},
                }
            ]
        },
    ),
    (
        {"field": "expires_at", "operator": "lt", "value": "0001-01-01"},  # so far out the floats of spans are coarse
        {
            "must": [
                {
                    "key": "moments.expires_at",
                    "range": {"gte": "0001-01-01T00:00:00.000000Z", "lte": "0001-01-01T00:00:00.000008Z"},
                }
            ]
        },
    ),
    (
        {"field": "memory", "operator": "contains", "value": 'Py"th%'},
        {"must": [{"key": "memory", "match": {"substring": 'Py"th%'}}]},
    ),
    ({"field": "memory", "operator": "icontains", "value": "python"}, None),
    (  # a little more than asked for: the server's numbers may be off by their last digit
        {"field": "n", "operator": "gte", "value": 4},
        {"must": [{"key": "numbers.metadata.n", "range": {"gte": 4 - 4 * 2.0**-50 - 1e-300}}]},
    ),
    (
        {"field": "importance", "operator": "lt", "value": 1e308},
        {"must": [{"key": "numbers.importance", "range": {"lte": 1e300 + 1e300 * 2.0**-50}}]},
    ),
]


@pytest.mark.parametrize(("expression", "expected"), CLAUSES, ids=range(len(CLAUSES)))
def test_filters_in_qdrants_own_terms(expression: Any, expected: Any) -> None:
    assert as_filter(narrow(parse_filter(expression), GRAMMAR).clause) == expected


def test_parts_of_texts_are_found_here_where_the_server_cannot() -> None:
    one = parse_filter({"field": "memory", "operator": "contains", "value": "Python"})
    assert narrow(one, WITHOUT_SUBSTRINGS).clause is None


def test_a_key_of_any_letters_is_a_plain_path() -> None:
    one = narrow(Condition('a.b"]', "lt", Moment("2026-01-01T00:00:00.000000+00:00")), GRAMMAR)
    key = as_filter(one.clause)["must"][0]["key"]
    assert key.startswith("moments.metadata.-")
    assert key.removeprefix("moments.metadata.-").isalnum()


def test_a_search_sends_the_scope_and_asks_for_exactness(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a")])
    assert ids(store.search("c", vector(1), 5, eq("user_id", "alice"))) == ["a"]
    (asked,) = proxy.bodies("POST", "/points/query")
    assert {key: value for key, value in asked.items() if value not in (None, False)} == {
        "query": {"nearest": vector(1).tolist()},
        "using": "dense",
        "filter": {"must": [ALICE]},
        "params": asked["params"],
        "limit": 6,
        "with_payload": ["record"],
    }
    assert asked["params"]["exact"] is True


def test_a_write_waits_and_keeps_what_others_can_read(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a", memory="Likes tea", expires_at=moment(5), metadata={"n": 1})])
    (written,) = [heard for heard in proxy.heard if heard.method == "PUT" and heard.path.endswith("/points")]
    assert written.query == {"wait": ["true"], "ordering": ["strong"]}
    (point,) = written.json["points"]
    assert point["id"] == point_id("a")
    assert point["vector"]["dense"] == vector(1).tolist()
    payload = point["payload"]
    assert {key: payload[key] for key in ("user_id", "memory", "moments", "numbers")} == {
        "user_id": "alice",
        "memory": "Likes tea",
        "moments": {"created_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2026-01-01T00:00:05.000000Z"},
        "numbers": {"metadata": {"n": 1.0}},
    }
    assert token("metadata.n", 1) in payload["tokens"]
    store.apply("c", [], ["a"])
    (gone,) = [heard for heard in proxy.heard if heard.path.endswith("/points/delete")]
    assert gone.query == {"wait": ["true"], "ordering": ["strong"]}


def test_large_writes_go_in_several_requests(proxy: Proxy, open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_qdrant_server, "BATCH_BYTES", 5000)
    store = open_store(url=proxy.address)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row(str(n)) for n in range(20)] + [row("long", memory="x" * 20_000)])
    assert len(proxy.bodies("PUT", "/points")) > 3
    assert store.count("c") == 21


def test_what_the_engine_cannot_tell_is_finished_here(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address)
    store.create_collection("c", DIMENSION)
    edge = 0.1 + 0.2
    beyond = float(np.nextafter(edge, 1))
    store.apply("c", [row(f"{n:03}", [1, n / 1000], metadata={"x": (edge, beyond)[n >= 190]}) for n in range(200)])
    above = all_of(eq("user_id", "alice"), Condition("x", "gt", edge))
    assert ids(store.search("c", vector(1), 5, above)) == ["190", "191", "192", "193", "194"]
    assert store.count("c", above) == 10
    assert [body["limit"] for body in proxy.bodies("POST", "/points/query")] == [6, 24, 96, 384]


def test_numbers_of_every_size_can_be_written_and_compared(open_store: Open) -> None:
    store = open_store()
    store.create_collection("c", DIMENSION)
    numbers = [-1.7976931348623157e308, -1e300, -5e-324, 0.0, 5e-324, 0.1, 2.0**53, 1e300, 1.7976931348623157e308]
    store.apply("c", [row(str(n), metadata={"x": number}) for n, number in enumerate(numbers)])
    for n, number in enumerate(numbers):
        assert ids(store.list("c", Condition("x", "gte", number))) == [str(k) for k in range(n, len(numbers))]
        assert ids(store.list("c", Condition("x", "lt", number))) == [str(k) for k in range(n)]


# ------------------------------------------------------------------ what lies on the server


def test_users_have_a_tenant_index(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address)
    store.create_collection("c", DIMENSION)
    found = info(store, "c")
    schema = found["payload_schema"]
    assert schema["user_id"]["data_type"] == "keyword"
    assert schema["user_id"]["params"]["is_tenant"] is True
    assert {name: index["data_type"] for name, index in schema.items() if name != "user_id"} == {
        "agent_id": "keyword",
        "run_id": "keyword",
        "tokens": "keyword",
        "moments.created_at": "datetime",
        "moments.expires_at": "datetime",
        "moments.valid_to": "datetime",
    }
    assert found["config"]["params"]["vectors"]["dense"]["distance"] == "Dot"
    assert found["config"]["hnsw_config"]["m"] == 0
    assert found["config"]["strict_mode_config"] == {
        "unindexed_filtering_retrieve": True,
        "unindexed_filtering_update": True,
        "search_allow_exact": True,
    }


def info(store: Sync, name: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server().port, timeout=60)
    connection.request("GET", f"/collections/{store.store.settings.prefix}{name}")
    found = json.loads(connection.getresponse().read())
    connection.close()
    return found["result"]


def test_an_interrupted_making_is_finished_later(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address, retries=0)
    proxy.instead = lambda request: Reply(status=503) if request.path.endswith("/index") else None
    with pytest.raises(VectorStoreError, match="503"):
        store.create_collection("c", DIMENSION)
    assert info(store, "c")["payload_schema"] == {}
    proxy.instead = lambda request: None
    store.create_collection("c", DIMENSION)
    assert len(info(store, "c")["payload_schema"]) == 7


NAMES = ["a/b", "..", "a b", "a?b", "ü", "\ud800", "x" * 300, 'a"b', "", "C", "c", "a.b", "perdure.identity"]


def test_names_that_are_hostile_or_alike_are_collections_of_their_own(open_store: Open) -> None:
    store, other = open_store(), open_store()
    for number, name in enumerate(NAMES):
        store.create_collection(name, 2, model=name)
        store.insert(name, str(number), np.ones(2, np.float32), {})
    assert other.list_collections() == sorted(NAMES)
    for number, name in enumerate(NAMES):
        assert ids(other.list(name)) == [str(number)]
        assert other.get_collection_info(name).model == name
        other.delete_collection(name)
    assert store.list_collections() == []


def test_collections_of_others_are_left_alone(open_store: Open, tmp_path: Path) -> None:
    prefix = served(tmp_path)["prefix"]
    store, longer = open_store(), open_store(prefix=f"{prefix}b")
    longer.create_collection("c", 2)
    put(f"/collections/{prefix}theirs", {"vectors": {"v": {"size": 2, "distance": "Dot"}}})
    assert store.list_collections() == []
    assert longer.list_collections() == ["c"]
    store.reset()
    with pytest.raises(VectorStoreError, match="theirs"):
        store.count("theirs")
    assert store.identity() != longer.identity()
    with pytest.raises(VectorStoreError, match="not made by perdure"):
        store.create_collection("theirs", 2)
    assert info(store, "theirs")["payload_schema"] == {}


def put(path: str, body: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server().port, timeout=60)
    connection.request("PUT", path, json.dumps(body))
    assert connection.getresponse().status == 200
    connection.close()


def test_ids_of_points() -> None:
    own = "6f1c2f0e-3b1a-4c5d-8e9f-0123456789ab"
    assert point_id(own) == own
    assert point_id(own.upper()) not in (own, own.upper())
    assert len({point_id(id) for id in ("a", "A", "", "\ud800", own, own.upper(), point_id("a"))}) == 7


def test_a_row_named_as_anothers_point_is_another_row(open_store: Open) -> None:
    store = open_store()
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a"), row(point_id("a"))])
    assert ids(store.list("c")) == sorted(["a", point_id("a")])


def test_a_row_that_is_not_sound_is_never_sent(proxy: Proxy, open_store: Open) -> None:
    store = open_store(url=proxy.address)
    store.create_collection("c", DIMENSION)
    before = len(proxy.heard)
    with pytest.raises(InvalidInputError, match="finite"):
        store.apply("c", [row("a"), Point("b", vector(float("nan")), {})])
    assert [heard.method for heard in proxy.heard[before:]] in ([], ["GET"])
