"""Pairs: a new fact beside one memory, and what their words have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from perdure.domain.fact import Neighbour, Relation
from perdure.pipeline.curation.rules.memo import per_reading, per_text
from perdure.pipeline.curation.rules.slots import USER, Chunk, Party, Reading, Slot, Value, comparable, fits
from perdure.pipeline.curation.rules.slots.scan import concept_of, fold, fold_set, is_kind_of, kinds, relations
from perdure.pipeline.lexicon import word_set, words


@dataclass(frozen=True, slots=True)
class Pair:
    """A new fact and one reading of a memory; `similarity` is their texts' cosine, None without an embedder."""

    new: Reading
    old: Reading
    memory: Neighbour
    similarity: float | None

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.memory.item.id

    @property
    def near(self) -> float:
        """The cosine; without an embedder, the share of the poorer text's concepts that stand in both."""
        if self.similarity is not None:
            return self.similarity
        mine, theirs = everything(self.new), everything(self.old)
        return len(mine & theirs) / max(1, min(len(mine), len(theirs)))


@cache
def concept_set(name: str) -> frozenset[str]:
    """The entries of a word file as concepts."""
    return frozenset(concept_of(entry) for entry in words(name))


def generic(concept: str) -> bool:
    """Whether a concept only says what sort of thing a value is ("class", "number")."""
    return concept in concept_set("reconcile_generic.txt")


_NO_KINDS: frozenset[str] = frozenset()


def covers(old: Iterable[str], concept: str) -> bool:
    """Whether some concept is the given one or a kind of it."""
    table = kinds()
    return any(other == concept or concept in table.get(other, _NO_KINDS) for other in old)


def uncovered(new: Iterable[str], old: Iterable[str]) -> set[str]:
    """Those new concepts that no old one is or is a kind of."""
    held, table = frozenset(old), kinds()
    above = _NO_KINDS.union(*(table[concept] for concept in held if concept in table))
    return {concept for concept in new if concept not in held and concept not in above}


def values_fit(new: Iterable[Value], old: Iterable[Value]) -> bool:
    """Whether each new value is among the old ones, or less precise than one of them."""
    held = tuple(old)
    return all(any(fits(value, other) for other in held) for value in new)


def exclusive(one: str, two: str) -> bool:
    """Whether two concepts are different kinds of one thing ("violin", "cello"), so that they never mean the same."""
    table = kinds()
    mine, theirs = table.get(one, _NO_KINDS), table.get(two, _NO_KINDS)
    if one == two or two in mine or one in theirs:
        return False
    if (one,) in relations() and (two,) in relations():
        return True
    return not mine.isdisjoint(theirs)


