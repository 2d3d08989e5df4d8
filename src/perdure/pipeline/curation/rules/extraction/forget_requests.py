"""Requests to forget: the thing to forget is named, and nothing else of the request is kept.

A request is an order (`forget_order`) or a wish (`forget_wish`); `forget_matter` says what it is about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, filters, forget_target, grammar
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.retrieval.words import topic_words

# Orders to forget something told: a lead, a verb, the matter, what trails; and whether a memory is meant by them.
#
# Verbs that do other work too ("drop", "remove") count only where something shows that a memory is meant: a word of
# telling, a place where memories are kept, a private datum, or a reason that only such a request has.


@dataclass(frozen=True, slots=True)
class Order:
    """A request found in a sentence."""

    before: str  # what stands before it
    spoken: str  # the words that open it ("so please")
    joint: str  # "so" where it is the consequence of what stands before, else ""
    polite: bool
    strength: str  # what the verb alone says, as `forget_verbs.tsv` has it
    what: str  # the matter
    trail: str


@cache
def _lead() -> re.Pattern[str]:
    return re.compile(rf"(?:(?:{'|'.join(lexicon.lines('forget_polite.txt'))})\b[\s,:]*)*", re.I)


_COURTESY = Pattern(
    r"\b(?:please+|pl[sz]+|plz+|kindly|pray|(?:can|could|would|will|might) (?:you|u|we)|(?:you|u) (?:can|could|may|"
    r"might|should|must|had better|need|have|better|ought)|(?:i|we) (?:want|need|would like|would love|wish|prefer|"
    r"would prefer|ask|must ask|beg|would rather|trust)|if you (?:would|could|can)|ask you)\b",
    re.I,
)


@cache
def _verbs() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of the verbs with their strengths; the group `what` holds the matter and whatever follows it."""
    found: list[tuple[re.Pattern[str], str]] = []
    for form, strength in lexicon.pairs("forget_verbs.tsv").items():
        verb, split, particle = form.partition(" * ")
        middle = rf"{verb} (?P<what>.{{2,90}}?) {particle}\b(?P<after>.*)$" if split else rf"{verb}\b\s*(?P<what>.*)$"
        found.append((re.compile(middle, re.I), strength))
    return tuple(found)


@cache
def any_verb() -> re.Pattern[str]:
    """Every verb of a request in one pattern: most sentences hold none."""
    forms = (form.partition(" * ")[0] for form in lexicon.pairs("forget_verbs.tsv"))
    return re.compile(rf"\b(?:{'|'.join(forms)})\b", re.I)


@cache
def _places() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{line})" for line in lexicon.lines("forget_places.txt")), re.I)


_TAKEN_BACK = Pattern(
    r"(?:scratch|strike) that\b[,:;]? (?!(?:from|off|out|in|on|please+|pl[sz]+|thanks|thx|now|too|for|and|as)\b)\S+ \S",
    re.I,
)
"""Words that take back what was just said, and say what is so: "scratch that, it's on Friday"."""
_JOINT = Pattern(r"(?:^|(?<=[,;:.!?]) | -+ |,? (?=(?:and|but|so|then|n)\b))", re.I)


def find_order(sentence: str, talk: Discourse) -> Order | None:
    """The first order to forget in a sentence."""
    if len(sentence) > 1000 or not any_verb().search(sentence):
        return None
    for joint in _JOINT.finditer(sentence):
        lead = _lead().match(sentence, joint.end())
        start = lead.end() if lead else joint.end()
        spoken = sentence[joint.end() : start]
        if _TAKEN_BACK.match(sentence, start):
            continue
        for pattern, strength in _verbs():
            match = pattern.match(sentence, start)
            if match is None:
                continue
            order = _ordered(sentence[: joint.start()], spoken, strength, match)
            if order is not None and _meant(order, match, talk):
                return order
    return None


