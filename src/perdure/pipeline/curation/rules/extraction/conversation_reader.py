"""One message after the other: which of its sentences are dropped, which are read, and by which rule."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import (
    cleaning,
    filters,
    foreign,
    forget_requests,
    forget_target,
    fragments,
    grammar,
    line_wrapping,
    message_kind,
    people,
    phrasing,
    procedures,
    sentences,
    statements,
)
from perdure.pipeline.curation.rules.extraction import sentence as telling
from perdure.pipeline.curation.rules.extraction.dialogue import corrections, presupposed, questions, replies, requested
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.lexicon import word_set

# Sentences that are read whole: forgetting, corrections, introductions, moved dates, labelled lists, procedures.

_LABELLED = Pattern(r"^(?P<label>(?:[A-Za-z][\w'/-]*)(?: [\w'/-]+){0,6}?)(?: ?: | ?= )(?P<rest>\S.*)$")
_MOVE = Pattern(
    r"^(?:(?:please|pls|kindly|can you|could you|just|ok|yes|no|sorry|actually)[, ]+)*(?P<verb>move|change|switch|"
    r"push|shift|reschedule|bring|set|put) (?P<what>it|them|that|those|this|these|(?:my|the|our) [\w' -]{2,40}?) "
    r"(?:forward |back |up |over )?(?:to|on|for) (?P<when>.{2,60})$",
    re.I,
)
_INTRO = Pattern(
    r"^(?:(?:my )?name(?: is|:)? |i am |it is )?(?P<name>[A-Za-z][a-z]{2,14})(?:,| -|/|\.) ?(?:aged? "
    r")?(?P<age>[1-9]\d)(?: ?(?:yo|y/o|years old|f|m))?(?=,|/|$)(?P<rest>.*)$",
    re.I,
)


def read(sentence: sentences.Sentence, at: int, talk: Discourse) -> sentences.Sentence | None:
    """What is left to read of the sentence: all of it if it is none of these, None if nothing."""
    text = filters.strip_openers(sentence.text)
    request = forget_requests.read(text, talk, at)
    if request is not None:
        talk.drafts.extend(Draft(asked, (at,), "forget", 0.9, forget=True) for asked in request.asked)
        return replace(sentence, text=request.left, question=False) if request.left else None
    forget_target.note(text, talk, at)
    if sentence.question:
        return sentence
    if corrections.apply_correction(sentence.text, talk, at):
        return None
    amended = corrections.read_amendment(text, talk)
    if amended is not None:
        return replace(sentence, text=amended) if amended else None
    first, comma, rest = sentence.text.partition(", ")
    if comma and len(first) < 40 and corrections.is_cued(first) and corrections.apply_correction(first, talk, at):
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
        questions.label_of(questions.swap(talk.assistant))
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
    ordered = grammar.bare(pieces[0].split()[0]) in grammar.bases() if pieces else False
    if not ordered and any(sentences.has_verb(piece) and grammar.subject_of(piece.split()) for piece in pieces[:1]):
        return False
    if ordered and not re.search(
        r"\b(?:goal|aim|plan|ambition|resolution|dream|target|task|job)s?\b", match.group("label"), re.I
    ):
        return False
    if ordered:
        pieces[0] = f"to {pieces[0]}"
    talk.drafts.extend(fragments.labelled(match.group("label"), pieces, talk, at))
    return True


_FACT_LINE = Pattern(r"^(?:[Tt]he )?[Uu]ser(?:'s)? [^?\n]{2,500}$")
_FICTION = Pattern(
    r"\b(?:put my foot down|walks? into a bar|knock knock|in (?:my|the) (?:novel|story|book|campaign)|in "
    r"chapter|the protagonist|my protagonist|backstory|plot twist)\b",
    re.I,
)


def user_message(content: str, at: int, talk: Discourse) -> None:
    """Read one message of the user; what it says is appended to `talk.drafts`."""
    content = line_wrapping.unwrapped(content)
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
        talk.drafts[before:] = forget_target.without_matters(talk.drafts[before:], talk.who)
    if before and corrections.takes_back(content):
        corrections.retract(talk, before)
    talk.commanded = talk.asks and not talk.about_self and len(talk.drafts) <= before
    talk.opened = cleaned.restore(cleaned.text)[:2000]


_FIRST_PERSON = Pattern(r"(?<![\w'.])(?:i|i'm|i've|i'd|i'll|my|me|mine|we|our)(?![\w'.-])", re.I)
_QUOTED = Pattern(r"\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']*'(?!\w)")


_ASSISTANT = Pattern(
    r"^(?!(?:Any|Every|Each|When|If|No|All)\w* ).*(?<!uses )(?<!reads )(?<!asks )\bthe assistant\b", re.I
)
_TO_THE_ASSISTANT = word_set("telling.to_the_assistant")
"""Rules whose facts may speak of the assistant: the others only overheard a "you"."""


def _clean(draft: Draft, who: str) -> bool:
    """Whether a fact may be stored: not somebody's quoted sentence, and no first person left outside quotes."""
    if draft.rule == "as given":
        return True
    if _FIRST_PERSON.search(_QUOTED.sub(" ", draft.text)):
        return False
    if not draft.forget and draft.rule not in _TO_THE_ASSISTANT and _ASSISTANT.search(draft.text):
        return False  # said to the assistant, or a general "you"
    if not draft.forget and not filters.readable(draft.text, who, draft.rule):
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
    talk.about_self, talk.asks, talk.named = message_kind.speaks_of_self(text), message_kind.asks(text), ""
    talk.play = _plays(text, talk)
    supposed = message_kind.is_what_if(text) or message_kind.is_fiction(text)
    if supposed and forget_requests.asks(text):
        _english(text, at, talk)
        return
    if supposed and not talk.play:
        talk.drafts.extend(requested.aside(text, at, talk))
    if (
        talk.play
        or message_kind.is_joke(raw[: message_kind.HEAD])
        or message_kind.is_what_if(text)
        or message_kind.is_mockery(raw)
    ):
        return
    brought = (
        filters.is_task(text)
        or message_kind.is_homework(text)
        or message_kind.is_role(text)
        or message_kind.brings_text(raw)
    )
    if brought or message_kind.is_fiction(text):
        talk.task = True
        talk.drafts.extend(requested.read(text, at, talk))
    elif not message_kind.is_sum(text) and not message_kind.is_exercise(text):
        _english(text, at, talk)


