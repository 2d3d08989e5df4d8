"""A value taken back in the same conversation: "actually 6", "sorry, Thursday not Tuesday", "it's now the 12th"."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft

# Sentences that open by naming what they correct: "A correction about Lorna: she flies in on the 5th".


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?"
_NUMBER = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    r"eighteen|twenty|thirty|forty|fifty)"
)
TYPES: tuple[tuple[str, Pattern], ...] = (
    (
        "date",
        Pattern(
            rf"\b(?:(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}|{_MONTH} (?:the )?\d{{1,2}}(?:st|"
            rf"nd|rd|th)?|(?:the )?\d{{1,2}}(?:st|nd|rd|th))\b",
            re.I,
        ),
    ),
    (
        "time",
        Pattern(r"\b(?:\d{1,2}h\d{0,2}|\d{1,2}[:.]\d{2}(?:\s?[ap]m)?|\d{1,2}\s?[ap]m|noon|midnight|half \w+)\b", re.I),
    ),
    ("weekday", Pattern(rf"\b{_DAY}\b", re.I)),
    ("code", Pattern(r"(?<![\w+-])\+?\d{3,}(?:[- ]\d{2,})+(?![\w-])")),
    (
        "money",
        Pattern(r"[$€£]\s?\d[\d,.]*\d?k?|\b\d[\d,.]*k?\s?(?:euros?|dollars|pounds|quid|bucks|usd|eur|gbp)\b", re.I),
    ),
    ("model", Pattern(r"\b(?![ap]m\b)[a-z]{1,3}-?\d{1,4}[a-z]?\b", re.I)),
    ("month", Pattern(rf"\b{_MONTH}\b", re.I)),
    ("number", Pattern(rf"\b(?:\d[\d,.]*\d|\d|{_NUMBER})(?:k|kg|km|cm|%)?\b", re.I)),
)
_CUE = Pattern(
    r"^(?:(?:oh|oops|wait|sorry|no|nope|nah|actually|correction|scratch that|i mean(?:t)?|my mistake|my bad|apologies|"
    r"make that|make it|it is(?: now| actually)?|they are(?: now)?|that is|that should be|should be|rather|well|now|i "
    r"meant to say|typo|edit|hm+|not quite|wrong|ah|oh|hang on|hold on|no wait|wait no|pardon|forget that|change of "
    r"plans?|strike that|i misread(?: it)?|i got (?:it|that) wrong|(?:they|he|she|we|it)(?: have| has| got| was| "
    r"is)?(?: just| now| been)? (?:pushed|moved|shifted|bumped|changed|put|brought|switched|rescheduled)(?: it| that| "
    r"this| them)?(?: back| forward| up| out)? (?:to|until|for)|it got moved to|moved to|changed to|it has moved to|"
    r"it was|the)\b[\s,.:!-]*)+",
    re.I,
)
_SUBJECT = Pattern(
    r"^(?:the |my |our )?(?:[\w'-]+ ){0,3}?(?P<noun>[\w'-]+) (?:is|are|was|were|will be|would be|starts?|begins?)\b",
    re.I,
)
_ANY_SUBJECT = frozenset(
    {"it", "that", "this", "they", "he", "she", "we", "date", "day", "time", "hour", "month", "year", "price", "cost"}
    | {"total", "sum", "number", "amount", "figure", "one", "answer", "deadline", "start", "end"}
)
"""Subjects of a correction that stand for whatever was said before it."""


_NOT = Pattern(r"^(?P<new>[^,.]{1,60}?),? (?:and )?not (?P<old>[^,.]{1,60})$", re.I)
_NOT_FIRST = Pattern(
    r"^(?:it is |i said |i meant )?not (?P<old>[^,.]{1,40})[,.] ?(?:it is |but |it's )?(?P<new>[^,.]{1,40})$", re.I
)


def typed(text: str) -> tuple[str, str] | None:
    """The kind and the text of the first value of a known kind in a text."""
    for kind, pattern in TYPES:
        match = pattern.search(text)
        if match:
            return kind, match.group()
    return None


def is_cued(text: str) -> bool:
    """Whether a text opens with a word of correction ("make that", "sorry")."""
    return bool(
        re.match(
            r"(?:ah|oh|um|er|well|no|nope|ok)?,? ?(?:make (?:it|that)|sorry|actually|no,? wait|wait,? no|wait|hang on|"
            r"hold on|no,? hang on|correction|i meant|oops|scratch that|strike that|typo|my mistake|pardon)\b",
            text,
            re.I,
        )
    )


_PARTS = Pattern(r"[,;:.!?] | -+ ")


def corrects(text: str) -> bool:
    """Whether a sentence, or a part of it, opens with words that take back what was said ("no wait", "I mean")."""
    return any(is_cued(part) or _MEANT.match(part) for part in _PARTS.split(text.strip()))


_MEANT = Pattern(
    r"(?:no|nope|oh|well|or|and|but)?,? ?(?:i mean\b(?! (?:it|that|what|this|seriously|business|come on)\b)|"
    r"or rather\b|i (?:got|had) (?:it|that) wrong|that(?: was|'s| is) wrong|not true|forget (?:that|what i said)|"
    r"let me correct|i misspoke|i was wrong|my bad|apologies)",
    re.I,
)


def _swap_named(sentence: str, talk: Discourse, source: int) -> bool:
    """ "it's leila not layla": the right word for the wrong one, wherever the last facts have it."""
    body = _CUE.sub("", sentence, count=1) if _CUE.match(sentence) else sentence
    body = re.sub(r"^(?:.{0,30}\bit is |its |it's )", "", body, flags=re.I)
    match = _NOT.match(body) or _NOT_FIRST.match(body)
    if match is None:
        return False
    new, old = match.group("new").strip(), match.group("old").strip(" .!")
    if len(new.split()) > 5 or not old or _says_more(new, old):
        return False
    pattern = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)", re.I)
    changed = False
    for draft in talk.drafts[-6:]:
        found = pattern.search(draft.text)
        if found and not draft.forget:
            named = old[:1].islower() and found.group()[:1].isupper() and new.islower()
            fitted = new.capitalize() if named else new
            _put(talk, draft, pattern.sub(lambda _: fitted, draft.text), source)  # noqa: B023 (used at once)
            changed = True
    if changed and old.lower() in talk.names:
        talk.call(new, re.sub(re.escape(old), lambda _: new.capitalize(), talk.names[old.lower()], flags=re.I))
    if changed:
        return True
    return any(re.search(rf"(?<!\w){re.escape(new)}(?!\w)", draft.text, re.I) for draft in talk.drafts[-4:])


def _says_more(new: str, old: str) -> bool:
    """Whether what stands before "not ..." is a clause, or names a thing beside its value: "review is 5 May, not 4".

    Put in the place of the old value it would stand inside another statement.
    """
    parts = new.split()
    if grammar.find_verb(parts) > 0:
        return True
    mine, theirs = typed(new), typed(old)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return False
    beside = new.replace(mine[1], " ", 1).split()
    light = lexicon.words("prepositions.txt") | lexicon.words("determiners.txt")
    return any(grammar.bare(word) not in light and word not in old.split() for word in beside)


def apply_correction(sentence: str, talk: Discourse, source: int) -> bool:
    """Whether the sentence corrects the fact told last; that fact is then replaced in `talk`."""
    if _swap_named(sentence, talk, source):
        return True
    cue = _CUE.match(sentence)
    if cue is None:
        return False
    rest = sentence[cue.end() :].strip(" .!,")
    rest = re.sub(r"(?:,? (?:now|then|instead|sorry|actually|lol|not \w+|my mistake))+$", "", rest, flags=re.I)
    value = typed(rest)
    if value is None or len(rest) > len(value[1]) + 14:
        return False
    counted = _counted(rest, value[1]) if value[0] == "number" else ""
    freely = is_cued(sentence) and not counted[:1].isupper()
    return _replace_value(value[0], value[1], _about(rest), talk, source, counted="" if freely else counted)


def _counted(rest: str, number: str) -> str:
    """The word that a number belongs to: "Oxford" of "41 Oxford Street"; "" where what follows says little."""
    behind = rest.partition(number)[2].split()
    light = lexicon.words("prepositions.txt") | lexicon.words("determiners.txt") | lexicon.words("adverbs.txt")
    return "" if not behind or grammar.bare(behind[0]) in light else behind[0]


def _about(rest: str) -> str | None:
    """What a correction names as its own subject: "The surgery is in April" corrects no month of anything else."""
    subject = _SUBJECT.match(rest)
    noun = subject.group("noun").lower() if subject else ""
    return noun if noun and noun not in _ANY_SUBJECT else None


def _replace_value(kind: str, new: str, about: str | None, talk: Discourse, source: int, *, counted: str = "") -> bool:
    """Put a value in the place of the last of its kind; a number only where the fact counts the same thing, if any."""
    pattern = dict(TYPES)[kind]
    for draft in reversed(talk.drafts[-6:]):
        old = pattern.search(draft.text)
        if draft.forget or old is None or (about is not None and about not in draft.text.lower()):
            continue
        if counted.lower() not in draft.text.lower():
            continue
        lead = (
            "the "
            if new.lower().startswith("the ") is False
            and old.group().lower().startswith("the ")
            and kind == "date"
            and not re.search(_MONTH, new, re.I)
            else ""
        )
        text = draft.text[: old.start()] + lead + new + draft.text[old.end() :]
        _put(talk, draft, text, source)
        return True
    return False


def _put(talk: Discourse, draft: Draft, text: str, source: int) -> None:
    place = next(at for at, kept in enumerate(talk.drafts) if kept is draft)
    talk.drafts[place] = Draft(
        text,
        tuple(sorted({*draft.sources, source})),
        "correction",
        0.8,
        draft.hedged,
        False,
        draft.procedural,
        draft.episodic,
        corrects=True,
    )
