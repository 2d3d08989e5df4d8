"""One message after the other: which sentences are dropped, which are read, and what of a reply belongs to a question."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.pipeline import lexicon
from perdure.pipeline.extraction import (
    clauses,
    cleaning,
    corrections,
    dropping,
    foreign,
    forget,
    fragments,
    grammar,
    people,
    presupposed,
    procedures,
    questions,
    replies,
    scene,
    sentences,
    standing,
    statements,
)
from perdure.pipeline.extraction.discourse import Discourse, Draft

_FACT_LINE = re.compile(r"^(?:[Tt]he )?[Uu]ser(?:'s)? [^?\n]{2,500}$")
_LABELLED = re.compile(r"^(?P<label>(?:[A-Za-z][\w'/-]*)(?: [\w'/-]+){0,6}?)(?: ?: | ?= )(?P<rest>\S.*)$")
_MOVE = re.compile(
    r"^(?:(?:please|pls|kindly|can you|could you|just|ok|yes|no|sorry|actually)[, ]+)*(?P<verb>move|change|switch|push|shift|reschedule|bring|set|put) "
    r"(?P<what>it|them|that|those|this|these|(?:my|the|our) [\w' -]{2,40}?) (?:forward |back |up |over )?(?:to|on|for) (?P<when>.{2,60})$",
    re.I,
)
_INTRO = re.compile(
    r"^(?:(?:my )?name(?: is|:)? |i am |it is )?(?P<name>[A-Za-z][a-z]{2,14})(?:,| -|/|\.) ?(?:aged? )?(?P<age>[1-9]\d)(?: ?(?:yo|y/o|years old|f|m))?(?=,|/|$)(?P<rest>.*)$",
    re.I,
)
_A_NAMED = re.compile(r"\b(an? (?:[\w-]+ )?[a-z-]+), ([A-ZÀ-Þ][\w'-]+)(,|$|\.)")
_THE_FAMILY = re.compile(
    r"\b[Tt]he (twins|kids|boys|girls|baby|toddler|wife|husband|missus|in-laws|grandkids|grandchildren|other half)\b(?!')"
)
_ASIDE = re.compile(
    r", (?:for my sins|to be honest|by the way|as it happens|as you know|of course|in fact|believe it or not|i think|i guess|i suppose|apparently|sadly|unfortunately|luckily|thankfully|if you like|as always|as usual|weirdly|oddly enough|bless (?:him|her|them)|so to speak), ",
    re.I,
)
_CLEFT = re.compile(r"\b(?:[Ii]t is|[Ii]t was) ([A-Z][\w'-]+|(?:my|our) \w+(?: [A-Z]\w+)?) (?:who|that) ")
_THINGS = re.compile(
    r"^(?:the )?(?:things|stuff|foods?|people|places|languages|instruments|books|games|shows|meds|medications|tools|apps|sports) (?:that |which )?(i|we) ((?:\w+ )?\w+):? (?=\w)",
    re.I,
)
_CARRIES = re.compile(r"\b(?:i|me|my|we|us|our|mine)\b", re.I)
_RHETORICAL = re.compile(
    r"^(?:\W|so |and )*(?:would|can|could) you believe|^did you know|^guess what|^you know what", re.I
)
_THIS_IS = re.compile(
    r"^(?:this is|it is|that is|his name is|her name is|(?:she|he|they) (?:is|are) called|name is|named|called) (?P<name>[A-Z][\w'-]+)(?=$|[,.])"
)
_IT_IS_FOR = re.compile(
    r"^(?:it is|this is|that is|they are|it would be|asking|is) (?:for|about) (?P<who>(?:my|our) .{2,60})$", re.I
)
_FICTION = re.compile(
    r"\b(?:put my foot down|walks? into a bar|knock knock|in (?:my|the) (?:novel|story|book|campaign)|in chapter|the protagonist|my protagonist|backstory|plot twist)\b",
    re.I,
)
_APPOSITIVE = re.compile(
    r"\b((?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]he)(?: [\w'-]+){1,3}), ([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?),(?= [a-z])"
)
_IN_BRACKETS = re.compile(r"\b([a-z-]+) \(([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?)\)(?= )")
_NAME_FIRST = re.compile(r"\b([A-Z][\w'-]+), ((?:my|our) [\w' -]{2,30}?), (?=[a-z])")


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
    if talk.own and talk.about_self:
        talk.drafts.extend(talk.waiting)
    talk.waiting.clear()
    for place in range(before, len(talk.drafts)):
        draft = talk.drafts[place]
        draft.text = cleaned.restore(draft.text)
    talk.drafts[before:] = [
        draft for draft in talk.drafts[before:] if draft.rule == "standing" or not _quotes_much(draft.text)
    ]
    talk.commanded = talk.asks and not talk.about_self and len(talk.drafts) == before
    talk.opened = cleaned.restore(cleaned.text)[:2000]


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
            r"[Uu]ser (?:story|guide|manual|interface|input|id|name|stor|experience|agent|acceptance|research|group|data)\b",
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
    if scene.is_joke(raw[: scene.HEAD]) or scene.is_what_if(text):
        return
    if dropping.is_task(text) or scene.is_homework(text) or scene.is_role(text):
        talk.task = True
        _task_rest(text, at, talk)
    elif scene.is_fiction(text):
        talk.task = True
    elif not scene.is_sum(text):
        _english(text, at, talk)


def _task_rest(text: str, at: int, talk: Discourse) -> None:
    """Of a message that brings a text, only what its request says of the user before a colon ("for my sister Ana: ...")."""
    head = text.split(":", 1)[0] if ":" in text else ""
    if head and re.search(r"\bfor (?:my|our)\b", head):
        talk.drafts.extend(presupposed.read(head, talk, at))


def _english(text: str, at: int, talk: Discourse) -> None:
    frames = questions.read(talk.assistant) if talk.assistant else []
    reply = bool(talk.assistant)
    if reply and not talk.task:
        replies.hear(talk)
        talk.own = talk.own or any(re.match(r"(?:I|my)\b", frame.statement) for frame in frames)
    if talk.commanded and not talk.about_self and not frames:
        return
    for number, sentence in enumerate(_unbracketed(sentences.split(text))):
        sentence = replace(sentence, text=_normal(sentence.text))
        if _FICTION.search(sentence.text) and not re.search(r"\b(?:is|are) (?:called|named)\b", sentence.text):
            continue
        if sentence.header and not sentence.question:
            _head(sentence.text, talk)
            continue
        if _special(sentence, at, talk):
            frames = []
            continue
        if talk.pending and re.match(
            r"(?:he|she) (?:is|has|was|just|only|still)\b", dropping.strip_openers(sentence.text), re.I
        ):
            talk.drafts.extend(presupposed.unnamed(talk, at))
        if talk.task and len(sentence.text) < 80 and not re.search(r"\b(?:I|my|we|our)\b", sentence.text):
            continue
        if reply and number < 3 and not sentence.question:
            left = replies.read(sentence, frames, at, talk, number == 0)
            if left is None:
                continue
            sentence = replace(sentence, text=left)
        _plain(sentence, at, talk)


_BRACKETS = re.compile(r"\s*\(([^()]{1,300})\)")


def _unbracketed(found: list[sentences.Sentence]) -> list[sentences.Sentence]:
    """Long asides in brackets taken out of their sentence and put behind it."""
    out: list[sentences.Sentence] = []
    for sentence in found:
        asides = [aside for aside in _BRACKETS.findall(sentence.text) if "," in aside or len(aside.split()) > 4]
        text = sentence.text
        for aside in asides:
            text = text.replace(f"({aside})", " ")
        out.append(replace(sentence, text=" ".join(text.split())) if asides else sentence)
        out.extend(sentences.Sentence(aside) for aside in asides if grammar.subject_of(aside.split()) == "first")
    return out


def _head(text: str, talk: Discourse) -> None:
    """A line before a list: what its items are about."""
    label = re.sub(
        r"^(?:here (?:is|are)|this is|these are|below (?:is|are)) ", "", dropping.strip_openers(text), flags=re.I
    )
    label = re.sub(r" (?:for (?:context|reference|info)|so far|below|etc)$", "", label, flags=re.I)
    if fragments.is_label(label):
        talk.topic = talk.thing = fragments.owned_label(label, talk)
        talk.own = True


def _normal(text: str) -> str:
    text = _THE_FAMILY.sub(r"my \1", text)
    text = _ASIDE.sub(" ", text)
    text = _CLEFT.sub(r"\1 ", text)
    text = _THINGS.sub(r"\1 \2 ", text) if ":" in text[:60] else text
    text = _A_NAMED.sub(
        lambda m: (
            f"{m.group(1)} named {m.group(2)}{m.group(3)}"
            if m.group(1).split()[-1] in people.relation_nouns()
            else m.group()
        ),
        text,
    )
    text = _APPOSITIVE.sub(r"\1 \2", text)
    text = _NAME_FIRST.sub(r"\2 \1 ", text)
    return _IN_BRACKETS.sub(r"\1 \2", text)


def _special(sentence: sentences.Sentence, at: int, talk: Discourse) -> bool:
    """Forgetting, corrections and procedures: sentences that are read whole."""
    text = dropping.strip_openers(sentence.text)
    last = next((draft.text for draft in reversed(talk.drafts) if not draft.forget), "")
    asked = forget.read(text, talk.who, last)
    if asked:
        talk.drafts.append(Draft(asked, (at,), "forget", 0.9, forget=True))
        return True
    if sentence.question:
        return False
    if corrections.read(sentence.text, talk, at):
        return True
    known = _introduced(text, at, talk)
    if known is not None:
        if known:
            _plain(replace(sentence, text=known), at, talk)
        return True
    moved = _MOVE.match(text)
    if moved and corrections.typed(moved.group("when")):
        talk.drafts.append(Draft(_moved(moved, talk), (at,), "rescheduled", 0.8))
        return True
    if _labelled(text, at, talk):
        return True
    steps = procedures.read(text, talk.who)
    if steps:
        talk.drafts.extend(Draft(step, (at,), "procedure", 0.8, procedural=True) for step in steps)
        talk.own = True
    return bool(steps)


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
    if procedures.is_process(match.group("label")) and procedures.is_sequence(rest):
        return False
    pieces = [part for part in re.split(r",(?!\d)\s*(?:and |then )*|\s+\+\s+", rest) if part.strip()]
    if any(clauses.has_verb(piece) and grammar.subject_of(piece.split()) for piece in pieces[:1]):
        return False
    talk.drafts.extend(fragments.labelled(match.group("label"), pieces, talk, at))
    return True


# ------------------------------------------------------------------ statements, questions and requests


def _plain(sentence: sentences.Sentence, at: int, talk: Discourse) -> None:
    if dropping.is_hypothetical(sentence.text):
        return
    text = dropping.strip_openers(sentence.text)
    meant = _IT_IS_FOR.match(text)
    if meant:
        who, _, more = meant.group("who").partition(",")
        if re.match(r" ?[A-Z]", more) or not more:
            who, more = meant.group("who"), ""
        talk.drafts.extend(presupposed.bearer(who, talk, at))
        if not more:
            return
        text = more.strip()
    named = _THIS_IS.match(text)
    if named and talk.pending:
        talk.drafts.extend(presupposed.named(named.group("name"), talk, at))
        text = text[named.end() :].strip(" ,")
        if not text:
            return
    if sentence.question and _RHETORICAL.match(sentence.text):
        sentence = replace(sentence, question=False)
    if sentence.question:
        text = dropping.without_tag(text) if dropping.is_question(text, False) is False else text
    pieces = clauses.split(text, names=talk.known_names())
    pieces = _merged(pieces)
    if len(pieces) > 1 and not sentence.question and (lasting := standing.whole(text, talk.who)):
        talk.drafts.append(Draft(lasting, (at,), "standing", 0.85))
        talk.own = True
        return
    state = statements.Sentence(at)
    asking = ordered = False
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        order = standing.read(dropping.strip_openers(piece.text), talk.who)
        if not order and ordered and standing.continues(dropping.strip_openers(piece.text)):
            order = f"{talk.who} wants the assistant to {statements.finish(dropping.strip_openers(piece.text), talk)[:1].lower()}{statements.finish(dropping.strip_openers(piece.text), talk)[1:]}"
        ordered = bool(order)
        if order and not sentence.question:
            talk.drafts.append(Draft(order, (at,), "standing", 0.85))
            talk.own = True
            continue
        marked = sentence.question and last
        if dropping.is_hypothetical(piece.text) and number == 0:
            return
        if dropping.is_question(piece.text, marked) or dropping.is_request(piece.text):
            talk.drafts.extend(presupposed.read(piece.text, talk, at))
            asking = True
            continue
        if (
            not last
            and grammar.bare(piece.text.split()[0]) in lexicon.words("prepositions.txt")
            and _asks_next(pieces[number + 1], sentence.question)
        ):
            continue
        if (
            asking
            and grammar.subject_of(piece.text.split()) not in {"first", "noun", "name", "pronoun"}
            and piece.joint != "because"
        ):
            if not statements.self_describing(piece.text):
                continue
        if asking and not _telling(piece.text) and not _CARRIES.search(piece.text):
            parts = piece.text.split()
            if grammar.subject_of(parts) in {"noun", "name"} and grammar.bare(parts[0]) not in talk.names:
                continue
        if marked and sentence.question and not asking and not _telling(piece.text):
            continue
        _statement(piece, at, talk, state, asking)


def _asks_next(piece: clauses.Clause, marked: bool) -> bool:
    return dropping.is_question(piece.text, marked) and grammar.bare(piece.text.split()[0]) not in grammar.FIRST


def _merged(pieces: list[clauses.Clause]) -> list[clauses.Clause]:
    """ "In 2019, I moved": an opening phrase joins its clause if it tells a time or a place, and goes if it tells nothing."""
    if len(pieces) < 2 or pieces[1].joint != ",":
        return pieces
    first, second = pieces[0].text, pieces[1].text
    head = grammar.bare(first.split()[0])
    opening = head in lexicon.words("prepositions.txt") and not clauses.has_verb(first)
    if not opening or grammar.subject_of(second.split()) != "first":
        return pieces
    parts = first.split()
    told = any(
        grammar.is_number(part) or grammar.is_name(part) or grammar.is_time_word(grammar.bare(part)) for part in parts
    )
    text = f"{first}, {second}" if told and len(parts) < 6 else second
    return [clauses.Clause(text, ""), *pieces[2:]]


def _telling(text: str) -> bool:
    """Whether a clause before a question mark still tells something: it speaks of I, my or a known kind of thing."""
    return re.match(r"(?:so |and |but |well )?(?:i|we|my|our)\b", text, re.I) is not None


def _statement(piece: clauses.Clause, at: int, talk: Discourse, state: statements.Sentence, asking: bool) -> None:
    drafts = statements.read(piece.text, piece.joint, talk, state)
    if not drafts and not asking:
        drafts = fragments.read(piece, talk, state)
    talk.drafts.extend(drafts)
    state.kept += len(drafts)
