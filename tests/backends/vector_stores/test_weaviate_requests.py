"""What the weaviate store says to Weaviate, seen without a server: filters, names, classes, objects, settings."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict
from weaviate.proto.v1 import properties_pb2, search_get_pb2

from perdure.backends import registry
from perdure.backends.vector_stores.base import Shape
from perdure.backends.vector_stores.common.documents import Row, encode
from perdure.backends.vector_stores.common.filter_clauses import moment_mark, narrow, token
from perdure.backends.vector_stores.weaviate import objects
from perdure.backends.vector_stores.weaviate.objects import (
    GRAMMAR,
    SLOTS,
    batches,
    class_name,
    collection_definition,
    described,
    keyword,
    object_of,
    row_of,
    shape_of,
    uuid_of,
)
from perdure.backends.vector_stores.weaviate.store import PAGE, Client, TooLarge, Turns, WeaviateVectorStore, _slices
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import parse_filter

# ------------------------------------------------------------------ filters


def said(expression: dict[str, Any]) -> tuple[Any, bool]:
    """The message that a filter becomes, as plain values, and whether it says all."""
    narrowed = narrow(parse_filter(expression), GRAMMAR)
    return None if narrowed.clause is None else MessageToDict(narrowed.clause), narrowed.exact


def one(name: str, operator: str, *values: str) -> dict[str, Any]:
    return {
        "operator": f"OPERATOR_{operator}",
        "target": {"property": name},
        "valueTextArray": {"values": list(values)},
    }


def bound(name: str, operator: str, value: float) -> dict[str, Any]:
    return {"operator": f"OPERATOR_{operator}", "target": {"property": name}, "valueNumber": value}


def joined(operator: str, *filters: dict[str, Any]) -> dict[str, Any]:
    return {"operator": f"OPERATOR_{operator}", "filters": list(filters)}


NEW_YEAR = 1767225600000000.0


@pytest.mark.parametrize(
    ("expression", "clause"),
    [
        ({"field": "user_id", "operator": "eq", "value": "alice"}, one("user_id", "CONTAINS_ANY", "alice")),
        ({"field": "user_id", "operator": "in", "value": ["a", "b"]}, one("user_id", "CONTAINS_ANY", "a", "b")),
        ({"field": "user_id", "operator": "ne", "value": "*"}, one("user_id", "CONTAINS_NONE", "*")),
        ({"NOT": {"agent_id": '" OR 1'}}, one("agent_id", "CONTAINS_NONE", '" OR 1')),
        ({"tag": "work"}, one("tokens", "CONTAINS_ANY", token("metadata.tag", "work"))),
        ({"field": "n", "operator": "nin", "value": [1, 2]}, None),
        (
            {"AND": [{"user_id": "alice"}, {"kind": "facts"}]},
            joined(
                "AND", one("user_id", "CONTAINS_ANY", "alice"), one("tokens", "CONTAINS_ANY", token("kind", "facts"))
            ),
        ),
        (
            {"OR": [{"user_id": "alice"}, {"run_id": "r"}]},
            joined("OR", one("user_id", "CONTAINS_ANY", "alice"), one("run_id", "CONTAINS_ANY", "r")),
        ),
        (
            {"field": "created_at", "operator": "gte", "value": "2026-01-01"},
            bound("created_at", "GREATER_THAN_EQUAL", NEW_YEAR),
        ),
        (
            {"NOT": {"field": "expires_at", "operator": "lte", "value": "2026-01-01"}},
            joined(
                "OR",
                one("tokens", "CONTAINS_NONE", moment_mark("expires_at")),
                bound("expires_at", "GREATER_THAN_EQUAL", NEW_YEAR + 1),
            ),
        ),
        ({"field": "importance", "operator": "lte", "value": 0.5}, bound("importance", "LESS_THAN_EQUAL", 0.5)),
    ],
    ids=["eq", "in", "ne", "not", "metadata", "nin", "and", "or", "since", "not expired", "number"],
)
def test_filters_are_said_in_weaviates_terms(expression: dict[str, Any], clause: dict[str, Any] | None) -> None:
    expected = clause or one("tokens", "CONTAINS_NONE", token("metadata.n", 1), token("metadata.n", 2))
    assert said(expression) == (expected, True)


@pytest.mark.parametrize("value", [" alice", "alice\n", "\u3000", "", "a\x00b", "\ud800"])
def test_a_scope_that_weaviate_would_change_is_found_by_its_token(value: str) -> None:
    """It cuts white space off keywords, so that "alice " would open the scope of "alice"."""
    assert said({"field": "user_id", "operator": "in", "value": ["bob"]})[0] == one("user_id", "CONTAINS_ANY", "bob")
    document = encode("r", None, {"user_id": value}, word_tokens=False)
    assert "user_id" not in object_of(document, "C").properties.non_ref_properties
    if value != "\ud800":  # which no filter can hold
        tokens = [token("user_id", value)]
        assert said({"user_id": value}) == (one("tokens", "CONTAINS_ANY", *tokens), True)
        assert said({"NOT": {"user_id": value}}) == (one("tokens", "CONTAINS_NONE", *tokens), True)


@pytest.mark.parametrize(
    "expression",
    [
        {"field": "memory", "operator": "contains", "value": "tea*"},
        {"field": "n", "operator": "gt", "value": 4},
        {"field": "created_at", "operator": "contains", "value": "2026"},
        {"NOT": {"field": "memory", "operator": "icontains", "value": "tea"}},
    ],
    ids=["contains", "number of the metadata", "date as text", "not contains"],
)
def test_what_weaviate_is_not_asked_is_finished_here(expression: dict[str, Any]) -> None:
    assert said(expression) == (None, False)
    scoped = said({"AND": [{"user_id": "alice"}, expression]})
    assert scoped == (one("user_id", "CONTAINS_ANY", "alice"), False)


# ------------------------------------------------------------------ classes


def test_every_collection_has_a_class_of_its_own() -> None:
    names = [
        "memories",
        "Memories",
        "MEMORIES",
        "me-mories",
        "me_mories",
        "a" * 60,
        "a" * 59 + "b",
        "x" * 300,
        "../..",
        "ü",
    ]
    classes = [class_name("perdure", name) for name in names]
    assert len({made.lower() for made in classes}) == len(names)  # Weaviate's folders know no case
    assert all(re.fullmatch(r"Perdure_[a-z0-9_]{1,250}", made) for made in classes)
    assert class_name("perdure", "memories").startswith("Perdure_memories_")
    assert class_name("other", "memories").startswith("Other_memories_")


def test_a_class_tells_what_it_is() -> None:
    definition = collection_definition("Perdure_x", 'Näme"', Shape(3, "minilm"))
    assert shape_of(definition) == ('Näme"', Shape(3, "minilm"))
    for description in (None, "", "a class of mine", "[]", '{"name": "x", "dimension": 3}', '{"perdure": 1}'):
        assert shape_of({"class": "Perdure_x", "description": description}) is None
    assert described({"description": "mine"}) is None


@pytest.mark.covers("V81")
def test_scopes_have_an_index_and_texts_have_none() -> None:
    """What V81 asks for: user_id has an inverted index, and vectors are compared inside it, one by one."""
    definition = collection_definition("Perdure_x", "x", Shape(3))
    properties = {found["name"]: found for found in definition["properties"]}
    assert properties["user_id"] == {
        "name": "user_id",
        "dataType": ["text"],
        "indexFilterable": True,
        "indexRangeFilters": False,
        "tokenization": "field",
        "indexSearchable": False,
    }
    assert not any(properties["record"][index] for index in ("indexFilterable", "indexSearchable", "indexRangeFilters"))
    assert properties["expires_at"]["indexRangeFilters"]
    assert properties["stems"]["tokenization"] == "whitespace"
    index = definition["vectorConfig"]["default"]["vectorIndexConfig"]
    assert (index["distance"], index["flatSearchCutoff"]) == ("dot", 2**31 - 1)
    assert definition["invertedIndexConfig"]["stopwords"] == {"preset": "none"}


# ------------------------------------------------------------------ objects


def test_a_document_as_an_object() -> None:
    payload = {
        "memory": "Likes tea",
        "user_id": "alice",
        "created_at": "2026-01-01T00:00:00.000000+00:00",
        "importance": 1,
    }
    made = object_of(encode("r1", np.array([0, 1], np.float32), payload, word_tokens=False), "Perdure_x")
    fields = dict(made.properties.non_ref_properties)
    assert {name: fields[name] for name in ("user_id", "created_at", "importance", "stems", "memory")} == {
        "user_id": "alice",
        "created_at": NEW_YEAR,
        "importance": 1.0,
        "stems": "like tea",
        "memory": "Likes tea",
    }
    assert 0 <= fields["slot"] < SLOTS
    assert made.uuid == uuid_of("r1") != uuid_of("r2")
    assert uuid_of("\ud800") != uuid_of("?")
    (vector,) = made.vectors
    assert (vector.name, vector.vector_bytes) == ("default", np.array([0, 1], "<f4").tobytes())
    record = properties_pb2.Value(text_value=fields["record"])
    found = search_get_pb2.SearchResult(
        properties=search_get_pb2.PropertiesResult(non_ref_props=properties_pb2.Properties(fields={"record": record})),
        metadata=search_get_pb2.MetadataResult(vectors=made.vectors),
    )
    row = row_of(found)
    assert (row.id, row.payload, row.vector.tolist()) == ("r1", payload, [0, 1])
    assert not object_of(encode("r", None, {}, word_tokens=False), "Perdure_x").vectors


def test_requests_to_write_have_a_size_that_a_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "MOST_BYTES", 50_000)
    small = [object_of(encode(str(n), None, {}, word_tokens=False), "C") for n in range(101)]
    monkeypatch.setattr(objects, "MOST_OBJECTS", 50)
    assert [len(batch) for batch in batches(small)] == [50, 50, 1]
    large = [object_of(encode(str(n), None, {"memory": "x" * (20_000)}, word_tokens=False), "C") for n in range(5)]
    sizes = [[len(batch), sum(made.ByteSize() for made in batch)] for batch in batches(large)]
    assert sum(count for count, _ in sizes) == 5
    assert all(size <= 50_000 or count == 1 for count, size in sizes)
    assert len(sizes) > 1
    assert list(batches([])) == []


def test_a_word_of_any_length_is_a_key() -> None:
    assert keyword("tea") == "tea"
    assert len(keyword("x" * 10**6)) == 20
    assert keyword("x" * 10**6) != keyword("x" * (10**6 + 1))


# ------------------------------------------------------------------ slices


@pytest.mark.parametrize("crowd", [0, 5, 3 * PAGE], ids=["spread", "some crowded", "more than a page in one place"])
def test_slices_give_every_row_once(crowd: int) -> None:
    random = np.random.default_rng(1)
    slots = {f"r{n}": int(slot) for n, slot in enumerate(random.integers(0, SLOTS, 4000))}
    slots |= {f"c{n}": 12345 + n for n in range(crowd)}

    def ask(low: int, high: int) -> list[Row] | None:
        found = [Row(id, {}) for id, slot in slots.items() if low <= slot < high]
        return None if len(found) > 300 else found  # an answer of more rows would be too large

    seen = [row.id for page in _slices(ask, len(slots)) for row in page]
    assert sorted(seen) == sorted(slots)


def test_a_row_too_large_for_an_answer_is_an_error() -> None:
    with pytest.raises(TooLarge):
        list(_slices(lambda low, high: None, 1))


# ------------------------------------------------------------------ turns


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_rows_move_while_nobody_reads() -> None:
    turns = Turns()
    told: list[str] = []

    def move() -> None:
        with turns.moving():
            told.append("moved")

    def read() -> None:
        with turns.reading():
            told.append("read")

    with turns.reading():
        with turns.reading():  # others may read too
            mover = in_thread(move)
            while not turns._waiting:
                time.sleep(0.001)
            reader = in_thread(read)
            reader.join(0.05)
        assert told == []
    mover.join()
    reader.join()
    assert told == ["moved", "read"]
    with pytest.raises(RuntimeError), turns.moving():
        raise RuntimeError
    read()
    assert told[-1] == "read"


# ------------------------------------------------------------------ settings


def built(**config: Any) -> WeaviateVectorStore:
    store = registry.build("vector_stores", "weaviate", config)
    assert isinstance(store, WeaviateVectorStore)
    return store


def test_address_and_key_fall_back_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEAVIATE_URL", raising=False)
    monkeypatch.delenv("WEAVIATE_API_KEY", raising=False)
    assert built().settings.url == "http://localhost:8080"
    assert built().settings.api_key is None
    monkeypatch.setenv("WEAVIATE_URL", "https://vectors.example:8443")
    monkeypatch.setenv("WEAVIATE_API_KEY", "key-of-mine")
    settings = built().settings
    assert settings.url == "https://vectors.example:8443"
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "key-of-mine"
    assert "key-of-mine" not in repr(settings)
    assert built(url="http://other:1").settings.url == "http://other:1"
    assert built(api_key="").settings.api_key is None


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost:8080", "localhost:50051"),
        ("https://vectors.example", "vectors.example:50051"),
        ("https://abc.europe.gcp.weaviate.cloud", "grpc-abc.europe.gcp.weaviate.cloud:443"),
        ("http://[::1]:8080", "[::1]:50051"),
    ],
)
def test_where_grpc_is_answered(url: str, address: str) -> None:
    assert built(url=url)._grpc_address == address
    assert built(url=url, grpc_address="other:7")._grpc_address == "other:7"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "localhost:8080"),
        ("url", "http://user:hunter2@host"),
        ("url", "ftp://host"),
        ("grpc_address", "host"),
        ("grpc_address", "http://host:50051"),
        ("api_key", "hunter2 and\nmore"),
        ("namespace", "Perdure"),
        ("namespace", "a_b"),
        ("namespace", ""),
        ("namespace", "a\n"),
    ],
)
def test_settings_that_are_wrong(field: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(**{field: value})
    assert caught.value.field == f"vector_store.config.{field}"
    assert "hunter2" not in str(caught.value)


def test_a_server_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "_ask", lambda *asked: {"version": "1.24.1"})
    client = Client("http://127.0.0.1:9", "127.0.0.1:9", None, 1)
    with pytest.raises(VectorStoreError, match=r"1\.24\.1 is too old"):
        client.check()
    client.close()