def any_exclusive(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether some concept and some other one are exclusive; only those with kinds or for people can be."""
    table, people_of = kinds(), relations()
    mine = [concept for concept in some if concept in table or (concept,) in people_of]
    theirs = [concept for concept in others if concept in table or (concept,) in people_of] if mine else []
    return any(exclusive(one, two) for one in mine for two in theirs)


@per_reading
def content(reading: Reading) -> frozenset[str]:
    """The concepts of a statement without those that name its own party."""
    own = set(reading.party.name.split())
    return frozenset(concept for concept in reading.concepts if concept not in own)


@per_reading
def core(reading: Reading) -> frozenset[str]:
    """What a statement is about at the least: its topic, its verb, its objects (else its first phrase)."""
    found = set(reading.topic) | {reading.verb}
    main = reading.main
    objects = [chunk for chunk in main if not chunk.lead] or list(main[:1])
    for chunk in objects:
        found.update(chunk.concepts)
    return frozenset(found) & content(reading)


@per_reading
def everything(reading: Reading) -> frozenset[str]:
    """Every concept of a statement with the words that name its party; the user is none of them."""
    party = reading.party
    own = set(party.name.split()) | ({concept_of(party.relation)} if party.relation else set())
    aside = {concept for chunk in reading.chunks if chunk.aside for concept in chunk.concepts}
    return frozenset(((reading.concepts - aside) | own) - {USER, ""})


@per_reading
def people(reading: Reading) -> frozenset[str]:
    """Who a statement names beside the user: names, else what they are to the user."""
    party = reading.party
    aside = {name for chunk in reading.chunks if chunk.aside for name in chunk.names}
    main = {name for chunk in reading.main for name in chunk.names}
    named = set(party.name.split()) | {name for name in reading.names if name not in aside - main}
    relation = {concept_of(party.relation)} if party.relation and not party.name else set()
    spoken = {concept for concept in everything(reading) if (concept,) in relations()}
    return frozenset(named | relation | spoken)


def parties_agree(new: Reading, old: Reading) -> bool:
    """Whether two statements are about the same party, or about a thing in whose description the same people stand."""
    if same_party(new.party, old.party):
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


@per_reading
def heads(reading: Reading) -> frozenset[str]:
    """What a statement is about: the head of its topic, its verb, the heads of its phrases."""
    found = {chunk.head for chunk in reading.chunks if chunk.concepts}
    found.add(reading.verb)
    if reading.topic:
        found.add(reading.topic[-1])
    return frozenset(found)


def same_party(one: Party, two: Party) -> bool:
    """Whether two statements are about the same person; a name is nobody's relation."""
    if one.kind == "user" or two.kind == "user":
        return one.kind == two.kind
    if one.kind == "thing" or two.kind == "thing":
        return one.kind == two.kind
    if one.name and two.name:
        return _same_name(one.name, two.name) and _relations_agree(one, two)
    if one.kind == two.kind == "relative":
        return one.of == two.of and _relations_agree(one, two)
    return False


def _same_name(one: str, two: str) -> bool:
    return not _differ(frozenset(one.split()), frozenset(two.split()))


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


def named_apart(new: Reading, old: Reading) -> bool:
    """Whether both name whom, or what of one kind, they are about, and the names differ: then they are about two.

    Who holds a role is said of the role: "User's manager is now Petra" is no fact about somebody else than Ingrid.
    """
    one, two = new.party, old.party
    if one.name and two.name:
        return not _same_name(one.name, two.name) and not _takes_over(new, two.name)
    if one.kind == two.kind == "relative":
        return one.of != two.of or _other_of_many(new, old)
    mine, theirs = new.topic_names, old.topic_names
    if mine and theirs:
        called = new.topic[-1] in mine and old.topic[-1] in theirs  # "User's boat Zeus", and not "bugs in Bugzilla"
        kinds_met = (set(new.topic) - mine) & (set(old.topic) - theirs)
        return bool(kinds_met) and _differ(mine, theirs) and (called or not new.mood.changed)
    if (one.name and theirs) or (two.name and mine):
        first, second = mine | set(one.name.split()), theirs | set(two.name.split())
        return not (first & names_told(old) or second & names_told(new))
    return _others_met(new, old)


def _takes_over(new: Reading, name: str) -> bool:
    """Whether a fact tells of somebody in the place of the named one, or whom a thing is with: "is kept by Bo now"."""
    if new.doer_last and new.mood.changed:
        return True
    given = (chunk.names for chunk in new.main if new.mood.changed or chunk.lead == "from")
    return any(names & set(name.split()) for names in given)


def _other_of_many(new: Reading, old: Reading) -> bool:
    """Whether two relatives are told by other names, one of them beside the relation: "my friend Anna", "is Keiko"."""
    one, two = new.party, old.party
    mine, theirs = _name_told(new), _name_told(old)
    if not (one.name or two.name) or not mine or not theirs or not _relations_agree(one, two):
        return False
    told = bool(one.name) or one.relation in fold_set("reconcile_many.txt")
    return told and not one.relation.startswith("new ") and not _same_name(mine, theirs)


@per_reading
def names_told(reading: Reading) -> frozenset[str]:
    """Every name in a statement, that of its party among them."""
    return reading.names | set(reading.party.name.split())


def _name_told(reading: Reading) -> str:
    """The name of the one whom a statement is about: it stands beside the relation, or is what is said of it."""
    told = (" ".join(slot.concepts) for slot in reading.slots if slot.attribute == "name")
    return reading.party.name or next(told, "")


def _others_met(new: Reading, old: Reading) -> bool:
    """Whether the same is done with two people by name: "met Rosa who owns goats", "has a friend called Keiko"."""
    if new.party != old.party or new.verb != old.verb or new.topic or old.topic:
        return False
    for one in new.main:
        for two in old.main:
            if one.lead != two.lead or not _differ(one.names, two.names):
                continue
            what = (frozenset(one.concepts) - one.names) & (frozenset(two.concepts) - two.names)
            if any((each,) in relations() for each in what):
                return not new.mood.changed or bool(what & concept_set("reconcile_many.txt"))
            if not new.mood.changed and _told_who(new) and _told_who(old):
                return True
    return False


def _differ(one: frozenset[str], two: frozenset[str]) -> bool:
    """Whether there are names in both, and neither has all of the other: "Anna" may be "Anna Berg"."""
    return bool(one and two) and not (one <= two or two <= one)


def _told_who(reading: Reading) -> bool:
    """Whether a clause tells of the one who is named before it: "who owns 4 goats"."""
    return any(chunk.aside and chunk.lead == "who" for chunk in reading.chunks)


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


@per_text(4096)
def folded(text: str) -> str:
    """The text for comparison as a whole: folded, without outer punctuation and doubled spaces."""
    return fold(" ".join(text.split())).strip(" .!;,")


# Sameness: whether a memory already holds what a new fact says.

STATES = frozenset(
    {"liv", "work", "be", "have", "own", "base", "driv", "smok", "play", "us", "use", "date", "marri", ""}
)
"""Verbs of lasting states: told in the past tense, they say that the state is over."""

SLIGHT = frozenset(
    {
        "",
        "be",
        "have",
        "do",
        "get",
        "own",
        "keep",
        "go",
        "com",
        "come",
        "tak",
        "take",
        "mak",
        "make",
        "giv",
        "us",
        "use",
        "follow",
        "attend",
        "hold",
        "becom",
        "member",
        "membership",
        "sit",
        "put",
        "set",
    }
)
"""Verbs that leave it to their phrases to tell what is done."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A pair, how surely the memory holds the fact (0 where it does not), and whether the two are about different
    things (`structure.different_things`)."""

    pair: Pair
    held: float
    apart: bool = False
    relation: Relation | None = None
    """How the fact stands to the memory by the learned judgement, where it was asked."""
    passage_relation: Relation | None = None
    """The same for the passage of the fact's message, where the fact alone left it open."""
    passed_over: bool = False
    """Whether a judge was there and was not asked, because other memories are nearer to the fact."""
    nearer: int = 0
    """How many of the memories of its kind that the judge was asked about are nearer to the fact."""


def held_by(pair: Pair) -> float:
    """How surely the memory holds the fact in the same or other words; 0 where it does not."""
    for new in (pair.new, pair.new.turned):
        for old in (pair.old, pair.old.turned):
            if new is not None and old is not None and (sure := _holds(new, old, pair)):
                return sure
    return 0.0


def _holds(new: Reading, old: Reading, pair: Pair) -> float:
    if not moods_agree(new, old):
        return 0.0
    if not same_party(new.party, old.party):
        return _same_thing(new, old, pair)
    if slots_hold(new, old):
        return 0.97
    if not values_fit(new.values, old.values) or slots_conflict(new, old) or other_object(new, old):
        return 0.0
    mine, theirs = content(new), content(old)
    if not mine or not _turned_agree(new, old):
        return 0.0
    extra = uncovered(mine, theirs)
    extra = {concept for concept in extra if concept in new.names or not generic(concept)}
    if new.verb in mine and uncovered({new.verb}, theirs) and not verbs_agree(new, old):
        return 0.0
    if not heads_held(new, old, mine):
        return 0.0
    if extra:
        return 0.0
    shared = any(not uncovered({concept}, theirs) for concept in mine)
    return 0.95 if shared or (new.values and all(generic(concept) for concept in mine)) else 0.0


def _same_thing(new: Reading, old: Reading, pair: Pair) -> float:
    """Two shapes of one statement ("the target for User's novel is ...", "User's novel has a target of ...")."""
    if not (new.topic or old.topic) or not parties_agree(new, old):
        return 0.0
    if not values_fit(new.values, old.values) or slots_conflict(new, old):
        return 0.0
    mine, theirs = everything(new), everything(old)
    telling = {concept for concept in mine if not generic(concept)}
    if not telling or {c for c in uncovered(mine, theirs) if c in new.names or not generic(c)}:
        return 0.0
    return 0.9 if heads_held(new, old, mine) else 0.0


def moods_agree(new: Reading, old: Reading) -> bool:
    """Whether both say that it is so, or both that it is not, with no less certainty in the memory."""
    mine, theirs = new.mood, old.mood
    if mine.changed and not theirs.changed and not new.verb and not new.topic:
        return False  # "renamed the band": the change itself is what is told
    if mine.negated != theirs.negated or mine.denied or theirs.denied:
        return False
    if everything(new) & _refusals() != everything(old) & _refusals():
        return False  # who "got refused for the permit" did not get it
    if mine.ended != theirs.ended:
        return mine.ended and theirs.past and not mine.negated and new.verb == old.verb != ""
    if old.verb in concept_set("reconcile_wanting.txt") and old.verb not in content(new):
        return False
    if (theirs.hedged and not mine.hedged) or (theirs.planned and not mine.planned):
        return False
    if (mine.hedged and not theirs.hedged) or (mine.planned and not theirs.planned):
        return False
    if mine.temporary and not theirs.temporary:
        return False
    if mine.past and not theirs.past and new.verb in STATES and not mine.changed:
        return bool(new.topic)
    return not (theirs.past and not mine.past and old.verb in STATES)


@cache
def _refusals() -> frozenset[str]:
    """Verbs that make of a statement the opposite of what its other words say."""
    return frozenset(concept_of(word) for word in word_set("pairing.refusals"))


def other_object(new: Reading, old: Reading) -> bool:
    """Whether one verb has another object in each: "starts a course in September", "starts a new job in September".

    What only says the sort of a thing ("a class") may be the thing that the memory names.
    """
    if new.verb != old.verb or new.topic or old.topic or new.verb in ("be", ""):
        return False  # what somebody is, is no object: a sibling's daughter is a niece
    one, two = (next((chunk for chunk in each.main if not chunk.lead and chunk.concepts), None) for each in (new, old))
    if one is None or two is None or akin(one.head, content(old)) or akin(two.head, content(new)):
        return False
    return generic(two.head) or not generic(one.head)


def slots_hold(new: Reading, old: Reading) -> bool:
    """Whether the attributes that the fact fills are filled alike, and it says nothing beside them."""
    if not new.slots:
        return False
    held = {slot.attribute: slot for slot in old.slots}
    for slot in new.slots:
        other = held.get(slot.attribute)
        if other is None or not slot_fits(slot, other, content(old)):
            return False
    spoken = {concept for slot in new.slots for concept in slot.concepts}
    rest = [concept for chunk in new.chunks for concept in chunk.concepts if concept not in spoken]
    theirs = content(old)
    return all(generic(concept) or not uncovered({concept}, theirs) for concept in rest) and values_fit(
        new.values, old.values
    )


def slot_fits(new: Slot, old: Slot, beside: frozenset[str] = frozenset()) -> bool:
    """Whether one value of an attribute says no more than the other, or than what is said `beside` it.

    "lives in Scotland" says no more than "lives in Dundee, Scotland".
    """
    if not new.concepts and not new.values:
        return False
    extra = uncovered(new.concepts, (*old.concepts, *beside))
    telling = {concept for concept in extra if concept in new.names or not generic(concept)}  # Tim is no time
    return not telling and values_fit(new.values, old.values)


def slots_conflict(new: Reading, old: Reading) -> bool:
    """Whether both fill one attribute with values of which neither holds the other."""
    held = {slot.attribute: slot for slot in old.slots}
    return any(
        (other := held.get(slot.attribute)) is not None
        and not slot_fits(slot, other, content(old))
        and not slot_fits(other, slot, content(new))
        for slot in new.slots
    )


def other_value(new: Reading, old: Reading) -> bool:
    """Whether both fill an attribute of which a person has one at a time, with different values.

    A second nephew has a name of his own, unless a change is told.
    """
    relation, many = new.party.relation, fold_set("reconcile_many.txt")
    named = {slot.attribute for slot in new.slots} == {"name"} and relation.removeprefix("new ") in many
    if not parties_agree(new, old):
        return False
    several = named or bool(set(new.topic) & concept_set("reconcile_many.txt"))
    told = new.mood.changed and not relation.startswith("new ")
    return slots_conflict(new, old) and (told or not several)


def verbs_agree(new: Reading, old: Reading) -> bool:
    """Whether two statements with different verbs may tell of one thing: one of the verbs says little."""
    return new.verb == old.verb or bool({new.verb, old.verb} & SLIGHT) or bool(new.topic or old.topic)


def _turned_agree(new: Reading, old: Reading) -> bool:
    """Whether the user is not doer here and done-to there: "has a key to Bente's house" / "Bente has a key ..."."""
    return (USER in new.concepts) == (USER in old.concepts) or USER not in new.concepts


def heads_held(new: Reading, old: Reading, mine: frozenset[str]) -> bool:
    """Whether no phrase of the memory is about something else that only borrows a word of the fact's.

    "has a motorbike" is not held by "has a motorbike licence": the licence is the phrase's head.
    """
    if old.topic and not _head_known(old.topic[-1], old.topic, mine, old):
        return False
    return all(_phrase_held(chunk, mine, new) for chunk in old.chunks)


def _head_known(head: str, phrase: tuple[str, ...], mine: frozenset[str], old: Reading) -> bool:
    touched = any(concept in mine for concept in phrase)
    return not touched or head in old.topic_names or generic(head) or akin(head, mine)


def _phrase_held(chunk: Chunk, mine: frozenset[str], new: Reading) -> bool:
    if not chunk.concepts or chunk.head in chunk.names:
        return True
    touched = any(concept in mine and not generic(concept) for concept in chunk.concepts)
    return not touched or generic(chunk.head) or akin(chunk.head, mine)


def akin(head: str, said: frozenset[str]) -> bool:
    """Whether a phrase's head is said, or is a kind of what is said, or the other way round ("techno music")."""
    return head in said or any(is_kind_of(head, one) or is_kind_of(one, head) for one in said)


# Values: an hour, a day, a sum, of which one statement gives another than the other.

_HOURS = 24


def timed(reading: Reading) -> bool:
    """Whether a statement tells an hour or a day."""
    hours = (value for chunk in reading.chunks if chunk.lead == "at" for value in chunk.values)
    return any(value.kind in ("clock", "date", "weekday") for value in reading.values) or any(
        value.kind == "number" and 0 < value.amount <= _HOURS for value in hours
    )


def differing(mine: Iterable[Value], theirs: Iterable[Value]) -> bool:
    """Whether some value meets a comparable one that it does not fit, and none fits."""
    held = list(theirs)
    meet = [(a, b) for a in mine for b in held if comparable(a, b)]
    return bool(meet) and any(all(not fits(a, b) for x, b in meet if x is a) for a, _ in meet)