def _ordered(before: str, spoken: str, strength: str, match: re.Match[str]) -> Order | None:
    what, trail = cut(match.group("what"))
    if "after" in match.re.groupindex:
        if trail:
            return None
        trail = match.group("after")
    polite = _COURTESY.search(spoken) is not None or forget_target.thanks(trail)
    if strength == "retract" and re.search(r"\byou\b", spoken):
        strength = "weak"
    joint = "so" if re.search(r"\bso\b", spoken, re.I) else ""
    return Order(before.strip(" ,;:-"), spoken, joint, polite, strength, what, forget_target.after_thanks(trail))


_END = Pattern(
    r"[,;:]\s| -+ | \(|[!?]|(?<!what)(?<!all)(?<!thing)(?<!that)(?<!things)(?<!stuff)\s(?=(?:because|bc|since|cos|cuz|"
    r"coz|as (?:it|that|she|he|they|i|we|this|the|my)|so (?:that|i|we|she|he|no)|now that|in case|before (?:i|she|he|"
    r"they|any\w+|my|we)|if (?:i|you|that|it|possible)|but|unless|for (?:privacy|safety|security|good|now|me|ever)|"
    r"and (?:please|pl[sz]|i|we|he|she|they|it|oh|then|also (?:please|delete|forget)|the .{2,30} (?:is|are|was)|(?:my|"
    r"our) .{2,30} (?:is|are|was|also))|please+|pl[sz]+|plz+|ta|thx|thanks|thank you|cheers|will (?:you|u)|would you|"
    r"could you|can you|ok|okay|lol|omg|haha|for me|straight away|right away|asap|immediately|completely|entirely|"
    r"altogether|again|forever|too|as well|i told (?:to )?you|that i told|i mentioned|my (?:\w+ )?\w+ (?:reads|uses|"
    r"sees|has))\b)",
    re.I,
)


def cut(text: str) -> tuple[str, str]:
    """The matter, and what trails it: where it is kept, thanks, a reason, other news."""
    text = forget_target.after_thanks(text)
    ends = [found for found in (_END.search(text), _places().search(text)) if found and found.start() > 0]
    if not ends:
        return text.strip(" ,.:;-!"), ""
    end = min(ends, key=lambda found: found.start())
    what, trail = text[: end.start()], text[end.start() :].lstrip(" ,;:-")
    listed = re.match(r"the [\w' -]{2,40}(?=$|, )", trail)
    if listed and forget_target.is_pointer(what) and grammar.find_verb(listed.group().split()) < 0:
        return listed.group(), trail[listed.end() :].lstrip(" ,")  # "forget this, the crying, it was stupid"
    return what.strip(" ,.:;-!"), trail.strip()


def _meant(order: Order, match: re.Match[str], talk: Discourse) -> bool:
    """Whether a memory is meant by an order that has the form of a request to forget."""
    what = order.what
    if forget_target.is_everything(what):
        return not talk.task and not re.match(r"(?:if|unless|when|whenever)\b", order.trail, re.I)
    stands = forget_target.stands_for_matter(order.before) or talk.mentioned[1] != ""
    if not what and order.strength != "memory" and not stands:
        return False
    whole = match.string[match.start("what") :]
    shown = forget_target.is_told(what) or bool(_places().search(whole)) or bool(forget_target.reasons().search(whole))
    shown = shown or (order.before != "" and bool(forget_target.reasons().search(order.before)))
    named = forget_target.mentioned(order.before) != "" or forget_target.is_told(order.before)
    shown = shown or (forget_target.is_pointer(what) and named)
    if (elsewhere(whole) or _EDITS.search(whole)) and not _places().search(whole) and order.strength != "memory":
        return False
    if not shown and re.match(r"(?:if|unless|when|whenever)\b", order.trail, re.I):
        return False  # "you can forget the beach if it rains"
    if talk.task and not (shown and order.strength in {"memory", "strong"}):
        return False
    if order.before and order.joint != "so" and not order.polite and not shown:
        return False
    return shown or _alone(order, talk, match)


INDEFINITE = Pattern(
    r"^(?:an?|(?:how|when|where)(?= (?:to|do|does|can|could|should|much|many|about)\b)|some|to|for|one|any more|"
    r"more|it all)\b(?! bit\b)",
    re.I,
)
_DISMISSED = Pattern(r"^(?:about )?(?:it|this)$", re.I)
_ASKS = Pattern(
    r"^(?:what|which|who|how|where|when|why|can|could|should|shall|would|do|does|did|is|are|let|tell|give|show|write|"
    r"make|just|i (?:want|need)|we (?:want|need))\b",
    re.I,
)


