"""One sentence that is not special: each of its clauses is an instruction, a question, a request or a statement."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.extraction import (
    filters,
    fragments,
    grammar,
    instructions,
    sentences,
    statements,
)
from perdure.pipeline.curation.rules.extraction.dialogue import presupposed
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.retrieval.standing_facts import keeps_secret

_CARRIES = Pattern(r"\b(?:i|me|my|we|us|our|mine)\b", re.I)


def read(sentence: sentences.Sentence, at: int, talk: Discourse) -> None:
    """Read one sentence; its facts are appended to `talk.drafts`."""
    order = None
    if not sentence.question:
        order = instructions.read_style(filters.strip_openers(sentence.text), talk.who, own=talk.own)
    if order:
        _order(order, at, talk)
        return
    if filters.is_hypothetical(sentence.text):
        return
    text = filters.strip_openers(sentence.text)
    if not text:
        return
    pieces = sentences.split_clauses(text)
    if len(pieces) > 1 and not sentence.question and (lasting := instructions.whole(text, talk.who)):
        _order(lasting, at, talk)
        return
    state = statements.Sentence(at)
    mood = _Mood(sentence.question)
    for number, piece in enumerate(pieces):
        following = pieces[number + 1] if number + 1 < len(pieces) else None
        if _goes_on(piece, state, mood) or not _asked(piece, following, mood, at, talk):
            _statement(piece, at, talk, state, mood.asking)


def _goes_on(piece: sentences.Clause, state: statements.Sentence, mood: _Mood) -> bool:
    """ "I type on Dvorak and use helix": a bare verb behind "and" that has the "I" before it, and is no order."""
    if mood.asking or mood.ordered or mood.marked or piece.joint not in {"and", ", and"} or not state.kept:
        return False
    words = [grammar.bare(word) for word in piece.text.split()]
    told = state.carried.lower() in grammar.FIRST and words[0] in grammar.bases() and len(words) > 1
    return told and words[1] not in {"me", "us", "it", "them", "this", "that"} and "please" not in words


@dataclass(slots=True)
class _Mood:
    """What the clauses of a sentence before this one were."""

    marked: bool
    asking: bool = False
    ordered: bool = False


def _order(order: str, at: int, talk: Discourse) -> None:
    talk.drafts.append(Draft(order, (at,), "standing", 0.85))
    talk.own = True


def _asked(piece: sentences.Clause, following: sentences.Clause | None, mood: _Mood, at: int, talk: Discourse) -> bool:
    """Whether the clause is an instruction, a question or a request, or belongs to one; then it has been dealt with."""
    words = filters.strip_openers(piece.text)
    if keeps_secret(words):
        mood.asking = True
        return True
    if mood.marked:
        order = instructions.read_less(words, talk.who, marked=True) if following is None else None
    else:
        order = instructions.read_instruction(words, talk.who) or _manner(piece, talk)
    if not order and mood.ordered and instructions.continues(words):
        more = statements.finish(words, talk)
        order = f"{talk.who} wants the assistant to {more[:1].lower()}{more[1:]}"
    mood.ordered = bool(order)
    if order:
        _order(order, at, talk)
        return True
    marked = mood.marked and following is None
    if filters.is_question(piece.text, marked) or filters.is_request(piece.text):
        talk.drafts.extend(presupposed.read(piece.text, talk, at))
        mood.asking = True
        return True
    head = grammar.bare(piece.text.split()[0])
    return _belongs_to_question(piece, head, marked, mood, talk)


def _manner(piece: sentences.Clause, talk: Discourse) -> str | None:
    """ "(I skim everything,) so short answers please", and "tables only" among other clauses."""
    joint = piece.joint.strip(", ")
    own = talk.own or talk.about_self
    return instructions.read_style(f"{joint} {piece.text}" if joint == "so" else piece.text, talk.who, own=own)


def _belongs_to_question(piece: sentences.Clause, head: str, marked: bool, mood: _Mood, talk: Discourse) -> bool:
    kind = grammar.subject_of(piece.text.split())
    if mood.asking:
        if not kind and piece.joint != "because" and not statements.self_describing(piece.text):
            return True
        personal = _telling(piece.text) or _CARRIES.search(piece.text)
        return kind in {"noun", "name"} and not personal and head not in talk.names
    return marked and not _telling(piece.text)


def _telling(text: str) -> bool:
    """Whether a clause before a question mark still tells something: it speaks of I, my or a known kind of thing."""
    return re.match(r"(?:so |and |but |well )?(?:i|we|my|our)\b", text, re.I) is not None


def _statement(piece: sentences.Clause, at: int, talk: Discourse, state: statements.Sentence, asking: bool) -> None:
    drafts = statements.read(piece.text, piece.joint, talk, state)
    if not drafts and not asking:
        drafts = fragments.read(piece, talk, state)
    talk.drafts.extend(drafts)
    state.kept += len(drafts)
