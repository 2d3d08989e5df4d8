"""Sentences that are read whole: forgetting, corrections, introductions, moved dates, labelled lists, procedures."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import (
    amends,
    clauses,
    corrections,
    dropping,
    forget,
    forget_matter,
    fragments,
    grammar,
    people,
    procedures,
    questions,
    sentences,
    statements,
    verbs,
    wording,
)
from perdure.pipeline.extraction.discourse import Discourse, Draft

_LABELLED = Pattern(r"^(?P<label>(?:[A-Za-z][\w'/-]*)(?: [\w'/-]+){0,6}?)(?: ?: | ?= )(?P<rest>\S.*)$")
_MOVE = Pattern(
    r"^(?:(?:please|pls|kindly|can you|could you|just|ok|yes|no|sorry|actually)[, ]+)*(?P<verb>move|change|"
    r"switch|push|shift|reschedule|bring|set|put) "
    r"(?P<what>it|them|that|those|this|these|(?:my|the|our) [\w' -]{2,40}?) (?:forward |back |up |over "
    r")?(?:to|on|for) (?P<when>.{2,60})$",
    re.I,
)
_INTRO = Pattern(
    r"^(?:(?:my )?name(?: is|:)? |i am |it is )?(?P<name>[A-Za-z][a-z]{2,14})(?:,| -|/|\.) ?(?:aged? "
    r")?(?P<age>[1-9]\d)(?: ?(?:yo|y/o|years old|f|m))?(?=,|/|$)(?P<rest>.*)$",
    re.I,
)


def read(sentence: sentences.Sentence, at: int, talk: Discourse) -> sentences.Sentence | None:
    """What is left to read of the sentence: all of it if it is none of these, None if nothing."""
    text = dropping.strip_openers(sentence.text)
    request = forget.read(text, talk, at)
    if request is not None:
        talk.drafts.extend(Draft(asked, (at,), "forget", 0.9, forget=True) for asked in request.asked)
        return replace(sentence, text=request.left, question=False) if request.left else None
    forget_matter.note(text, talk, at)
    if sentence.question:
        return sentence
    if corrections.read(sentence.text, talk, at):
        return None
    amended = amends.read(text, talk)
    if amended is not None:
        return replace(sentence, text=amended) if amended else None
    first, comma, rest = sentence.text.partition(", ")
    if comma and len(first) < 40 and corrections.is_cued(first) and corrections.read(first, talk, at):
        return replace(sentence, text=rest)
    known = _introduced(text, at, talk)
    if known is not None:
        return replace(sentence, text=known) if known else None
    moved = _MOVE.match(text)
    if moved and corrections.typed(moved.group("when")):
        talk.drafts.append(Draft(_moved(moved, talk), (at,), "rescheduled", 0.8))
        return None
    paired = _paired(text, at, talk)
    if paired is not None:
        return replace(sentence, text=paired) if paired else None
    if _labelled(text, at, talk):
        return None
    steps = procedures.read(text, talk.who)
    if steps:
        talk.drafts.extend(Draft(step, (at,), "procedure", 0.8, procedural=True) for step in steps)
        talk.own = True
    return None if steps else sentence


_PAIR = Pattern(
    r"^(?P<what>[A-Za-z][\w'/-][\w' /-]{0,30}?) ?(?:=|->|→) ?"
    r"(?P<whom>[A-ZÀ-Þ][a-zà-ÿ]+(?: [A-ZÀ-Þ][\w'-]+)?|me|myself)$"
)


def _paired(text: str, at: int, talk: Discourse) -> str | None:
    """ "MOTs = Gethin, bodywork = me": who does what; what is left of the sentence, None if it is no such."""
    _, colon, listed = text.rpartition(": ")
    members = re.split(r"[,;] (?:and )?| and (?=[^,;]+ ?(?:=|->|→))", listed if colon else text)
    pairs = [found for member in members if (found := _PAIR.match(member.strip()))]
    if len(pairs) < 2:
        return None
    for pair in pairs:
        whom = talk.who if pair.group("whom") in {"me", "myself"} else pair.group("whom")
        what = statements.finish(pair.group("what"), talk)
        talk.drafts.append(statements.make(f"{what}: {whom}", "labelled", talk, at))
    return ", ".join(member for member in members if not _PAIR.match(member.strip()))


def _introduced(text: str, at: int, talk: Discourse) -> str | None:
    """ "priya, 31, product designer": name and age; what is left of the sentence, or None if it is no such thing."""
    match = _INTRO.match(text)
    if match is None:
        return None
    name = match.group("name")
    if (
        people.is_known_word(name.lower())
        or (name.islower() and not match.group("rest"))
        or name in lexicon.words("not_names.txt")
    ):
        return None
    if talk.asks and not talk.about_self and not match.group("rest"):
        return None
    talk.drafts.append(statements.make(f"{talk.who}'s name is {name.capitalize()}", "introduction", talk, at))
    talk.drafts.append(statements.make(f"{talk.who} is {match.group('age')}", "introduction", talk, at))
    return match.group("rest").strip(" ,/")


def _moved(match: re.Match[str], talk: Discourse) -> str:
    what = match.group("what")
    label = (
        questions.label_of(wording.swap(talk.assistant))
        if what.lower() in {"it", "them", "that", "those", "this", "these"}
        else what
    )
    named = statements.finish(label, talk) if label else talk.thing or what
    return f"{talk.who} wants {named} moved to {match.group('when').strip(' .!')}"


def _labelled(text: str, at: int, talk: Discourse) -> bool:
    """ "Physio exercises: clamshells 3x12, then bridge 3x15": each value is told of the label."""
    match = _LABELLED.match(text)
    freely = not talk.asks and match is not None and "," in match.group("rest")
    if match is None or not fragments.is_label(match.group("label"), freely=freely):
        return False
    rest = match.group("rest")
    if procedures.is_process(match.group("label")) and (procedures.is_sequence(rest) or rest.count(",") > 1):
        return False
    pieces = [part for part in re.split(r",(?!\d)\s*(?:and |then )*|\s+\+\s+", rest) if part.strip()]
    ordered = grammar.bare(pieces[0].split()[0]) in verbs.bases() if pieces else False
    if not ordered and any(clauses.has_verb(piece) and grammar.subject_of(piece.split()) for piece in pieces[:1]):
        return False
    if ordered and not re.search(
        r"\b(?:goal|aim|plan|ambition|resolution|dream|target|task|job)s?\b", match.group("label"), re.I
    ):
        return False
    if ordered:
        pieces[0] = f"to {pieces[0]}"
    talk.drafts.extend(fragments.labelled(match.group("label"), pieces, talk, at))
    return True