def _alone(order: Order, talk: Discourse, match: re.Match[str]) -> bool:
    """Whether an order without a sign of telling is one to forget, by its verb and its matter."""
    what = order.what
    if INDEFINITE.match(what):
        return False
    pointer = not what or forget_target.is_pointer(what)
    datum = forget_target.is_datum(what) and (order.polite or _particular(what, talk))
    if order.strength == "memory":
        told = order.polite or datum or pointer or re.match(r"(?:my|our|his|her|their)\b", what, re.I) is not None
        asks = talk.asks or (_ASKS.match(order.trail) is not None and not order.before)
        return (told or not asks) and (order.polite or not _DISMISSED.match(what))
    if order.strength == "retract":
        return False
    if order.strength == "refuse":
        return (datum or pointer) and (order.polite or not re.search(r"remember|memori", match.group(), re.I))
    if pointer:
        said = talk.mentioned[1] or forget_target.mentioned(order.before)
        if said or forget_target.stands_for_matter(order.before):
            return True
        return order.strength == "strong" and bool(talk.drafts) and not talk.asks | talk.commanded
    if datum:
        return not re.match(r"(?:drop|lose|cut|ignore|skip|clear|burn)\b", match.group(), re.I) or order.polite
    if order.strength == "strong" and order.before + order.trail == "" and not talk.commanded and _named_barely(what):
        return True
    return order.strength == "strong" and _owned(what, order.polite)


def _named_barely(what: str) -> bool:
    """ "delete house offer": two or three words that name no part of a text, file or table."""
    parts = [grammar.bare(part) for part in what.split()]
    return 1 < len(parts) < 4 and not set(parts) & lexicon.words("forget_apart.txt") and all(map(str.isalpha, parts))


def _particular(what: str, talk: Discourse) -> bool:
    """Whether a datum is somebody's or something's; "the code" alone is if one was told."""
    parts = what.split()
    if len(parts) > 2 or parts[0].lower() not in {"the", "that", "this", "any", "all", "those"}:
        return True
    return any(forget_target.names_all(draft.text, what) for draft in talk.drafts)


_FROM_PART = Pattern(r"\b(?:from|off|out of|in) (?P<part>[a-z]+)\b", re.I)
_FOREIGN = Pattern(
    r"\b(?:from|out of|off|on|onto|into|in|under|below|above|after|before|with|by|to) (?:the|my|our|your|his|her|their|"
    r"this|that|an?|each|every|all|\d)\b",
    re.I,
)


_EDITS = Pattern(
    r"\band (?:also )?(?:make|add|put|write|shorten|rewrite|replace|change|turn|use|move|insert|include|keep|send)\b",
    re.I,
)
"""What goes on with an order to edit a text: "take out the bit about salt and make it vegan"."""


def elsewhere(text: str) -> bool:
    """Whether something is to be taken from another place than memory ("remove the number from the title")."""
    if _places().search(text):
        return False
    part = _FROM_PART.search(text)
    if part is not None and part.group("part").lower() in lexicon.words("forget_apart.txt"):
        return True
    found = _FOREIGN.search(re.split(r"[,;:.]| -+ ", text, maxsplit=1)[0])
    if found is None:
        return False
    if found.group().split()[0].lower() in {"from", "out", "off", "to", "into"}:
        return True
    return not forget_target.is_told(text[: found.end()]) and not forget_target.is_datum(cut(text)[0])


def _owned(what: str, polite: bool) -> bool:
    """Whether a matter is the speaker's or a known person's, and nothing that is wiped in the world; if asked politely,
    "the necklace" is enough: an assistant has no other necklace to erase."""
    parts = [grammar.bare(part) for part in what.split()]
    if not parts or parts[-1] in lexicon.words("forget_apart.txt"):
        return False
    if polite and parts[0] == "the" and len(parts) > 1:
        return True
    return parts[0] in {"my", "our", "that", "his", "her", "their"} or parts[0].endswith("'s") or what[:1].isupper()


