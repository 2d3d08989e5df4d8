"""What embedders over a network share: lists of texts within a service's bounds, and vectors that can be used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdure.backends.service import ServiceError
from perdure.domain.errors import ConfigError


def known_dimension(models: Mapping[str, int], model: str, wanted: int | None, *, fixed: Collection[str] = ()) -> int:
    """The length of the model's vectors; ConfigError if it is not known, or the model cannot give the one wanted.

    `models` gives each known model's own length; all but those `fixed` can give fewer.
    """
    field = "embedder.config.dimensions"
    most = models.get(model)
    if wanted is None:
        if most is None:
            known = ", ".join(models)
            raise ConfigError(f"{field} is required: {model!r} is no known model ({known})", field=field)
        return most
    if most is not None and (wanted > most or (model in fixed and wanted != most)):
        bound = "exactly" if model in fixed else "at most"
        raise ConfigError(f"{field}: {model} gives {bound} {most}, not {wanted}", field=field, value=wanted)
    return wanted


def batches(texts: Sequence[str], most_texts: int, most_bytes: int) -> Iterator[list[str]]:
    """The texts in order, in lists within both bounds; a text beyond the bytes stands alone."""
    batch: list[str] = []
    total = 0
    for text in texts:
        size = len(text.encode())
        if batch and (len(batch) == most_texts or total + size > most_bytes):
            yield batch
            batch, total = [], 0
        batch.append(text)
        total += size
    if batch:
        yield batch


def unit_vectors(
    rows: ArrayLike, count: int, dimension: int, model: str, broken: Callable[[str], ServiceError]
) -> NDArray[np.float32]:
    """The rows as float32 of length 1; `broken` for other than `count` finite rows of `dimension` numbers."""
    try:
        vectors = np.asarray(rows, dtype=np.float64)  # so that scaling to length 1 loses nothing
    except (ValueError, TypeError):
        vectors = np.empty(0)
    if vectors.ndim != 2 or len(vectors) != count:
        raise broken("the answer is not one vector for each text")
    if vectors.shape[1] != dimension:
        raise broken(f"{model} gives vectors of {vectors.shape[1]} dimensions, not {dimension} as configured")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise broken("the answer holds a vector without a direction")
    return np.asarray(vectors / lengths, dtype=np.float32)
