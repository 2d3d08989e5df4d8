"""One message after the other: which of its sentences are dropped, which are read, and by which rule."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import (
    asides,
    cleaning,
    dropping,
    foreign,
    forget,
    forget_matter,
    fragments,
    mentioned,
    phrasing,
    plain,
    presupposed,
    pretence,
    procedures,
    questions,
    replies,
    requested,
    retraction,
    scene,
    sentences,
    special,
    telling,
    worth,
)
from perdure.pipeline.extraction.discourse import Discourse, Draft

_FACT_LINE = Pattern(r"^(?:[Tt]he )?[Uu]ser(?:'s)? [^?\n]{2,500}$")
_FICTION = Pattern(
    r"\b(?:put my foot down|walks? into a bar|knock knock|in (?:my|the) (?:novel|story|book|campaign)|in "
    r"chapter|the protagonist|my protagonist|backstory|plot twist)\b",
    re.I,
)


def user_message(content: str, at: int, talk: Discourse) -> None:
    """Read one message of the user; what it says is appended to `talk.drafts`."""
    facts = _ready_facts(content)
    if facts:
        talk.drafts.extend(Draft(fact, (at,), "as given", 1.0) for fact in facts)
        talk.own = True
        return
    before = len(talk.drafts)
    language = foreign.language_of(content, talk.language)
    cleaned = cleaning.clean(content, english=not language)
    if language:
        cleaned.text = foreign.gloss(cleaned.text, language)
        talk.language = language
    _read_text(cleaned.text, content, at, talk)
    if (talk.own and talk.about_self) or (not talk.asks and len(talk.waiting) > 1):
        talk.drafts.extend(talk.waiting)
    talk.waiting.clear()
    for place in range(before, len(talk.drafts)):
        draft = talk.drafts[place]
        draft.text = cleaned.restore(draft.text)
    talk.drafts[before:] = [draft for draft in talk.drafts[before:] if _clean(draft, talk.who)]
    if any(draft.forget for draft in talk.drafts[before:]):
        talk.drafts[before:] = forget_matter.without_matters(talk.drafts[before:], talk.who)
    if before and retraction.cued(content):
        retraction.retract(talk, before)
    talk.commanded = talk.asks and not talk.about_self and len(talk.drafts) <= before
    talk.opened = cleaned.restore(cleaned.text)[:2000]


_FIRST_PERSON = Pattern(r"(?<![\w'.])(?:i|i'm|i've|i'd|i'll|my|me|mine|we|our)(?![\w'.-])", re.I)
_QUOTED = Pattern(r"\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']*'(?!\w)")


_ASSISTANT = Pattern(
    r"^(?!(?:Any|Every|Each|When|If|No|All)\w* ).*(?<!uses )(?<!reads )(?<!asks )\bthe assistant\b", re.I
)
_TO_THE_ASSISTANT = frozenset(
    {"standing", "procedure", "labelled", "confirmed", "denied", "corrected", "answer", "rescheduled"}
)
"""Rules whose facts may speak of the assistant: the others only overheard a "you"."""


def _clean(draft: Draft, who: str) -> bool:
    """Whether a fact may be stored: not somebody's quoted sentence, and no first person left outside quotes."""
    if draft.rule == "as given":
        return True
    if _FIRST_PERSON.search(_QUOTED.sub(" ", draft.text)):
        return False
    if not draft.forget and draft.rule not in _TO_THE_ASSISTANT and _ASSISTANT.search(draft.text):
        return False  # said to the assistant, or a general "you"
    if not draft.forget and not worth.readable(draft.text, who, draft.rule):
        return False
    return draft.rule == "standing" or not _quotes_much(draft.text)


def _quotes_much(fact: str) -> bool:
    """Whether a fact holds a whole quoted sentence: somebody's words, not a statement."""
    quoted = re.findall(r"\"([^\"]{1,2000})\"|(?<!\w)'([^'\n]{12,400})'(?!\w)|`([^`]*)`", fact)
    return any(len((double or single or code).split()) >= 5 for double, single, code in quoted)


def _ready_facts(content: str) -> list[str]:
    lines = [line.strip().lstrip("-* ").rstrip(". ") for line in content.splitlines() if line.strip()]
    if not lines or not all(_FACT_LINE.match(line) for line in lines):
        return []
    if any(
        re.match(
            r"[Uu]ser (?:story|guide|manual|interface|input|id|name|stor|experience|agent|acceptance|"
            r"research|group|data)\b",
            line,
        )
        for line in lines
    ):
        return []
    found: list[str] = []
    for line in lines:
        found.extend(part.strip() for part in re.split(r"\.\s+(?=User\b)", line) if part.strip())
    return found


def _read_text(text: str, raw: str, at: int, talk: Discourse) -> None:
    talk.about_self, talk.asks, talk.named = scene.speaks_of_self(text), scene.asks(text), ""
    talk.play = _plays(text, talk)
    supposed = scene.is_what_if(text) or scene.is_fiction(text)
    if supposed and forget.asks(text):
        _english(text, at, talk)
        return
    if supposed and not talk.play:
        talk.drafts.extend(requested.aside(text, at, talk))
    if talk.play or scene.is_joke(raw[: scene.HEAD]) or scene.is_what_if(text) or pretence.is_mockery(raw):
        return
    brought = dropping.is_task(text) or scene.is_homework(text) or scene.is_role(text) or pretence.brings_text(raw)
    if brought or scene.is_fiction(text):
        talk.task = True
        talk.drafts.extend(requested.read(text, at, talk))
    elif not scene.is_sum(text) and not pretence.is_exercise(text):
        _english(text, at, talk)


