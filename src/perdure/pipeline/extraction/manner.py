"""How answers are to look, said without an order: "bullet points from here on", "metric units, always".

Only a word that makes it last (always, from now on), or a reason told before ("I lose my place, so ... please"), sets
such words apart from the wish for one text ("bullet points please").
"""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import cleaning, grammar, person, verbs

_LAST = (
    r"(?:from (?:now|here|this point|today) on(?:wards?)?|going forward|in (?:the )?future|always|every time|"
    r"each time|by default|at all times|henceforth|whenever you (?:reply|answer))"
)
_POLITE = r"(?:please|pls|plz|kindly|thanks|thank you)"
_LASTING = Pattern(
    rf"^(?:(?:and|so|also|ok|{_POLITE}),? )*(?:(?P<lead>{_LAST}),? (?:{_POLITE},? )?)?(?P<what>[^.,:!?]{{3,80}}?)"
    rf"(?:,? (?P<tail>{_LAST}|only))?(?:,? {_POLITE})*$",
    re.I,
)
_REASONED = Pattern(
    rf"^(?:so|hence|therefore|thus) (?:{_POLITE} )?(?P<what>[^.!?]{{3,60}}?)(?P<ask> {_POLITE})?$", re.I
)
_TALKS = Pattern(
    rf"^(?:(?:and|so|also|ok|just|always|{_POLITE}|can you|could you|would you),? )*(?P<verb>write|answer|reply|"
    rf"respond|"
    r"speak|talk|explain|type|text)(?: (?:to me|me|everything|things|it all|back|your answers?|your replies))* "
    r"(?P<manner>(?:in|with|using|without) [^,.;]{3,80}|(?:short|simple|easy|plain|slow)\w* \w+)$",
    re.I,
)
_PRONOUNS = Pattern(
    rf"^(?:my pronouns are |i use |use )?(?P<which>(?:she|he|they|xe|ze|it)/(?:her|hers|him|his|them|theirs|"
    rf"they|she|he|xem|"
    rf"zir|it|its)(?:/\w+)?)(?: pronouns)?(?:,? {_POLITE})*$",
    re.I,
)
_SPELLED = Pattern(
    r"^(?i:it is) (?P<how>pronounced|spelled|spelt) (?P<what>[A-ZÀ-Þ][\w' -]{1,40}(?:, (?:spelled|"
    r"spelt) [A-Z][\w'-]+)?)$"
)
_NONE_FOR_ME = Pattern(
    r"^(?:so |and )?no (?:more )?(?P<what>(?!idea|clue|thanks|way|need|rush)[\w' -]{3,30}) for (?:me|us)(?: please)?$",
    re.I,
)
_SPELL = Pattern(
    rf"^(?:{_POLITE},? )*(?:spell|pronounce) (?!it\b|this\b|that\b|out\b|check)[\w'-]+ (?:with|as|without|like) ", re.I
)
_REACH = Pattern(
    rf"^(?:{_POLITE},? )*(?:only )?(?:contact|email|text|phone|ring|reach|write to) me (?:only )?(?:at|by|on|"
    rf"via|in|after|"
    rf"before) [\w' -]{{3,40}}?(?:,? {_POLITE})*$",
    re.I,
)
_RATHER = Pattern(
    r"^(?:and |but |so )?(?:i|we) would (?:much )?(?:rather|prefer it if|prefer if|appreciate it if|like it if|"
    r"prefer that) you "
    r"(?P<what>(?:wrote|used|kept|answered|replied|spoke|called|did not|didn't|avoided|stuck|gave|left|"
    r"skipped) .{3,80})$",
    re.I,
)
_AT_MOST = Pattern(
    rf"^(?:{_POLITE},? )*(?P<what>(?:no more than|never more than|at most|max(?:imum)?|only) (?:\d+|one|two|"
    rf"three|four|five|six|ten)"
    rf" [\w' -]{{3,40}}?(?: at a time| per answer| each time))(?:,? {_POLITE})*$",
    re.I,
)
_NO_PLEASE = Pattern(
    rf"^(?:(?:and|so|but),? )*no (?:more )?(?P<what>(?!idea|clue|thanks|way|need|rush|worries|"
    rf"the )[\w' -]{{3,30}}?),? {_POLITE}$",
    re.I,
)
_ONE_TEXT = Pattern(
    r"\b(?:this|these|it|them|above|below|draft|essay|email|letter|poem|story|speech|note|card|about|of the|"
    r"for (?:a|an|"
    r"my|the)|in (?:the )?(?:style|voice))\b",
    re.I,
)


