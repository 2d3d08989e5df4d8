"""Orders to forget something told: a lead, a verb, the matter, what trails; and whether a memory is meant by them.

Verbs that do other work too ("drop", "remove") count only where something shows that a memory is meant: a word of
telling, a place where memories are kept, a private datum, or a reason that only such a request has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import forget_matter, grammar
from perdure.pipeline.extraction.discourse import Discourse


@dataclass(frozen=True, slots=True)
class Order:
    """A request found in a sentence."""

    before: str
    """What stands before it."""
    spoken: str
    """The words that open it ("so please")."""
    joint: str
    """ "so" where it is the consequence of what stands before, else ""."""
    polite: bool
    strength: str
    """What the verb alone says, as `forget_verbs.tsv` has it."""
    what: str
    """The matter."""
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


_JOINT = Pattern(r"(?:^|(?<=[,;:.!?]) | -+ |,? (?=(?:and|but|so|then|n)\b))", re.I)


def find(sentence: str, talk: Discourse) -> Order | None:
    """The first order to forget in a sentence."""
    if len(sentence) > 1000 or not any_verb().search(sentence):
        return None
    for joint in _JOINT.finditer(sentence):
        lead = _lead().match(sentence, joint.end())
        start = lead.end() if lead else joint.end()
        spoken = sentence[joint.end() : start]
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
    polite = _COURTESY.search(spoken) is not None or forget_matter.thanks(trail)
    if strength == "retract" and re.search(r"\byou\b", spoken):
        strength = "weak"
    joint = "so" if re.search(r"\bso\b", spoken, re.I) else ""
    return Order(before.strip(" ,;:-"), spoken, joint, polite, strength, what, forget_matter.after_thanks(trail))


_END = Pattern(
    r"[,;:]\s| -+ | \(|[!?]|(?<!what)(?<!all)(?<!thing)(?<!that)(?<!things)(?<!stuff)\s(?=(?:because|bc|since|cos|"
    r"cuz|coz|as (?:it|that|she|he|they|i|we|this|the|my)|so (?:that|"
    r"i|we|she|he|no)|now that|in case|before (?:i|she|he|they|any\w+|my|we)|if (?:i|you|that|it|possible)|but|"
    r"unless|for (?:privacy|safety|security|good|now|me|ever)|"
    r"and (?:please|pl[sz]|i|we|he|she|they|it|oh|then|also (?:please|delete|forget)|the .{2,30} (?:is|are|was)|"
    r"(?:my|our) .{2,30} (?:is|are|was|also))|"
    r"please+|pl[sz]+|plz+|ta|thx|thanks|thank you|cheers|will (?:you|u)|would you|could you|can you|ok|okay|lol|omg|"
    r"haha|for me|straight away|right away|asap|immediately|completely|entirely|altogether|again|forever|"
    r"too|as well|i told (?:to )?you|that i told|i mentioned|my (?:\w+ )?\w+ (?:reads|uses|sees|has))\b)",
    re.I,
)


def cut(text: str) -> tuple[str, str]:
    """The matter, and what trails it: where it is kept, thanks, a reason, other news."""
    text = forget_matter.after_thanks(text)
    ends = [found for found in (_END.search(text), _places().search(text)) if found and found.start() > 0]
    if not ends:
        return text.strip(" ,.:;-!"), ""
    end = min(ends, key=lambda found: found.start())
    what, trail = text[: end.start()], text[end.start() :].lstrip(" ,;:-")
    listed = re.match(r"the [\w' -]{2,40}(?=$|, )", trail)
    if listed and forget_matter.is_pointer(what) and grammar.find_verb(listed.group().split()) < 0:
        return listed.group(), trail[listed.end() :].lstrip(" ,")  # "forget this, the crying, it was stupid"
    return what.strip(" ,.:;-!"), trail.strip()


def _meant(order: Order, match: re.Match[str], talk: Discourse) -> bool:
    """Whether a memory is meant by an order that has the form of a request to forget."""
    what = order.what
    stands = forget_matter.stands_for_matter(order.before) or talk.mentioned[1] != ""
    if not what and order.strength != "memory" and not stands:
        return False
    whole = match.string[match.start("what") :]
    shown = forget_matter.is_told(what) or bool(_places().search(whole)) or bool(forget_matter.reasons().search(whole))
    shown = shown or (order.before != "" and bool(forget_matter.reasons().search(order.before)))
    named = forget_matter.mentioned(order.before) != "" or forget_matter.is_told(order.before)
    shown = shown or (forget_matter.is_pointer(what) and named)
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
    pointer = not what or forget_matter.is_pointer(what)
    datum = forget_matter.is_datum(what) and (order.polite or _particular(what, talk))
    if order.strength == "memory":
        told = order.polite or datum or pointer or re.match(r"(?:my|our|his|her|their)\b", what, re.I) is not None
        asks = talk.asks or (_ASKS.match(order.trail) is not None and not order.before)
        return (told or not asks) and (order.polite or not _DISMISSED.match(what))
    if order.strength == "retract":
        return False
    if order.strength == "refuse":
        return (datum or pointer) and (order.polite or not re.search(r"remember|memori", match.group(), re.I))
    if pointer:
        said = talk.mentioned[1] or forget_matter.mentioned(order.before)
        if said or forget_matter.stands_for_matter(order.before):
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
    return any(forget_matter.names_all(draft.text, what) for draft in talk.drafts)


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
    found = _FOREIGN.search(re.split(r"[,;.]", text, maxsplit=1)[0])
    if found is None:
        return False
    if found.group().split()[0].lower() in {"from", "out", "off", "to", "into"}:
        return True
    return not forget_matter.is_told(text[: found.end()]) and not forget_matter.is_datum(cut(text)[0])


def _owned(what: str, polite: bool) -> bool:
    """Whether a matter is the speaker's or a known person's, and nothing that is wiped in the world; if asked politely,
    "the necklace" is enough: an assistant has no other necklace to erase."""
    parts = [grammar.bare(part) for part in what.split()]
    if not parts or parts[-1] in lexicon.words("forget_apart.txt"):
        return False
    if polite and parts[0] == "the" and len(parts) > 1:
        return True
    return parts[0] in {"my", "our", "that", "his", "her", "their"} or parts[0].endswith("'s") or what[:1].isupper()
