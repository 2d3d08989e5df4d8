"""Endings: whether a new fact says that what a memory tells is over, done, untrue or turned into its opposite."""

from __future__ import annotations

from functools import cache

from perdure.pipeline.curation.rules.memo import per_reading
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    Pair,
    Verdict,
    akin,
    concept_set,
    content,
    core,
    covers,
    generic,
    same_party,
    uncovered,
    values_fit,
    verbs_agree,
)
from perdure.pipeline.curation.rules.slots import USER, Chunk, Reading, Value
from perdure.pipeline.curation.rules.slots.scan import concept_of, fold, fold_set, stems
from perdure.pipeline.lexicon import lines

# Succession: posts and duties that pass from one to another when someone leaves.

_POST_VERBS = frozenset({"be", "", "call", "nam"})


def judge_succession(pair: Pair) -> Verdict | None:
    """A verdict that who held a post has left it, or that another now does what someone did; None otherwise."""
    return _departed(pair) or _doer(pair)


def takeover(pair: Pair) -> Verdict | None:
    """ "Greta took over the billing module from Rashid": Rashid's memory of it."""
    new, old = pair.new, pair.old
    if new.verb != concept_of("take over") or not new.chunks or old.mood.past:
        return None
    sources = {concept for chunk in new.chunks if chunk.lead == "from" for concept in chunk.concepts}
    matter = [concept for concept in new.chunks[0].concepts if not generic(concept)]
    if not matter or uncovered(matter, content(old)):
        return None
    owner = set(old.party.name.split())
    in_charge = old.verb in (concept_of("lead"), "maintain", "own", "handl")
    if (sources and sources & owner) or (not sources and in_charge):
        return Verdict("replaces", pair, "replace.takeover", 0.9)
    return None


def successor(pair: Pair) -> Verdict | None:
    """Someone else now does what another did ("Torvald keeps the vendor list now")."""
    new, old = pair.new, pair.old
    if not new.mood.changed or {new.party.kind, old.party.kind} != {"named"} or new.topic or old.topic:
        return None
    if same_party(new.party, old.party, pair.aliases) or new.verb != old.verb or old.mood.past:
        return None
    mine, theirs = content(new), content(old)
    if uncovered(mine, theirs) or uncovered(theirs, mine) or new.verb in ("", "be", "have", "lik", "liv"):
        return None
    return Verdict("replaces", pair, "replace.successor", 0.85)


def _departed(pair: Pair) -> Verdict | None:
    """ "Clement has stepped down": what says that the treasurer is Clement."""
    new, old = pair.new, pair.old
    gone = _gone_by(new, "reconcile_departures.txt")
    if not gone or old.verb not in _POST_VERBS or old.mood.past or old.mood.ended or old.mood.negated:
        return None
    if old.party.relation in fold_set("reconcile_kin.txt"):
        return None
    holder = _holder(old)
    held = bool(holder) and gone <= holder | {"mr", "ms", "mrs", "dr"}
    return Verdict("ends", pair, "end.departed", 0.92) if held and not new.topic else None


def _holder(old: Reading) -> frozenset[str]:
    """Who a memory says holds a post of the user's or of a thing: the names in its value."""
    named = [slot.names for slot in old.slots if slot.attribute == "name"]
    if named:
        return named[0]
    if not old.topic or not old.chunks or old.chunks[0].lead:
        return frozenset()
    chunk = old.chunks[0]
    return frozenset() if "'s " in old.text[chunk.start : chunk.end] else chunk.names  # "Ola's brother" is not Ola


def _doer(pair: Pair) -> Verdict | None:
    """ "Tomasz does the mending now", "Nell helps User on Sundays": what says that another did, who has left."""
    new, old = pair.new, pair.old
    persons = ("named", "relative")
    if new.party.kind not in persons or old.party.kind not in persons or new.topic or old.topic:
        return None
    if same_party(new.party, old.party, pair.aliases) or new.verb != old.verb or not new.verb:
        return None
    if old.mood.past or old.mood.ended or new.mood.negated or new.mood.hedged or new.mood.planned:
        return None
    mine, theirs = _matter(new), _matter(old)
    if uncovered(mine, theirs) and uncovered(theirs, mine):
        return None
    shared = {concept for concept in mine if covers(theirs, concept)}
    if not shared and not (new.values and not mine and not theirs and values_fit(new.values, old.values)):
        return None
    left = bool(set(old.party.name.split()) & pair.departed)
    if new.verb in ("be", "have"):
        return Verdict("replaces", pair, "replace.doer", 0.92) if left and shared else None
    serving = new.verb in concept_set("reconcile_serving.txt")
    if not left and not (new.mood.changed and serving):
        return None
    return Verdict("replaces", pair, "replace.doer", 0.92 if left else 0.85)


