"""The embedder without a model: FNV-1a, counts, length 1."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.embedders.hashed import HashedEmbedder
from perdure.backends.registry import build
from perdure.domain.errors import ConfigError

pytestmark = pytest.mark.covers("B23")


def embed(*texts: str, dimensions: int = 384) -> np.ndarray:
    return asyncio.run(HashedEmbedder(HashedEmbedder.Settings(dimensions=dimensions)).embed_batch(texts))


def fnv1a(data: bytes) -> int:
    """As Fowler, Noll and Vo describe it, written once more."""
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def test_the_reference_used_here_gives_the_published_values() -> None:
    assert fnv1a(b"") == 0xCBF29CE484222325
    assert fnv1a(b"a") == 0xAF63DC4C8601EC8C
    assert fnv1a(b"foobar") == 0x85944171F73967E8


@pytest.mark.covers("B23")
@given(st.lists(st.text(alphabet="abcXYZ09äß你й", min_size=1, max_size=6), min_size=1, max_size=8), st.integers(1, 500))
def test_a_vector_is_the_count_of_its_words_by_fnv1a(words: list[str], dimensions: int) -> None:
    expected = np.zeros(dimensions)
    for word, count in Counter(word.lower() for word in words).items():
        expected[fnv1a(b"tok:" + word.encode()) % dimensions] += count
    expected /= np.linalg.norm(expected)
    assert np.allclose(embed(" ".join(words), dimensions=dimensions)[0], expected, atol=1e-6)


@pytest.mark.covers("B23")
def test_related_questions_are_near_and_synonyms_are_not() -> None:
    memory, related, unrelated, dog, pet = embed(
        "User has a dog named Rex", "does the user have a dog called Rex", "quarterly revenue grew", "dog", "pet"
    )
    assert 0.45 <= memory @ related <= 0.99
    assert memory @ unrelated < memory @ related
    assert dog @ pet == 0


def test_case_punctuation_and_order_do_not_count() -> None:
    first, second = embed("Rex, the DOG!", "dog_the rex")
    assert np.allclose(first, second)


def test_words_of_every_script_count() -> None:
    same, other = embed("живёт в Осло", "в ОСЛО живёт")
    assert np.allclose(same, other)


def test_a_text_without_a_word_has_one_fixed_vector() -> None:
    vectors = embed("", "?!", "\ud800", dimensions=100)
    expected = np.zeros(100)
    expected[fnv1a(b"tok:") % 100] = 1
    assert np.allclose(vectors, expected)


def test_the_dimension_is_configured() -> None:
    embedder = build("embedders", "hashed", {"dimensions": 12})
    assert embedder.dimension == 12
    assert embedder.label == "hashed-12"
    assert build("embedders", "hashed", {}).dimension == 384
    with pytest.raises(ConfigError, match="dimensions"):
        build("embedders", "hashed", {"dimensions": 0})
