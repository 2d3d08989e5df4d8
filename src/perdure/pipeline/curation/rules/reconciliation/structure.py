"""Structure: whether two statements are about different things, or about one attribute of one subject."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.memo import per_reading, per_text
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    SLIGHT,
    content,
    covers,
    differing,
    everything,
    exclusive,
    generic,
    heads,
    heads_held,
    named_apart,
    names_told,
    numbered_apart,
    other_value,
    parties_agree,
    same_party,
    slots_conflict,
    timed,
    uncovered,
    values_fit,
)
from perdure.pipeline.curation.rules.slots import USER, Chunk, Reading, Value, comparable, fits, read
from perdure.pipeline.curation.rules.slots.scan import concept_of, fold, fold_set, is_kind_of, stems
from perdure.pipeline.lexicon import lines, word_set, words
from perdure.pipeline.lexicon import pairs as table

DISTINGUISHING = word_set("replacement.distinguishing")

_LIKES = frozenset({"lik", "like", "prefer", "favourit"})
DISLIKES = frozenset({"dislik", "dislike"})
FEELINGS = _LIKES | DISLIKES


@per_reading
def topic_of(reading: Reading) -> tuple[tuple[str, ...], tuple[Chunk, ...]]:
    """The thing that a statement is about and what it says of it; "has a meeting with Anna on Monday" is about one."""
    if reading.topic:
        return reading.topic, reading.chunks
    light = reading.verb in ("be", "have", "", "own", "book")
    if not light or not reading.chunks or reading.chunks[0].lead or reading.verb == "be":
        return (), reading.chunks
    topic = list(reading.chunks[0].concepts)
    rest: list[Chunk] = []
    for chunk in reading.chunks[1:]:
        if chunk.lead in ("with", "for", "of", "about") and not chunk.values:
            topic[:0] = chunk.concepts
        else:
            rest.append(chunk)
    if reading.chunks[0].values:
        rest.insert(0, Chunk("", (), frozenset(), reading.chunks[0].values))
    return tuple(topic), tuple(rest)


def topics_agree(new: tuple[str, ...], old: tuple[str, ...]) -> float:
    """How surely two noun phrases name the same thing: 1 where equal, less where one says more, 0 otherwise."""
    if not new or not old:
        return 0.0
    if new == old or set(new) == set(old):
        return 1.0
    if not (is_kind_of(new[-1], old[-1]) or is_kind_of(old[-1], new[-1])):
        heads_generic = generic(new[-1]) or generic(old[-1])
        mine, theirs = {c for c in new if not generic(c)}, {c for c in old if not generic(c)}
        return 0.85 if heads_generic and mine and mine == theirs else 0.0
    mine, theirs = uncovered(new, old), uncovered(old, new)
    if mine and theirs:
        return 0.0
    extra = mine | theirs
    if extra & DISTINGUISHING:
        return 0.0
    return 0.9 if all(generic(concept) for concept in extra) else 0.8


@cache
def _sign_table() -> dict[str, tuple[str, ...]]:
    signs: dict[str, list[str]] = {}
    for phrase, sign in table("reconcile_signs.tsv").items():
        signs.setdefault(sign, []).append(f" {fold(phrase)} ")
    return {sign: tuple(phrases) for sign, phrases in signs.items()}


def told_by_sign(reading: Reading) -> bool:
    """Whether a text holds a phrase that tells of a change or an end."""
    found = signs_of(reading)
    return bool(found.get("sign_change") or found.get("sign_end"))


@per_reading
def signs_of(reading: Reading) -> dict[str, float]:
    """For each sign of `reconcile_signs.tsv`, whether a text holds one of its phrases: 1 or 0."""
    said = padded(reading.text)
    return {f"sign_{sign}": float(any(phrase in said for phrase in phrases)) for sign, phrases in _sign_table().items()}


def padded(text: str) -> str:
    """The words of a text, folded, with a space around each."""
    return f" {' '.join(''.join(c if c.isalnum() else ' ' for c in fold(text)).split())} "


_ALSO = Pattern(r"\b(?:also|as well|additionally|in addition|besides|still|never)\b|\btoo(?=$|[,.;])", re.IGNORECASE)
"""Words by which a fact says itself that it stands beside others."""
_NO_OTHER = frozenset({"final", "current", "present", "new", "total", "actual", "latest", "updat", "overall", "whole"})
"""Words before a thing's name that tell no other thing."""
_OUT_OF_WORK = Pattern(
    r"\b(?:(?:got|was|were|been) (?:just )?(?:fired|sacked|laid off|made redundant)|"
    r"(?:lost|quit|left) (?:his|her|their) job|is (?:now )?(?:unemployed|jobless))\b(?! up\b)(?!.*\b(?:from|at|as)\b)",
    re.IGNORECASE,
)
"""The end of a job that is not named: "fired from the pub" is no word on the day job."""
_USED_TO = Pattern(r"\bused to\b", re.IGNORECASE)