def _matter(reading: Reading) -> frozenset[str]:
    return frozenset(concept for concept in content(reading) - {reading.verb} if not generic(concept))


def departed(readings: list[Reading]) -> frozenset[str]:
    """The names of those who, by some statement, left or cannot come."""
    return frozenset(name for reading in readings for name in _gone(reading))


@per_reading
def _gone(reading: Reading) -> frozenset[str]:
    return _gone_by(reading, "reconcile_departures.txt") | _gone_by(reading, "reconcile_absences.txt")


def _gone_by(reading: Reading, table: str) -> frozenset[str]:
    """The name of who a statement says left, by a phrase of a table that stands near its beginning."""
    if reading.party.kind not in ("named", "relative") or not reading.party.name:
        return frozenset()
    words = fold(reading.text).replace("'", "'").split()[:9]
    padded = f" {' '.join(words)} "
    if any(f" {phrase} " in padded for phrase in _phrases(table)):
        return frozenset(reading.party.name.split())
    return frozenset()


@cache
def _phrases(table: str) -> tuple[str, ...]:
    return tuple(lines(table))


_LIKES = frozenset({"lik", "like", "prefer", "favourit"})
DISLIKES = frozenset({"dislik", "dislike"})
FEELINGS = _LIKES | DISLIKES
_DEBTS = frozenset({"ow", "owe", "borrow", "lend"})


def judge_ends(pair: Pair) -> Verdict | None:
    """A verdict that the memory no longer holds after the fact; None otherwise."""
    if pair.new.mood.hedged or pair.new.mood.planned:
        return None
    for rule in (_leaves, _dies, _over, _settled, _flips, _opposes, _done):
        verdict = rule(pair)
        if verdict is not None:
            return verdict
    return None


def _leaves(pair: Pair) -> Verdict | None:
    """Someone retires or loses their work, or parts from their spouse: what says that they have either."""
    new, old = pair.new, pair.old
    if not same_party(new.party, old.party, pair.aliases) or old.mood.past or old.mood.ended:
        return None
    held = {slot.attribute: slot for slot in old.slots}
    if new.verb in concept_set("reconcile_workless.txt") and not new.mood.negated and {"role", "employer"} & set(held):
        return Verdict("ends", pair, "end.work", 0.85)
    seeking = concept_of("job") in content(old) and old.verb in concept_set("reconcile_wanting.txt")
    if seeking and {slot.attribute for slot in new.slots} & {"role", "employer"} and not new.mood.past:
        return Verdict("ends", pair, "end.hired", 0.85)
    status = held.get("status")
    mates = {concept_of(mate) for mate in ("husband", "wife", "spouse", "partner", "boyfriend", "girlfriend", "fiance")}
    parted = new.mood.ended and bool(content(new) & mates)
    if parted and status is not None and set(status.concepts) & {concept_of("marry"), concept_of("engage")}:
        return Verdict("ends", pair, "end.parted", 0.85)
    return None


def _dies(pair: Pair) -> Verdict | None:
    """ "User's cat Mochi died": what says that the user has the cat Mochi."""
    new, old = pair.new, pair.old
    if new.verb not in ("di", "die") or new.party.kind not in ("relative", "named") or old.party.kind != "user":
        return None
    name = set(new.party.name.split())
    relation = concept_of(new.party.relation) if new.party.relation else ""
    held = old.concepts
    if not (name or relation) or (name and not name <= held) or old.mood.past:
        return None
    if relation and not covers(held, relation):
        return None
    rest = {c for c in held if c not in name and c != relation and not generic(c)}
    return (
        Verdict("ends", pair, "end.died", 0.9)
        if old.verb in ("", "have", "own", "keep", "be") and len(rest) <= 1
        else None
    )


