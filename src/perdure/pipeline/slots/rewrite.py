"""Rewriting: sentence shapes that say the same are brought to one, with the subject first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perdure.pipeline.lexicon import lines
from perdure.pipeline.slots.scan import plain

MAX_TEXT = 600
"""Characters of a statement that are read."""

_WORD = r"[^\W\d_a-z][\w'.-]*"
NAME = rf"(?:{_WORD}(?: (?:(?:of|the|de|von|van|la|and|for|in|on|a|&) )?{_WORD}){{0,5}})"
_VALUE = (
    r"(?:[£$€]?\d|the \d|(?:every|once|twice|half|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten|"
    r"eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)\b(?! of\b)|"
    r"(?i:mon|tues|wednes|thurs|fri|satur|sun)day|(?i:january|february|april|june|july|august|september|october|"
    r"november|december)\b|(?:March|May)\b)"
)
SINCE = r"(?: now| these days| instead|,? (?:for|from|since|until|till|as of|as from|starting|this) [^,;]{2,40})"
_PARTICLE_WORDS = frozenset(["back", "off", "up", "away", "out", "down", "over", "go"])
_PREPOSITIONS = _PARTICLE_WORDS | frozenset(
    ["to", "from", "in", "at", "on", "with", "for", "by", "of", "into", "as", "about", "and", "but"]
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A statement in the shape that is read, and whether it was said to be untrue."""

    text: str
    denied: bool = False


def rewrite(text: str) -> Rewritten:
    """The statement in its plain shape; a text that fits none of the shapes comes back as it is."""
    text = plain(" ".join(text[:MAX_TEXT].split())).rstrip(" .!;,")
    text = _before("reconcile_fillers.txt").sub("", text)
    denial = _before("reconcile_denials.txt").match(text)
    if denial is not None:
        text = text[denial.end() :]
    text = _subject_first(text)
    text = _particles().sub(_join_particle, text)
    for pattern, replacement in _shapes():
        text = pattern.sub(replacement, text)
    return Rewritten(" ".join(text.split()), denial is not None)


def _join_particle(match: re.Match[str]) -> str:
    """ "gave the drill back" as "gave back the drill"; a phrase with a preposition in it stays as it is."""
    verb, middle, particle = match.groups()
    words = middle.lower().split()
    if any(word in _PREPOSITIONS for word in words):
        return match.group()
    return f"{verb} {particle} {middle}"


def _subject_first(text: str) -> str:
    """ "In June User moves" as "User moves in June"."""
    opener = _opener().match(text)
    if opener is None or text.lower().startswith(("user", "the user")):
        return text
    return f"{text[opener.end() :]} {opener.group(1)[:1].lower()}{opener.group(1)[1:]}"


@cache
def _before(name: str) -> re.Pattern[str]:
    """The phrases of a file at the beginning of a text."""
    return re.compile(rf"^(?:{_either(name)}) ", re.IGNORECASE)


@cache
def _opener() -> re.Pattern[str]:
    return re.compile(
        rf"^((?:{_either('reconcile_openers.txt')})\b[^,.;:]{{0,50}}?),? "
        r"(?=(?:User|the user)\b|(?-i:[A-ZÀ-ÖØ-Þ]\w+) (?:is|was|has|will)\b)",
        re.IGNORECASE,
    )


@cache
def _particles() -> re.Pattern[str]:
    particles = "|".join(sorted(_PARTICLE_WORDS))
    verbs = _either("reconcile_movable.txt")
    return re.compile(rf"\b({verbs}) ((?:[^\s,;]+ ){{0,3}}?[^\s,;]+) ({particles})\b(?! to date\b)", re.IGNORECASE)


@cache
def _shapes() -> tuple[tuple[re.Pattern[str], str], ...]:
    split = (line.partition("\t") for line in lines("reconcile_shapes.tsv"))
    parts = {"{NAME}": NAME, "{VALUE}": _VALUE, "{SINCE}": SINCE, "{POST}": f"(?:{_either('reconcile_posts.txt')})"}
    return tuple((re.compile(_filled(pattern, parts)), replacement) for pattern, _, replacement in split)


def _filled(pattern: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        pattern = pattern.replace(name, part)
    return pattern


def _either(name: str) -> str:
    """The entries of a file as alternatives, the longest first."""
    return "|".join(re.escape(entry) for entry in sorted(lines(name), key=lambda entry: (-len(entry), entry)))