# Wishes that something told be forgotten: the matter first, or as what is not to be kept.

_GONE = (
    r"(?:removed|deleted|forgotten|erased|wiped|scrubbed|taken (?:out|off|down|away)|cleared|struck(?: out| off)?|"
    r"expunged|purged|binned|dropped|thrown (?:out|away)|gone|out of (?:here|there|memory)|off the record)"
)
_KEPT = (
    r"(?:stored|remembered|kept|saved|recorded|noted|logged|retained|memorised|memorized|written(?: down| anywhere)?|"
    r"on (?:file|record)|in (?:here|there|(?:your|the) (?:memory|notes|records|files?|log))|hanging (?:about|around)|"
    r"lying (?:about|around)|held(?: on to)?)"
)
_COURT = r"(?:(?:and|so|but|also|oh|please|now|actually|no|ok|sorry)[, ]+)*"
_WISHES: tuple[Pattern, ...] = tuple(
    Pattern(_COURT + form + r"\b(?P<trail>.*)$", re.I)
    for form in (
        rf"(?:i|we) (?:want|need|would like|wish|would love|prefer|would prefer)(?: to have)? (?P<what>.{{2,60}}?) "
        rf"(?:to be |to get )?{_GONE}",
        r"(?:please |kindly )*(?:treat|consider|regard|take|count|let) (?P<what>.{2,60}?) (?:as |be |to be )?(?:unsaid|"
        r"forgotten|deleted|never said|withdrawn|void|erased|unmentioned)",
        rf"(?P<what>(?:the|my|our|that|those|what|this|all that) .{{2,60}}?),? (?:must|should|may|can|need|ought to) ?"
        rf"(?:not|never|n't) (?:be|have been|stay|remain) {_KEPT}",
        rf"(?:could|can|would|may|might) (?P<what>(?:the|my|our|that|what|all) .{{2,60}}?) (?:please )?be {_GONE}",
        rf"(?:can|could|may) (?:i|we) (?:please )?(?:have|get) (?P<what>.{{2,60}}?) {_GONE}",
        rf"(?:please )?(?:have|get) (?P<what>.{{2,60}}?) {_GONE}",
        rf"(?:i|we) (?:do not|don't|did not|didn't|never|would rather not|would not|wouldn't) "
        rf"(?:want|like|need|wish|have)(?: to have)? (?P<what>.{{2,60}}?) (?:to be |being )?{_KEPT}",
        rf"(?:i|we) would (?:rather|prefer)(?: it)?(?: if| that)? (?P<what>.{{2,60}}?) "
        rf"(?:was|were|is|be|are)(?: not|n't) {_KEPT}",
        rf"(?P<what>(?:the|my|our|that|those|what|this|all that) .{{2,60}}?),? (?:can|may|should|must|needs? to|has to|"
        rf"have to|ought to|could) (?:now |please |also |all |safely )*(?:be {_GONE}|go(?! \w)|disappear|vanish)",
        r"(?P<what>(?:the|my|our|that|those|what|this) .{3,60}?),? you (?:can|may|should|must|could|might) (?:please )?"
        r"(?:now )?(?:forget(?! to\b)|throw (?:away|out)|delete|drop|erase|remove|scrap|bin|wipe|scrub|lose)",
        r"(?:i|we) would (?:rather|prefer|sooner)(?: it)?(?: if| that)? you (?:did not|didn't|would not|wouldn't|"
        r"do not|don't) (?:remember|keep|store|save|record|hold on to|hang on to|retain|note|write down) "
        r"(?P<what>.{2,60}?)(?=$|,)",
        rf"(?:please |kindly |(?:can|could) you (?:please |kindly )?)*(?:see to it|make sure|ensure|see) (?:that )?"
        rf"(?P<what>.{{2,60}}?) (?:is|are|gets?) {_GONE}",
        r"(?P<what>.{2,60}?)(?:,|:) (?:please |pl[sz] |just |can you |could you )*(?:please )?(?:delete|erase|forget|"
        r"wipe|scrub|remove|bin|get rid)(?: (?:it|that|this|them|of it))?(?=$| please| pl[sz]|[,.!])",
        r"(?P<what>.{2,60}?),? (?=(?:out of|off|from) your (?:memory|notes|records?|files?|log))",
        r"(?:let us |let's |can we |we (?:can|will) |you |can you |could you )?(?:just |please |all )*pretend "
        r"(?:that )?(?P<what>(?:i|we) (?:never|did not|didn't) "
        r"(?:say|said|tell|told|mention|mentioned|bring up|brought up)\b[^,]{2,60})(?=$|,)",
    )
)


