"""An entity, put together of all that memories say when they name it; and which names are like another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from perdure.domain.graph import DEFAULT_TYPE, Entity, entity_key
from perdure.domain.terms import is_unspaced, runs

BEGINNING = 3
"""Characters of a word by which names are alike: Alex and Alexander, Postgres and PostgreSQL."""


class Naming(NamedTuple):
    """One memory names an entity; a tuple, for a hub has thousands of them."""

    key: str
    name: str
    type: str
    description: str
    memory_id: str
    told_at: str


def gather(namings: Iterable[Naming]) -> dict[str, Entity]:
    """The entities of all these namings, by key."""
    by_key: defaultdict[str, list[Naming]] = defaultdict(list)
    for naming in namings:
        by_key[naming.key].append(naming)
    return {key: _entity(found) for key, found in by_key.items()}


def _entity(namings: list[Naming]) -> Entity:
    told: dict[str, str] = {}
    for naming in namings:
        told[naming.memory_id] = max(told.get(naming.memory_id, ""), naming.told_at)
    described = max(((naming.told_at, naming.description) for naming in namings if naming.description), default=None)
    # A concept is what everything is whose type nobody told (X58), so that any other type says more.
    typed = [(naming.type, naming) for naming in namings if naming.type and naming.type != DEFAULT_TYPE]
    return Entity(
        name=_most([(naming.name, naming) for naming in namings]),
        type=_most(typed) if typed else DEFAULT_TYPE,
        description=described[1] if described else "",
        memory_ids=tuple(sorted(sorted(told), key=lambda memory_id: told[memory_id], reverse=True)),
        updated_at=max(told.values()),
    )


def _most(values: list[tuple[str, Naming]]) -> str:
    """The value that most memories give, of those equal the one told last."""
    if len({value for value, _ in values}) == 1:
        return values[0][0]  # nearly always, and a hub is named thousands of times
    memories: defaultdict[str, set[str]] = defaultdict(set)
    last: dict[str, str] = {}
    for value, naming in values:
        memories[value].add(naming.memory_id)
        last[value] = max(last.get(value, ""), naming.told_at)
    return max(memories, key=lambda value: (len(memories[value]), last[value], value))


# ------------------------------------------------------------------ names that are alike


def _name_words(key: str) -> set[str]:
    """The words of an entity's name; of unspaced scripts every two neighbours."""
    found: set[str] = set()
    for run in runs(key):
        if is_unspaced(run) and len(run) > 1:
            found.update(run[place : place + 2] for place in range(len(run) - 1))
        else:
            found.add(run)
    return found or {key}


def beginnings(key: str) -> set[str]:
    """What names that are alike have in common: how each of their words begins."""
    return {word[:BEGINNING] for word in _name_words(key)}


def most_alike(name: str, named: Mapping[str, int], limit: int) -> list[str]:
    """Of keys with how many memories name them the most alike: the same, then by words, beginnings and memories."""
    key = entity_key(name)
    words, starts = _name_words(key), beginnings(key)

    def rank(other: str) -> tuple[bool, int, int, int, str]:
        shared_words, shared_starts = len(words & _name_words(other)), len(starts & beginnings(other))
        return (other != key, -shared_words, -shared_starts, -named[other], other)

    return sorted(named, key=rank)[:limit]
