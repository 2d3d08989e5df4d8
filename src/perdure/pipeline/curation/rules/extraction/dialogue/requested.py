"""What a message tells beside the text, the story or the supposition that is dropped: for whom, by when, of what.

"Write a birthday poem for my wife Ines, she turns 40 in May" brings a poem and two facts. Quoted text and what stands
behind a colon belong to the task; clauses of the speaker around them do not.
"""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import filters, grammar, message_kind, people, sentences, statements
from perdure.pipeline.curation.rules.extraction.dialogue import presupposed
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.lexicon import word_set

LONGEST = 400
"""Characters: a longer message brings its text along unmarked, and a clause of it could be anybody's."""

LONGEST_BROUGHT = 4000
"""Characters in which quotations are looked for."""

_QUOTED = Pattern(r"[\"“«][^\"”»]*(?:[\"”»]|$)|(?<!\w)['‘][^'’\n]*(?:['’](?!\w)[^'’\n]*)*['’](?!\w)|`[^`]*`")
_BROUGHT = Pattern(r"\b(?:this|below|following)\b|\bhow (?:to|do (?:i|you)) say\b", re.I)
_RECEIVER = Pattern(
    r"\b(?:for|to) (?P<whose>(?:my|our) (?:[a-z-]+ ){1,3}?(?P<name>[A-ZÀ-Þ][\w'-]+))(?P<more>(?:,| who| and|\.).*)?$"
)
_AGE = Pattern(r"^,? ?(?:aged? |who is |she is |he is )?(?P<age>\d{1,2})(?= ?(?:$|,|\.| and | years? old))")
_OF_THEM = Pattern(r"^(?:,? ?(?:and )?(?:who|she|he)) (?P<said>[a-z']+ .{2,80})$", re.I)
_WHICH = Pattern(
    r"\b(?:the|my|our) (?P<thing>(?:[\w-]+ ){0,2}[\w-]+), (?:which|that) (?P<who>I|we) "
    r"(?P<verb>(?:have |'ve )?(?:just |only |already )?[a-z]+)(?P<rest> [^,?.]{2,50})?",
    re.I,
)


def read(text: str, at: int, talk: Discourse) -> list[Draft]:
    """The facts about the user around a text or a task: of the one it is for, and in clauses of the user's own."""
    head = _own_words(text)
    told = message_kind.is_fiction(text) or message_kind.is_role(text)
    if not head:
        return [] if told else _opening(text, at, talk)
    asked = not told and re.search(r"\b(?:for|to) (?:my|our)\b", head)
    drafts = presupposed.read(head, talk, at) if asked else []
    drafts.extend([] if told else presupposed.read_mentioned(head, talk, at))
    if not any(draft.rule == "described" for draft in drafts):
        drafts.extend(receiver(head, at, talk))
    return drafts if told else [*_opening(text, at, talk), *drafts, *_clauses(head, at, talk)]


def aside(text: str, at: int, talk: Discourse) -> list[Draft]:
    """ "if I sold the food truck, which I've had since 2016": what a supposition tells of a thing beside itself."""
    match = _WHICH.search(text)
    if match is None or grammar.bare(match.group("verb").split()[-1]) not in grammar.pasts():
        return []
    verb = match.group("verb").replace("'ve", "have")
    clause = f"{match.group('who')} {verb} my {match.group('thing')}{match.group('rest') or ''}"
    return [statements.make(statements.finish(clause, talk), "presupposed", talk, at)]


def _own_words(text: str) -> str:
    """The message without the text it brings; "" where the two cannot be told apart."""
    left = _QUOTED.sub(" ", text) if len(text) <= LONGEST_BROUGHT else text
    if len(left) > LONGEST:
        return ""
    head = re.split(r":(?=\s|$)|\n", left, maxsplit=1)[0]
    unmarked = left == text and head == left and _BROUGHT.search(head)
    return "" if unmarked else " ".join(head.split())