_HINT = Pattern(
    r"\b(?:unsaid|unmention|withdraw|void|never said|remov|delet|forg|eras|wip|scrub|clear|taken|struck|expung|purg|"
    r"bin|drop|throw|lose|gone|go\b|vanish|disappear|stor|rememb|kept|keep|sav|record|noted?\b|log|retain|memor|writ|"
    r"on file|hanging|lying|held|hold|pretend|out of|off|from|get rid|scrap)",
    re.I,
)
"""What some wish or other holds: most sentences hold none of it."""


def find_wish(sentence: str) -> Order | None:
    """A wish that something be forgotten: "I don't want X stored", "the thing about X can go", "pretend I never..."."""
    if len(sentence) > 400 or _HINT.search(sentence) is None:
        return None
    for pattern in _WISHES:
        match = pattern.match(sentence)
        if match is None:
            continue
        what, inner = cut(match.group("what"))
        whole = match.group()
        if elsewhere(match.string[match.start("what") :]):
            continue
        if inner and not match.group("what").lower().startswith("what"):
            continue
        told = forget_target.is_told(what) or forget_target.is_datum(what) or forget_target.is_pointer(what)
        told = (
            told
            or forget_target.is_everything(what)
            or what.lower().startswith("what ")
            or (":" in whole and grammar.find_verb(what.split()) < 0)
        )
        if re.search(
            r"\bpretend\b|forg[eo]t|remember|memory|out of your|on (?:file|record)|in here|you (?:did|would)",
            whole,
            re.I,
        ):
            told = True
        if told and not INDEFINITE.match(what):
            _, trail = cut("x" + match.group("trail")) if match.group("trail") else ("", "")
            return Order("", "", "", True, "memory", what, forget_target.after_thanks(trail))
    return None


def named_in(query: str) -> str:
    """What a query to forget names, without what orders it or says that it was told ("forget everything about Ida")."""
    order = find_order(query, Discourse())
    what = order.what if order is not None and not order.before else query
    return forget_target.stripped(what) or query


@dataclass(frozen=True, slots=True)
class Request:
    """A request and the sentence around it.

    `asked` are the texts of what is to be forgotten ("User asked to forget the staging password"), none where it names
    nothing that was told; `told` is what the sentence tells before and after the request and its reason.
    """

    asked: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    @property
    def left(self) -> str:
        """What the sentence tells beside, as one sentence."""
        return ", and ".join(self.told)


def read(sentence: str, talk: Discourse, at: int) -> Request | None:
    """The request that the sentence makes, or None if it makes none."""
    sentence = _MIND.sub(_ordering, sentence, count=1)
    order = find_order(sentence, talk) or find_wish(sentence)
    if order is None:
        return None
    if forget_target.is_everything(order.what) or (
        forget_target.may_be_everything(order.what) and talk.mentioned[0] != at and not order.before
    ):
        return Request((f"{talk.who} asked to forget everything",), _left(order, (), ""))
    more = _FURTHER.match(order.trail)
    matters = forget_target.name(order.what, talk, at, order.before or order.spoken)
    if more and matters and grammar.find_verb(more.group("what").split()) < 0:
        matters = (*matters, *(forget_target.name(more.group("what"), talk, at, "") or ()))
        order = replace(order, trail="")
    if matters is None:
        return Request(told=_left(order, (), ""))
    whole = order.before if _told_just_now(order) else ""
    asked = tuple(f"{talk.who} asked to forget{_linked(matter, talk.who)}" for matter in matters if not whole)
    return Request(asked, _left(order, matters, whole))


