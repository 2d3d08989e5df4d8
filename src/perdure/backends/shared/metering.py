"""Token usage: providers report every answer, and a meter around the work adds them up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from perdure.domain.event import Usage

# What tokens cost, by the vendors' published prices as the package genai-prices carries them; nothing is fetched.

_VENDORS = {"azure_openai": "azure"}
"""Providers that genai-prices knows by another name."""


def cost(provider: str, model: str, input_tokens: int, output_tokens: int = 0, cached_tokens: int = 0) -> float | None:
    """US dollars for one call; None where the model's price, or the package, is not there."""
    try:
        from genai_prices import Usage, calc_price  # 0.1 s, and only for those who pay
    except ImportError:
        return None
    try:
        used = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cache_read_tokens=cached_tokens)
        return float(calc_price(used, model, provider_id=_VENDORS.get(provider, provider)).total_price)
    except (LookupError, ValueError):
        return None


class Meter:
    """Adds up what is spent while it is open, also in other tasks and threads that the work began."""

    def __init__(self) -> None:
        self._usage = Usage()
        self._guard = threading.Lock()

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        with self._guard:
            return self._usage

    def add(self, usage: Usage) -> None:
        """Count this too."""
        with self._guard:
            self._usage += usage


_open_meters: ContextVar[tuple[Meter, ...]] = ContextVar("perdure_meters", default=())


@contextmanager
def metered() -> Iterator[Meter]:
    """A meter for what the work inside spends; one inside another counts for both.

    Tasks inherit the meters that were open when they began, and two tasks with meters of their own never mix.
    """
    meter = Meter()
    token = _open_meters.set((*_open_meters.get(), meter))
    try:
        yield meter
    finally:
        _open_meters.reset(token)


def generated(provider: str, model: str, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> None:
    """Report an answered call of a language model to every open meter; without one, nothing happens.

    No input tokens: the service did not count, and what the call cost is not known.
    """
    if meters := _open_meters.get():
        price = cost(provider, model, input_tokens, output_tokens, cached_tokens) if input_tokens else None
        usage = Usage(1, input_tokens, output_tokens, cached_tokens, cost=price)
        for meter in meters:
            meter.add(usage)


def embedded(provider: str, model: str, tokens: int) -> None:
    """Report an answered call of an embedder in the same way."""
    if meters := _open_meters.get():
        usage = Usage(embedding_tokens=tokens, cost=cost(provider, model, tokens) if tokens else None)
        for meter in meters:
            meter.add(usage)
