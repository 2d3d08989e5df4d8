"""What the `elasticsearch` store asks of the server, and what its indices are like."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from perdure.backends.vector_stores.base import Shape
from perdure.backends.vector_stores.common.filter_clauses import Span, narrow, token, word_token
from perdure.backends.vector_stores.elasticsearch.index import GRAMMAR, alias_of, definition, places
from perdure.backends.vector_stores.elasticsearch.store import LARGEST, ElasticsearchVectorStore, batches
from perdure.backends.vector_stores.memory import MemoryVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import Condition, Moment, all_of, eq, parse_filter
from tests.backends.wire.elasticsearch import ElasticsearchWire
from tests.contracts.conftest import DIMENSION, Sync, ids, moment, row, vector
from tests.contracts.stores.elasticsearch import settings

pytestmark = pytest.mark.xdist_group("elasticsearch")

Settings = ElasticsearchVectorStore.Settings


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return settings(tmp_path)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


@pytest.fixture
def wire(config: dict[str, Any]) -> Iterator[ElasticsearchWire]:
    with ElasticsearchWire(config["url"]) as wire:
        yield wire


@pytest.fixture
def store(config: dict[str, Any], wire: ElasticsearchWire, loop: asyncio.AbstractEventLoop) -> Iterator[Sync]:
    """An open store with the collection "c", whose requests the wire keeps."""
    opened = Sync(ElasticsearchVectorStore(Settings(**{**config, "url": wire.address})), loop)
    opened.open()
    opened.create_collection("c", DIMENSION)
    wire.heard.clear()
    yield opened
    opened.close()


def server_says(config: dict[str, Any], path: str) -> Any:
    with urllib.request.urlopen(config["url"] + path) as answer:
        return json.load(answer)


def server_told(config: dict[str, Any], method: str, path: str, body: object = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(config["url"] + path, data, {"content-type": "application/json"}, method=method)
    urllib.request.urlopen(request).close()


# ------------------------------------------------------------------ what is asked


def tokens(path: str, *values: Any) -> dict[str, Any]:
    return {"terms": {"tokens": [token(path, value) for value in values]}}


def moments(low: int | None, high: int | None) -> dict[str, int]:
    return {side: bound for side, bound in (("gte", low), ("lte", high)) if bound is not None}


FIVE = places({"metadata.n": 5.0}, {})[0]
N_FROM_5 = {"range": {"places": {"gte": FIVE, "lte": FIVE[:20] + "f" * 16}}}


@pytest.mark.parametrize(
    ("expression", "clause", "exact"),
    [
        ({"user_id": "alice"}, {"terms": {"user_id": ["alice"]}}, True),
        ({"user_id": '*" OR {}'}, {"terms": {"user_id": ['*" OR {}']}}, True),
        ({"user_id": "x" * 9000}, tokens("user_id", "x" * 9000), True),
        ({"NOT": {"user_id": "alice"}}, {"bool": {"must_not": [{"terms": {"user_id": ["alice"]}}]}}, True),
        ({"tag": "work"}, tokens("metadata.tag", "work"), True),
        (
            {"field": "tag", "operator": "ne", "value": "work"},
            {"bool": {"must_not": [tokens("metadata.tag", "work")]}},
            True,
        ),
        ({"field": "tag", "operator": "in", "value": ["work", 5]}, tokens("metadata.tag", "work", 5), True),
        ({"field": "n", "operator": "gte", "value": 5}, N_FROM_5, True),
        (
            {"field": "expires_at", "operator": "lte", "value": "1970-01-01T00:00:01Z"},
            {"range": {"moments.expires_at": {"lte": 1_000_000}}},
            True,
        ),
        (
            {"AND": [{"user_id": "alice"}, {"field": "n", "operator": "gte", "value": 5}]},
            {"bool": {"filter": [{"terms": {"user_id": ["alice"]}}, N_FROM_5]}},
            True,
        ),
        (
            {"OR": [{"tag": "work"}, {"tag": "home"}]},
            {
                "bool": {
                    "should": [tokens("metadata.tag", "work"), tokens("metadata.tag", "home")],
                    "minimum_should_match": 1,
                }
            },
            True,
        ),
        ({"field": "memory", "operator": "contains", "value": "Python"}, None, False),
        (
            {"AND": [{"user_id": "alice"}, {"field": "memory", "operator": "icontains", "value": "PYTHON"}]},
            {"terms": {"user_id": ["alice"]}},
            False,
        ),
    ],
)  # fmt: skip
def test_filters_in_elasticsearchs_terms(expression: dict[str, Any], clause: object, exact: bool) -> None:
    narrowed = narrow(parse_filter(expression), GRAMMAR)
    assert (narrowed.clause, narrowed.exact) == (clause, exact)


def test_numbers_sort_as_keywords() -> None:
    numbers = [-1.7e308, -(2.0**63), -5.5, -1.0, -1e-300, -5e-324, 0.0, 5e-324, 1e-7, 1.0, 5.0, 2.0**53, 1.7e308]
    written = [places({"n": number}, {})[0] for number in numbers]
    assert written == sorted(written)
    assert len(set(written)) == len(numbers)
    assert places({"n": -0.0}, {}) == places({"n": 0.0}, {})
    assert places({}, {"metadata.due": 5}) != places({"metadata.due": 5.0}, {}), "a moment is no number"
    assert places({}, {"expires_at": 5}) == [], "it has a field of its own"


def test_bounds_of_moments_are_rounded_inwards() -> None:
    clause = GRAMMAR.between(Span("valid_to", "moment", 1.5, 3.5))
    assert clause == {"range": {"moments.valid_to": {"gte": 2, "lte": 3}}}


def test_a_search_is_one_request_inside_its_scope(store: Sync, wire: ElasticsearchWire) -> None:
    store.apply("c", [row(str(n), [1, n], user_id=f"u{n % 3}") for n in range(30)])
    wire.heard.clear()
    hits = store.search("c", vector(1), 2, eq("user_id", "u1"))
    assert ids(hits) == ["1", "4"]
    (request,) = wire.heard
    assert request.query["allow_partial_search_results"] == ["false"]
    assert request.json == {
        "track_total_hits": False,
        "knn": {
            "field": "vector",
            "query_vector": vector(1).tolist(),
            "k": 3,
            "num_candidates": 3,
            "filter": {"terms": {"user_id": ["u1"]}},
        },
        "size": 3,
        "_source": ["record"],
    }


def test_requests_are_in_the_dialect_of_both_majors(store: Sync, wire: ElasticsearchWire) -> None:
    store.insert("c", "a", vector(1), {})
    store.count("c")
    said = {
        value for request in wire.heard for name, value in request.headers.items() if name.endswith(("accept", "-type"))
    }
    assert said == {
        "application/vnd.elasticsearch+json; compatible-with=8",
        "application/vnd.elasticsearch+x-ndjson; compatible-with=8",
    }


def test_a_filter_that_cannot_be_asked_is_finished_here(store: Sync, wire: ElasticsearchWire) -> None:
    """The nearest 300 rows do not match: more are asked for until `limit` are found."""
    near = [row(f"n{n:03}", [1, n / 1e4], memory="likes tea") for n in range(300)]
    far = [row(f"f{n:03}", [-1, n / 10], memory="likes Python") for n in range(20)]
    store.apply("c", near + far)
    wire.heard.clear()
    one = all_of(eq("user_id", "alice"), Condition("memory", "contains", "Python"))
    hits = store.search("c", vector(1), 10, one)
    assert ids(hits) == [f"f{n:03}" for n in range(19, 9, -1)]
    assert [body["size"] for body in wire.asked("_search")] == [11, 44, 176, 704]
    assert store.count("c", one) == 20


def test_words_are_ranked_by_the_server(store: Sync, wire: ElasticsearchWire) -> None:
    store.apply("c", [row("a", memory="green tea"), row("b", memory="tea"), row("c", memory="coffee")])
    wire.heard.clear()
    hits = store.keyword_search("c", "Teas, green!", 5, eq("user_id", "alice"))
    assert ids(hits) == ["a", "b"]
    (body,) = wire.asked("_search")
    assert body["query"]["bool"] == {
        "should": [{"term": {"stems": word_token(stem)}} for stem in ("tea", "green")],
        "minimum_should_match": 1,
        "filter": [{"terms": {"user_id": ["alice"]}}],
    }


def test_scores_of_words_are_those_of_the_other_stores(store: Sync, loop: asyncio.AbstractEventLoop) -> None:
    other = Sync(MemoryVectorStore(MemoryVectorStore.Settings()), loop)
    other.open()
    other.create_collection("c", DIMENSION)
    # Every row has some word of the query, and none twice: then the measures of length agree.
    points = [row(str(n), memory=" ".join(["tea", "green", "black", "hot"][: 1 + n % 4])) for n in range(40)]
    for each in (store, other):
        each.apply("c", points)
    expected = {hit.id: hit.score for hit in other.keyword_search("c", "tea hot", 99)}
    for hit in store.keyword_search("c", "tea hot", 99):
        assert hit.score == pytest.approx(expected[hit.id], rel=1e-3)
    other.close()


def test_a_row_that_shares_only_the_last_of_many_words_is_found(store: Sync) -> None:
    query = " ".join(f"word{n}x" for n in range(1500))
    store.apply("c", [row("early", memory="word7x"), row("late", memory="word1499x"), row("none", memory="word")])
    hits = store.keyword_search("c", query, 9)
    assert ids(hits) == ["early", "late"]
    assert hits[1].score > 0


def test_pages_of_ids_too_long_to_sort_by(store: Sync) -> None:
    long = "x" * 20_000
    rows = [row(name, created_at=moment(0)) for name in (long + "b", "a", long + "a", "y")]
    store.apply("c", rows)
    seen: list[str] = []
    cursor = None
    while True:
        page = store.list("c", None, 1, cursor)
        seen += ids(page)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ["a", long + "a", long + "b", "y"]


# ------------------------------------------------------------------ indices


@pytest.mark.covers("V81")
def test_the_user_is_indexed_natively(config: dict[str, Any], store: Sync) -> None:
    """A scope's rows come from an index, whatever else the collection holds."""
    (index,) = server_says(config, f"/{alias_of(config['prefix'], 'c')}/_mapping").values()
    fields = index["mappings"]["properties"]
    assert fields["user_id"] == {"type": "keyword", "doc_values": False}
    assert fields["vector"]["index_options"] == {"type": "flat"}
    assert index["mappings"]["dynamic"] == "false"