AGREEING = 0.8
"""How surely two noun phrases must name one thing (`topics_agree`) for what is said of them to be of one attribute."""

_PARTS = frozenset({"morning", "afternoon", "evening", "night", "noon", "midday", "bedtime"})
_WHEN = frozenset({"clock", "weekday", "date", "part"})
_OTHER = frozenset({"other", "another", "second", "third"})
"""Ranks that make another one even of what was told without a rank."""

_PICTURE = Pattern(r"[\u2600-\u27bf\U0001f000-\U0001faff]")


def different_things(new: Reading, old: Reading) -> bool:
    """Whether a mark tells that the two are about different things: no likeness makes the one a change of the other."""
    if any(marks(new, old) for marks in (numbered_apart, named_apart, _marked_apart, _pictured_apart, _of_another)):
        return True
    mood = new.mood
    held = content(old) | set(old.topic)
    if new.replaced and not any(not uncovered(phrase, held) for phrase in new.replaced):
        return True  # "from Slack to Teams" is no news of a memory that does not hold Slack
    if mood.ended and new.verb != old.verb and not {new.verb, old.verb} & SLIGHT:
        return True  # who stopped playing the cello may teach it
    if _USED_TO.search(new.text) and _says_less(new, old):
        return True
    if mood.ended or mood.denied or mood.corrected or new.replaced:
        return False
    if _ALSO.search(new.text) or _says_less(new, old):
        return True
    return not mood.changed and (_other_occasion(new, old) or _narrower(new, old))


def one_attribute(new: Reading, old: Reading) -> bool:
    """Whether two statements about no different things speak of one attribute of one subject."""
    if not parties_agree(new, old):
        return False
    if {slot.attribute for slot in new.slots} & {slot.attribute for slot in old.slots}:
        return True
    mine, theirs = topic_of(new), topic_of(old)
    if topics_agree(mine[0], theirs[0]) >= AGREEING:
        plain = tells_change(new) or bool(new.values) or bool(new.names) == bool(old.names)
        return plain and _verbs_meet(new, old) and (bool(new.topic or old.topic) or _of_one_kind(mine[1], theirs[1]))
    if tells_change(new) and (_share_a_head(new, old) or names_former_value(new, old)):
        return True
    if new.topic or old.topic or not same_party(new.party, old.party):
        return False
    return new.verb == old.verb and new.verb not in SLIGHT and _objects_meet(new, old)


_POINTING = frozenset({"weekday", "date", "clock", "money", "measure"})
"""Kinds of values by which a thing is pointed at: "the Tuesday class", "the 45 euro plan"."""


def names_former_value(new: Reading, old: Reading) -> bool:
    """Whether a fact names a thing by the value that the memory gives it, and gives it another one of that kind."""
    if not (everything(new) - {new.verb}) & (everything(old) - {old.verb}):
        return False
    former = [value for value in new.values if any(fits(value, each) for each in old.values)]
    given = [value for value in new.values if value not in former]
    return any(one.kind in _POINTING and comparable(one, other) for one in former for other in given)