_MIND = Pattern(
    r"\b(?:(?:would|do|will) (?:you|u) mind|(?:i|we) (?:would )?(?:really )?appreciate (?:you|your)|"
    r"(?:how|what) about|(?:may|can|could) i ask you to consider) (?P<ing>[a-z]+ing)\b",
    re.I,
)


def _ordering(match: re.Match[str]) -> str:
    """ "would you mind deleting": "please delete"."""
    stem = match["ing"].lower()[:-3]
    undoubled = stem[:-1] if len(stem) > 2 and stem[-1] == stem[-2] else stem
    for base in (stem, f"{stem}e", undoubled):
        if any_verb().fullmatch(base):
            return f"please {base}"
    return match.group()


_FURTHER = Pattern(
    r"^(?:and|also|plus|or)(?: also)? (?P<what>(?:my|our|the|what|that|his|her|their) [\w' -]{2,40}?)"
    r"(?: (?:also|too|as well|please|pl[sz]))*$",
    re.I,
)


def asks(text: str) -> bool:
    """Whether a sentence of a text asks to forget what by its words was told; such a text is no story or game."""
    talk = Discourse()
    for sentence in re.split(r"(?<=[.!?])\s+", text[:1000]):
        spoken = filters.strip_openers(sentence)
        order = find_order(spoken, talk) or find_wish(spoken)
        if order is not None and forget_target.is_told(order.what):
            return True
    return False


def _linked(matter: str, who: str) -> str:
    if matter.startswith(": "):
        return matter
    return f" that {matter}" if matter.startswith(f"{who} ") else f" {matter}"


def _told_just_now(order: Order) -> bool:
    """ "My pin is 2607 - actually, delete that": what stands before is itself the matter, and never was stored."""
    if not forget_target.is_pointer(order.what) or not order.before or order.joint == "so":
        return False
    if forget_target.stands_for_matter(order.before):
        return False
    return forget_target.mentioned(order.before) == "" and grammar.find_verb(order.before.split()) > 0


def _left(order: Order, matters: tuple[str, ...], whole: str) -> tuple[str, ...]:
    """What the sentence tells beside: neither the matter again nor the reason for the request."""
    before = "" if whole or _is_reason(order, matters) else order.before
    news = _without_reasons(order.trail)
    return tuple(part for part in (before, news if _worth(news, matters) else "") if part)


def _is_reason(order: Order, matters: tuple[str, ...]) -> bool:
    """Whether what stands before a request only says why: it tells of the same matter, or that it was told."""
    if not order.before:
        return True
    if forget_target.mentioned(order.before) or forget_target.reasons().search(order.before):
        return True
    return any(forget_target.shares(order.before, matter) for matter in matters) and order.joint == "so"


_JOINED = Pattern(r"^(?:and|also|oh|but|then|plus)\b[ ,]*", re.I)
_CLAUSE = Pattern(r"(?:[,;:]|\s-+)\s+")


def _without_reasons(trail: str) -> str:
    """What trails a request without the clauses at its beginning and its end that only say why."""
    ends = [0, *(found.end() for found in _CLAUSE.finditer(trail)), len(trail)]
    told = [
        (start, end)
        for start, end in pairwise(ends)
        if start < end and not forget_target.reasons().search(trail[start:end].rstrip(" ,;:-"))
    ]
    return trail[told[0][0] : told[-1][1]].rstrip(" ,;:-") if told else ""


def _worth(trail: str, matters: tuple[str, ...]) -> bool:
    """Whether what trails a request tells something of its own: a clause, and of the matter only what holds instead."""
    if not trail or forget_target.reasons().search(trail):
        return False
    if _JOINED.match(trail):
        return True
    if forget_target.points(trail) or any(forget_target.names_all(trail, matter) for matter in matters):
        return forget_target.renews(trail)
    parts = trail.split()
    return grammar.find_verb(parts) > (-1 if any(map(grammar.is_number, parts)) else 0)


