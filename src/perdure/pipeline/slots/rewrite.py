"""Rewriting: sentence shapes that say the same are brought to one, with the subject first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.pipeline.slots.scan import plain

MAX_TEXT = 600
"""Characters of a statement that are read."""

_NAME = r"(?:[^\W\d_a-z][\w'.-]*|[^\W\d_a-z][\w'.-]*(?: (?:of|the|de|von|van|la|and|for|in|on|a)? ?[^\W\d_a-z][\w'.-]*){1,5})"
_LEAD = re.compile(
    r"^((?:in|on|at|every|each|since|from|as of|as from|these days|nowadays|now|currently|this|next|last|after|before|during|for|"
    r"until|by|most|starting|with|as|tomorrow|today|yesterday|recently|lately|about|to|when|while|once|twice|three times|"
    r"apparently|actually|sadly|luckily|finally|again|before|per|over|under|outside|inside)\b[^,.;:]{0,50}?),? "
    r"(?=(?:User|user|the user)\b|[A-Z]\w+ (?:is|was|has|will)\b)",
    re.IGNORECASE,
)
_PARTICLE_WORDS = frozenset(["back", "off", "up", "away", "out", "down", "over"])
_PREPOSITIONS = frozenset(["to", "from", "in", "at", "on", "with", "for", "by", "of", "into", "as", "about", "and", "but"]) | _PARTICLE_WORDS
_FALSE = re.compile(
    r"^(?:it (?:is|was) not|it isn't|it's not|it wasn't) (?:actually )?(?:true|the case|right|correct|so) that |"
    r"^it is (?:false|wrong|untrue) that |^contrary to [^,]{1,40}, ",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:it turns out(?: that)?|as it happens,?|it is true that|note that|remember that|update:|correction:|by the way,?|"
    r"for the record,?|fyi,?|btw,?|actually,|in fact,?|also,?) ",
    re.IGNORECASE,
)
_PARTICLES = re.compile(
    r"\b(g[ai]ve|gives|given|br(?:ing|ings|ought)|hand(?:s|ed)?|t(?:ake|akes|ook|aken)|p(?:ay|ays|aid)|sen[dt]s?|got|gets?|gotten|"
    r"call(?:s|ed)?|turn(?:s|ed)?|switch(?:es|ed)?|put|puts|let|lets|throw(?:s|n)?|threw|push(?:es|ed)?|cut|cuts|pick(?:s|ed)?)"
    r" ((?:\S+ ){0,3}?[^\s,;]+) (back|off|up|away|out|down|over|go)\b(?! (?:to|with|from) (?:date|time)\b)",
    re.IGNORECASE,
)
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^[Tt]he user\b", "User"),
        (r"^user\b", "User"),
        (
            r"^(?:The|A|User's) [\w' -]{2,30}? (?:says|said|thinks|confirmed|confirms|found|told User|believes)(?: that)? (?=User\b)",
            "",
        ),
        (
            r"^(?!User\b)([^,;]{2,40}?) is (?:the )?(?:person|one|man|woman|colleague)? ?(?:that |who |whom )?User (reports to|works for|answers to)$",
            r"User \2 \1",
        ),
        (
            rf"^(The [\w ]{{2,40}}?|User's [\w ]{{2,40}}?|[\w ]{{2,30}}?) (?:is|was|are|were|gets|has been|have been) (now )?(\w+(?:ed|en|ept|ade|un|old|ught)) by ({_NAME})\b",
            r"\4 \2\3 \1",
        ),
        (
            r"^User (?:misspelled|misspelt|mistyped|miswrote|got wrong|mixed up) (?:User's |the |their |his |her )?([\w -]{2,30}?)'s (?:sur)?name[:;,]? (?:it is|it's|it should be|and it is|is) (?=\S)",
            r"User's \1 is now called ",
        ),
        (rf"^({_NAME}), (?:who is |who's |)User's ([\w -]{{2,30}}?), (?=\w)", r"User's \2 \1 "),
        (
            r"^(?:The )?[Nn]ame of ([^,;]{2,60}?) is (?:now )?(?:called |written |spelled |spelt )?(?=\S)",
            r"\1 is called ",
        ),
        (r"^(User's [^,;]{2,50}?)'s (?:first )?name is (?:now )?(?:written |spelled |spelt )?(?=\S)", r"\1 is called "),
        (r"^([^,;]{2,50}?) goes by the name (?:of )?(?=\S)", r"\1 is called "),
        (
            r"^(.{2,60}?) is the ([\w -]{2,30}?) (?:that |which |who )?User (?:likes|loves|enjoys|prefers) (?:best|most|the most|above all)\b",
            r"User's favourite \2 is \1",
        ),
        (
            r"^Of all (?:the )?([\w -]{2,30}?)s?,? User (?:likes|loves|enjoys) (.{2,60}?) (?:best|most|the most)\b",
            r"User's favourite \1 is \2",
        ),
        (
            r"^User (?:likes|loves|enjoys) (.{2,40}?) (?:best|most|the most) of all (?:the )?([\w -]{2,30}?)s?$",
            r"User's favourite \2 is \1",
        ),
        (r"^User's ([\w -]{2,20}?) of choice is ", r"User's favourite \1 is "),
        (
            r"^(?!User\b)(?!It\b)([^,;]{2,60}?) (is|was|became|has become) (now |currently |still )?User's ([^,;]{2,60}?)( now| these days)?$",
            r"User's \4 \2 \3\1\5",
        ),
        (r"^([^,;]{2,50}?) (?:belongs|belong) to User\b", r"User owns \1"),
        (r"^([^,;]{2,50}?) is owned by User\b", r"User owns \1"),
        (
            rf"^(?!User\b)({_NAME}) (is|was|became) (?:now )?(?=the )(the (?:new |acting |current )?[a-z][\w -]{{2,40}}?)( now)?$",
            r"\3 \2 \1\4",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A statement in the shape that is read, and whether it was said to be untrue."""

    text: str
    denied: bool = False


def rewrite(text: str) -> Rewritten:
    """The statement in its plain shape; a text that fits none of the shapes comes back as it is."""
    text = plain(" ".join(text[:MAX_TEXT].split())).rstrip(" .!;,")
    text = _FILLER.sub("", text)
    denial = _FALSE.match(text)
    if denial is not None:
        text = text[denial.end() :]
    text = _move_lead(text)
    text = _PARTICLES.sub(_join_particle, text)
    for pattern, replacement in _SHAPES:
        text = pattern.sub(replacement, text)
    return Rewritten(" ".join(text.split()), denial is not None)


def _join_particle(match: re.Match[str]) -> str:
    """ "gave the drill back" as "gave back the drill"; a phrase with a preposition in it stays as it is."""
    verb, middle, particle = match.groups()
    words = middle.lower().split()
    if any(word in _PREPOSITIONS for word in words) or words[0] in _PARTICLE_WORDS:
        return match.group()
    return f"{verb} {particle} {middle}"


def _move_lead(text: str) -> str:
    """ "In June User moves" as "User moves in June"."""
    lead = _LEAD.match(text)
    if lead is None or re.match(r"(?i)user\b|the user\b", text):
        return text
    return f"{text[lead.end() :]} {lead.group(1)[:1].lower()}{lead.group(1)[1:]}"