def one_matter(new: Reading, old: Reading) -> bool:
    """Whether by structure the fact says anew what the memory says: the first of the two witnesses of a change.

    Both speak of one attribute; or their subjects meet, and the fact either tells of a change in something that the
    memory holds, and what it is now, or says all of the memory and more.
    """
    if one_attribute(new, old) or change_by_structure(new, old):
        return True
    if not subjects_meet(new, old):
        return False
    mine, theirs = _told_of(new) | set(new.topic), _told_of(old) | set(old.topic)
    if not tells_change(new):
        return bool(theirs) and not uncovered(theirs, mine | {new.verb})
    of_one = new.verb not in SLIGHT or not (new.topic or old.topic) or topics_agree(new.topic, old.topic) > 0
    again = of_one and new.verb == old.verb and any(comparable(a, b) for a in new.values for b in old.values)
    if not again and not any(covers(theirs, one) or covers(mine, other) for one in mine for other in theirs):
        return opposite(new, old) or any(exclusive(one, two) for one in mine for two in theirs)
    turned = bool(content(new) & DISLIKES) != bool(content(old) & DISLIKES)
    over = new.mood.ended or new.mood.denied or new.mood.negated != old.mood.negated or turned
    if over and not heads_held(new, old, frozenset(mine)):
        return False  # who sold the motorbike has the licence still
    return over or bool(new.values) or bool(uncovered(mine, theirs))


def change_by_structure(new: Reading, old: Reading) -> dict[str, float]:
    """How surely the shape of two statements of one subject makes the fact end, replace or refine the memory."""
    mood, theirs_mood = new.mood, old.mood
    if not parties_agree(new, old) or mood.hedged or mood.planned or theirs_mood.ended:
        return {}
    if ends_job(new, old):
        return {"ends": 0.9}
    mine, theirs = _told_of(new) | set(new.topic), _told_of(old) | set(old.topic)
    lacking, missing = uncovered(mine, theirs | {old.verb}), uncovered(theirs, mine | {new.verb})
    turned = bool(content(new) & DISLIKES) != bool(content(old) & DISLIKES)
    if mood.ended or mood.denied or turned or mood.negated != theirs_mood.negated:
        same = (bool(mine) and bool(theirs)) or (not mine and not theirs and new.verb == old.verb)
        over = same and not lacking and values_fit(new.values, old.values) and heads_held(new, old, frozenset(mine))
        return {"ends": 0.9} if over else {}
    if opposite(new, old) and max(len(lacking), len(missing)) <= 1:
        return {"ends": 0.88 - 0.04 * len(missing)}
    if fills_field(new, old):
        return {"refines": 0.85}
    dated = any(value.kind == "date" and value.date[0] for value in new.values)
    moved = mood.changed or theirs_mood.past or new.verb in word_set("replacement.settling")
    if not theirs_mood.negated and (not mood.past or (moved and not dated)):
        if other_value(new, old):
            return {"replaces": 0.92}
        mine_topic, their_topic = topic_of(new), topic_of(old)
        values = [[value for chunk in chunks for value in chunk.values] for chunks in (mine_topic[1], their_topic[1])]
        alike = mood.changed or not lacking  # three bedrooms are no news of two bathrooms
        if alike and topics_agree(mine_topic[0], their_topic[0]) >= AGREEING and differing(*values):
            return {"replaces": 0.9}
    fits_in = not missing and bool(lacking) and values_fit(old.values, new.values)
    detailed = bool(_told_of(old)) and fits_in and mood.past == theirs_mood.past
    return {"refines": 0.88} if detailed and not slots_conflict(new, old) else {}


def ends_job(new: Reading, old: Reading) -> bool:
    """Whether somebody is out of work, and the memory tells whom they work for, or as what: "got fired"."""
    if new.party != old.party or any(value.kind == "date" and value.date[0] for value in new.values):
        return False  # who was fired in 2010 may work where they do
    works = any(slot.attribute in ("employer", "role") for slot in old.slots)
    return works and _OUT_OF_WORK.search(new.text) is not None


def fills_field(new: Reading, old: Reading) -> bool:
    """Whether the memory names only the field of work that the fact's role or employer is in."""
    field = next((slot for slot in old.slots if slot.attribute == "field"), None)
    words = [word for slot in new.slots if slot.attribute in ("role", "employer") for word in slot.concepts]
    if field is None or len(old.slots) > 1:
        return False
    return any(is_kind_of(word, area) for word in words for area in field.concepts)


def subjects_meet(new: Reading, old: Reading) -> bool:
    """Whether both are about one party, or the party of one is named in the other."""
    if parties_agree(new, old):
        return True
    mine, theirs = set(new.party.name.split()), set(old.party.name.split())
    return bool(mine & old.concepts) or bool(theirs & new.concepts)


