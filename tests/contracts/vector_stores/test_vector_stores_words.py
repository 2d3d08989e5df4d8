"""The contract of keyword search: words are found in every form, nothing in a query is syntax, filters are exact."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.domain.filter import eq
from tests.contracts.conftest import DIMENSION, Shelf, Sync, ids, row


@pytest.fixture
def library(store: Sync, collection: str) -> str:
    texts = {
        "a": "User likes running in Lisbon",
        "b": "User ran a marathon; runs daily",
        "c": "User's café is called Über",
        "d": "用户喜欢绿茶",
        "e": "User works at ACME-Corp on project X9",
    }
    store.apply(collection, [row(id, memory=text) for id, text in texts.items()])
    if store.keyword_search(collection, "user", 1) is None:
        pytest.skip("this store has no keyword search")
    return collection


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run", "ab"),
        ("RUNNING!", "ab"),
        ("cafe uber", "c"),
        ("CAFÉ", "c"),
        ("acme", "e"),
        ("acme-corp", "e"),
        ("x9", "e"),
        ("绿茶", "d"),
        ("喜欢什么", "d"),
        ("茶", "d"),
        ("咖啡", ""),
        ("paris", ""),
        ("", ""),
        ("  ?! ", ""),
        ('"', ""),
        ("lisbon OR", "a"),
        ("NOT lisbon", "a"),
        ("lisb*", ""),
        ("memory:lisbon", "a"),
        ("lisbon) AND (paris", "a"),
        ("NEAR(lisbon paris)", "a"),
        ("'; DROP TABLE x; -- lisbon", "a"),
        ("^lisbon + {a}", "ab"),
        ("a\x00lisbon \ud800", "ab"),
    ],
)
def test_words_are_found_and_nothing_is_syntax(store: Sync, library: str, text: str, expected: str) -> None:
    hits = store.keyword_search(library, text, 9)
    assert sorted(ids(hits)) == list(expected)
    assert all(hit.score > 0 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_rarer_words_and_more_of_them_count_more(store: Sync, library: str) -> None:
    assert ids(store.keyword_search(library, "user likes lisbon", 9))[0] == "a"
    assert ids(store.keyword_search(library, "user marathon", 9))[0] == "b"


def test_keyword_search_is_exact_inside_the_filter(store: Sync, library: str) -> None:
    points = [row(f"{n:04}", memory=f"number {n} of alpha", user_id=f"u{n % 50}", agent_id="bot") for n in range(1000)]
    store.apply(library, points[::-1])
    for one, count in (
        (eq("user_id", "u3"), 20),
        (eq("agent_id", "bot"), 1000),
        (eq("memory", "number 7 of alpha"), 1),
    ):
        assert len(store.keyword_search(library, "alpha", 5000, one)) == count
        assert len(store.keyword_search(library, "alpha beta", 10, one)) == min(10, count)
    assert store.keyword_search(library, "lisbon", 5, eq("user_id", "u3")) == []
    tied = store.keyword_search(library, "alpha", 3, eq("user_id", "u3"))
    assert ids(tied) == ["0003", "0053", "0103"]
    assert ids(store.keyword_search(library, "alpha", 3, eq("agent_id", "bot"))) == ["0000", "0001", "0002"]


def test_words_follow_every_change(store: Sync, library: str) -> None:
    store.update(library, "a", payload=row("a", memory="User moved to Porto").payload)
    assert store.keyword_search(library, "lisbon", 5) == []
    assert ids(store.keyword_search(library, "porto", 5)) == ["a"]
    store.apply(library, [row("a", [0, 1], memory="User moved to Faro")], ["b"])
    assert ids(store.keyword_search(library, "porto faro marathon", 5)) == ["a"]
    assert store.check(library) == []


def test_a_very_long_query(store: Sync, library: str) -> None:
    assert ids(store.keyword_search(library, "zebra " * 2000 + "lisbon", 5)) == ["a"]


@settings(max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_store_agrees_with_the_embedded_one_on_words(
    shelf: Shelf, store: Sync, common: str, data: st.DataObject
) -> None:
    """Rows of ordinary text match exactly where they share a stem, which is computed here by the memory store."""
    if shelf.provider == "memory":
        return
    other = Shelf("memory", shelf.folder, shelf.loop).open()
    other.create_collection("words", DIMENSION)
    store.reset()
    vocabulary = [
        "run", "running", "runner", "happy", "happiness", "relational", "cafés", "Café", "naïve", "don't", "I'm",
        "2026", "x9", "tea", "teas", "绿茶", "茶", "ты",
    ]  # fmt: skip
    sentences = st.lists(st.sampled_from(vocabulary), max_size=6).map(" ".join)
    points = [row(str(n), memory=text) for n, text in enumerate(data.draw(st.lists(sentences, max_size=6)))]
    store.apply(common, points)
    other.apply("words", points)
    query = data.draw(sentences)
    for one in (None, eq("user_id", "alice")):
        expected = other.keyword_search("words", query, 99, one)
        found = store.keyword_search(common, query, 99, one)
        assert found is None or set(ids(found)) == set(ids(expected))
    other.close()