@cache
def _formats() -> re.Pattern[str]:
    names = sorted(lexicon.words("formats.txt"), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.I)


def read(sentence: str, who: str, *, own: bool) -> str | None:
    """The wish as a fact ("User wants bullet points from now on"), or None; `own` if the speaker told of himself."""
    text = cleaning.without_marks(sentence).strip(" ,.!")
    if len(text) > 160:
        return None
    pronouns = _PRONOUNS.match(text)
    if pronouns:
        return f"{who}'s pronouns are {pronouns.group('which').lower()}"
    spelled = _SPELLED.match(text)
    if spelled:
        return f"{who}'s name is {spelled.group('how').lower()} {spelled.group('what')}"
    say = re.match(r"^you can (?:just |also )?(?:say|use) (?P<name>[A-ZÀ-Þ][a-zà-ÿ'-]+)$", text)
    if say:
        return f"{who} can be called {say.group('name')}"
    refused = _NO_PLEASE.match(text) if own else None
    if refused:
        return f"{who} does not want {person.to_third(refused.group('what'), who)}"
    without = _NONE_FOR_ME.match(text)
    if without:
        return f"{who} wants no {person.to_third(without.group('what'), who)}"
    if _SPELL.match(text) or _REACH.match(text):
        order = re.sub(rf"^(?:{_POLITE},? )+|,? {_POLITE}$", "", text, flags=re.I)
        return f"{who} wants the assistant to {person.to_third(order[:1].lower() + order[1:], who)}"
    rather = _RATHER.match(text)
    if rather:
        return f"{who} would rather the assistant {person.to_third(rather.group('what'), who)}"
    most = _AT_MOST.match(text)
    if most and _formats().search(most.group("what")):
        return f"{who} wants {person.to_third(most.group('what'), who)}"
    talks = _TALKS.match(text)
    if talks and _formats().search(talks.group("manner")) and not _ONE_TEXT.search(text):
        order = f"{talks.group('verb').lower()}{text[talks.end('verb') :]}"
        return f"{who} wants the assistant to {person.to_third(order, who)}"
    reasoned = _REASONED.match(text) if own else None
    if reasoned and _is_format(reasoned.group("what")):
        return f"{who} wants {person.to_third(reasoned.group('what'), who)}"
    lasting = _LASTING.match(text)
    if lasting is None or not (lasting.group("lead") or lasting.group("tail")):
        return None
    liking = _ALWAYS.match(text) if own else None
    if liking and _is_liking(liking.group("what")):
        return f"{who} always wants {liking.group('what')}"
    what_only = re.fullmatch(r"(?P<what>[a-z][a-z ]{2,24}?) only", lasting.group("what"))
    if own and what_only and lasting.group("tail") and _is_liking(what_only.group("what"), least=1):
        return f"{who} wants {what_only.group('what')} only ({lasting.group('tail').lower()})"
    if not _is_format(lasting.group("what")):
        return None
    when = (lasting.group("lead") or lasting.group("tail") or "").lower()
    what = person.to_third(re.sub(rf",? {_POLITE}$", "", lasting.group("what"), flags=re.I), who)
    return f"{who} wants only {what}" if when == "only" else f"{who} wants {what} ({when})"


_ALWAYS = Pattern(rf"^(?P<what>[a-z][a-z -]{{3,30}}?),? always(?:,? {_POLITE})?$")


def _is_liking(what: str, least: int = 2) -> bool:
    """Whether words before "always" are a plain noun phrase ("window seat", "oat milk")."""
    parts = what.split()
    known = (
        verbs.AUXILIARIES
        | grammar.SUBJECTS
        | lexicon.words("adverbs.txt")
        | lexicon.words("moods.txt")
        | {"same", "not", "as"}
    )
    if not least <= len(parts) < 5 or any(part in known for part in parts):
        return False
    return grammar.find_verb(parts) < 0 and not any(grammar.is_time_word(part) for part in parts)


def _is_format(what: str) -> bool:
    """Whether words name a form of answer and nothing of the speaker's life: no verb, no owner, no time."""
    parts = [grammar.bare(part) for part in what.split()]
    if not 0 < len(parts) < 12 or _formats().search(what) is None or _ONE_TEXT.search(what):
        return False
    if any(part in grammar.SUBJECTS | grammar.POSSESSIVES | verbs.AUXILIARIES for part in parts):
        return False
    return parts[0] not in verbs.bases() - lexicon.words("nounish.txt") and not any(
        part in verbs.thirds() and part not in lexicon.words("nounish.txt") and part not in lexicon.words("formats.txt")
        for part in parts
    )