def _over(pair: Pair) -> Verdict | None:
    """The fact ends something ("gave up", "no longer", "sold", "was joking about"): what says that it is so."""
    new, old = pair.new, pair.old
    if (
        not (new.mood.ended or new.mood.denied)
        or old.mood.ended
        or old.mood.negated != (new.mood.denied and new.mood.negated and old.mood.negated)
    ):
        return None
    if (old.mood.past and not new.mood.denied) or not same_party(new.party, old.party, pair.aliases):
        return None
    matter = [
        c
        for c in (
            *new.topic,
            *([new.verb] if new.verb not in ("be", "have", "do", "") else []),
            *(c for chunk in _main(new) for c in chunk.concepts),
        )
        if c != USER
    ]
    theirs = content(old)
    names = {c for c in matter if c in new.names}
    telling = [c for c in matter if not generic(c)] or matter
    if not telling or not values_fit(_main_values(new), old.values):
        return None
    lacking = uncovered(telling, theirs)
    if lacking and not (names and not (lacking & names) and len(lacking) <= 1):
        return None
    apart = {chunk.head for chunk in new.main if lacking & set(chunk.concepts)}
    if apart & {chunk.head for chunk in old.main} or not _about(new, old, telling):
        return None
    extra = {c for c in uncovered(theirs, matter) if not generic(c) and c != old.verb}
    if new.verb not in theirs and not verbs_agree(new, old):
        return None
    temporary = any(word in new.text.lower() for word in ("back from", "returned from", "return from"))
    if temporary and not (old.mood.temporary or old.verb in ("be", "", "trip", "visit", "stai", "stay", "fli", "fly")):
        return None
    confidence = 0.95 - 0.07 * len(extra)
    return Verdict("ends", pair, "end.denied" if new.mood.denied else "end.over", max(confidence, 0.3))


def _main(reading: Reading) -> tuple[Chunk, ...]:
    """The phrases that tell what ended: the objects, else the first phrase."""
    unled = tuple(
        chunk for chunk in reading.main if chunk.lead in ("", "with", "of", "from", "about", "at", "in", "on", "to")
    )
    return unled[:2] if unled else reading.main[:1]


def _main_values(reading: Reading) -> list[Value]:
    return [value for chunk in _main(reading) for value in chunk.values if value.kind not in ("date", "clock")]


def _about(new: Reading, old: Reading, telling: list[str]) -> bool:
    """Whether the memory is about what ended, not about something that borrows a word of it ("motorbike licence")."""
    for chunk in old.main:
        if not chunk.concepts or chunk.head in chunk.names or generic(chunk.head):
            continue
        if any(c in telling for c in chunk.concepts) and not akin(chunk.head, frozenset(telling)):
            return False
    if (
        old.topic
        and any(c in telling for c in old.topic)
        and old.topic[-1] not in telling
        and not generic(old.topic[-1])
    ):
        return False
    return not (old.topic and not new.topic and old.topic[-1] not in telling and new.verb == "")


def _settled(pair: Pair) -> Verdict | None:
    """ "Sanne got her 40 euros back from User": the debt between the two."""
    new, old = pair.new, pair.old
    if not new.mood.ended or old.verb not in _DEBTS or old.mood.ended:
        return None
    mine = _participants(new)
    if len(mine) < 2 or mine != _participants(old) or not values_fit(new.values, old.values):
        return None
    things = {c for c in content(new) if c not in mine and not generic(c)}
    return None if uncovered(things, content(old)) else Verdict("ends", pair, "end.settled", 0.9)


def _participants(reading: Reading) -> frozenset[str]:
    found = {name for chunk in reading.chunks for name in chunk.names} | set(reading.party.name.split())
    if reading.party.kind == "user" or USER in reading.concepts:
        found.add(USER)
    return frozenset(found)


