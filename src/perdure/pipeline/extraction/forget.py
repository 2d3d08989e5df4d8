"""Requests to forget: the thing to forget is named, and nothing else of the request is kept."""

from __future__ import annotations

import re

from perdure.pipeline.extraction import person
from perdure.pipeline.extraction.wordsets import word_set

_ASK = re.compile(
    r"^(?:(?:please|pls|can you|could you|would you|kindly|just|now|ok|actually|and|i want you to|i'd like "
    r"you to|you should|"
    r"you can|you may|so|but|also|hey|sorry|no)[, ]+)*"
    r"(?:forget(?! to\b| about it$)|delete|erase|remove|wipe|scrub|drop|don't (?:remember|save|store|keep)|"
    r"do not (?:remember|save|store|keep)|"
    r"stop remembering|unremember|get rid of|scrap|take out|throw (?:away|out)|strike out|bin|"
    r"(?:can|could|would|will) you (?:please )?not (?:remember|save|store|keep)|scratch|strike|"
    r"disregard|ignore|please don't (?:remember|save|"
    r"store))\b\s*(?P<what>.*)$",
    re.I,
)
_LEAD = re.compile(
    r"^(?:(?:please|pls) |that (?:business|thing|stuff|bit|part|story) (?:about|with|of) |about |"
    r"everything (?:about |i (?:said|told you|mentioned) about )|all (?:of )?(?:that )?(?:about "
    r")?|anything about |"
    r"(?:what|the thing|the things|the part|the bit|the stuff) (?:i|we) (?:said|told you|mentioned|wrote|"
    r"shared)(?: to you)?(?: about| on| regarding)? ?|"
    r"(?:that|what) (?=i |my |we |our |the |he |she |they )|the fact that |that i (?:said|told you|"
    r"mentioned) (?:that )?|i (?:said|told you|mentioned) (?:that )?|"
    r"the (?:part|bit|thing|stuff) about )+",
    re.I,
)
_TRAIL = re.compile(
    r"[, ]+(?:please |pls |and )?(?:wipe|delete|erase|remove|forget) (?:that|it|them)\b.*$|"
    r"[, ]+(?:omg|so embarrassing|embarrassing|makes me|realised|realized|shouldn't|should not|"
    r"don't want|do not want|that was|that is|"
    r"dumb|stupid|not (?:your|anyone)|if i (?:said|told|mentioned)|and (?:my|our) .{2,20} also)\b.*$|, any \w+$|"
    r" from (?:whatever|everything|what) you (?:keep|have|know|store).*$|(?<=\w{4}) thing$|"
    r"(?:,? (?:please|pls|thanks|thank you|ok|okay|now|from (?:your )?memory|from your (?:records|notes)|"
    r"completely|entirely|"
    r"again|that i told (?:to )?you|i told you(?: about)?|i mentioned|from here|for good|altogether))+$|"
    r", (?:my|it|the|we|i|he|she|they|his|her|their|because|since|as)\b.*$",
    re.I,
)
_THROWN = re.compile(
    r"^(?P<what>(?:the|my|our|that|what) .{3,60}?),? you (?:can|may|should|must|could) (?:please )?"
    r"(?:now )?(?:forget|throw away|throw out|delete|drop|erase|remove|scrap|bin)\b(?! to\b)",
    re.I,
)
_LATER = re.compile(
    r"(?:, | so | and )(?:please |pls )?(?:wipe|delete|erase|forget|remove|"
    r"get rid of) (?P<what>(?:the|my|our) .{3,60}?)(?: please| pls)$",
    re.I,
)
_EMPTY = word_set("forget.empty")
_MEMORY_VERBS = re.compile(
    r"\b(?:forget|you (?:please )?not (?:remember|save|store|keep)|don't (?:remember|save|store|"
    r"keep)|do not (?:remember|save|store)|memory|delete|erase|"
    r"scratch|unremember|wipe)\b",
    re.I,
)
_OWN_THING = re.compile(r"^(?:my|our|the|his|her|their|that|what|everything|all|anything|about|i|we)\b", re.I)


def read(sentence: str, who: str, last_fact: str) -> str | None:
    """The text of the request ("User asked to forget the staging password"), or None if it is none.

    It is "" where a request names nothing that was told.

    `last_fact` is what "forget that" means: the fact told last, "" if there was none.
    """
    match = _ASK.match(sentence) or _THROWN.match(sentence) or _LATER.search(sentence)
    if match is None or (not _MEMORY_VERBS.search(_ordering(match)) and not _about_memory(match)):
        return None
    what = match.group("what").strip(" ,.:;-")
    while True:
        shorter = _TRAIL.sub("", _LEAD.sub("", what, count=1)).strip(" ,.:;-")
        if shorter == what:
            break
        what = shorter
    if not what or what.lower() in _EMPTY:
        return f"{who} asked to forget: {last_fact}" if last_fact else ""
    if len(what) > 200:
        return ""
    named = _named(what, who)
    return f"{who} asked to forget {'that ' if named.startswith(f'{who} ') else ''}{named}"


def _ordering(match: re.Match[str]) -> str:
    """The words of a request beside what it names."""
    return match.string[: match.start("what")] + match.string[match.end("what") :]


def _about_memory(match: re.Match[str]) -> bool:
    what = match.group("what").lower()
    return (
        re.match(
            r"(?:my|our|the) .{0,40}\b(?:number|password|passcode|address|key|pin|code|card|phrase|iban|"
            r"email|phone|account|ssn|"
            r"credentials?|token|birthday|weight|age|diagnosis)\b|that (?:business|thing|stuff|bit|part|"
            r"story) (?:about|with|of)\b",
            what,
        )
        is not None
        or re.search(
            r"\b(?:memory|whatever you keep|i (?:said|told|mentioned)|what you know|you (?:know|remember|"
            r"saved|stored))\b",
            what,
        )
        is not None
    )


def is_deletion_of_own(sentence: str) -> bool:
    """Whether "delete/remove ..." is about something of the speaker's ("delete my old address"), not about a text."""
    match = _ASK.match(sentence)
    return match is not None and _OWN_THING.match(match.group("what").strip()) is not None


def _named(what: str, who: str) -> str:
    turned = person.to_third(what, who)
    return (
        turned
        if turned[:1].isupper() and turned.startswith(who)
        else turned[:1].lower() + turned[1:]
        if turned[:4] in {"The ", "That"}
        else turned
    )
