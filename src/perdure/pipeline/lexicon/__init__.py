"""Vocabulary of the rules curator: plain UTF-8 files in this folder, each read once.

`#` opens a comment line; blank lines are skipped. A missing file is a FileNotFoundError naming it, a line without its
tab a ValueError naming file and line: both are faults of the package, not of a caller.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def lines(name: str) -> tuple[str, ...]:
    """The entries of a file in their order, without comments, blank lines and outer white space."""
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    stripped = (line.strip() for line in text.splitlines())
    return tuple(line for line in stripped if line and not line.startswith("#"))


@cache
def words(name: str) -> frozenset[str]:
    """The entries of a file, one a line, as a set."""
    return frozenset(lines(name))


@cache
def pairs(name: str) -> dict[str, str]:
    """The entries of a file as left to right of the first tab; a later left side replaces an earlier one.

    The mapping is shared between callers, who only read it.
    """
    table: dict[str, str] = {}
    for entry in lines(name):
        left, tab, right = entry.partition("\t")
        if not tab:
            raise ValueError(f"{name}: expected a tab in {entry!r}")
        table[left.strip()] = right.strip()
    return table


# Small sets of words by name, from `sets.tsv`.


@cache
def word_set(name: str) -> frozenset[str]:
    """The words of the set; KeyError for a name that the file does not have."""
    return frozenset(pairs("sets.tsv")[name].split())