def _flips(pair: Pair) -> Verdict | None:
    """The same with the opposite sign: likes and dislikes, is and is not, may and must not."""
    new, old = pair.new, pair.old
    if not same_party(new.party, old.party, pair.aliases) or (old.mood.past and not new.mood.past):
        return None
    mine = {c for c in content(new) if not generic(c)}
    theirs = {c for c in content(old) if not generic(c)}
    opposed = (bool(mine & _LIKES) and bool(theirs & DISLIKES)) or (bool(mine & DISLIKES) and bool(theirs & _LIKES))
    if opposed:
        mine -= FEELINGS
        theirs -= FEELINGS
    elif not _signs_differ(new, old) or bool(mine & FEELINGS) != bool(theirs & FEELINGS):
        return None
    if not mine or not theirs or (new.mood.ended and not opposed):
        return None
    if new.mood.past and not new.mood.changed and (old.mood.ended or old.mood.negated):
        return None  # an earlier time does not undo a later end
    if new.verb in content(new) and old.verb in content(old) and not opposed and not verbs_agree(new, old):
        return None
    lacking, missing = uncovered(mine, theirs), uncovered(theirs, mine)
    lacking &= core(new)
    if (lacking and missing & core(old)) or len(lacking) + len(missing & core(old)) > 2:
        return None
    if not {c for c in mine if covers(theirs, c)} or not values_fit(_main_values(new), old.values):
        return None
    if missing and not _about(new, old, sorted(mine)):
        return None
    return Verdict("ends", pair, "end.opposed" if opposed else "end.negated", 0.92 - 0.06 * len(lacking | missing))


def _signs_differ(new: Reading, old: Reading) -> bool:
    return (new.mood.negated or new.mood.ended) != (old.mood.negated or old.mood.ended)


@cache
def opposites() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """Pairs of states that exclude each other; one state may stand on several lines."""
    split = (line.partition("\t") for line in lines("reconcile_opposites.tsv"))
    return tuple((_concepts(one), _concepts(two)) for one, _, two in split)


def _concepts(phrase: str) -> frozenset[str]:
    whole = concept_of(phrase)
    if len(stems(phrase)) == 1 or "-" not in whole:
        return frozenset({whole})
    return frozenset(concept_of(word) for word in phrase.split())


def _opposes(pair: Pair) -> Verdict | None:
    """States that exclude each other ("is vegetarian", "eats meat again")."""
    new, old = pair.new, pair.old
    if not same_party(new.party, old.party, pair.aliases) or new.mood.negated or old.mood.negated or old.mood.past:
        return None
    if new.mood.ended or old.mood.ended:
        return None
    if any(value.kind == "clock" for value in new.values) and any(value.kind == "clock" for value in old.values):
        return None  # it opens at one hour and closes at another
    mine, theirs = content(new), content(old)
    for one, two in opposites():
        for here, there in ((one, two), (two, one)):
            if not here <= mine or not there <= theirs or there <= mine or here <= theirs:
                continue
            rest = {c for c in mine - here if not generic(c)}
            other = {c for c in theirs - there if not generic(c)}
            lacking, missing = uncovered(rest & core(new), theirs), uncovered(other & core(old), mine)
            if not (lacking and missing) and len(lacking | missing) <= 1:
                return Verdict("ends", pair, "end.opposite", 0.88 - 0.04 * len(other))
    return None


def _done(pair: Pair) -> Verdict | None:
    """Something pending has been done ("is looking for a flatmate", "has found a flatmate")."""
    new, old = pair.new, pair.old
    if not same_party(new.party, old.party, pair.aliases) or new.mood.negated or new.mood.ended or old.mood.ended:
        return None
    if new.verb not in concept_set("reconcile_done.txt"):
        return None
    pending = old.mood.planned or old.mood.hedged or bool(content(old) & concept_set("reconcile_pending.txt"))
    if not pending or old.mood.past:
        return None
    mine = {c for c in content(new) if c != new.verb and not generic(c)}
    theirs = {c for c in content(old) if c not in concept_set("reconcile_pending.txt") and not generic(c)}
    shared = {c for c in theirs if c in mine or covers(mine, c)}
    if not shared or (uncovered(theirs, mine) and uncovered(mine, theirs)):
        return None
    if not _about(new, old, sorted(mine)):
        return None
    return Verdict("ends", pair, "end.done", 0.85)
