"""The rows that both graph stores keep for a statement, and how a new statement changes them.

A row is a mention or a relation with the time during which it was stated. A relation also has a mention, without a
type, of each of its two entities, so that both exist as long as it does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from perdure.backends.graphs.base import GraphStore
from perdure.domain import graph
from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, is_unicode, shown
from perdure.domain.text.terms import is_unspaced, runs

BEGINNING = 3  # characters of a word by which names are alike: Alex and Alexander, Postgres and PostgreSQL


class Naming(NamedTuple):
    """One memory's name for an entity; a tuple, because a hub has thousands of them."""

    key: str
    name: str
    type: str
    description: str
    memory_id: str
    told_at: str


def gather(namings: Iterable[Naming]) -> dict[str, graph.Entity]:
    by_key: defaultdict[str, list[Naming]] = defaultdict(list)
    for naming in namings:
        by_key[naming.key].append(naming)
    return {key: _entity(found) for key, found in by_key.items()}


def _entity(namings: list[Naming]) -> graph.Entity:
    last_told: dict[str, str] = {}
    for naming in namings:
        last_told[naming.memory_id] = max(last_told.get(naming.memory_id, ""), naming.told_at)
    described = max(((naming.told_at, naming.description) for naming in namings if naming.description), default=None)
    # Entities whose type is unknown are concepts, so any other type says more.
    typed = [(naming.type, naming) for naming in namings if naming.type and naming.type != graph.DEFAULT_TYPE]
    return graph.Entity(
        name=_most([(naming.name, naming) for naming in namings]),
        type=_most(typed) if typed else graph.DEFAULT_TYPE,
        description=described[1] if described else "",
        memory_ids=tuple(sorted(sorted(last_told), key=lambda memory_id: last_told[memory_id], reverse=True)),
        updated_at=max(last_told.values()),
    )


def _most(values: list[tuple[str, Naming]]) -> str:
    """Return the value that most memories give; among ties the latest."""
    if len({value for value, _ in values}) == 1:
        return values[0][0]  # nearly always, and a hub is named thousands of times
    memories: defaultdict[str, set[str]] = defaultdict(set)
    last: dict[str, str] = {}
    for value, naming in values:
        memories[value].add(naming.memory_id)
        last[value] = max(last.get(value, ""), naming.told_at)
    return max(memories, key=lambda value: (len(memories[value]), last[value], value))


def _name_words(key: str) -> set[str]:
    """Return the words of an entity's name; for scripts without spaces every two neighbouring characters."""
    found: set[str] = set()
    for run in runs(key):
        if is_unspaced(run) and len(run) > 1:
            found.update(run[place : place + 2] for place in range(len(run) - 1))
        else:
            found.add(run)
    return found or {key}


def beginnings(key: str) -> set[str]:
    """Return the beginnings of a name's words, by which similar names are found."""
    return {word[:BEGINNING] for word in _name_words(key)}


def most_alike(name: str, named: Mapping[str, int], limit: int) -> list[str]:
    """Rank keys by similarity to a name: equal, then by shared words, beginnings, and number of memories."""
    key = graph.entity_key(name)
    words, starts = _name_words(key), beginnings(key)

    def rank(other: str) -> tuple[bool, int, int, int, str]:
        shared_words, shared_starts = len(words & _name_words(other)), len(starts & beginnings(other))
        return (other != key, -shared_words, -shared_starts, -named[other], other)

    return sorted(named, key=rank)[:limit]


RowId = TypeVar("RowId", bound=Hashable)  # a store's own id of a row
MENTION = ("name", "type", "description")
RELATION = (
    "source", "relation", "target", "valid_from", "valid_to", "polarity", "slot", "rule", "confidence",
)  # fmt: skip
"""What a mention and a relation are kept as, besides whose they are and when they were stated."""

MAX_DEPTH = 3  # relations that a neighbourhood reaches over


@dataclass(frozen=True, slots=True)
class Row(Generic[RowId]):
    """A stored row of one memory and one reader."""

    id: RowId
    scope: Scope
    content: graph.Mention | graph.Relation
    told_at: str
    untold_at: str | None


@dataclass(slots=True)
class Plan(Generic[RowId]):
    """The changes that make the rows match the statement."""

    untell: list[RowId] = field(default_factory=list)  # rows that are stated no more
    tell: list[tuple[RowId, str]] = field(default_factory=list)
    """Rows that are stated again, or since earlier, with the moment since when."""
    drop: list[RowId] = field(default_factory=list)  # rows whose time has become a part of another row's
    insert: list[graph.Mention | graph.Relation] = field(default_factory=list)
    """Rows that are new, told when the statement was."""

    def __bool__(self) -> bool:
        return bool(self.untell or self.tell or self.drop or self.insert)


def plan(rows: Iterable[Row[RowId]], statement: graph.Statement) -> Plan[RowId]:
    """Return the changes to the rows of a memory and reader for a new statement.

    Equal content stated without a gap stays one row. Content withdrawn after this statement was told has no gap: that
    is an undo, or a repeated job.
    """
    wanted = dict.fromkeys(contents(statement))
    known: dict[graph.Mention | graph.Relation, list[Row[RowId]]] = {}
    made: Plan[RowId] = Plan()
    for row in rows:
        if row.content not in wanted or row.scope != statement.scope:
            if row.untold_at is None:
                made.untell.append(row.id)
        elif row.untold_at is None or row.untold_at >= statement.told_at:
            known.setdefault(row.content, []).append(row)
    for content in wanted:
        same = sorted(known.get(content, ()), key=lambda row: (row.untold_at is not None, row.told_at))
        if not same:
            made.insert.append(content)
            continue
        kept, told_at = same[0], min(statement.told_at, *(row.told_at for row in same))
        made.drop += [row.id for row in same[1:]]
        if kept.untold_at is not None or kept.told_at != told_at:
            made.tell.append((kept.id, told_at))
    return made


