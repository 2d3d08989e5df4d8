"""What to do with texts that a service finds too much: ask in halves, and for a text alone by its beginning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure.backends.service import RefusedError

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
