"""Asking a model that may refuse a part of the request: learn what it refuses, and ask without."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from perdure.backends.service import RefusedError

R = TypeVar("R")
T = TypeVar("T")

Learn = Callable[[RefusedError, R], Exception | None]
"""Remembers what is refused, given the request that was; or the error to raise if nothing can be left out."""


async def asked(request: Callable[[], R], send: Callable[[R], Awaitable[T]], learn: Learn[R]) -> T:
    """What the request gives, made anew after each refusal that something is learned from."""
    while True:
        sent = request()
        try:
            return await send(sent)
        except RefusedError as refused:
            problem = learn(refused, sent)
        if problem:
            raise problem


async def streamed(
    request: Callable[[], R], send: Callable[[R], AsyncGenerator[str, None]], learn: Learn[R]
) -> AsyncGenerator[str, None]:
    """The same for an answer in pieces; a refusal comes before the first."""
    while True:
        sent = request()
        try:
            async with aclosing(send(sent)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        except RefusedError as refused:
            problem = learn(refused, sent)
        if problem:
            raise problem