def tells_change(new: Reading) -> bool:
    """Whether a statement itself says that something is other than it was."""
    mood = new.mood
    return mood.changed or mood.corrected or mood.ended or mood.denied or told_by_sign(new)


def opposite(new: Reading, old: Reading) -> bool:
    """Whether two statements say of something that it is in states that exclude each other."""
    mine, theirs = _states(new), _states(old)
    return bool(mine and theirs) and any(
        (one in mine and two in theirs and one not in theirs) or (two in mine and one in theirs and two not in theirs)
        for one, two in _opposites()
    )


@per_reading
def _states(reading: Reading) -> frozenset[frozenset[str]]:
    """The states of the table of opposites in which a statement says that something is."""
    said = everything(reading)
    return frozenset(state for states in _opposites() for state in states if state <= said)


@cache
def _opposites() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """Pairs of states that exclude each other; one state may stand on several lines."""
    split = (line.partition("\t") for line in lines("reconcile_opposites.tsv"))
    return tuple((_concepts(one), _concepts(two)) for one, _, two in split)


def _concepts(phrase: str) -> frozenset[str]:
    whole = concept_of(phrase)
    if len(stems(phrase)) == 1 or "-" not in whole:
        return frozenset({whole})
    return frozenset(concept_of(word) for word in phrase.split())


@per_text(4096)
def texts_same_attribute(newer: str, older: str) -> bool:
    """Whether two texts speak of one attribute of one subject, so that the newer may have replaced the older."""
    new, old = read(newer), read(older)
    return not different_things(new, old) and one_attribute(new, old)


@per_text(4096)
def texts_contradict(newer: str, older: str) -> bool:
    """Whether two texts give one attribute of one subject different values: the newer may replace the older.

    Nobody has to look at two statements because they share a verb or a word: what stands in both is an attribute, or
    the same thing of which both say the same kind of thing.
    """
    new, old = read(newer), read(older)
    if different_things(new, old) or not parties_agree(new, old):
        return False
    if slots_conflict(new, old):
        return True
    mine, theirs = topic_of(new), topic_of(old)
    if topics_agree(mine[0], theirs[0]) < AGREEING:
        return False
    values = [[value for chunk in chunks for value in chunk.values] for chunks in (mine[1], theirs[1])]
    return differing(*values) or (bool(new.topic and old.topic) and new.verb == old.verb)


def may_end(new: Reading, old: Reading) -> bool:
    """Whether a fact that ends something may end this: "stopped playing the cello" ends nothing of the orchestra.

    Something besides the verb stands in both, or two kinds of one thing do; a fact that tells of the new ends nothing.
    """
    mine, theirs = _told_of(new), _told_of(old)
    if not mine or not new.mood.ended or new.mood.changed:
        return True  # "gave up smoking": the verb is all that it is about
    near = any(covers(theirs, one) or covers(mine, other) for one in mine for other in theirs)
    return near or any(exclusive(one, two) for one in mine for two in theirs)


@per_reading
def _told_of(reading: Reading) -> frozenset[str]:
    return frozenset(concept for concept in content(reading) - {reading.verb} if not generic(concept))


# ---------------------------------------------------------------- marks


def _pictured_apart(new: Reading, old: Reading) -> bool:
    """Whether emoji stand for different things in them: "User loves 🍕" and "User loves 🍣"."""
    mine, theirs = set(_PICTURE.findall(new.text)), set(_PICTURE.findall(old.text))
    return bool(mine and theirs) and mine != theirs


def _marked_apart(new: Reading, old: Reading) -> bool:
    """ "The second car", "the morning dose", "User's other brother": other marks on what each is about."""
    if new.qualifier and old.qualifier and not (new.qualifier <= old.qualifier or old.qualifier <= new.qualifier):
        return True
    mine, theirs = _marks(new), _marks(old)
    if not _alike(new, old) or mine == theirs:
        return False
    if mine and theirs:
        return not (mine & theirs)
    several = new.party.kind == "relative" and _bare(new.party.relation) in fold_set("reconcile_many.txt")
    return bool((mine | theirs) & _OTHER) or (several and bool(mine))


