"""The subject of a statement: the party it is about, the thing of theirs, and where the predicate begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from perdure.pipeline.curation.rules.slots.scan import (
    USER,
    Chunk,
    Mood,
    Party,
    Token,
    Value,
    fold_set,
    relations,
    stem,
    stem_set,
)
from perdure.pipeline.lexicon import pairs, word_set, words

_LONGEST_RELATION = 4
_SUFFIXED = 7  # letters from which a noun's ending tells it from a name ("Completion", but not "Clement")
_OPEN = frozenset(["the", "a", "an", "this", "that", "these", "those", "both", "all", "some", "any", "user's"])
_NO_VERB_AFTER = word_set("subject.no_verb_after")
AUXILIARIES = word_set("subject.auxiliaries")


@dataclass(frozen=True, slots=True)
class Subject:
    """Who, what of theirs (concepts, head last), its names and values, and the place of the predicate's first token."""

    party: Party
    topic: tuple[str, ...]
    names: frozenset[str]
    values: tuple[Value, ...]
    place: int
    partner: tuple[str, ...] = ()  # who else is meant: Ileana in "User and Ileana are married"
    qualifier: frozenset[str] = frozenset()
    """What tells the party from others of its kind: the thesis in "User's mentor for the thesis"."""


def read_subject(tokens: list[Token]) -> Subject:
    """The subject of a statement whose sentence shape is plain (see `rewrite`)."""
    place = 0
    while place < len(tokens) and tokens[place].low in _OPEN:
        place += 1
    if place >= len(tokens):
        return Subject(Party("thing"), (), frozenset(), (), 0)
    if tokens[place].low == "user":
        return _users(tokens, place)
    if place and tokens[place - 1].low == "the" and relation_at(tokens, place)[0]:
        return _relative(tokens, place, Party("thing"))  # "the childminder" is the user's
    if tokens[place].name and tokens[place].value is None and not _abbreviation(tokens, place):
        if not place and _common_noun(tokens):
            return _relative(tokens, place, Party("thing"))
        return _named(tokens, place)
    return _thing(tokens, place, Party("thing"))


def _abbreviation(tokens: list[Token], place: int) -> bool:
    """Whether an abbreviation stands alone as the subject ("CI is on Jenkins"): a thing, not a person."""
    text = tokens[place].text
    following = tokens[place + 1] if place + 1 < len(tokens) else None
    if not (2 <= len(text) <= 4 and text.isalpha() and text.isupper()) or following is None:
        return False
    return following.stem in AUXILIARIES or is_verb(following)


def _common_noun(tokens: list[Token]) -> bool:
    """Whether the first word is a thing or a role with a capital because it opens the sentence ("Shirts are teal")."""
    low = tokens[0].low
    following = tokens[1] if len(tokens) > 1 else None
    if following is None or following.name or following.low in ("'s", "and", "&") or low in _names_too():
        return False
    if relation_at(tokens, 0)[0] in fold_set("reconcile_kin.txt"):
        return False
    if low in _things() or (len(low) > _SUFFIXED and low.endswith(("tion", "sion", "ment", "ness"))):
        return True
    told = following.low.split(" ")[0] in _irregular()  # "Jonas gave up": he is no plural
    plural = _plural_verb(tokens, 1) and not told
    return low.endswith("s") and (following.low in ("are", "were") or plural)


@cache
def _things() -> frozenset[str]:
    lists = ("personal_nouns.txt", "nounish.txt", "reconcile_things.txt")
    return frozenset(word for name in lists for word in fold_set(name))


@cache
def _names_too() -> frozenset[str]:
    return fold_set("reconcile_given_names.txt")


@cache
def _irregular() -> frozenset[str]:
    return frozenset(past for pasts in pairs("verbs_irregular.tsv").values() for past in pasts.split())


def relation_at(tokens: list[Token], place: int) -> tuple[str, int]:
    """The relation named at a place ("sister in law") and how many tokens it takes; ("", 0) if none is."""
    table = relations()
    for length in range(min(_LONGEST_RELATION, len(tokens) - place), 0, -1):
        run = tokens[place : place + length]
        key = tuple(token.stem or token.low for token in run)
        relation = table.get(key)
        if relation is not None:
            return relation, length
    return "", 0


def _users(tokens: list[Token], place: int) -> Subject:
    place += 1
    if _low(tokens, place) == "and":
        end = _verb_place(tokens, place + 1)
        partner = tuple(
            t.stem or t.low
            for t in tokens[place + 1 : end]
            if not t.stop and t.low not in _OPEN and t.low not in ("'s", "user")
        )
        return Subject(Party("user"), (), frozenset(), (), end, partner)
    if _low(tokens, place) != "'s":
        return Subject(Party("user"), (), frozenset(), (), place)
    return _relative(tokens, place + 1, Party("user"))


def _relative(tokens: list[Token], place: int, owner: Party) -> Subject:
    """After "User's": a relative, with their name if it is said, and perhaps a thing of theirs; else a thing."""
    start = place
    ranks = fold_set("reconcile_ranks.txt")
    rank = ""
    while _low(tokens, place) in ranks:
        rank = f"{rank}{_low(tokens, place)} "
        place += 1
    relation, length = relation_at(tokens, place)
    if not relation and place > start:  # "User's ex": a rank that stands alone
        rank, place = "", place - 1
        relation, length = relation_at(tokens, place)
    if not relation or _continues(tokens, place + length):
        return _thing(tokens, start, owner)
    place += length
    qualifier: frozenset[str] = frozenset()
    if _low(tokens, place) in ("for", "of", "at", "on", "in"):  # "User's mentor for the thesis"
        end = _verb_place(tokens, place)
        telling = [token for token in tokens[place + 1 : end] if token.stem and not token.stop and token.low != "user"]
        qualifier = frozenset(token.stem for token in telling if token.stem not in stem_set("reconcile_light.txt"))
        place = end
    name, place = _name(tokens, place)
    party = Party("relative", rank + relation, name)
    if _low(tokens, place) == "'s":
        return _thing(tokens, place + 1, party)
    return Subject(party, (), frozenset(), (), place, qualifier=qualifier)


def _continues(tokens: list[Token], place: int) -> bool:
    """Whether the noun phrase goes on after a relation word ("doctor appointment"), so that it names no person."""
    if place >= len(tokens):
        return False
    token = tokens[place]
    if (
        token.stop
        or token.name
        or token.value is not None
        or token.low in ("'s", "and", "or", "who", "in", "on", "at", "of", "with", "from", "for")
    ):
        return False
    if _plural_verb(tokens, place):
        return False
    return not is_verb(token) and token.low not in stem_set("reconcile_light.txt") and token.stem not in AUXILIARIES


def _name(tokens: list[Token], place: int) -> tuple[str, int]:
    parts: list[str] = []
    while place < len(tokens) and tokens[place].name and tokens[place].value is None:
        parts.append(tokens[place].stem or tokens[place].low)
        place += 1
    return " ".join(parts), place


def _named(tokens: list[Token], place: int) -> Subject:
    start = place
    name, place = _name(tokens, place)
    rest: Token | None
    if _low(tokens, place) == "'s":
        relation, length = relation_at(tokens, place + 1)
        if relation and not _continues(tokens, place + 1 + length):
            own, after = _name(tokens, place + 1 + length)
            party = Party("relative", relation, own, of=name)
            if _low(tokens, after) == "'s":
                return _thing(tokens, after + 1, party)
            return Subject(party, (), frozenset(), (), after)
        return _thing(tokens, place + 1, Party("named", name=name))
    said = place
    while _low(tokens, said) in words("adverbs.txt") or _low(tokens, said) == "now":
        said += 1  # "Mara now works", "Ilse also plays"
    if said < len(tokens) and (
        is_verb(tokens[said]) or tokens[said].stem in AUXILIARIES or tokens[said].low.split(" ")[0] in _irregular()
    ):
        return Subject(Party("named", name=name), (), frozenset(), (), said)
    if place < len(tokens) and tokens[place].low in ("and", "&"):
        return _thing(tokens, start, Party("thing"))
    rest = tokens[place] if place < len(tokens) else None
    if rest is not None and not rest.stop and rest.value is None and rest.low.endswith(("s", "ed")):
        return Subject(Party("named", name=name), (), frozenset(), (), place)
    return _thing(tokens, start, Party("thing"))


def _thing(tokens: list[Token], place: int, party: Party) -> Subject:
    """A noun phrase up to the verb, its head before the first preposition put last."""
    end = _verb_place(tokens, place)
    light = stem_set("reconcile_light.txt")
    leads = fold_set("reconcile_leads.txt")
    before: list[str] = []
    after: list[str] = []
    led = False
    names: set[str] = set()
    values: list[Value] = []
    for token in tokens[place:end]:
        if token.value is not None:
            values.append(token.value)
        elif token.low in leads:
            led = True
        elif token.low == "user":
            after.append(USER)
        elif (
            not token.stop
            and token.stem
            and token.stem[0] != "@"
            and ((token.name and token.start > 0) or token.stem not in light)
            and token.low != "'s"
        ):
            (after if led else before).append(token.stem)
            if token.name and token.start > 0:
                names.add(token.stem)
    return Subject(party, (*after, *before), frozenset(names), tuple(values), end)


def _verb_place(tokens: list[Token], place: int) -> int:
    """Where the predicate begins: at the first verb that can be one there."""
    for at in range(place + 1, len(tokens)):
        token, before = tokens[at], tokens[at - 1]
        if token.stop or token.value is not None or before.low in _NO_VERB_AFTER:
            continue
        if token.stem in AUXILIARIES or is_verb(token) or _plural_verb(tokens, at):
            return at
    return next((at for at in range(place + 1, len(tokens) - 1) if _unlisted_verb(tokens, at)), len(tokens))


def _unlisted_verb(tokens: list[Token], at: int) -> bool:
    """Whether a word is the verb only because the clause has no commoner one ("the dough proves for 14 hours")."""
    token, before, after = tokens[at], tokens[at - 1], tokens[at + 1]
    if token.name or token.stop or token.value is not None or not token.low.endswith("s") or len(token.low) < 4:
        return False
    if (
        token.low.endswith(("ss", "us", "is", "'s"))
        or before.low in _NO_VERB_AFTER
        or before.low.endswith(("s", "ing"))
    ):
        return False
    valued = token.stem in stem_set("verbs.txt") and any(later.value is not None for later in tokens[at + 1 :])
    return valued and (after.value is not None or after.low in fold_set("reconcile_leads.txt"))


def _plural_verb(tokens: list[Token], at: int) -> bool:
    """Whether a bare verb form after a plural noun is the predicate ("bookings go through Fresha").

    A later finite verb of the same clause makes it part of a noun ("the sales plan is ...").
    """
    token, before = tokens[at], tokens[at - 1]
    plural = before.low.endswith("s") and not before.low.endswith(("ss", "us", "is", "'s")) and before.value is None
    first, _, _ = token.low.partition(" ")
    bare = not token.name and token.value is None and stem(first) in stem_set("reconcile_verbs.txt")
    if not plural or not bare or first.endswith(("s", "ed", "ing")) or at + 1 >= len(tokens):
        return False
    for later in tokens[at + 1 :]:
        if later.stop or later.low in fold_set("reconcile_leads.txt"):
            break
        if later.stem in AUXILIARIES or is_verb(later):
            return False
    return True


def is_verb(token: Token) -> bool:
    """Whether a token has the form of a finite verb that the vocabulary knows."""
    if token.name or token.value is not None or token.stop:
        return False
    first, _, more = token.low.partition(" ")
    if more and stem(first) in AUXILIARIES:
        return True
    if first.endswith("ing"):
        return False
    inflected = first.endswith(("s", "ed")) or first in fold_set("reconcile_pasts.txt")
    return inflected and stem(first) in stem_set("reconcile_verbs.txt")


def _low(tokens: list[Token], place: int) -> str:
    return tokens[place].low if 0 <= place < len(tokens) else ""


# The predicate of a statement: its verb, its phrases, and how it is said.

_MODALS = frozenset(["will", "would", "can", "could", "must", "should", "might", "may", "shall"])
_TENSE = frozenset({"be", "have", "do"})
_HOLDING = frozenset(["has", "have", "owns", "own"])
"""Forms of having: what follows is the object, unless it is a participle ("has moved")."""
_FLAGS = {
    "@end": {"ended": True},
    "@nolonger": {"ended": True},
    "@not": {"negated": True},
    "@plan": {"planned": True},
    "@hedge": {"hedged": True},
    "@used": {"past": True, "ended": True},
    "@start": {"started": True, "changed": True},
    "@change": {"changed": True},
    "@now": {"changed": True},
    "@temporary": {"temporary": True},
    "@deny": {"denied": True},
}
_BASES = frozenset({"come", "become", "run", "overcome"})
"""Forms that are participles after "have" and otherwise the present of a plural ("the eggs come from a farm")."""
_ASPECTS = frozenset({"@end", "@start", "@change", "@deny"})
"""Marks that are verbs of their own: an -ing form after them is what they speak of, else their object is."""
_DETERMINERS = frozenset(["a", "an", "the", "their", "his", "her", "its", "this", "that", "these", "those", "some"])
_CHANGE_WORDS = word_set("predicate.change_words")
_SUBORDINATORS = word_set("predicate.subordinators")
_PARTICLES = frozenset({"over", "off", "up", "out", "away", "through"})
"""Alone after "be", these say that something is no more ("is over", "is off")."""
_SPAN_LEADS = frozenset({"since", "until", "till"})
_HEDGING = word_set("predicate.hedging")
_NEGATIVES = frozenset(["not", "never", "neither", "nor"])
_JOINERS = frozenset({"and", "or", "but", "nor", "plus"})


@dataclass(frozen=True, slots=True)
class Predicate:
    """Verb concept ("be" and "have" included), phrases, mood, and what is said to be given up."""

    verb: str
    chunks: tuple[Chunk, ...]
    mood: Mood
    replaced: tuple[tuple[str, ...], ...] = ()
    replaced_values: tuple[Value, ...] = ()
    said: str = ""  # stem of the verb that was written, which a mark such as @end hides in `verb`


def read_predicate(tokens: list[Token], place: int) -> Predicate:
    """The predicate that begins at a place."""
    mood = Mood()
    verb = said = ""
    past_aux = bare = False
    at = place
    light = stem_set("reconcile_light.txt")
    while at < len(tokens):
        token = tokens[at]
        if token.stop or token.low in ("always", "also"):
            at += 1
        elif token.stem in _ASPECTS or (token.stem == "start" and _gerund(tokens, at + 1)):
            mood = replace(_flagged(mood, token), started=mood.started or token.stem == "start")
            past_aux = past_aux or _is_past(token)
            said = stem(token.low.split(" ", 1)[0])
            at += 1
            if not _gerund(tokens, at):
                break
        elif token.stem in _FLAGS or _is_modal(token) or token.low in _NEGATIVES or token.low == "to":
            mood = _flagged(mood, token)
            bare = bare or token.stem in ("@plan", "@used") or _is_modal(token) or token.low == "to"
            at += 1
        elif token.low in _DETERMINERS and verb != "be":
            break
        elif (token.stem in _TENSE or token.low in _HOLDING) and token.value is None:
            past_aux = past_aux or token.low in ("was", "were", "had", "did")
            verb = "have" if token.low in _HOLDING else token.stem
            at += 1
            if not _auxiliary(tokens, at):
                break
        elif (token.stem in light and not token.name) or (not token.stem and token.value is None):
            mood = _flagged(mood, token)
            past_aux = past_aux or (not token.stem and _is_past(token))
            at += 1
        else:
            if (
                (not verb or _is_participle(token) or _takes_object(tokens, at))
                and token.value is None
                and not token.name
            ):
                bare = bare or (not verb and token.low.split(" ", 1)[0] in _BASES)
                verb = token.stem
                said = stem(token.low.split(" ", 1)[0])
                past_aux = past_aux or (_is_past(token) and not bare)
                at += 1
            break
    mood = _of_all(mood, tokens)
    mood = replace(mood, past=mood.past or past_aux)
    return _settle(_phrases(tokens, at, verb, said, mood))


def _of_all(mood: Mood, tokens: list[Token]) -> Mood:
    """The mood with what words anywhere in the statement tell of it."""
    lows = {token.low for token in tokens if token.low != "new"} | {token.low for token in tokens[:4]}
    if lows & _CHANGE_WORDS:
        mood = replace(mood, changed=True)
    if lows & fold_set("reconcile_corrections.txt"):
        mood = replace(mood, corrected=True)
    if {"will", "next"} <= {word for low in lows for word in low.split()} and not mood.changed:  # "will move next year"
        mood = replace(mood, planned=True)
    if "again" in lows and lows & {"may", "can"}:
        mood = replace(mood, hedged=False)
    return mood


_EXCHANGES = frozenset({"trade", "trad", "swap", "exchang", "replac", "renam", "switch", "chang", "convert"})
_FOR = frozenset({"for", "with", "by", "to"})


def _settle(predicate: Predicate) -> Predicate:
    """Two shapes of predicate brought to the common ones: "is off the diet" ends it, "swapped A for B" replaces A."""
    chunks = predicate.chunks
    if predicate.verb == "be" and chunks and chunks[0].lead == "off":
        ended = replace(predicate.mood, ended=True)
        return replace(predicate, verb="", mood=ended, chunks=(replace(chunks[0], lead=""), *chunks[1:]))
    if predicate.said not in _EXCHANGES or not predicate.mood.changed or len(chunks) < 2 or chunks[0].lead:
        return predicate
    if chunks[1].lead not in _FOR or not chunks[0].concepts:
        return predicate
    kept = (replace(chunks[1], lead=""), *chunks[2:])
    return replace(predicate, chunks=kept, replaced=(*predicate.replaced, chunks[0].concepts))


def _gerund(tokens: list[Token], at: int) -> bool:
    """Whether the next word of content is an -ing form: "gave up learning Welsh", "started eating meat"."""
    light = stem_set("reconcile_light.txt")
    while at < len(tokens) and tokens[at].stem in light and tokens[at].low not in _DETERMINERS:
        at += 1
    return at < len(tokens) and tokens[at].low.split(" ", 1)[0].endswith("ing") and not tokens[at].name


def _auxiliary(tokens: list[Token], at: int) -> bool:
    """Whether a form of be, have or do before this place only helps the verb that follows."""
    light = stem_set("reconcile_light.txt")
    while at < len(tokens):
        token = tokens[at]
        if token.stem in _FLAGS or token.low in _NEGATIVES or token.low in _MODALS:
            return True
        if token.stem in _TENSE and token.low in ("been", "being", "had", "be"):
            return True
        if token.stem in light and not token.name and token.low not in ("a", "an", "the", "their"):
            at += 1
            continue
        return _is_participle(token) or _takes_object(tokens, at)
    return False


def _takes_object(tokens: list[Token], at: int) -> bool:
    """Whether an -ing form that is a noun elsewhere stands before an article: "is meeting the plumber"."""
    following = tokens[at + 1].low if at + 1 < len(tokens) else ""
    return tokens[at].low.endswith("ing") and not tokens[at].name and following in ("a", "an", "the", "their")


def _is_participle(token: Token) -> bool:
    first = token.low.split(" ", 1)[0]
    if token.value is not None or token.name:
        return False
    if first.endswith("ing"):
        return stem(first) in stem_set("reconcile_verbs.txt")
    past = first.endswith("ed") or first in fold_set("reconcile_pasts.txt")
    return past and stem(first) in stem_set("reconcile_verbs.txt")


def _is_past(token: Token) -> bool:
    first = token.low.split(" ", 1)[0]
    return first.endswith("ed") or first in fold_set("reconcile_pasts.txt")


def _is_modal(token: Token) -> bool:
    return token.low in _MODALS and token.stem == token.low


def _flagged(mood: Mood, token: Token) -> Mood:
    if token.stem in _FLAGS:
        mood = replace(mood, **_FLAGS[token.stem])
    if token.low in _NEGATIVES:
        mood = replace(mood, negated=True)
    if token.low in _HEDGING:
        mood = replace(mood, hedged=True)
    return mood


class _Phrases:
    """Collects the phrases of a predicate from left to right."""

    def __init__(self) -> None:
        self.done: list[Chunk] = []
        self.lead = ""
        self.concepts: list[str] = []
        self.names: set[str] = set()
        self.values: list[Value] = []
        self.start = -1
        self.end = -1
        self.aside = False

    def take(self, token: Token, concept: str) -> None:
        if concept:
            self.concepts.append(concept)
            if token.name:
                self.names.add(concept)
        if token.value is not None:
            self.values.append(token.value)
        self.start = token.start if self.start < 0 else self.start
        self.end = token.end

    def close(self, lead: str) -> None:
        if self.concepts or self.values:
            self.done.append(
                Chunk(
                    self.lead,
                    tuple(self.concepts),
                    frozenset(self.names),
                    tuple(self.values),
                    self.start,
                    self.end,
                    self.aside or (self.lead in _SPAN_LEADS and bool(self.concepts)),
                )
            )
        self.lead, self.concepts, self.names, self.values = lead, [], set(), []
        self.start = self.end = -1


def _phrases(tokens: list[Token], at: int, verb: str, said: str, mood: Mood) -> Predicate:
    light, leads = stem_set("reconcile_light.txt"), fold_set("reconcile_leads.txt")
    phrases = _Phrases()
    anymore = aside = False
    for place in range(at, len(tokens)):
        token = tokens[place]
        if token.stem in _FLAGS:
            if token.stem != "@end" and not aside:  # "has two left": a mark only where the verb stands
                mood = _flagged(mood, token)
        elif token.stem == "@anymore":
            anymore = True
        elif token.stem == "@instead":
            phrases.close("instead of")
        elif token.value is not None:
            phrases.take(token, "")
        elif token.stop:
            phrases.close("")
        elif token.low in _JOINERS:
            aside = aside or token.low == "but"
            phrases.close(phrases.lead if token.low != "but" else "")
        elif token.low in _NEGATIVES:
            if aside:
                continue
            if phrases.concepts or phrases.values or phrases.done:
                phrases.close("not")
            else:
                mood = replace(mood, negated=True)
        elif token.low in _HEDGING:
            mood = replace(mood, hedged=True)
            phrases.close("if" if token.low == "if" else phrases.lead)
        elif token.low in _SUBORDINATORS:
            phrases.close(token.low)
            phrases.aside = True
        elif token.low in leads:
            opened = phrases.lead in _GIVEN_UP and not phrases.concepts and not phrases.values
            phrases.close(phrases.lead if opened else token.low)
        elif token.low == "user":
            phrases.take(token, USER)
        elif token.stem and (token.name or token.stem not in light) and token.low != "'s" and token.low not in _MODALS:
            phrases.take(token, token.stem)
    bare = phrases.lead in _PARTICLES and not phrases.concepts and not phrases.values and not aside
    phrases.close("")
    if bare and verb in ("be", "") and not mood.ended:
        mood = replace(mood, ended=True)
    if anymore:
        mood = replace(mood, ended=mood.negated or mood.ended, negated=False)
    return _given_up(Predicate(verb, tuple(phrases.done), mood, said=said))


_GIVEN_UP = frozenset({"instead of", "not"})


def _given_up(predicate: Predicate) -> Predicate:
    """Takes what is named as replaced out of the phrases: "from A" beside "to B", "instead of A", "not A"."""
    kept: list[Chunk] = []
    replaced: list[tuple[str, ...]] = []
    values: list[Value] = []
    leads = {chunk.lead for chunk in predicate.chunks}
    moved = {predicate.said, predicate.verb} & stem_set("reconcile_movers.txt") or predicate.mood.changed
    for chunk in predicate.chunks:
        gone = chunk.lead in _GIVEN_UP or (bool(moved) and chunk.lead == "from" and "to" in leads)
        if gone:
            if chunk.concepts:
                replaced.append(chunk.concepts)
            values.extend(chunk.values)
        else:
            kept.append(chunk)
    mood = replace(predicate.mood, changed=True) if replaced or values else predicate.mood
    return replace(predicate, chunks=tuple(kept), mood=mood, replaced=tuple(replaced), replaced_values=tuple(values))