def receiver(head: str, at: int, talk: Discourse) -> list[Draft]:
    """Age and doings of the one for whom something is asked ("my wife Ines, she turns 40 in May")."""
    drafts: list[Draft] = []
    for sentence in re.split(r"(?<=[.!?]) +", head):
        match = _RECEIVER.search(sentence) or _IS_MINE.search(sentence)
        if match is None or people.relation_in(match.group("whose").split()) is None:
            continue
        name, more = match.group("name"), (match.group("more") or "").strip(" .!?")
        naming = people.note_people(match.group("whose"), talk)
        if naming:
            drafts.append(statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, at))
        aged = _AGE.match(more)
        if aged:
            drafts.append(statements.make(f"{name} is {aged.group('age')}", "aged", talk, at))
            more = more[aged.end() :].strip(" .")
        said = _OF_THEM.match(more)
        if said and _finite(said.group("said")):
            drafts.append(
                statements.make(statements.finish(f"{name} {said.group('said')}", talk), "described", talk, at)
            )
    return drafts


_IS_MINE = Pattern(
    r"^[\w' ]{2,40}? is (?P<whose>(?:my|our) (?:[a-z-]+ ){1,3}?(?P<name>[A-ZÀ-Þ][\w'-]+))(?P<more>,.*)?$"
)
"""Who the task is for, told in a sentence of its own: "The listener is my daughter Wren, 4, who hates baths"."""


def _finite(said: str) -> bool:
    words = [grammar.bare(part) for part in said.split()]
    verb = next((word for word in words if word not in lexicon.words("adverbs.txt")), "")
    return verb.endswith("s") or verb in grammar.simple_pasts() or verb in grammar.AUXILIARIES


def _clauses(head: str, at: int, talk: Discourse) -> list[Draft]:
    """The clauses behind the request that open with the speaker or something of his and hold something definite."""
    drafts: list[Draft] = []
    for part in _CLAUSES.split(head)[1:]:
        clause = part.strip(" .!?")
        if not _of_speaker(clause) or filters.is_chatter(clause) or filters.is_hypothetical(clause):
            continue
        if filters.is_question(clause, False) or filters.is_request(clause):
            continue
        state = statements.Sentence(at)
        for piece in sentences.split_clauses(clause, names=talk.known_names()):
            drafts.extend(statements.read(piece.text, piece.joint, talk, state))
    return drafts


def _opening(text: str, at: int, talk: Discourse) -> list[Draft]:
    """What the speaker tells of himself before he asks for something to be done with a text that follows."""
    own: list[str] = []
    for sentence in _SENTENCES.split(text[:LONGEST])[:4]:
        said = sentence.strip(" .!?")
        if filters.is_request(said) or filters.is_task(said) or _BROUGHT.search(said):
            break
        if not _of_speaker(said) or filters.is_chatter(said) or filters.is_hypothetical(said):
            return []
        own.append(said)
    else:
        return []
    drafts: list[Draft] = []
    for said in own:
        for piece in sentences.split_clauses(said, names=talk.known_names()):
            drafts.extend(statements.read(piece.text, piece.joint, talk, statements.Sentence(at)))
    return drafts


_SENTENCES = Pattern(r"(?<=[.!?])\s+|\n+")
_CLAUSES = Pattern(r"(?:[.!?;] +|, (?:and |but |so |because )?| (?:because|since) )")


def _of_speaker(clause: str) -> bool:
    parts = clause.split()
    if len(parts) < 3:
        return False
    first = grammar.bare(parts[0])
    if first in {"i", "we"}:
        said = [grammar.bare(part) for part in parts[1:]]
        lasting = any(word in word_set("requested.lasting") for word in said[:3])
        return said[0] not in word_set("requested.wanting") and (lasting or statements.specific(parts[1:]))
    verb = grammar.find_verb(parts)
    if first not in {"my", "our"} or not 1 < verb < 6 or not statements.specific(parts[verb:]):
        return False
    return not any(grammar.bare(part) in lexicon.words("formats.txt") for part in parts[1:verb])
