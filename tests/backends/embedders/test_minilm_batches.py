"""Which texts minilm reads together: every text once, little padding, full runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.embedders.minilm import BATCH_TOKENS, MAX_TOKENS, batches


@given(st.lists(st.integers(2, MAX_TOKENS), max_size=200))
def test_batches_hold_every_text_once_and_no_more_tokens_than_allowed(lengths: list[int]) -> None:
    found = list(batches(lengths))
    assert sorted(position for batch in found for position in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[position] for position in batch) <= BATCH_TOKENS
    widest = [max(lengths[position] for position in batch) for batch in found]
    assert widest == sorted(widest)


@pytest.mark.parametrize("count", [4, 8, 40, 500])
def test_mixed_lengths_are_hardly_padded(count: int) -> None:
    lengths = [int(value) for value in np.random.default_rng(1).integers(5, 60, count)]
    found = list(batches(lengths))
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in found)
    assert padded <= 1.1 * sum(lengths)
    assert len(found) < count


def test_equal_lengths_fill_their_runs() -> None:
    assert [len(batch) for batch in batches([16] * 40)] == [16, 16, 8]
