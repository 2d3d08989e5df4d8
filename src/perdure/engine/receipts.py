"""Receipts: how the score of a memory came about, in numbers (`explain=True`)."""

from __future__ import annotations

from typing import Any

from perdure.domain.memory import MemoryItem
from perdure.engine.fused_search import Found
from perdure.engine.queries import Query


def similarity_receipt(item: MemoryItem, text: str, query: Query) -> dict[str, Any]:
    """Of a preset that goes by cosine."""
    return {
        "preset": query.preset.name,
        "query": text,
        "similarity": item.similarity,
        "score": item.score,
        "threshold": query.preset.threshold if query.threshold is None else query.threshold,
        "matched_by": "words" if item.similarity is None else "meaning",
    }


def fused_receipt(item: MemoryItem, found: Found, number: int, query: Query) -> dict[str, Any]:
    """Of fused search: what each arm and signal gave, as it was added, and where the memory ranked."""
    place = found.places[number]
    unit = found.ranked.units[place]
    shares = {name: round(float(values[unit]), 4) for name, values in found.ranked.shares.items() if values[unit]}
    window = found.question.window
    return {
        "preset": query.preset.name,
        "query": found.question.text,
        "words": list(found.question.words),
        "named": sorted(found.question.named),
        "time_window": None if window is None else _told(window),
        "similarity": item.similarity,
        "score": item.score,
        "threshold": query.threshold,
        "rank": place + 1,
        "of": len(found.ranked.ids),
        "fused": round(float(found.ranked.fused[place]), 4),
        "shares": shares,
        "matched_by": max((name for name in ("lexical", "dense", "likeness")), key=lambda name: shares.get(name, 0.0)),
    }


def _told(window: Any) -> dict[str, Any]:
    return {
        "start": None if window.start is None else window.start.isoformat(),
        "end": None if window.end is None else window.end.isoformat(),
        "grain": window.grain,
        "month": window.month,
    }