def test_what_a_document_holds(config: dict[str, Any], store: Sync) -> None:
    store.apply("c", [row("a", [3, 4], memory="a\x00 \ud800 text", user_id="alice", created_at=moment(5))])
    alias = alias_of(config["prefix"], "c")
    (hit,) = server_says(config, f"/{alias}/_search")["hits"]["hits"]
    source = hit["_source"]
    assert json.loads(source["record"])[0] == "a"
    assert source["memory"] == "a ? text"
    assert source["user_id"] == "alice"
    assert np.frombuffer(base64.b64decode(source["packed"]), "<f4") == pytest.approx([0.6, 0.8, *[0] * 6])
    assert "vector" not in source, "it is kept once, not twice"


@pytest.mark.parametrize(
    "other", ["Memories", "mem.ories", "mem ories", "mem-ories", "北京", "x" * 300, "\ud800", "", "*", "_all"]
)
def test_names_of_every_kind_are_collections_of_their_own(store: Sync, other: str) -> None:
    names = ["memories", other]
    for name in names:
        store.create_collection(name, 2)
        store.insert(name, "a", np.ones(2, np.float32), {"memory": name})
    for name in names:
        assert store.get(name, "a").payload == {"memory": name}
        assert store.get_collection_info(name).count == 1
    assert store.list_collections() == sorted(["c", *names])
    store.delete_collection(other)
    assert store.list_collections() == ["c", "memories"]


