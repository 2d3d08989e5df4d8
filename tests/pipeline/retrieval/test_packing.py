"""Passage vectors as text: what is packed comes out again, and anything else is no vectors."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from perdure.pipeline.retrieval.features import pack, unpack

DIMENSION = 16

numbers = st.floats(-1e6, 1e6, width=32).map(lambda number: 0.0 if abs(number) < 1e-6 else number)
rows = st.integers(1, 5).flatmap(lambda count: arrays(np.float32, (count, DIMENSION), elements=numbers))


@given(rows)
def test_what_is_packed_points_where_it_did(vectors: NDArray[np.float32]) -> None:
    found = unpack(pack(vectors), DIMENSION)
    assert found.shape == vectors.shape
    assert found.dtype == np.float32
    for one, other in zip(vectors.astype(np.float64), found.astype(np.float64), strict=True):
        length = np.linalg.norm(one)
        if length == 0:
            assert not other.any()
            continue
        assert np.linalg.norm(other) == pytest.approx(1, abs=1e-5)
        step = np.abs(one).max() / 127 / 2  # a number is off by half a step at most
        assert np.linalg.norm(one / length - other) <= 2.1 * step * np.sqrt(DIMENSION) / length


def test_cosines_are_kept_to_five_thousandths() -> None:
    drawn = np.random.default_rng(7).normal(size=(200, 384)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    found = unpack(pack(drawn), 384)
    assert np.abs(found @ drawn[0] - drawn @ drawn[0]).max() < 0.005


def test_it_is_small_text() -> None:
    packed = pack(np.ones((3, 384), np.float32))
    assert packed.isascii()
    assert len(base64.b64decode(packed)) == 3 * 384


@pytest.mark.parametrize(
    "text",
    [None, 5, b"AAAA", [], "", "no base64!", "ünïcödé", "AAAA", "A" * 401],
)
def test_anything_else_is_no_vectors(text: object) -> None:
    assert unpack(text, DIMENSION).shape == (0, DIMENSION)


def test_vectors_of_another_dimension_are_no_vectors() -> None:
    assert unpack(pack(np.ones((1, 8), np.float32)), DIMENSION).shape == (0, DIMENSION)


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    assert unpack(text, DIMENSION).shape[1] == DIMENSION
