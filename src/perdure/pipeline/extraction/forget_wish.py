"""Wishes that something told be forgotten: the matter first, or as what is not to be kept."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import forget_matter, forget_order, grammar
from perdure.pipeline.extraction.forget_order import Order

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
    r"\b(?:unsaid|unmention|withdraw|void|never said|remov|delet|forg|eras|wip|scrub|clear|"
    r"taken|struck|expung|purg|bin|drop|throw|lose|gone|go\b|vanish|"
    r"disappear|stor|rememb|kept|keep|sav|record|noted?\b|log|retain|memor|writ|on file|hanging|lying|held|hold|"
    r"pretend|out of|off|from|get rid|scrap)",
    re.I,
)
"""What some wish or other holds: most sentences hold none of it."""


def find(sentence: str) -> Order | None:
    """A wish that something be forgotten: "I don't want X stored", "the thing about X can go", "pretend I never..."."""
    if len(sentence) > 400 or _HINT.search(sentence) is None:
        return None
    for pattern in _WISHES:
        match = pattern.match(sentence)
        if match is None:
            continue
        what, inner = forget_order.cut(match.group("what"))
        whole = match.group()
        if forget_order.elsewhere(match.string[match.start("what") :]):
            continue
        if inner and not match.group("what").lower().startswith("what"):
            continue
        told = forget_matter.is_told(what) or forget_matter.is_datum(what) or forget_matter.is_pointer(what)
        told = told or what.lower().startswith("what ") or (":" in whole and grammar.find_verb(what.split()) < 0)
        if re.search(
            r"\bpretend\b|forg[eo]t|remember|memory|out of your|on (?:file|record)|in here|you (?:did|would)",
            whole,
            re.I,
        ):
            told = True
        if told and not forget_order.INDEFINITE.match(what):
            _, trail = forget_order.cut("x" + match.group("trail")) if match.group("trail") else ("", "")
            return Order("", "", "", True, "memory", what, forget_matter.after_thanks(trail))
    return None