def _of_another(new: Reading, old: Reading) -> bool:
    """Whether one is about the user and the other says the same of somebody else: a mother's dose, a wife's taste."""
    for mine, theirs in ((new, old), (old, new)):
        kin = theirs.party.kind == "named" or theirs.party.relation in fold_set("reconcile_kin.txt")
        if mine.party.kind == "user" and theirs.party.kind in ("relative", "named") and kin:
            return new.verb == old.verb and bool(new.topic) == bool(old.topic)
    return False


def _says_less(new: Reading, old: Reading) -> bool:
    """Whether a denial, a dislike or an earlier time is of something that the memory does not tell.

    "Not allergic to peanuts" ends no allergy to nuts, "doesn't live in Paris" and "used to live in Paris" no home in
    Utrecht; "not allergic to nuts" ends one to peanuts.
    """
    feels = bool(content(new) & DISLIKES) != bool(content(old) & DISLIKES)
    if not (feels or new.mood.negated != old.mood.negated or _USED_TO.search(new.text)):
        return False
    said = {concept for chunk in new.main for concept in chunk.concepts}
    mine = (said | set(new.topic)) - {new.verb} - FEELINGS
    theirs = content(old)
    return any(
        not generic(one) and one not in theirs and not any(is_kind_of(other, one) for other in theirs) for one in mine
    )


def _narrower(new: Reading, old: Reading) -> bool:
    """Whether a word before a thing's name, or for whom it is, tells another one: the business bank, for the son."""
    more = {one for one in set(new.topic) - set(old.topic) if not generic(one) and one not in _NO_OTHER}
    if new.topic[-1:] == old.topic[-1:] and more:
        return bool(old.topic)
    mine, theirs = ({one for c in each.main if c.lead == "for" for one in c.concepts} for each in (new, old))
    return new.verb == old.verb and bool(mine - theirs) and not new.topic


def _alike(new: Reading, old: Reading) -> bool:
    """Whether both are about a thing or a person of one kind, marks aside."""
    one, two = new.party, old.party
    if one.kind == two.kind == "relative" and not new.topic and not old.topic:
        return _bare(one.relation) == _bare(two.relation)
    mine, theirs = topic_of(new)[0], topic_of(old)[0]
    return bool(mine) and bool(theirs) and (mine[-1] == theirs[-1] or generic(mine[-1]) or generic(theirs[-1]))


def _bare(relation: str) -> str:
    ranks = fold_set("reconcile_ranks.txt")
    return " ".join(word for word in relation.split() if word not in ranks)


@per_reading
def _marks(reading: Reading) -> frozenset[str]:
    """Words that tell one thing from another of its kind: ranks of people, sides, ordinals, times of day."""
    ranks = fold_set("reconcile_ranks.txt") - {"new", "late", "former", "ex", "best", "closest", "great"}
    found = {word for word in reading.party.relation.split() if word in ranks}
    topic = topic_of(reading)[0]
    found |= {concept for concept in topic[:-1] if concept in DISTINGUISHING or concept in _PARTS}
    found |= {f"{value.kind} {value.amount}" for value in reading.topic_values if value.kind == "ordinal"}
    return frozenset(found)


# ---------------------------------------------------------------- names and occasions


def _other_occasion(new: Reading, old: Reading) -> bool:
    """Another season or part of the day, or another time and another value beside it.

    "In winter by bus", "a dose of 40 mg in the evening", "ten kilometres on Sunday", "with Anna on Tuesday at three".
    """
    mine_when, theirs_when = _circumstances(new), _circumstances(old)
    if mine_when and theirs_when and not mine_when & theirs_when:
        return True
    mine, theirs = _by_kind(new), _by_kind(old)
    apart = {kind for kind in mine.keys() & theirs.keys() if differing(mine[kind], theirs[kind])}
    return bool(apart & _WHEN) and (len(apart) > 1 or _told_of_others(new, old))


def _told_of_others(new: Reading, old: Reading) -> bool:
    """Whether both name somebody or some place, and none that the other names: "to Lake Como", "to Scotland"."""
    mine, theirs = ({name for chunk in each.main for name in chunk.names} for each in (new, old))
    return bool(mine and theirs) and not mine & theirs


