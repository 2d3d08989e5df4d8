"""Stores on an engine of documents lose no row, whatever the engine cannot do, and tell failures as ours."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.common.document_store import Failure
from perdure.backends.vector_stores.common.documents import decode, encode
from perdure.backends.vector_stores.common.filter_clauses import Span, facets, narrow, token
from perdure.backends.vector_stores.memory import MemoryVectorStore
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import Condition, Filter, Moment, Not, all_of, eq, matches, parse_filter
from tests.backends.vector_stores.document_engine import PLAIN, RICH, Clause, DictStore, Ranking, Weak
from tests.contracts import strategies
from tests.contracts.conftest import Sync, ids, moment, row, vector

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


def opened(kind: type[DictStore], loop: asyncio.AbstractEventLoop, **config: Any) -> Sync:
    store = Sync(kind(kind.Settings(**config)), loop)
    store.open()
    store.create_collection("c", 8)
    store.store.shelf.calls.clear()
    return store


KINDS = [DictStore, Ranking, Weak]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


# ------------------------------------------------------------------ filters


@settings(deadline=None, suppress_health_check=SLOW)
@given(payload=strategies.payloads(), filters=st.lists(strategies.filters(), min_size=1, max_size=8))
def test_a_clause_lets_every_matching_row_through(payload: dict[str, Any], filters: list[Filter]) -> None:
    document = encode("a", None, payload, word_tokens=True)
    for one in filters:
        for grammar in (PLAIN, RICH):
            narrowed = narrow(one, grammar)
            through = not narrowed.nothing and (narrowed.clause is None or narrowed.clause(document))
            if matches(one, payload):
                assert through, one
            elif narrowed.exact:
                assert not through, one


@pytest.mark.parametrize(
    ("operator", "operand", "inside", "outside"),
    [
        ("gt", 5, [5.000000000000001, 6], [5, 5.0, 4, "6", True]),
        ("gte", 5, [5, 5.0], [4.999999999999999]),
        ("lt", 2**53, [2**53 - 1, -(2**60)], [2**53, 2**53 + 1]),
        ("lte", 2**60, [2**60, 2**60 - 1], [2**60 + 1]),
        ("gt", "2026-01-01", ["2026-01-01T00:00:00.000001Z"], ["2026-01-01", "2025-12-31T23:59:59.999999Z"]),
        ("lt", "2026-01-01", ["2025-12-31T23:59:59.999999Z"], ["2026-01-01", "soon", 5]),
    ],
)
def test_bounds_are_neither_missed_nor_overstepped(
    operator: str, operand: Any, inside: list[Any], outside: list[Any]
) -> None:
    condition = parse_filter({"field": "x", "operator": operator, "value": operand})
    assert condition is not None
    for value in [*inside, *outside, None, [operand]]:
        document = encode("a", None, {"metadata": {"x": value}}, word_tokens=False)
        expected = matches(condition, {"metadata": {"x": value}})
        assert expected == (value in inside)
        for one, wanted in ((condition, expected), (Not(condition), not expected)):
            narrowed = narrow(one, RICH)
            assert narrowed.clause is not None
            assert narrowed.clause(document) or not wanted
            assert not narrowed.exact or narrowed.clause(document) == wanted


@pytest.mark.parametrize(
    ("operator", "bound"), [("lte", 1.7976931348623157e308), ("gte", -1.7976931348623157e308), ("gt", -(2**63))]
)
@pytest.mark.parametrize("turned", [False, True])
def test_no_engine_is_asked_about_infinity(operator: str, bound: float, turned: bool) -> None:
    def between(span: Span) -> Clause | None:
        assert all(edge is None or math.isfinite(edge) for edge in (span.low, span.high))
        return RICH.between(span)

    condition = Condition("n", operator, bound)
    one = Not(condition) if turned else condition
    narrowed = narrow(one, replace(RICH, between=between))
    for value in (5, -1.7976931348623157e308, 1.7976931348623157e308, 2**1000, "5", None, [5]):
        payload = {"metadata": {"n": value}}
        if matches(one, payload):
            assert narrowed.clause is None or narrowed.clause(encode("a", None, payload, word_tokens=False))


def test_what_can_never_match_asks_nothing(loop: asyncio.AbstractEventLoop) -> None:
    store = opened(DictStore, loop)
    store.count("c")
    store.store.shelf.calls.clear()
    for one in (Condition("n", "in", ()), all_of(eq("user_id", "a"), Condition("n", "in", ())), eq("user_id", 5)):
        assert store.search("c", vector(1), 5, one) == []
        assert store.count("c", one) == 0
        assert store.list("c", one).points == []
        assert store.keyword_search("c", "word", 5, one) == []
    assert store.store.shelf.calls == []


def test_a_scope_stays_in_the_clause_of_the_largest_filter() -> None:
    wide = parse_filter({"OR": [{"n": number} for number in range(5000)]})
    narrowed = narrow(all_of(wide, eq("user_id", "alice")), RICH)
    assert narrowed.clause is not None
    assert not narrowed.exact
    assert not narrowed.clause(encode("a", None, {"user_id": "bob"}, word_tokens=False))


def test_tokens_tell_fields_kinds_and_places_apart() -> None:
    found = facets({"kind": "x", "metadata": {"kind": "x", "n": 1, "flag": True, "text": "1", "list": [1.0, "x"]}})
    assert len(set(found.tokens)) == len(found.tokens)
    for path, value in (("kind", "x"), ("metadata.n", 1.0), ("metadata.list", 1), ("metadata.flag", True)):
        assert token(path, value) in found.tokens
    for path, value in (("metadata.n", True), ("metadata.n", "1"), ("metadata.flag", 1), ("metadata.text", 1)):
        assert token(path, value) not in found.tokens
    assert token("metadata.due", Moment(moment(0))) in facets({"metadata": {"due": "2026-01-01"}}).tokens


# ------------------------------------------------------------------ rows


def test_a_record_carries_everything_unchanged() -> None:
    payload = {
        "memory": "lone \ud800 nul \x00",
        "metadata": {"one": 1, "point": 1.0, "zero": -0.0, "deep": [{"a": None}]},
    }
    for numbers in (None, vector(), vector(0.6, 0.8)):
        document = encode('id"\ud800', numbers, payload, word_tokens=True)
        assert document.record.isascii()
        found = decode(document.record, vector(1e-20))
        assert (found.id, found.payload) == ('id"\ud800', payload)
        assert str(found.payload["metadata"]) == str(payload["metadata"])
        if numbers is None or not numbers.any():
            assert (found.vector is None) == (numbers is None)
            assert found.vector is None or not found.vector.any()
    assert document.memory.encode()


@each_kind
@settings(deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_the_answers_are_those_of_the_memory_store(
    kind: type[DictStore], loop: asyncio.AbstractEventLoop, data: st.DataObject
) -> None:
    store = opened(kind, loop)
    plain = Sync(MemoryVectorStore(MemoryVectorStore.Settings()), loop)
    plain.open()
    plain.create_collection("c", 8)
    for n, payload in enumerate(data.draw(st.lists(strategies.payloads(), max_size=12))):
        numbers = data.draw(st.one_of(st.none(), strategies.coordinates))
        point = Point(f"r{n}", None if numbers is None else vector(*numbers), payload)
        store.apply("c", [point])
        plain.apply("c", [point])
    query, limit = vector(*data.draw(strategies.coordinates)), data.draw(st.integers(1, 9))
    for one in (None, data.draw(strategies.filters())):
        expected = plain.search("c", query, limit, one)
        found = store.search("c", query, limit, one)
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=2e-6)
        every = {hit.id: hit for hit in plain.search("c", query, 99, one)}  # of equal ones either may come first
        assert len(set(ids(found))) == len(found)
        for hit in found:
            assert hit.payload == every[hit.id].payload
            assert hit.score == pytest.approx(every[hit.id].score, abs=2e-6)
        assert ids(store.list("c", one, limit)) == ids(plain.list("c", one, limit))
        assert store.list("c", one, limit).next_cursor == plain.list("c", one, limit).next_cursor
        assert store.count("c", one) == plain.count("c", one)
        assert ids(store.unembedded("c", limit)) == ids(plain.unembedded("c", limit))
        words = set(ids(store.keyword_search("c", "work home null 北京", 99, one)))
        assert words == set(ids(plain.keyword_search("c", "work home null 北京", 99, one)))
        if not store.store.ranks_words:
            assert ids(store.keyword_search("c", "work home", limit, one)) == ids(
                plain.keyword_search("c", "work home", limit, one)
            )


def test_a_selective_filter_is_asked_for_more_until_enough(loop: asyncio.AbstractEventLoop) -> None:
    store = opened(DictStore, loop)
    near = [row(f"near{n:03}", [1, n / 1000], memory="tea") for n in range(300)]
    far = [row(f"far{n}", [0, 1], memory="Straße") for n in range(5)]
    store.apply("c", near + far)
    hits = store.search("c", vector(1), 5, parse_filter({"memory": {"icontains": "STRASSE"}}))
    assert sorted(ids(hits)) == ids(far)
    asked = [int(call.split()[1]) for call in store.store.shelf.calls if call.startswith("nearest")]
    assert asked == [6, 24, 96, 384]


def test_ties_at_the_cut_are_asked_for_until_told_apart(loop: asyncio.AbstractEventLoop) -> None:
    store = opened(DictStore, loop)
    store.apply("c", [row(f"{n:03}", [1, 1]) for n in reversed(range(50))])
    assert ids(store.search("c", vector(1), 3)) == ["000", "001", "002"]
    weak = opened(Weak, loop)
    weak.apply("c", [row(f"{n:03}", [1, 1]) for n in reversed(range(50))])
    assert ids(weak.search("c", vector(1), 3)) == ["000", "001", "002"]
    assert weak.store.shelf.calls[-1] == "scan"


# ------------------------------------------------------------------ failures


def test_a_passing_failure_is_tried_again(loop: asyncio.AbstractEventLoop) -> None:
    store = opened(DictStore, loop, retries=3)
    store.store.shelf.failures = [Failure("busy", passing=True)] * 3
    store.apply("c", [row("a")])
    assert ids(store.list("c")) == ["a"]
    assert store.store.shelf.calls.count("find") == 4


def test_a_failure_that_stays_is_told_without_the_drivers_exception(loop: asyncio.AbstractEventLoop) -> None:
    store = opened(DictStore, loop, retries=2)
    store.count("c")
    for failures, message in (([Failure("busy", passing=True)] * 3, "busy"), ([Failure("wrong key")], "wrong key")):
        store.store.shelf.failures = list(failures)
        store.store.shelf.calls.clear()
        with pytest.raises(VectorStoreError, match=f"dict: {message}"):
            store.search("c", vector(1), 5)
        assert len(store.store.shelf.calls) == len(failures)


def test_a_store_that_cannot_be_reached_stays_closed(loop: asyncio.AbstractEventLoop) -> None:
    store = Sync(DictStore(DictStore.Settings(retries=0)), loop)
    store.store.shelf.failures = [Failure("nobody answers", passing=True)]
    with pytest.raises(VectorStoreError, match="nobody answers"):
        store.open()
    with pytest.raises(VectorStoreError, match="not open"):
        store.list_collections()
    store.open()
    assert store.list_collections() == []


def test_a_collection_made_anew_with_another_dimension_is_seen(loop: asyncio.AbstractEventLoop) -> None:
    store = opened(DictStore, loop)
    store.apply("c", [row("a")])
    other = Sync(DictStore(DictStore.Settings(), store.store.shelf), loop)
    other.open()
    other.delete_collection("c")
    with pytest.raises(VectorStoreError, match="'c'"):
        store.search("c", vector(1), 5)
    other.create_collection("c", 2)
    store.apply("c", [Point("b", np.ones(2, np.float32), {})])
    assert store.get_collection_info("c").dimension == 2
