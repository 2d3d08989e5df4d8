"""Usage: what a piece of work took from language models and embedders."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls of language models that were answered, tokens, and what they cost; `a + b` adds up.

    `cached_tokens` is the part of `input_tokens` that the service had in its cache. `embedding_tokens` were read by an
    embedder over a network. `cost` is in US dollars by the published prices; None if the price of a model is unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    embedding_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.embedding_tokens + other.embedding_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )
