"""The predicate of a statement: its verb, its phrases, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.pipeline.curation.rules.slots.lexicon_sets import fold_set, stem_set
from perdure.pipeline.curation.rules.slots.scan import USER, Chunk, Mood, Token, Value, stem
from perdure.pipeline.lexicon import word_set

_MODALS = frozenset(["will", "would", "can", "could", "must", "should", "might", "may", "shall"])
_TENSE = frozenset({"be", "have", "do"})
_HOLDING = frozenset(["has", "have", "owns", "own"])
"""Forms of having: what follows is the object, unless it is a participle ("has moved")."""
_PRESENT = frozenset(["is", "are", "am", "has", "have", "do", "does", "be", "being"])
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
    said: str = ""
    """Stem of the verb that was written, which a mark such as @end hides in `verb`."""


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