# Requests in other languages: the matter is kept in its own words too, because notes are in the user's language.

_FOREIGN_SENTENCE = Pattern(r"(?<=[.!?])\s+|\n+")
_VERB_LAST = Pattern(r"^((?:mein|unser)\w* \w+|ich|wir|er|sie|es) (.+) ([a-zäöüß]+)$", re.I)
"""A German clause behind "dass": the verb comes last."""


@cache
def _foreign(language: str) -> tuple[re.Pattern[str], ...]:
    """Patterns of requests in a language, and of what ends their matter."""
    table = lexicon.pairs("forget_foreign.tsv")
    part = {name.split()[1]: f"(?:{form})" for name, form in table.items() if name.startswith(language)}
    opening = rf"^[\s¿¡]*(?:(?:{part['joint']}|(?P<polite>{part['polite']}))(?<!')\b[\s,:]*|merci d'\s*)*"
    verb = rf"(?:(?P<forget>{part['forget']})|(?P<erase>{part['erase']}))\b[\s,:]*"
    matter = rf"(?:(?P<telling>{part['telling']})(?:\b|(?<='))\s*|(?P<own>(?={part['own']}\b)))?(?P<what>.*)$"
    court = rf"(?:{part['polite']}[\s,]+)*"
    asked = rf"(?![\s,]*{court}{part['not']}\b)(?!.* {part['not']}[.!?]*$)(?P<asked>{court})"
    return (
        re.compile(opening + verb + asked + matter, re.I),
        re.compile(opening + matter.replace(".*)$", rf".*?)\s+{verb}[?.!]*$"), re.I),
        re.compile(rf"[,;:]\s|\s-+\s|\s\(|\s(?={part['reason']}\b)", re.I),
        re.compile(rf"(?:[\s,]*(?:(?P<polite>{part['polite']})|(?P<told>{part['told']})))+$", re.I),
    )


def foreign(content: str, language: str, talk: Discourse, at: int) -> tuple[str, list[Draft]]:
    """The message in another language without its requests to forget, and what these ask to forget.

    A request that names nothing leaves nothing. The matter is told twice: glossed, for facts, and in its own words.
    """
    left, found = [], list[Draft]()
    for sentence in _FOREIGN_SENTENCE.split(content):
        read = _foreign_matter(sentence, language) if len(sentence) <= 1000 else None
        if read is None:
            left.append(sentence)
            continue
        matter, rest = read
        left.append(rest)
        told = " ".join(topic_words(matter, language))
        if told:
            english = cleaning.gloss(matter, language).strip(" ,.:;-!?").removeprefix("that ")
            named = forget_target.name(english, talk, at, "") or ()
            asked = [f"{talk.who} asked to forget{_linked(each, talk.who)}" for each in named]
            found += [Draft(each, (at,), "forget", 0.9, forget=True) for each in asked]
        request = f"{talk.who} asked to forget {told}".rstrip()
        found.append(Draft(request, (at,), "forget", 0.9, forget=True, language=language))
    return "\n".join(part for part in left if part) if found else content, found


def _foreign_matter(sentence: str, language: str) -> tuple[str, str] | None:
    """The matter of a request and what its sentence tells beside; None where the sentence is no request."""
    opened, ended, close, tail = _foreign(language)
    sentence = sentence.strip().replace("\u2019", "'")
    match = opened.match(sentence) or (ended.match(sentence) if language == "de" else None)
    if match is None or (match.re is ended and not match["polite"]):
        return None
    what = match["what"].rstrip(" ?.!")
    end = close.search(what)
    what, rest = (what[: end.start()], what[end.end() :]) if end else (what, "")
    trail = tail.search(what)
    what = what[: trail.start()] if trail else what
    rest = "" if tail.fullmatch(rest) else rest
    polite = match["polite"] or match.groupdict().get("asked") or (trail and trail["polite"])
    told = match["telling"] or match["own"] is not None or (trail and trail["told"])
    if not told and not (match["forget"] and (polite or not rest)):
        return None
    return _VERB_LAST.sub(r"\1 \3 \2", what) if language == "de" else what, rest
