"""The likenesses of words that were asked for lately, which are kept within bounds while the table grows."""

from __future__ import annotations

import numpy as np
import pytest

from perdure.pipeline.retrieval import word_table
from perdure.pipeline.retrieval.word_table import WordTable

VECTOR = np.array([1, 0], np.float32)


def grown(table: WordTable, words: int) -> None:
    """Let the table know so many words, all like `VECTOR`."""
    table.learn([f"word{number}" for number in range(words)])
    table.give({f"word{number}": VECTOR for number in range(words)})


def test_a_word_asked_for_long_ago_is_asked_for_again_after_the_table_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = WordTable(2)
    grown(table, 10)
    monkeypatch.setattr(word_table, "ASKED_BYTES", 2 * 4 * 11)
    for word in ("first", "second"):
        assert table.likeness(word, VECTOR).tolist() == [0, *[1] * 10]
    table.learn(["word10"])  # without a vector: what was asked for is kept, and shorter than the table
    assert table.likeness("first", VECTOR).tolist() == [0, *[1] * 10, 0]


def test_what_is_kept_stays_within_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = WordTable(2)
    grown(table, 10)
    monkeypatch.setattr(word_table, "ASKED_BYTES", 3 * 4 * 11)
    first = table.likeness("asked0", VECTOR)
    for number in range(1, 6):
        table.likeness(f"asked{number}", VECTOR)
    assert table.likeness("asked5", VECTOR) is table.likeness("asked5", VECTOR)
    assert table.likeness("asked0", VECTOR) is not first


def test_words_compared_at_once_are_as_like_as_each_alone() -> None:
    draw = np.random.default_rng(3)
    known = {f"word{number}": vector for number, vector in enumerate(draw.normal(size=(1_000, 384)) / 20)}
    asked = {f"asked{number}": vector for number, vector in enumerate(draw.normal(size=(7, 384)) / 20)}
    together, alone = WordTable(384), WordTable(384)
    for table in (together, alone):
        table.learn([*known, "without a vector"])
        table.give({word: vector.astype(np.float32) for word, vector in known.items()})
    vectors = {word: vector.astype(np.float32) for word, vector in asked.items()}
    together.compare(vectors)
    for word, vector in vectors.items():
        likeness = together.likeness(word, vector)
        assert likeness.shape == (1_002,)
        assert likeness.flags.c_contiguous
        assert likeness == pytest.approx(alone.likeness(word, vector), abs=1e-6)
