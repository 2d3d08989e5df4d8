"""Token usage: providers report every answer, and an open meter adds them up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from perdure.domain.event import Usage

# What tokens cost, by the vendors' published prices as the package genai-prices carries them; nothing is fetched.

_VENDORS = {"azure_openai": "azure"}  # providers that genai-prices knows by another name


def cost(provider: str, model: str, input_tokens: int, output_tokens: int = 0, cached_tokens: int = 0) -> float | None:
    """Return the US dollars of one call; None if the model's price, or the package, is missing."""
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
    """Adds up usage while it is open, also from tasks and threads started meanwhile."""

    def __init__(self) -> None:
        self._usage = Usage()
        self._guard = threading.Lock()

    @property
    def usage(self) -> Usage:
        """Return the sum so far."""
        with self._guard:
            return self._usage

    def add(self, usage: Usage) -> None:
        """Add usage."""
        with self._guard:
            self._usage += usage


_open_meters: ContextVar[tuple[Meter, ...]] = ContextVar("perdure_meters", default=())


@contextmanager
def metered() -> Iterator[Meter]:
    """Open a meter for the work inside; nested meters both count, and tasks inherit their creator's meters."""
    meter = Meter()
    token = _open_meters.set((*_open_meters.get(), meter))
    try:
        yield meter
    finally:
        _open_meters.reset(token)


def generated(provider: str, model: str, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> None:
    """Report a language model's call to every open meter; None as input tokens means that the cost is unknown."""
    if meters := _open_meters.get():
        price = cost(provider, model, input_tokens, output_tokens, cached_tokens) if input_tokens else None
        usage = Usage(1, input_tokens, output_tokens, cached_tokens, cost=price)
        for meter in meters:
            meter.add(usage)


def embedded(provider: str, model: str, tokens: int) -> None:
    """Report an embedder's call to every open meter."""
    if meters := _open_meters.get():
        usage = Usage(embedding_tokens=tokens, cost=cost(provider, model, tokens) if tokens else None)
        for meter in meters:
            meter.add(usage)
