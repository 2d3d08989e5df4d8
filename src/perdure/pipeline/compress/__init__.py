"""Compression: old messages of a conversation give way to a structured state of it (001 §14; V83 to V85)."""

from perdure.pipeline.compress.messages import compressed, turn_count, turns_of
from perdure.pipeline.compress.reading import MOST_READ
from perdure.pipeline.compress.state import COVERED, MOST_TOKENS, bounded, joined, rendered, state_of, words_of

__all__ = [
    "COVERED",
    "MOST_READ",
    "MOST_TOKENS",
    "bounded",
    "compressed",
    "joined",
    "rendered",
    "state_of",
    "turn_count",
    "turns_of",
    "words_of",
]
