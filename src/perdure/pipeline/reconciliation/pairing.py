"""Pairs: a new fact beside one memory, and what their words have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from perdure.domain.fact import Neighbour
from perdure.pipeline.lexicon import words
from perdure.pipeline.slots import USER, Party, Reading, Value, fits
from perdure.pipeline.slots.lexis import concept_of, fold_set, is_kind_of, kinds, relations
from perdure.pipeline.slots.stems import fold


@dataclass(frozen=True, slots=True)
class Pair:
    """A new fact and one reading of a memory; `similarity` is their texts' cosine, None without an embedder."""

    new: Reading
    old: Reading
    memory: Neighbour
    similarity: float | None
    aliases: dict[str, str]
    departed: frozenset[str] = frozenset()
    """Names of those who, by the statements around, left or cannot come."""
    whole: bool = True
    """False where `old` reads one clause of a compound memory."""

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.memory.item.id

    @property
    def near(self) -> float:
        """The cosine, 0 without an embedder: a rule that needs nearness then asks for words instead."""
        return 0.0 if self.similarity is None else self.similarity


@cache
def concept_set(name: str) -> frozenset[str]:
    """The entries of a word file as concepts."""
    return frozenset(concept_of(entry) for entry in words(name))


def generic(concept: str) -> bool:
    """Whether a concept only says what sort of thing a value is ("class", "number")."""
    return concept in concept_set("reconcile_generic.txt")


def covers(old: Iterable[str], concept: str) -> bool:
    """Whether some concept is the given one or a kind of it."""
    return any(is_kind_of(other, concept) for other in old)


def uncovered(new: Iterable[str], old: Iterable[str]) -> set[str]:
    """Those new concepts that no old one is or is a kind of."""
    held = frozenset(old)
    return {concept for concept in new if concept not in held and not covers(held, concept)}


def values_fit(new: Iterable[Value], old: Iterable[Value]) -> bool:
    """Whether each new value is among the old ones, or less precise than one of them."""
    held = tuple(old)
    return all(any(fits(value, other) for other in held) for value in new)


def exclusive(one: str, two: str) -> bool:
    """Whether two concepts are different kinds of one thing ("violin", "cello"), so that they never mean the same."""
    if one == two or is_kind_of(one, two) or is_kind_of(two, one):
        return False
    if (one,) in relations() and (two,) in relations():
        return True
    return bool(kinds().get(one, frozenset()) & kinds().get(two, frozenset()))


def content(reading: Reading) -> frozenset[str]:
    """The concepts of a statement without those that name its own party."""
    own = set(reading.party.name.split())
    return frozenset(concept for concept in reading.concepts if concept not in own)


def core(reading: Reading) -> frozenset[str]:
    """What a statement is about at the least: its topic, its verb, its objects (else its first phrase)."""
    found = set(reading.topic) | {reading.verb}
    main = reading.main
    objects = [chunk for chunk in main if not chunk.lead] or list(main[:1])
    for chunk in objects:
        found.update(chunk.concepts)
    return frozenset(found) & content(reading)


def everything(reading: Reading) -> frozenset[str]:
    """Every concept of a statement with the words that name its party; the user is none of them."""
    party = reading.party
    own = set(party.name.split()) | ({concept_of(party.relation)} if party.relation else set())
    aside = {concept for chunk in reading.chunks if chunk.aside for concept in chunk.concepts}
    return frozenset(((reading.concepts - aside) | own) - {USER, ""})


def people(reading: Reading) -> frozenset[str]:
    """Who a statement names beside the user: names, else what they are to the user."""
    party = reading.party
    named = set(party.name.split()) | {concept for concept in reading.names if concept not in aside_names(reading)}
    relation = {concept_of(party.relation)} if party.relation and not party.name else set()
    spoken = {concept for concept in everything(reading) if (concept,) in relations()}
    return frozenset(named | relation | spoken)


def aside_names(reading: Reading) -> frozenset[str]:
    """Names that only a subordinate clause holds."""
    aside = {name for chunk in reading.chunks if chunk.aside for name in chunk.names}
    main = {name for chunk in reading.main for name in chunk.names}
    return frozenset(aside - main)


def parties_agree(new: Reading, old: Reading, aliases: dict[str, str]) -> bool:
    """Whether two statements are about the same party, or about a thing in whose description the same people stand."""
    if same_party(new.party, old.party, aliases):
        return True
    kinds_met = {new.party.kind, old.party.kind}
    if "thing" in kinds_met and new.mood.changed and new.topic and new.topic == old.topic:
        return not new.topic_names and not old.topic_names
    if kinds_met == {"user", "thing"}:
        if new.topic and old.topic:
            mine, theirs = new.topic_names, old.topic_names
            return mine == theirs or not mine or not theirs
        return people(new) == people(old)
    if "thing" in kinds_met or (new.topic and old.topic) or (new.topic or old.topic):
        mine, theirs = people(new), people(old)
        return bool(mine) and mine == theirs
    return False