def contents(statement: graph.Statement) -> list[graph.Mention | graph.Relation]:
    """Return the rows of a statement, possibly with duplicates."""
    found: list[graph.Mention | graph.Relation] = [*statement.mentions]
    for relation in statement.relations:
        found += [relation, named(relation.source), named(relation.target)]
    return found


def named(name: str) -> graph.Mention:
    """Return the mention of an entity that a relation implies; its type is unknown."""
    return graph.Mention(name=name, type="")


def checked(statement: graph.Statement) -> graph.Statement:
    """Return the statement with plain types; InvalidInputError names a value that no graph can store."""
    for field_name in ("memory_id", "by", "told_at"):
        _check(getattr(statement, field_name), field_name)
    for mention in statement.mentions:
        _check_name(mention.name, "mentions.name")
        check_unicode(mention.type, "mentions.type")
        check_unicode(mention.description, "mentions.description")
    for relation in statement.relations:
        _check_name(relation.source, "relations.source")
        _check_name(relation.target, "relations.target")
        _check(relation.relation, "relations.relation")
        for field_name in ("valid_from", "valid_to", "slot", "rule"):
            check_unicode(getattr(relation, field_name) or "", f"relations.{field_name}")
    relations = tuple(
        replace(relation, confidence=float(relation.confidence), polarity=bool(relation.polarity))
        for relation in statement.relations
    )
    return replace(statement, relations=relations)


def _check_name(name: str, field_name: str) -> None:
    _check(name, field_name)
    if not graph.entity_key(name):
        raise InvalidInputError(f"{field_name} must not be blank, and is {shown(name)}", field=field_name, value=name)


def _check(text: str, field_name: str) -> None:
    if not text or "\x00" in text:
        raise InvalidInputError(
            f"{field_name} must have a character and no NUL, not {shown(text)}", field=field_name, value=text
        )
    check_unicode(text, field_name)


def askable(texts: Iterable[str]) -> list[str]:
    """Return the texts that a graph can store, each once, in order; no other can be found in it."""
    return [text for text in dict.fromkeys(texts) if text and "\x00" not in text and is_unicode(text)]


def asked_keys(names: Iterable[str]) -> list[str]:
    return askable(graph.entity_key(name) for name in names)


def check_limit(limit: int) -> int:
    if limit < 0:
        raise InvalidInputError(f"limit must be 0 or more, not {limit}", field="limit", value=limit)
    return limit


def check_depth(depth: int) -> int:
    """Return the depth; InvalidInputError unless it is 1 to 3."""
    if not 1 <= depth <= MAX_DEPTH:
        raise InvalidInputError(f"depth must be 1 to {MAX_DEPTH}, not {depth}", field="depth", value=depth)
    return depth


class KeyedGraphStore(GraphStore):
    """A graph store that queries its database by keys of names, after checking its arguments."""

    async def entities(
        self, scope: Scope, *, names: Sequence[str] | None = None, limit: int = 100, as_of: str | None = None
    ) -> list[graph.Entity]:
        keys = None if names is None else asked_keys(names)
        return await self._entities(scope, keys, check_limit(limit), as_of)

    async def neighbourhood(
        self, scope: Scope, names: Sequence[str], *, depth: int = 1, limit: int = 1000, as_of: str | None = None
    ) -> graph.Neighbourhood:
        depth, limit = check_depth(depth), check_limit(limit)
        return await self._neighbourhood(scope, asked_keys(names), depth, limit, as_of)

    async def similar_names(self, scope: Scope, name: str, limit: int = 20) -> list[graph.Entity]:
        check_limit(limit)
        return await self._similar_names(scope, name, limit) if asked_keys([name]) else []

    async def reset(self) -> None:
        await self.erase_scope(Scope())

    @abstractmethod
    async def _entities(
        self, scope: Scope, keys: list[str] | None, limit: int, as_of: str | None
    ) -> list[graph.Entity]: ...

    @abstractmethod
    async def _neighbourhood(
        self, scope: Scope, keys: list[str], depth: int, limit: int, as_of: str | None
    ) -> graph.Neighbourhood: ...

    @abstractmethod
    async def _similar_names(self, scope: Scope, name: str, limit: int) -> list[graph.Entity]: ...


def nearest_first(
    relations: Sequence[graph.StatedRelation], distance: Mapping[str, int], limit: int
) -> tuple[graph.StatedRelation, ...]:
    """Return the relations between the nearest entities, at most `limit`; among equally near ones the latest first."""

    def identity(stated: graph.StatedRelation) -> tuple[str, ...]:
        relation = stated.relation
        times = (relation.valid_from or "", relation.valid_to or "", stated.untold_at or "")
        kind = (relation.relation, str(relation.polarity), relation.slot or "", relation.rule)
        return (stated.memory_id, relation.source_key, relation.target_key, *kind, *times, relation.source)

    def nearness(stated: graph.StatedRelation) -> list[int]:
        return sorted((distance[stated.relation.source_key], distance[stated.relation.target_key]))

    found = sorted(relations, key=identity)
    found.sort(key=lambda stated: stated.told_at, reverse=True)
    found.sort(key=nearness)
    return tuple(found[:limit])
