"""The words of all scopes in memory, each with the number and the vector that indexes share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import KeptWords
from perdure.domain.text.terms import key_of
from perdure.pipeline.retrieval.features import Keys, Vector
from perdure.pipeline.retrieval.growing import Growing

ASKED_BYTES = 8 * 2**20
"""Bytes of the likenesses of words that were asked for lately; the one asked for last is kept whatever it takes."""
ONE_THREAD = 2**18
"""Multiplications up to which OpenBLAS makes a product in the calling thread (its SMP_THRESHOLD_MIN, four times): other
threads would spin on the other cores after it."""
_WORD = 240  # bytes that a word takes beside its vector, as measured: its text, its key and two places in dicts


class WordTable:
    """Words with numbers from 1; number 0 means no word, with a zero vector. Thread-safe."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.texts: list[str] = [""]
        self._numbers: dict[int, int] = {}
        self._vectors, self._given = Growing(np.float32, dimension), Growing(np.bool_)
        self._vectors.append(np.zeros(dimension, np.float32))
        self._given.append(True)
        self._asked: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._missing = 0
        self._turn = threading.Lock()

    def __len__(self) -> int:
        return len(self.texts) - 1

    @property
    def size(self) -> int:
        """Return roughly its size in bytes, without words of questions (at most ASKED_BYTES)."""
        return self._vectors.room + self._given.room + _WORD * len(self.texts)

    def number(self, key: int) -> int | None:
        """Return a word's number by its key; None if unknown."""
        return self._numbers.get(key)

    def unknown(self, keys: Iterable[int]) -> list[int]:
        """Return the keys of unknown words."""
        return [key for key in keys if key not in self._numbers]

    def learn(self, words: Iterable[str]) -> None:
        """Add words without vectors; known words stay unchanged."""
        with self._turn:
            new = {key: word for word in words if (key := key_of(word)) not in self._numbers}
            self._add(list(new), list(new.values()), np.zeros(len(new), np.bool_))

    def take_in(self, kept: KeptWords) -> None:
        """Add a store's words with their vectors; known words stay unchanged."""
        with self._turn:
            new = [place for place, key in enumerate(kept.keys) if key not in self._numbers]
            if len(new) < len(kept.keys):
                kept = KeptWords(
                    [kept.keys[place] for place in new],
                    [kept.texts[place] for place in new],
                    kept.vectors[new],
                    kept.given[new],
                )
            if kept.given.any():  # of a hosted embedder no word ever has a vector, and there is no room for any
                self._make_room()
                self._vectors.extend(kept.vectors)
            self._add(kept.keys, kept.texts, kept.given)

    def give(self, vectors: Mapping[str, Vector]) -> None:
        """Set the vectors of words without one."""
        with self._turn:
            given = self._given.view
            self._make_room()
            numbers = [self._numbers.get(key_of(word), 0) for word in vectors]
            new = {
                number: vector for number, vector in zip(numbers, vectors.values(), strict=True) if not given[number]
            }
            if new:
                places = list(new)
                self._vectors.view[places] = np.stack(list(new.values()))
                given[places] = True
                self._missing -= len(new)
                self._asked.clear()

    def _make_room(self) -> None:
        """Add zero vectors for words without one."""
        self._vectors.extend(np.zeros((len(self.texts) - len(self._vectors), self.dimension), np.float32))

    def _add(self, keys: Sequence[int], texts: Sequence[str], given: NDArray[np.bool_]) -> None:
        first = len(self.texts)
        self._numbers.update(zip(keys, range(first, first + len(keys)), strict=True))
        self.texts.extend(texts)
        self._given.extend(given)
        self._missing += len(keys) - int(given.sum())

    def without_vector(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the words of these numbers that have no vector yet, each once."""
        if not self._missing:
            return []
        lacking = np.unique(numbers[~self._given.view[numbers]])
        return [self.texts[number] for number in lacking.tolist()]

    def vector(self, word: str) -> Vector | None:
        """Return a word's vector, or None."""
        number = self._numbers.get(key_of(word))
        return self._vectors.view[number] if number is not None and self._given.view[number] else None

    def numbers_of(self, keys: Keys) -> NDArray[np.int32]:
        """Return the numbers of keys whose words are all known."""
        return np.array([self._numbers[key] for key in keys.tolist()], np.int32)

    def compare(self, asked: Mapping[str, Vector]) -> None:
        """Compute the likenesses of all words that nobody asked for lately, in one pass over the known words."""
        with self._turn:
            new = [word for word in asked if word not in self._asked]
            if not new:
                return
            queries = np.ascontiguousarray(np.stack([asked[word] for word in new]).T)
            there = self._vectors.view
            found = np.zeros((len(self.texts), len(new)), np.float32)
            step = max(1, ONE_THREAD // queries.size)
            for start in range(0, len(there), step):
                part = there[start : start + step]
                np.matmul(part, queries, out=found[start : start + len(part)])
            np.clip(found, 0, 1, out=found)
            self._asked.update(zip(new, np.ascontiguousarray(found.T), strict=True))

    def likeness(self, word: str, vector: Vector) -> NDArray[np.float32]:
        """Return a word's likeness to each known word, in [0, 1], by number; shape (len + 1,)."""
        with self._turn:
            known = self._asked.get(word)
            start = 0 if known is None else len(known)
            if known is None or start < len(self.texts):
                # `einsum` runs in this thread alone; BLAS would wake its own threads for so little.
                added = np.zeros(len(self.texts) - start, np.float32)
                there = self._vectors.view[start:]
                added[: len(there)] = np.clip(np.einsum("ij,j->i", there, vector), 0, 1)
                known = added if known is None else np.concatenate((known, added))
                self._asked[word] = known
            self._asked.move_to_end(word)  # before others go: the longest unused may be this one, which has grown
            while len(self._asked) > 1 and len(self._asked) * known.nbytes > ASKED_BYTES:
                self._asked.popitem(last=False)
            return known