def heads(reading: Reading) -> frozenset[str]:
    """What a statement is about: the head of its topic, its verb, the heads of its phrases."""
    found = {chunk.head for chunk in reading.chunks if chunk.concepts}
    found.add(reading.verb)
    if reading.topic:
        found.add(reading.topic[-1])
    return frozenset(found)


def same_party(one: Party, two: Party, aliases: dict[str, str]) -> bool:
    """Whether two statements are about the same person; names and relations known from the memories count."""
    if one.kind == "user" or two.kind == "user":
        return one.kind == two.kind
    if one.kind == "thing" or two.kind == "thing":
        return one.kind == two.kind
    if one.name and two.name:
        return _same_name(one.name, two.name) and _relations_agree(one, two)
    if one.kind == two.kind == "relative":
        return one.of == two.of and _relations_agree(one, two)
    named, relative = (one, two) if one.kind == "named" else (two, one)
    known = aliases.get(named.name)
    return known is not None and relative.kind == "relative" and known == relative.relation


def _same_name(one: str, two: str) -> bool:
    mine, theirs = set(one.split()), set(two.split())
    return mine <= theirs or theirs <= mine


def _relations_agree(one: Party, two: Party) -> bool:
    if not one.relation or not two.relation or one.relation == two.relation:
        return True
    mine, theirs = one.relation.split(), two.relation.split()
    ranks = fold_set("reconcile_ranks.txt")
    mine_ranks, theirs_ranks = {w for w in mine if w in ranks}, {w for w in theirs if w in ranks}
    bare_mine, bare_theirs = [w for w in mine if w not in ranks], [w for w in theirs if w not in ranks]
    if mine_ranks and theirs_ranks and mine_ranks != theirs_ranks:
        return False
    if bool(mine_ranks) != bool(theirs_ranks) and {"ex", "step", "half", "former", "late"} & (
        mine_ranks | theirs_ranks
    ):
        return False
    left, right = concept_of(" ".join(bare_mine)), concept_of(" ".join(bare_theirs))
    return left == right or is_kind_of(left, right) or is_kind_of(right, left)


def alias_table(readings: Iterable[Reading]) -> dict[str, str]:
    """Names to relations, as the statements tell them: "User's partner Ewan", "User's gran is called Odile"."""
    table: dict[str, str] = {}
    for reading in readings:
        party = reading.party
        if party.kind == "relative" and party.of == USER:
            if party.name:
                table.setdefault(party.name, party.relation)
            for slot in reading.slots:
                if slot.attribute == "name" and slot.concepts:
                    table.setdefault(" ".join(slot.concepts), party.relation)
        elif party.kind == "user" and reading.verb in ("be", "have", "") and not reading.topic:
            _possessed(reading, table)
    return table


def _possessed(reading: Reading, table: dict[str, str]) -> None:
    """ "User has a dog named Rex" tells that Rex is the dog."""
    for chunk in reading.chunks[:1]:
        names = [concept for concept in chunk.concepts if concept in chunk.names]
        kinds_said = [concept for concept in chunk.concepts if concept not in chunk.names]
        if len(names) == 1 and len(kinds_said) == 1:
            relation = relations().get((kinds_said[0],))
            if relation is not None:
                table.setdefault(names[0], relation)


def numbered_apart(new: Reading, old: Reading) -> bool:
    """Whether the two are about things that a number tells apart ("Ticket 511", "the second car")."""
    mine, theirs = set(new.topic_values), set(old.topic_values)
    if not mine and not theirs and not new.mood.changed:
        one, two = _identified(new), _identified(old)
        return one is not None and two is not None and one[0] == two[0] and one[1] != two[1]
    if mine and theirs:
        return not any(fits(one, two) for one in mine for two in theirs)
    if new.mood.changed and not mine and all(value.kind == "ordinal" and value.amount == 1 for value in theirs):
        return False  # "the gig got moved": the first one
    return any(value.kind == "ordinal" for value in mine | theirs) and bool(new.topic) and bool(old.topic)


def _identified(reading: Reading) -> tuple[tuple[str, ...], Value] | None:
    """What a statement of having tells apart by the number after it ("owns boat number 7"); an amount stands before."""
    if reading.topic or reading.verb != "have" or not reading.chunks:
        return None
    chunk = reading.chunks[0]
    if len(chunk.values) != 1 or chunk.values[0].kind not in ("number", "code") or not chunk.concepts or chunk.lead:
        return None
    first = reading.text[chunk.start : chunk.start + 1]
    last = reading.text[max(0, chunk.end - 1) : chunk.end]
    return (chunk.concepts, chunk.values[0]) if first.isalpha() and last.isdigit() else None


def folded(text: str) -> str:
    """The text for comparison as a whole: folded, without outer punctuation and doubled spaces."""
    return fold(" ".join(text.split())).strip(" .!;,")
