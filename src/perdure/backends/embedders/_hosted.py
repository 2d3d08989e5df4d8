"""What remote embedders share: batches within a service's bounds, and checked unit vectors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perdure.backends.http.service import RefusedError, ServiceError
from perdure.backends.shared.batches import bounded_batches
from perdure.domain.errors import ConfigError, InvalidInputError

# What every embedder does to texts before it reads them.


def readable_texts(texts: Sequence[str]) -> list[str]:
    """The texts as valid Unicode: a lone surrogate becomes U+FFFD. InvalidInputError for anything that is no text."""
    if isinstance(texts, str | bytes):
        raise InvalidInputError(
            f"texts must be a list of texts, not one {type(texts).__name__}: use embed() for one text",
            field="texts",
            value=texts,
        )
    return [_readable(text, position) for position, text in enumerate(texts)]


def _readable(text: str, position: int) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(
            f"texts[{position}] must be text, not {type(text).__name__}", field=f"texts[{position}]", value=text
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# What to do with texts that a service finds too much: ask in halves, and for a text alone by its beginning.

Row = TypeVar("Row")

_SHORTEST = 16
"""Characters; a text that is refused although it is no longer is refused for another reason."""


async def in_parts(
    texts: list[str],
    ask: Callable[[list[str]], Awaitable[Sequence[Row]]],
    too_much: Callable[[RefusedError], bool],
) -> list[Row]:
    """What `ask` gives for the texts, in order; the error in its RefusedError for anything but too much.

    An embedder reads the beginning of a long text in any case: its model has a limit. Where the service refuses instead
    of cutting, the cut is made here.
    """
    try:
        return list(await ask(texts))
    except RefusedError as refused:
        problem: Exception = refused.error
        given_up = not too_much(refused) or (len(texts) == 1 and len(texts[0]) <= _SHORTEST)
    if given_up:
        raise problem  # outside of the handler, so that nothing is chained to it
    if len(texts) == 1:
        return await in_parts([texts[0][: len(texts[0]) // 2]], ask, too_much)
    half = len(texts) // 2
    return [*await in_parts(texts[:half], ask, too_much), *await in_parts(texts[half:], ask, too_much)]


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
    return bounded_batches(texts, lambda text: len(text.encode()), most_size=most_bytes, most_items=most_texts)


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
