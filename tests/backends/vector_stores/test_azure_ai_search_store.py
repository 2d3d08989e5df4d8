"""What the `azure_ai_search` store asks of the service, and what its indexes are like."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.backends.vector_stores import azure_ai_search as client
from perdure.backends.vector_stores.azure_ai_search import GRAMMAR, index_name
from perdure.backends.vector_stores.common.filter_clauses import moment_mark, narrow, token, word_token
from perdure.domain.filter import Condition, Filter, Moment, Not, eq, parse_filter
from tests.backends.vector_stores import hosted_stores
from tests.backends.vector_stores.hosted_stores import AZURE_AI_SEARCH, Hosted
from tests.contracts.conftest import DIMENSION, Sync, ids, moment, row, vector
from tests.engines.azure_ai_search import AzureSearch

loop, service, make, store = hosted_stores.loop, hosted_stores.service, hosted_stores.make, hosted_stores.store
ALICE = eq("user_id", "alice")


@pytest.fixture
def hosted() -> Hosted:
    return AZURE_AI_SEARCH


def searches(service: AzureSearch) -> list[dict[str, Any]]:
    return [request.json for request in service.heard if request.path.endswith("/docs/search.post.search")]


# ------------------------------------------------------------------ what is asked

NOW = Moment(moment(100))
MICROSECONDS = 1767225700000000


def any_of(path: str, *values: Any) -> str:
    return f"tokens/any(t: search.in(t, '{','.join(token(path, value) for value in values)}', ','))"


def none_of(path: str, *values: Any) -> str:
    return f"tokens/all(t: not search.in(t, '{','.join(token(path, value) for value in values)}', ','))"


@pytest.mark.parametrize(
    ("filters", "clause", "exact"),
    [
        (ALICE, "user_id eq 'alice'", True),
        (eq("user_id", "o'brien' or true"), "user_id eq 'o''brien'' or true'", True),
        (Not(ALICE), none_of("user_id", "alice"), True),
        (Condition("run_id", "in", ("a", "b")), any_of("run_id", "a", "b"), True),
        (eq("user_id", "a\x00"), any_of("user_id", "a\x00"), True),
        (eq("user_id", "ü" * 20_000), any_of("user_id", "ü" * 20_000), True),
        (eq("tag", "work"), any_of("metadata.tag", "work"), True),
        (Condition("tag", "nin", ("a", 5)), none_of("metadata.tag", "a", 5), True),
        (Condition("n", "gt", 4), None, False),
        (Condition("memory", "contains", "x"), None, False),
        (Condition("expires_at", "lte", NOW), f"(expires_at ne null and expires_at le {MICROSECONDS})", True),
        (
            Not(Condition("expires_at", "lte", NOW)),
            f"(tokens/all(t: not search.in(t, '{moment_mark('expires_at')}', ',')) or "
            f"(expires_at ne null and expires_at ge {MICROSECONDS + 1}))",
            True,
        ),
        (
            parse_filter({"OR": [{"user_id": "alice"}, {"AND": [{"agent_id": "x"}, {"tag": "y"}]}]}),
            f"(user_id eq 'alice' or (agent_id eq 'x' and {any_of('metadata.tag', 'y')}))",
            True,
        ),
    ],
)  # fmt: skip
def test_filters_in_odata(filters: Filter, clause: str | None, exact: bool) -> None:
    narrowed = narrow(filters, GRAMMAR)
    assert (narrowed.clause, narrowed.exact) == (clause, exact)


def test_a_search_is_exhaustive_and_filtered_first(service: AzureSearch, store: Sync) -> None:
    store.apply("c", [row(str(n), [1, n], user_id=("alice", "bob")[n % 2]) for n in range(20)])
    service.heard.clear()
    assert ids(store.search("c", vector(1), 3, ALICE)) == ["0", "2", "4"]
    (asked,) = searches(service)
    assert asked == {
        "vectorQueries": [
            {"kind": "vector", "vector": vector(1).tolist(), "k": 4, "fields": "vector", "exhaustive": True}
        ],
        "vectorFilterMode": "preFilter",
        "filter": "user_id eq 'alice'",
        "select": "record,vector",
        "top": 4,
    }


def test_words_are_searched_as_tokens(service: AzureSearch, store: Sync) -> None:
    store.apply("c", [row("a", memory="likes running"), row("b", memory="likes tea")])
    service.heard.clear()
    assert ids(store.keyword_search("c", 'run +tea -"likes" AND', 5, ALICE)) == ["a", "b"]
    (asked,) = searches(service)
    words = [word_token(word) for word in ("run", "tea", "like", "and")]
    assert set(asked["search"].split()) <= set(words)
    assert (asked["queryType"], asked["searchMode"], asked["searchFields"]) == ("simple", "any", "stems")
    assert asked["scoringStatistics"] == "global"
    assert asked["filter"] == "user_id eq 'alice'"


def test_more_words_than_one_search_takes(store: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_WORDS", 2)
    store.apply("c", [row("a", memory="one two three four five"), row("b", memory="five"), row("c", memory="six")])
    assert ids(store.keyword_search("c", "one two three four five", 5)) == ["a", "b"]


def test_the_index_of_a_collection(service: AzureSearch, store: Sync) -> None:
    definition = service.indexes[index_name("perdure", "c")].definition
    fields = {field["name"]: field for field in definition["fields"]}
    assert json.loads(definition["description"]) == {"perdure": "perdure", "collection": "c", "model": ""}
    assert definition["vectorSearch"]["algorithms"] == [
        {"name": "exact", "kind": "exhaustiveKnn", "exhaustiveKnnParameters": {"metric": "dotProduct"}}
    ]
    assert fields["user_id"]["filterable"], "V81"
    assert not fields["user_id"]["searchable"]
    assert fields["tokens"] == {
        "name": "tokens", "type": "Collection(Edm.String)", "retrievable": True, "searchable": False,
        "filterable": True, "sortable": False, "facetable": False,
    }  # fmt: skip
    assert fields["expires_at"]["type"] == "Edm.Int64"
    assert not any(fields["record"][use] for use in ("searchable", "filterable", "sortable", "facetable"))
    assert (fields["stems"]["analyzer"], fields["vector"]["dimensions"]) == ("whitespace", DIMENSION)


def test_texts_that_cannot_be_indexed_as_they_are(store: Sync) -> None:
    users = {"long": "ü" * 20_000, "nul": "a\x00", "half": "a", "quote": "o'brien", "lone": "\ud800"}
    store.apply("c", [row(id, user_id=user) for id, user in users.items()])
    for id, user in users.items():
        assert ids(store.list("c", eq("user_id", user))) == [id]
        assert store.count("c", Condition("user_id", "ne", user)) == 4


def test_pages_and_batches_stay_below_the_limits(
    service: AzureSearch, store: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake refuses more: 1,000 documents or 16 MB in a request, a top of 1,000; its pages are smaller still."""
    store.apply("c", [row(f"{n:04}", [1, n]) for n in range(1100)])
    written = [len(request.json["value"]) for request in service.heard if request.path.endswith("search.index")]
    assert written == [1000, 100]
    assert ids(store.list("c")) == [f"{n:04}" for n in range(1100)]
    assert ids(store.search("c", vector(1), 1050)) == [f"{n:04}" for n in range(1050)]
    store.reset()
    assert store.count("c") == 0
    store.apply("c", [row(f"{n}", memory="x" * 1_500_000) for n in range(6)])
    assert store.count("c") == 6


# ------------------------------------------------------------------ names


def test_an_index_of_somebody_elses_is_left_alone(service: AzureSearch, store: Sync) -> None:
    service._create({"name": "somebody-elses", "fields": [{"name": "id", "type": "Edm.String", "key": True}]})
    assert store.list_collections() == ["c"]
    store.reset()
    store.delete_collection("c")
    assert "somebody-elses" in service.indexes
