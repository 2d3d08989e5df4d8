"""Learned judgements of two texts read together: how a statement stands to an older one, and what is worth keeping.

The encoder's lower layers are its own; the upper ones, and an output for each judgement, were trained on pairs of
statements (benchmarks/heads). They are in `judge.npz`, in whole numbers of 8 bits with a scale for each row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.backends.embedders._minilm_graph import HIDDEN, MASKED, PAIRED, Weights, map_tensors
from perdure.backends.shared.onnx import Session
from perdure.domain.errors import EmbeddingError
from perdure.domain.fact import Relation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TRAINED = "judge.npz"
LONGEST = 128
"""Tokens of a pair, as in training (benchmarks/heads/train.py); of the first text at most half."""
WIDE = 512
"""Tokens of one run, padding included."""
WORDS = "embeddings.word_embeddings.weight"
_PLACES = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")


def trained_weights(file: Path | None = None) -> dict[str, NDArray[np.float32]]:
    """Return the trained layers and outputs in float32, by their names: the packaged ones, or those of a file."""
    import numpy as np

    found: dict[str, NDArray[np.float32]] = {}
    with (file or files(__package__) / TRAINED).open("rb") as stream, np.load(stream) as stored:
        for name in stored.files:
            if name.endswith(".scale"):
                continue
            value = stored[name]
            scale = stored[f"{name}.scale"] if f"{name}.scale" in stored.files else None
            found[name] = value.astype(np.float32) * (1 if scale is None else scale[:, None].astype(np.float32))
    return found


@cache
def trained_digest() -> str:
    """Return the SHA-256 of the trained layers' file as hexadecimal text."""
    return hashlib.sha256((files(__package__) / TRAINED).read_bytes()).hexdigest()


def judge_weights(weights: Weights) -> dict[str, NDArray[np.float32]]:
    """Return the encoder's weights with the trained ones in their places."""
    return {**weights, **trained_weights()}


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The encoder's table of words, in its file and not in memory, and what each place in a text adds."""

    words: NDArray[np.floating[Any]]
    places: NDArray[np.float32]

    @classmethod
    def read(cls, file: Path) -> Embeddings:
        import numpy as np

        try:
            found = dict(map_tensors(file))
            words, places, types = (found[name] for name in (WORDS, *_PLACES))
            return cls(words, np.asarray(places.astype(np.float32) + types[0].astype(np.float32)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise EmbeddingError(f"minilm: {file} has no word table: {error!r}") from error


class Judge:
    """The loaded judgements; synchronous, and any number of threads may ask at once."""

    def __init__(self, session: Session, tokenize: Callable[[str], list[int]], embeddings: Embeddings) -> None:
        self._session = session
        self._tokenize = tokenize
        self._embeddings = embeddings

    def relations(self, pairs: Sequence[tuple[str, str]]) -> list[Relation]:
        """Return how each newer statement stands to the older one beside it."""
        found = self._ask("relation", pairs)
        return [Relation(*(float(share) for share in row)) for row in found]

    def worth(self, model: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return how likely each is worth keeping: a `sentence` after a message, or a `fact` of a sentence."""
        return [float(row[1]) for row in self._ask(model, pairs)]

    def _ask(self, output: str, pairs: Sequence[tuple[str, str]]) -> list[NDArray[np.float32]]:
        import numpy as np

        read = [self._read(first, second) for first, second in pairs]
        found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(read)
        for places in _runs([len(ids) for ids, _ in read]):
            fed = self._feed([read[place] for place in places])
            try:
                rows = self._session.run([output], fed)[0]
            except Exception as error:  # the driver's exceptions have no common base
                raise EmbeddingError(f"minilm: the judgements could not be run: {error}") from error
            for place, row in zip(places, rows, strict=True):
                found[place] = row
        return found

    def _read(self, first: str, second: str) -> tuple[list[int], int]:
        """Return the tokens of a pair, and where its second text begins."""
        start, *one, end = self._tokenize(first)
        two = self._tokenize(second)[1:-1]
        one = one[: LONGEST // 2 - 2]
        return [start, *one, end, *two[: LONGEST - len(one) - 3], end], len(one) + 2

    def _feed(self, read: Sequence[tuple[list[int], int]]) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        width = max(len(ids) for ids, _ in read)
        states = np.zeros((len(read), width, HIDDEN), np.float32)
        apart = np.full((len(read), 1, 1, width), MASKED, np.float32)
        first, second = (np.zeros((len(read), 1, width), np.float32) for _ in range(2))
        for row, (ids, start) in enumerate(read):
            length = len(ids)
            states[row, :length] = self._embeddings.words[ids].astype(np.float32) + self._embeddings.places[:length]
            apart[row, 0, 0, :length] = 0
            first[row, 0, :start] = 1 / start
            second[row, 0, start:length] = 1 / (length - start)
        return dict(zip(PAIRED, (states, apart, first, second), strict=True))


def _runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of pairs that are read in one run: of like length, within `WIDE` tokens."""
    run: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if run and (len(run) + 1) * lengths[place] > WIDE:
            yield run
            run = []
        run.append(place)
    if run:
        yield run
