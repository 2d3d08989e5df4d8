"""What an index of a scope takes: it knows that itself, and has little room that it does not use."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from perdure.pipeline.retrieval.growing import Growing
from tests.pipeline.retrieval.test_scope_index import entry, index_of


@pytest.mark.parametrize("count", [1, 10, 100, 1000])
def test_its_size_is_what_it_takes(count: int) -> None:
    texts = [" ".join(f"w{(number * place) % 700}" for place in range(1, 9)) for number in range(count)]
    entries = [entry(f"{number:036}", text, minute=number) for number, text in enumerate(texts)]
    features_of_words = index_of(entries)  # whatever is kept of words once is kept by now
    assert features_of_words.size > 0
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        index = index_of(entries)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken <= index.size + index.words.size <= 3 * taken


def test_rows_grow_by_less_where_there_are_many() -> None:
    small, large = Growing(np.float32, 4), Growing(np.float32, 4)
    small.extend(np.ones((2, 4), np.float32))
    assert small.room == 2 * 16
    large.extend(np.ones((10_000, 4), np.float32))
    large.append(np.ones(4, np.float32))
    assert large.room == 12_500 * 16
    assert len(large) == 10_001 and large.view.all()


def test_a_stem_that_stands_there_too_often_to_count_stays_where_it_stands() -> None:
    index = index_of([entry("a", "tea"), entry("b", "日" * 70_000), entry("c", "日本")])
    rows, counts = index.postings("日")
    assert [index.ids[index.owner[row]] for row in rows] == ["b", "c"]
    assert counts.tolist() == [65_535, 1]