def _plays(text: str, talk: Discourse) -> bool:
    """Whether the message belongs to a game: one is on, or the assistant's words lead it, and the user stays in it."""
    on = talk.play or message_kind.opens_play(text) or message_kind.leads_play(talk.assistant)
    return on and not message_kind.leaves_play(text)


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
    text = text if talk.task else phrasing.note_bracketed(text, talk, at)
    heading = ""
    for number, found in enumerate(phrasing.unbracketed(_joined(sentences.split_sentences(text)))):
        sentence = replace(found, text=phrasing.normal(found.text))
        if _dropped(sentence, talk):
            heading = _headed(sentence, talk)
            continue
        heading = heading if sentence.item else ""
        rest = read(sentence, at, talk)
        if rest is None:
            frames = []
            continue
        if reply and number < 3 and not rest.question:
            left = replies.read(rest, frames, at, talk, number == 0)
            if left is None:
                continue
            rest = replace(rest, text=left)
        if talk.pending and _OF_THE_CHILD.match(filters.strip_openers(rest.text)):
            talk.drafts.extend(presupposed.unnamed(talk, at))
        before = len(talk.drafts)
        telling.read(rest, at, talk)
        if len(talk.drafts) == before:
            talk.drafts.extend(fragments.plain_statement(rest, at, talk))
        if not talk.task:
            talk.drafts.extend(presupposed.read_mentioned(rest.text, talk, at))
            if len(talk.drafts) > before and all(draft.rule in {"naming", "aged"} for draft in talk.drafts[before:]):
                talk.drafts.extend(requested.receiver(rest.text, at, talk))
        if len(talk.drafts) == before and heading:
            talk.drafts.extend(fragments.list_item(rest, heading, at, talk))
        if len(talk.drafts) == before and not talk.task:
            talk.drafts.extend(presupposed.named_kin(rest.text, talk, at))


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
        r"^(?:here (?:is|are)|this is|these are|below (?:is|are)) ", "", filters.strip_openers(text), flags=re.I
    )
    label = re.sub(r" (?:for (?:context|reference|info)|so far|below|etc)$", "", label, flags=re.I)
    if fragments.is_label(label):
        talk.topic = talk.thing = fragments.owned_label(label, talk)
        talk.own = True
