"""The contract of lists, pages, limits and counts."""

from __future__ import annotations

import numpy as np
import pytest

from perdure.domain.errors import InvalidInputError
from perdure.domain.filter import eq
from tests.contracts.conftest import Sync, ids, moment, row, vector


def test_lists_are_ordered_by_time_and_id_and_come_in_pages(store: Sync, collection: str) -> None:
    rows = [row(f"{number:03}", created_at=moment(number // 3)) for number in range(50)]
    store.apply(collection, rows[::-1])
    expected = [point.id for point in rows]
    assert ids(store.list(collection)) == expected
    assert store.list(collection).next_cursor is None
    for filters in (None, eq("user_id", "alice"), eq("kind", "facts")):
        seen: list[str] = []
        cursor = None
        while True:
            page = store.list(collection, filters, 7, cursor)
            seen += ids(page)
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page.points) == 7
        assert seen == expected
    assert store.list(collection, None, 50).next_cursor is None


def test_pages_are_stable_while_others_write(store: Sync, collection: str) -> None:
    store.apply(collection, [row(f"{number:02}", created_at=moment(number)) for number in range(10)])
    page = store.list(collection, eq("user_id", "alice"), 4)
    store.apply(collection, [row("early", created_at=moment(0)), row("late", created_at=moment(99))], ["03", "05"])
    rest = store.list(collection, eq("user_id", "alice"), None, page.next_cursor)
    assert ids(page) + ids(rest) == ["00", "01", "02", "03", "04", "06", "07", "08", "09", "late"]


def test_rows_without_a_time_come_first(store: Sync, collection: str) -> None:
    store.apply(collection, [row("b"), row("a", created_at=...), row("c", created_at=moment(5))])
    page = store.list(collection, limit=1)
    assert ids(page) == ["a"]
    assert ids(store.list(collection, cursor=page.next_cursor)) == ["b", "c"]


def test_lists_give_vectors_only_when_asked(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a", [0, 1])])
    assert store.list(collection).points[0].vector is None
    found = store.list(collection, with_vectors=True).points[0].vector
    np.testing.assert_allclose(found, vector(0, 1))


@pytest.mark.parametrize("cursor", ["", "nonsense", "bnVsbA==", "WyJhIl0=", "WzEsIDJd", "ünï", "'; DROP TABLE x"])
def test_a_cursor_that_is_none(store: Sync, collection: str, cursor: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        store.list(collection, cursor=cursor)
    assert (caught.value.field, caught.value.value) == ("cursor", cursor)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "3"])
def test_a_limit_is_a_whole_number_from_1_on(store: Sync, collection: str, limit: object) -> None:
    calls = (
        lambda: store.search(collection, vector(1), limit),
        lambda: store.keyword_search(collection, "text", limit),
        lambda: store.list(collection, limit=limit),
        lambda: store.unembedded(collection, limit),
    )
    for call in calls:
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert (caught.value.field, caught.value.value) == ("limit", limit)


def test_a_limit_may_be_beyond_all_rows(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a"), row("b")])
    limit = 10**30
    assert ids(store.search(collection, vector(1), limit)) == ["a", "b"]
    assert ids(store.list(collection, limit=limit)) == ["a", "b"]
    assert store.unembedded(collection, limit) == []


def test_count(store: Sync, collection: str) -> None:
    store.apply(collection, [row(str(number), user_id=f"u{number % 2}", n=number) for number in range(9)])
    assert store.count(collection) == 9
    assert store.count(collection, eq("user_id", "u0")) == 5
    assert store.count(collection, eq("user_id", "nobody")) == 0
