"""What both graph stores keep of a statement, and what a new statement changes of it.

A row is a mention or a relation with the times between which it was stated. A relation also names its two entities: for
each there is a mention of no type, so that whatever a relation leads to is an entity of its own, for as long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from perdure.domain.errors import InvalidInputError
from perdure.domain.graph import DEFAULT_TYPE, Entity, Mention, Relation, StatedRelation, Statement, entity_key
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, is_unicode, shown
from perdure.domain.text.terms import is_unspaced, runs

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
    by_key: defaultdict[str, list[Naming]] = defaultdict(list)
    for naming in namings:
        by_key[naming.key].append(naming)
    return {key: _entity(found) for key, found in by_key.items()}


def _entity(namings: list[Naming]) -> Entity:
    told: dict[str, str] = {}
    for naming in namings:
        told[naming.memory_id] = max(told.get(naming.memory_id, ""), naming.told_at)
    described = max(((naming.told_at, naming.description) for naming in namings if naming.description), default=None)
    # Entities whose type is unknown are concepts, so any other type says more.
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


RowId = TypeVar("RowId", bound=Hashable)
"""A store's own id of a row."""

MENTION = ("name", "type", "description")
RELATION = (
    "source", "relation", "target", "valid_from", "valid_to", "polarity", "slot", "rule", "confidence",
)  # fmt: skip
"""What a mention and a relation are kept as, besides whose they are and when they were stated."""

MAX_DEPTH = 3
"""Relations that a neighbourhood reaches over."""


@dataclass(frozen=True, slots=True)
class Row(Generic[RowId]):
    """A row as it is kept, of one memory and one reader."""

    id: RowId
    scope: Scope
    content: Mention | Relation
    told_at: str
    untold_at: str | None


@dataclass(slots=True)
class Plan(Generic[RowId]):
    """What there is to do until the rows say what the statement says."""

    untell: list[RowId] = field(default_factory=list)
    """Rows that are stated no more."""
    tell: list[tuple[RowId, str]] = field(default_factory=list)
    """Rows that are stated again, or since earlier, with the moment since when."""
    drop: list[RowId] = field(default_factory=list)
    """Rows whose time has become a part of another row's."""
    insert: list[Mention | Relation] = field(default_factory=list)
    """Rows that are new, told when the statement was."""

    def __bool__(self) -> bool:
        return bool(self.untell or self.tell or self.drop or self.insert)


def plan(rows: Iterable[Row[RowId]], statement: Statement) -> Plan[RowId]:
    """How the rows of a memory and reader change by what it states now.

    The same content is one row as long as it was stated without a gap. What was taken back after the moment at which
    this was told has no gap: that is an undo, or a job that is done again.
    """
    wanted = dict.fromkeys(contents(statement))
    known: dict[Mention | Relation, list[Row[RowId]]] = {}
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


def contents(statement: Statement) -> list[Mention | Relation]:
    """The rows that a statement comes to; each may be there more than once."""
    found: list[Mention | Relation] = [*statement.mentions]
    for relation in statement.relations:
        found += [relation, named(relation.source), named(relation.target)]
    return found


def named(name: str) -> Mention:
    """The mention that a relation is of one of its entities: it says nothing of the type."""
    return Mention(name=name, type="")


def checked(statement: Statement) -> Statement:
    """The statement with plain types; InvalidInputError names what no graph could keep."""
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
    if not entity_key(name):
        raise InvalidInputError(f"{field_name} must not be blank, and is {shown(name)}", field=field_name, value=name)


def _check(text: str, field_name: str) -> None:
    if not text or "\x00" in text:
        raise InvalidInputError(
            f"{field_name} must have a character and no NUL, not {shown(text)}", field=field_name, value=text
        )
    check_unicode(text, field_name)


def askable(texts: Iterable[str]) -> list[str]:
    """The texts that a graph can hold, each once, in order: asking for another finds nothing."""
    return [text for text in dict.fromkeys(texts) if text and "\x00" not in text and is_unicode(text)]


def asked_keys(names: Iterable[str]) -> list[str]:
    return askable(entity_key(name) for name in names)


def check_limit(limit: int) -> int:
    if limit < 0:
        raise InvalidInputError(f"limit must be 0 or more, not {limit}", field="limit", value=limit)
    return limit


def check_depth(depth: int) -> int:
    """The depth; InvalidInputError for one out of 1 to 3."""
    if not 1 <= depth <= MAX_DEPTH:
        raise InvalidInputError(f"depth must be 1 to {MAX_DEPTH}, not {depth}", field="depth", value=depth)
    return depth


def nearest_first(
    relations: Sequence[StatedRelation], distance: Mapping[str, int], limit: int
) -> tuple[StatedRelation, ...]:
    """The relations between the nearest entities, at most `limit`; of those equally near, what was told last first."""

    def identity(stated: StatedRelation) -> tuple[str, ...]:
        relation = stated.relation
        times = (relation.valid_from or "", relation.valid_to or "", stated.untold_at or "")
        kind = (relation.relation, str(relation.polarity), relation.slot or "", relation.rule)
        return (stated.memory_id, relation.source_key, relation.target_key, *kind, *times, relation.source)

    def nearness(stated: StatedRelation) -> list[int]:
        return sorted((distance[stated.relation.source_key], distance[stated.relation.target_key]))

    found = sorted(relations, key=identity)
    found.sort(key=lambda stated: stated.told_at, reverse=True)
    found.sort(key=nearness)
    return tuple(found[:limit])