def _plays(text: str, talk: Discourse) -> bool:
    """Whether the message belongs to a game: one is on, or the assistant's words lead it, and the user stays in it."""
    on = talk.play or pretence.opens_play(text) or pretence.leads_play(talk.assistant)
    return on and not pretence.leaves_play(text)


def _english(text: str, at: int, talk: Discourse) -> None:
    frames = questions.read(talk.assistant) if talk.assistant else []
    reply = bool(talk.assistant)
    if reply and not talk.task:
        replies.hear(talk)
        talk.own = talk.own or any(re.match(r"(?:I|my)\b", frame.statement) for frame in frames)
    if talk.commanded and not talk.about_self and not frames:
        return
    way = procedures.answer(talk.assistant, text, talk.who) if reply and not talk.task else ""
    if way:
        talk.drafts.append(Draft(way, (at,), "procedure", 0.8, procedural=True))
        return
    if not talk.person and talk.about_self and _INFANT.search(text[:600]):
        talk.meet(f"{talk.who}'s baby", "n")
    text = text if talk.task else asides.read(text, talk, at)
    heading = ""
    for number, found in enumerate(phrasing.unbracketed(_joined(sentences.split(text)))):
        sentence = replace(found, text=phrasing.normal(found.text))
        if _dropped(sentence, talk):
            heading = _headed(sentence, talk)
            continue
        heading = heading if sentence.item else ""
        rest = special.read(sentence, at, talk)
        if rest is None:
            frames = []
            continue
        if reply and number < 3 and not rest.question:
            left = replies.read(rest, frames, at, talk, number == 0)
            if left is None:
                continue
            rest = replace(rest, text=left)
        if talk.pending and _OF_THE_CHILD.match(dropping.strip_openers(rest.text)):
            talk.drafts.extend(presupposed.unnamed(talk, at))
        before = len(talk.drafts)
        telling.read(rest, at, talk)
        if len(talk.drafts) == before:
            talk.drafts.extend(plain.whole(rest, at, talk))
        if not talk.task:
            talk.drafts.extend(mentioned.read(rest.text, talk, at))
            if len(talk.drafts) > before and all(draft.rule in {"naming", "aged"} for draft in talk.drafts[before:]):
                talk.drafts.extend(requested.receiver(rest.text, at, talk))
        if len(talk.drafts) == before and heading:
            talk.drafts.extend(plain.listed(rest, heading, at, talk))
        if len(talk.drafts) == before and not talk.task:
            talk.drafts.extend(mentioned.named_kin(rest.text, talk, at))


_GOES_ON = Pattern(
    r"\b(?:goes|go|works|is|done|it|do it|run|runs) (?:like (?:this|so)|as follows)$|^(?:how|"
    r"here is how) (?:i|we) [^?]{4,60}$",
    re.I,
)


def _joined(found: list[sentences.Sentence]) -> list[sentences.Sentence]:
    """ "Closing up goes like this. Count the float, ...": the heading of a procedure with what it announces."""
    out: list[sentences.Sentence] = []
    for sentence in found:
        if out and _GOES_ON.search(out[-1].text) and not sentence.question and not out[-1].question:
            out[-1] = replace(out[-1], text=f"{out[-1].text}: {sentence.text}", header=False)
        else:
            out.append(sentence)
    return out


def _dropped(sentence: sentences.Sentence, talk: Discourse) -> bool:
    """Whether a sentence is fiction, a list's heading, or one more word on a task."""
    if _FICTION.search(sentence.text) and not re.search(r"\b(?:is|are) (?:called|named)\b", sentence.text):
        return True
    if sentence.header and not sentence.question:
        _head(sentence.text, talk)
        return True
    return talk.task and len(sentence.text) < 80 and not re.search(r"\b(?:I|my|we|our)\b", sentence.text)


_INFANT = Pattern(
    r"\b(?:naps?|nap schedule|weaning|breastfe\w+|formula|teething|nursery|potty|cot|bottle feeds?|sleep "
    r"regression|tummy time)\b",
    re.I,
)
_OF_THE_CHILD = Pattern(r"(?:he|she) (?:is|has|was|just|only|still)\b", re.I)


def _headed(sentence: sentences.Sentence, talk: Discourse) -> str:
    """What a list under this heading lists of the user's, "" if it is no such heading."""
    return talk.topic if sentence.header and talk.own and talk.topic.startswith(f"{talk.who}'s ") else ""


def _head(text: str, talk: Discourse) -> None:
    """A line before a list: what its items are about."""
    label = re.sub(
        r"^(?:here (?:is|are)|this is|these are|below (?:is|are)) ", "", dropping.strip_openers(text), flags=re.I
    )
    label = re.sub(r" (?:for (?:context|reference|info)|so far|below|etc)$", "", label, flags=re.I)
    if fragments.is_label(label):
        talk.topic = talk.thing = fragments.owned_label(label, talk)
        talk.own = True