def test_prefixes_share_a_server(config: dict[str, Any], store: Sync, loop: asyncio.AbstractEventLoop) -> None:
    other = Sync(ElasticsearchVectorStore(Settings(**{**config, "prefix": config["prefix"] + "-c"})), loop)
    other.open()
    assert other.identity() != store.identity()
    assert other.list_collections() == []
    other.create_collection("d", DIMENSION)
    other.apply("d", [row("a")])
    assert store.list_collections() == ["c"]
    store.reset()
    assert other.count("d") == 1
    other.close()


def test_an_index_of_somebody_elses_is_left_alone(config: dict[str, Any], store: Sync) -> None:
    foreign = f"/{config['prefix']}-logs"
    server_told(config, "PUT", foreign)
    server_told(config, "POST", f"{foreign}/_doc?refresh=true", {"a": 1})
    assert store.list_collections() == ["c"]
    store.reset()
    assert server_says(config, f"{foreign}/_count")["count"] == 1


def test_a_write_never_makes_an_index(config: dict[str, Any], store: Sync, loop: asyncio.AbstractEventLoop) -> None:
    """Elasticsearch would make one with a mapping of its own guess."""
    other = Sync(ElasticsearchVectorStore(Settings(**config)), loop)
    other.open()
    store.insert("c", "a", vector(1), {})
    other.delete_collection("c")
    with pytest.raises(VectorStoreError, match="'c'"):
        store.insert("c", "b", vector(1), {})
    found = server_says(config, f"/_resolve/index/{config['prefix']}-*")["indices"]
    assert [index["name"] for index in found] == [f"{config['prefix']}-identity"]
    other.close()


