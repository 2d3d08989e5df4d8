"""What tokens cost, by the vendors' published prices as the package genai-prices carries them; nothing is fetched."""

from __future__ import annotations

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
