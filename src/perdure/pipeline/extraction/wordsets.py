"""Small sets of words by name, from `sets.tsv`."""

from __future__ import annotations

from functools import cache

from perdure.pipeline import lexicon


@cache
def word_set(name: str) -> frozenset[str]:
    """The words of the set; KeyError for a name that the file does not have."""
    return frozenset(lexicon.pairs("sets.tsv")[name].split())