@per_reading
def _circumstances(reading: Reading) -> frozenset[str]:
    """The times that phrases of a statement tell in words: in summer, at night, at the weekend."""
    led = (chunk for chunk in reading.main if chunk.lead in ("in", "at", "on", "during"))
    return frozenset(concept for chunk in led if set(chunk.concepts) <= _time_words() for concept in chunk.concepts)


@cache
def _time_words() -> frozenset[str]:
    return frozenset(concept_of(word) for word in words("time_words.txt"))


@per_reading
def _by_kind(reading: Reading) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for value in reading.values:
        found.setdefault(value.kind, []).append(value)
    return found


# ---------------------------------------------------------------- what is said of one subject


def led_apart(new: Reading, old: Reading) -> bool:
    """Whether one verb has an object in one text and none in the other: "plays the drums", "plays in an orchestra"."""
    if new.verb != old.verb or new.verb in SLIGHT or new.topic or old.topic:
        return False
    mine, theirs = ({chunk.lead for chunk in reading.main if chunk.concepts} for reading in (new, old))
    return bool(mine and theirs) and not mine & theirs and "" in mine | theirs


def of_other_kinds(new: Reading, old: Reading) -> bool:
    """Whether one says what somebody is and the other where or how: "is a nurse", "is on holiday now"."""
    if new.topic or old.topic or not new.verb == old.verb == "be":
        return False
    mine, theirs = ([chunk for chunk in reading.main if chunk.concepts] for reading in (new, old))
    if not mine or not theirs or any(chunk.values for chunk in (*mine, *theirs)):
        return False
    return all(chunk.lead for chunk in mine) != all(chunk.lead for chunk in theirs)


def share_matter(new: Reading, old: Reading, *, any_word: bool = False) -> bool:
    """Whether both tell of one thing by a word other than a name: "switched dentists", "the dentist is Dr Koch".

    With `any_word` by one that fits many things too ("flight", "class"). Where somebody is gone, the name is enough.
    """
    if (new.mood.ended or signs_of(new)["sign_end"]) and names_told(new) & names_told(old):
        return True
    mine, theirs = everything(new), everything(old)
    named = names_told(new) | names_told(old) | SLIGHT | {USER}
    return any((any_word or not generic(concept)) and covers(theirs, concept) for concept in mine - named)


def _share_a_head(new: Reading, old: Reading) -> bool:
    """Whether something that both are about, a name aside, is the same or a kind of the same."""
    aside = SLIGHT | new.names | old.names | ({new.verb, old.verb} if new.mood.ended and _told_of(new) else frozenset())
    mine, theirs = heads(new) - aside, heads(old) - aside
    return any(not generic(head) and covers(theirs, head) for head in mine)


def _verbs_meet(new: Reading, old: Reading) -> bool:
    return new.verb == old.verb or new.mood.changed or bool({new.verb, old.verb} & SLIGHT)


def _of_one_kind(mine: tuple[Chunk, ...], theirs: tuple[Chunk, ...]) -> bool:
    """Whether both say of a thing that is had something that answers one question: a day, a place, an amount."""
    values = [(one, two) for a in mine for b in theirs for one in a.values for two in b.values]
    if any(comparable(one, two) and not fits(one, two) for one, two in values):
        return True
    leads = {chunk.lead for chunk in mine if chunk.concepts} & {chunk.lead for chunk in theirs if chunk.concepts}
    return bool(leads - {""})


def _objects_meet(new: Reading, old: Reading) -> bool:
    """Whether one verb has one object, of which something else is said, or a bare value for one."""
    for one in new.main[:1]:
        for two in old.main[:1]:
            if one.lead != two.lead:
                continue
            if not one.concepts and not two.concepts:
                return any(comparable(a, b) for a in one.values for b in two.values)
            if one.concepts and two.concepts:
                return covers([two.head], one.head) or is_kind_of(one.head, two.head)
    return False


# ---------------------------------------------------------------- occasions


def two_occasions(new: Reading, old: Reading) -> bool:
    """Whether two days or hours of otherwise equal statements are two occasions: two meetings, two visits.

    A word of change, or a thing that both are about, tells that it is one.
    """
    if not differing(new.values, old.values) or tells_change(new) or (new.topic and old.topic):
        return False
    return timed(new) or new.verb == ""
