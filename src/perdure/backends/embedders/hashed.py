"""A deterministic embedder without a model: the same words make the same vector on every machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.embedders.base import HINT, Embedder
from perdure.domain.text.readable import readable_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"[^\W_]+")
_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF


class HashedEmbedder(Embedder):
    """Counts words into buckets: texts are similar if they share words; meaning is ignored.

    Every lower-case run of letters and digits is hashed as "tok:" + word by FNV-1a (Fowler, Noll and Vo, 64 bits)
    modulo the dimension; the vector of counts is scaled to length 1. A text without words counts as the empty word.
    """

    name: ClassVar[str] = "hashed"
    local = True

    class Settings(BaseModel):
        """The number of buckets."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        dimensions: int = Field(default=384, ge=1, le=65_536)
        """Length of the vectors: with more dimensions, fewer words share a bucket."""

    def __init__(self, settings: Settings) -> None:
        self._dimension = settings.dimensions

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        words = [_WORD.findall(text.lower()) or [""] for text in readable_texts(texts, HINT)]
        counts = np.zeros((len(words), self._dimension), dtype=np.float32)
        rows = np.repeat(np.arange(len(words)), [len(found) for found in words])
        buckets = [_hash(word) % self._dimension for found in words for word in found]
        np.add.at(counts, (rows, np.array(buckets, dtype=np.intp)), np.float32(1))
        return np.asarray(counts / np.linalg.norm(counts, axis=1, keepdims=True), dtype=np.float32)


@lru_cache(maxsize=65_536)
def _hash(word: str) -> int:
    """FNV-1a, 64 bits."""
    value = _OFFSET
    for byte in b"tok:" + word.encode():
        value = ((value ^ byte) * _PRIME) & _MASK
    return value