def test_a_collection_of_too_many_dimensions(store: Sync) -> None:
    with pytest.raises(ConfigError, match="4096") as caught:
        store.create_collection("large", 4097)
    assert caught.value.field == "dimension"
    assert store.list_collections() == ["c"]


def test_a_definition_says_what_it_holds() -> None:
    defined = definition("p-c-1", "p", "c", Shape(3, "minilm-384"))
    assert defined["mappings"]["_meta"] == {
        "perdure": {"prefix": "p", "collection": '"c"', "dimension": 3, "model": "minilm-384"}
    }


def test_large_writes_go_out_in_parts() -> None:
    documents = [[b"{}", b"x" * (LARGEST // 3)] for _ in range(7)] + [[b"y" * (LARGEST + 1)], [b"z"]]
    parts = list(batches(documents))
    assert [line for part in parts for line in part] == [line for lines in documents for line in lines]
    assert [len(part) for part in parts] == [4, 4, 4, 2, 1, 1]


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://localhost", "http://localhost:9200"),
        ("https://es.example.com", "https://es.example.com:443"),
        ("https://es.example.com:9243/path", "https://es.example.com:9243/path"),
        ("http://[::1]", "http://[::1]:9200"),
        ("http://one:1, http://two:2", "http://one:1,http://two:2"),
    ],
)
def test_addresses(given: str, address: str) -> None:
    assert Settings(url=given).url == address


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": ""},
        {"url": "localhost:9200"},
        {"url": "http://one:9200,"},
        {"url": "http://host:99999"},
        {"url": "http://elastic:hunter2@host:9200"},
        {"api_key": "hunter2\nX-Header: 1"},
        {"username": "elastic"},
        {"password": "hunter2"},
        {"username": "elastic", "password": "hunter2", "api_key": "k"},
        {"ca_certs": "/nowhere/ca.pem"},
        {"prefix": "Upper"},
        {"prefix": "_hidden"},
        {"prefix": "a*"},
        {"hosts": "http://localhost"},
    ],
    ids=lambda wrong: "+".join(wrong) + f"-{len(str(wrong))}",
)
def test_settings_that_cannot_be(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**wrong)
    assert "hunter2" not in str(caught.value)


def test_moments_of_the_engines_own_filter_are_compared_natively() -> None:
    now = Moment("1970-01-01T00:00:01.000000+00:00")
    narrowed = narrow(parse_filter({"NOT": Condition("expires_at", "lte", now)}), GRAMMAR)
    assert narrowed.exact
    assert {"range": {"moments.expires_at": moments(1_000_001, None)}} in narrowed.clause["bool"]["should"]
