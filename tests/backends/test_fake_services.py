"""The fakes of services that cannot be had here refuse what those would refuse."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines import azure_ai_search, pinecone
from tests.engines.service import Server


def ask(method: str, address: str, body: Any, headers: dict[str, str]) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json", **headers}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


# ------------------------------------------------------------------ Pinecone

P_HEADERS = {"Api-Key": pinecone.KEY, "X-Pinecone-Api-Version": pinecone.VERSION}
DEPLOYMENT = {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}


def index_of(name: str, dimension: int = 3, **more: Any) -> dict[str, Any]:
    values = {"type": "dense_vector", "dimension": dimension, "metric": "dotproduct"}
    return {"name": name, "schema": {"fields": {"_values": values}}, "deployment": DEPLOYMENT, **more}


def record(id: str = "a", values: Any = (1, 0, 0), **metadata: Any) -> dict[str, Any]:
    return {"id": id, "values": list(values), "metadata": metadata}


@pytest.fixture(scope="module")
def project() -> Iterator[str]:
    with Server(pinecone.Pinecone()) as server:
        assert ask("POST", f"{server.address}/indexes", index_of("i"), P_HEADERS)[0] == 201
        schema = {"fields": {"tag": {"filterable": True}, "n": {"filterable": True}}}
        made = ask("POST", f"{server.address}/host/i/namespaces", {"name": "ns", "schema": schema}, P_HEADERS)
        assert made[0] == 200
        yield server.address


def query(**more: Any) -> dict[str, Any]:
    return {"namespace": "ns", "topK": 5, "vector": [1, 0, 0], **more}


def filtered(filter: Any) -> dict[str, Any]:
    return query(filter=filter)


P_REFUSED: dict[str, tuple[str, str, Any, int, str]] = {
    "unknown route": ("GET", "/indices", None, 404, "Not found"),
    "index name": ("POST", "/indexes", index_of("Upper"), 400, "lower case"),
    "index twice": ("POST", "/indexes", index_of("i"), 409, "ALREADY_EXISTS"),
    "unknown field of an index": ("POST", "/indexes", index_of("j", x=1), 400, "Cannot find field"),
    "no such index": ("POST", "/host/none/query", query(), 404, "not found"),
    "namespace twice": ("POST", "/host/i/namespaces", {"name": "ns"}, 409, "exists"),
    "namespace name": ("POST", "/host/i/namespaces", {"name": "ü"}, 400, "ASCII"),
    "unknown field": ("POST", "/host/i/query", query(top_k=1), 400, "top_k"),
    "top_k": ("POST", "/host/i/query", query(topK=10_001), 400, "10000"),
    "dimension": ("POST", "/host/i/query", query(vector=[1]), 400, "dimension of the index 3"),
    "zero query": ("POST", "/host/i/query", query(vector=[0, 0, 0]), 400, "non-zero"),
    "zero vector": ("POST", "/host/i/vectors/upsert", {"vectors": [record(values=(0, 0, 0))]}, 400, "non-zero"),
    "null": ("POST", "/host/i/vectors/upsert", {"vectors": [record(x=None)]}, 400, "got 'null' for field 'x'"),
    "object": ("POST", "/host/i/vectors/upsert", {"vectors": [record(x={"y": 1})]}, 400, "field 'x'"),
    "list of numbers": ("POST", "/host/i/vectors/upsert", {"vectors": [record(x=[1])]}, 400, "field 'x'"),
    "large": ("POST", "/host/i/vectors/upsert", {"vectors": [record(x="y" * 41_000)]}, 400, "40960 bytes"),
    "id": ("POST", "/host/i/vectors/upsert", {"vectors": [record("ü")]}, 400, "ASCII"),
    "many records": ("POST", "/host/i/vectors/upsert", {"vectors": [record(str(n)) for n in range(1001)]}, 400, "1000"),
    "many bytes": (
        "POST", "/host/i/vectors/upsert", {"vectors": [record(str(n), x="y" * 40_000) for n in range(60)]}, 413, "too",
    ),
    "many ids": ("POST", "/host/i/vectors/delete", {"namespace": "ns", "ids": ["a"] * 1001}, 400, "1000"),
    "delete nothing": ("POST", "/host/i/vectors/delete", {"namespace": "ns"}, 400, "must be given"),
    "delete nowhere": ("POST", "/host/i/vectors/delete", {"namespace": "x", "deleteAll": True}, 404, "not found"),
    "no filter": ("POST", "/host/i/vectors/fetch_by_metadata", {"filter": {}}, 400, "Empty filter"),
    "operator": ("POST", "/host/i/query", filtered({"tag": {"$like": "x"}}), 400, "not a valid operator"),
    "top operator": ("POST", "/host/i/query", filtered({"$not": {"tag": "x"}}), 400, "not a valid operator"),
    "order of text": ("POST", "/host/i/query", filtered({"n": {"$gt": "x"}}), 400, "followed by a number"),
    "list": ("POST", "/host/i/query", filtered({"n": {"$in": 5}}), 400, "followed by a list"),
    "long list": ("POST", "/host/i/query", filtered({"n": {"$in": [1] * 10_001}}), 400, "at most 10000"),
    "empty list": ("POST", "/host/i/query", filtered({"$and": []}), 400, "non-empty list"),
    "field without index": ("POST", "/host/i/query", filtered({"other": 1}), 400, "not filterable"),
    "stats with a filter": ("POST", "/host/i/describe_index_stats", {"filter": {"n": 1}}, 400, "filter"),
}  # fmt: skip


@pytest.mark.parametrize("refused", P_REFUSED.values(), ids=P_REFUSED)
def test_pinecone_refuses(project: str, refused: tuple[str, str, Any, int, str]) -> None:
    method, path, body, status, said = refused
    found, text = ask(method, project + path, body, P_HEADERS)
    assert (found, said in text) == (status, True), text


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({**P_HEADERS, "Api-Key": "x"}, 401), ({**P_HEADERS, "X-Pinecone-Api-Version": "2024-07"}, 400)],
    ids=["no key", "wrong key", "old version"],
)
def test_pinecone_knows_its_callers(project: str, headers: dict[str, str], status: int) -> None:
    assert ask("GET", f"{project}/indexes", None, headers)[0] == status


# ------------------------------------------------------------------ Azure AI Search

A_HEADERS = {"api-key": azure_ai_search.KEY}
VERSION = f"?api-version={azure_ai_search.VERSION}"
FIELDS: list[dict[str, Any]] = [
    {"name": "key", "type": "Edm.String", "key": True, "filterable": True, "sortable": True},
    {"name": "user", "type": "Edm.String", "filterable": True, "searchable": False},
    {"name": "plain", "type": "Edm.String", "filterable": False, "sortable": False, "retrievable": False},
    {"name": "tags", "type": "Collection(Edm.String)", "filterable": True, "sortable": False},
    {"name": "n", "type": "Edm.Int64", "filterable": True, "searchable": False},
    {
        "name": "vector", "type": "Collection(Edm.Single)", "searchable": True, "filterable": False, "sortable": False,
        "facetable": False, "dimensions": 3, "vectorSearchProfile": "p",
    },
]  # fmt: skip
EXACT = {"name": "a", "kind": "exhaustiveKnn", "exhaustiveKnnParameters": {"metric": "dotProduct"}}
VECTORS = {"profiles": [{"name": "p", "algorithm": "a"}], "algorithms": [EXACT]}


@pytest.fixture(scope="module")
def search() -> Iterator[str]:
    with Server(azure_ai_search.AzureSearch()) as server:
        definition = {"name": "i", "fields": FIELDS, "vectorSearch": VECTORS}
        made = ask("POST", f"{server.address}/indexes{VERSION}", {**definition, "name": "in"}, A_HEADERS)
        assert made[0] == 201, made
        yield server.address


def field(**changed: Any) -> dict[str, Any]:
    return {"name": "new", "fields": [FIELDS[0], {**FIELDS[1], **changed}]}


def upload(**document: Any) -> dict[str, Any]:
    return {"value": [{"@search.action": "upload", "key": "a", **document}]}


def nearest(**changed: Any) -> dict[str, Any]:
    return {"vectorQueries": [{"kind": "vector", "vector": [1, 0, 0], "k": 5, "fields": "vector", **changed}]}


DOCS, SEARCH = "/indexes('in')/docs/search.index", "/indexes('in')/docs/search.post.search"
A_REFUSED: dict[str, tuple[str, Any, int, str]] = {
    "index name": ("/indexes", {**field(), "name": "a_b"}, 400, "lowercase letters"),
    "index twice": ("/indexes", {**field(), "name": "in"}, 409, "already exists"),
    "unknown property": ("/indexes", {**field(), "x": 1}, 400, "'x' does not exist"),
    "field name": ("/indexes", field(name="1st"), 400, "Invalid field name"),
    "field property": ("/indexes", field(indexed=True), 400, "'indexed'"),
    "two keys": ("/indexes", field(key=True), 400, "Exactly one"),
    "collection sorted": ("/indexes", field(type="Collection(Edm.String)", sortable=True), 400, "cannot be sortable"),
    "dimensions": ("/indexes", {"name": "new", "fields": [FIELDS[0], {**FIELDS[5], "dimensions": 1}],
                                "vectorSearch": VECTORS}, 400, "2 to 4096"),
    "no such index": ("/indexes('none')/docs/search.index", upload(), 404, "No index"),
    "key": (DOCS, upload(key="a b"), 400, "Invalid document key"),
    "unknown field": (DOCS, upload(other=1), 400, "'other' does not exist"),
    "type": (DOCS, upload(n="5"), 400, "Edm.Int64"),
    "null collection": (DOCS, upload(tags=None), 400, "Collection"),
    "long term": (DOCS, upload(user="x" * 32_767), 400, "32766 bytes"),
    "vector": (DOCS, upload(vector=[1.0]), 400, "'vector'"),
    "many documents": (DOCS, {"value": upload()["value"] * 1001}, 400, "1000"),
    "large": (DOCS, upload(plain="x" * 17_000_000), 413, "too large"),
    "parameter": (SEARCH, {"limit": 5}, 400, "'limit'"),
    "top": (SEARCH, {"top": 1001}, 400, "$top"),
    "skip": (SEARCH, {"skip": 100_001}, 400, "$skip"),
    "select": (SEARCH, {"select": "plain"}, 400, "$select"),
    "order": (SEARCH, {"orderby": "plain asc"}, 400, "$orderby"),
    "query vector": (SEARCH, nearest(vector=[1]), 400, "dimension is 3"),
    "vector field": (SEARCH, nearest(fields="user"), 400, "Unknown field"),
    "k": (SEARCH, nearest(k=0), 400, "Invalid value for k"),
    "vector property": (SEARCH, nearest(limit=1), 400, "unknown property"),
    "syntax": (SEARCH, {"filter": "user = 'a'"}, 400, "Syntax error"),
    "unclosed text": (SEARCH, {"filter": "user eq 'a"}, 400, "Syntax error"),
    "what is left over": (SEARCH, {"filter": "user eq 'a' 'b'"}, 400, "Syntax error"),
    "filter field": (SEARCH, {"filter": "other eq 'a'"}, 400, "Could not find"),
    "not filterable": (SEARCH, {"filter": "plain eq 'a'"}, 400, "not a filterable"),
    "incompatible": (SEARCH, {"filter": "n eq 'a'"}, 400, "incompatible types"),
    "fraction": (SEARCH, {"filter": "n gt 1.5"}, 400, "Edm.Int64"),
    "operator": (SEARCH, {"filter": "n like 5"}, 400, "unknown operator"),
    "collection": (SEARCH, {"filter": "tags eq 'a'"}, 400, "incompatible types"),
    "any": (SEARCH, {"filter": "tags/any(t: t ne 'a')"}, 400, "'eq' in 'any'"),
    "all": (SEARCH, {"filter": "tags/all(t: search.in(t, 'a', ','))"}, 400, "not search.in in 'all'"),
    "lambda": (SEARCH, {"filter": "tags/any(t: user eq 'a')"}, 400, "range variable"),
    "many clauses": (SEARCH, {"filter": " or ".join(["n eq 1"] * 1001)}, 400, "too many clauses"),
}  # fmt: skip


@pytest.mark.parametrize("refused", A_REFUSED.values(), ids=A_REFUSED)
def test_azure_refuses(search: str, refused: tuple[str, Any, int, str]) -> None:
    path, body, status, said = refused
    found, text = ask("POST", search + path + VERSION, body, A_HEADERS)
    assert (found, said in text) == (status, True), text[:500]


@pytest.mark.parametrize(
    ("headers", "version", "status"),
    [({}, VERSION, 403), ({"api-key": "x"}, VERSION, 403), (A_HEADERS, "", 400), (A_HEADERS, "?api-version=1", 400)],
    ids=["no key", "wrong key", "no version", "wrong version"],
)
def test_azure_knows_its_callers(search: str, headers: dict[str, str], version: str, status: int) -> None:
    assert ask("GET", f"{search}/indexes{version}", None, headers)[0] == status
