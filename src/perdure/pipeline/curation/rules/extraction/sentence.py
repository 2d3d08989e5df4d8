"""One sentence that is not special: each of its clauses is an instruction, a question, a request or a statement."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import (
    filters,
    fragments,
    grammar,
    instructions,
    sentences,
    statements,
    subjects,
)
from perdure.pipeline.curation.rules.extraction.dialogue import presupposed
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.lexicon import word_set

_CARRIES = Pattern(r"\b(?:i|me|my|we|us|our|mine)\b", re.I)
_RHETORICAL = Pattern(
    r"^(?:\W|so |and )*(?:would|can|could) you believe|^did you know|^guess what|^you know what", re.I
)
_THIS_IS = Pattern(
    r"^(?:this is|it is|that is|his name is|her name is|(?:she|he|they) (?:is|are) called|name is|named|"
    r"called) (?P<name>[A-Z][\w'-]+)(?=$|[,.])"
)
_IT_IS_FOR = Pattern(
    r"^(?:it is|this is|that is|they are|it would be|asking|is) (?:for|about) (?P<who>(?:my|our) .{2,60})$", re.I
)


def read(sentence: sentences.Sentence, at: int, talk: Discourse) -> None:
    """Read one sentence; its facts are appended to `talk.drafts`."""
    order = None if sentence.question else _wish(filters.strip_openers(sentence.text), talk)
    if order:
        _order(order, at, talk)
        return
    if filters.is_hypothetical(sentence.text):
        talk.drafts.extend(presupposed.aside(sentence.text, at, talk))
        return
    text = _meant(filters.strip_openers(_PLANNED.sub(_plan, _ASKING_BECAUSE.sub(_reason, sentence.text))), at, talk)
    if not text:
        return
    if sentence.question and _RHETORICAL.match(sentence.text):
        sentence = replace(sentence, question=False)
    if sentence.question and not filters.is_question(text, False):
        text = filters.without_tag(text)
    pieces = _merged(sentences.split_clauses(text))
    if len(pieces) > 1 and not sentence.question and (lasting := instructions.whole(text, talk.who)):
        _order(lasting, at, talk)
        return
    state = statements.Sentence(at)
    mood = _Mood(sentence.question)
    for number, piece in enumerate(pieces):
        following = pieces[number + 1] if number + 1 < len(pieces) else None
        if (
            number == 0
            and filters.is_hypothetical(piece.text)
            and not instructions.read_instruction(piece.text, talk.who)
        ):
            return
        if _goes_on(piece, state, mood) or not _asked(piece, following, mood, at, talk):
            _statement(piece, at, talk, state, mood.asking)


_ASKING_BECAUSE = Pattern(
    r"^(?:so |and )?(?:(?:I|i) (?:only |just |mostly )?ask|(?:(?:I am|i am|i'm) )?(?:only |just |mostly )?(?:asking|"
    r"speaking|saying this|curious)|(?:the )?(?:only )?reason (?:why )?(?:I|i)(?: am|'m)? ask(?:ing)?(?: is)?),? "
    r"(?:because |since |cause |bc |that )?(?P<as>(?:as|being) (?:someone|somebody|one) who (?:is )?)?"
    r"(?P<next>(?:I|i|my|we|our)\b(?! was (?:curious|wondering))|(?<=who )[a-z]+|(?<=is )[a-z]+)"
)
"""Why somebody asks: "I ask because I volunteer", "asking as someone who works nights"."""


def _reason(match: re.Match[str]) -> str:
    """The opening of the reason alone: "I volunteer", "I works nights" (the third person comes right later)."""
    if not match.group("as"):
        return match.group("next")
    first = match.group("next")
    return f"I am {first}" if match.group("as").endswith("is ") else f"I {grammar.thirds().get(first, first)}"


_PLANNED = Pattern(
    r"^(?P<how>tentatively|provisionally)(?:[:,]| -) ?(?! ?(?:i|we|my|our|the|he|she|it|they)\b)"
    r"(?=.*(?:\d|[A-ZÀ-Þ]|day\b|week|month))",
    re.I,
)


def _plan(match: re.Match[str]) -> str:
    """ "Tentatively: Luang Prabang mid January" as a statement, still uncertain."""
    return f"I {match.group('how').lower()} plan "


def _wish(text: str, talk: Discourse) -> str | None:
    """A whole sentence that says how the assistant is to answer."""
    return instructions.conditional(text, talk.who) or instructions.read_style(text, talk.who, own=talk.own)


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


def _meant(text: str, at: int, talk: Discourse) -> str:
    """What is left of a sentence that first says of whom a question spoke ("it's for my sister")."""
    meant = _IT_IS_FOR.match(text)
    if meant:
        who, _, more = meant.group("who").partition(",")
        if re.match(r" ?[A-Z]", more) or not more:
            who, more = meant.group("who"), ""
        talk.drafts.extend(presupposed.bearer(who, talk, at))
        text = more.strip()
    named = _THIS_IS.match(text)
    if named and talk.pending:
        talk.drafts.extend(presupposed.named(named.group("name"), talk, at))
        text = text[named.end() :].strip(" ,")
    return text


def _order(order: str, at: int, talk: Discourse) -> None:
    talk.drafts.append(Draft(order, (at,), "standing", 0.85))
    talk.own = True


def _asked(piece: sentences.Clause, following: sentences.Clause | None, mood: _Mood, at: int, talk: Discourse) -> bool:
    """Whether the clause is an instruction, a question or a request, or belongs to one; then it has been dealt with."""
    words = filters.strip_openers(piece.text)
    order = None if mood.marked else instructions.read_instruction(words, talk.who) or _manner(piece, talk)
    if not order and mood.ordered and instructions.continues(words):
        more = statements.finish(words, talk)
        order = f"{talk.who} wants the assistant to {more[:1].lower()}{more[1:]}"
    never = _NEVER.match(words) if mood.ordered and not order else None
    if never:
        order = f"{talk.who} does not want {never.group('what')}"
    mood.ordered = bool(order)
    if order:
        _order(order, at, talk)
        return True
    marked = mood.marked and following is None
    if filters.is_question(piece.text, marked) or filters.is_request(piece.text):
        talk.drafts.extend(presupposed.read(piece.text, talk, at))
        asked = _ASKED_OF.search(_OF_A_TIME.sub("", piece.text.strip(" ?.")))
        talk.asked = asked.group(1) if asked else ""
        mood.asking = True
        return True
    head = grammar.bare(piece.text.split()[0])
    if following and head in lexicon.words("prepositions.txt") and _asks_next(following, mood.marked):
        return True
    return _belongs_to_question(piece, head, marked, mood, talk)


def _manner(piece: sentences.Clause, talk: Discourse) -> str | None:
    """ "(I skim everything,) so short answers please", and "tables only" among other clauses."""
    joint = piece.joint.strip(", ")
    own = talk.own or talk.about_self
    return instructions.read_style(f"{joint} {piece.text}" if joint == "so" else piece.text, talk.who, own=own)


_NEVER = Pattern(r"^(?:but |and )?(?:never|no|not(?! the\b| an?\b)) (?P<what>(?!more than\b)[\w' -]{2,30})$", re.I)
"""Behind an instruction: what it shall not be ("assume zsh, never powershell")."""
_OF_A_TIME = Pattern(r" (?:from|built in|of|since|in) (?:the )?\d{4}s?$")
_ASKED_OF = Pattern(r"\b(?:for|with|about|of|in|help|the|a|an|my|on) ([a-z]{3,}(?: [a-z]{3,})?)$")


def _belongs_to_question(piece: sentences.Clause, head: str, marked: bool, mood: _Mood, talk: Discourse) -> bool:
    kind = grammar.subject_of(piece.text.split())
    if mood.asking:
        timed = any(grammar.is_time_word(grammar.bare(part)) or grammar.is_number(part) for part in piece.text.split())
        if not kind and timed and head in word_set("telling.journeys"):
            return False
        if not kind and piece.joint != "because" and not statements.self_describing(piece.text):
            return True
        personal = _telling(piece.text) or _CARRIES.search(piece.text)
        parts = piece.text.split()
        owned = subjects.is_personal(parts[: max(1, grammar.find_verb(parts))])
        if kind == "noun" and owned and (timed or (talk.own and head == "the")):
            return False
        return kind in {"noun", "name"} and not personal and head not in talk.names
    return marked and not _telling(piece.text)


def _asks_next(piece: sentences.Clause, marked: bool) -> bool:
    return filters.is_question(piece.text, marked) and grammar.bare(piece.text.split()[0]) not in grammar.FIRST


def _merged(pieces: list[sentences.Clause]) -> list[sentences.Clause]:
    """ "In 2019, I moved": an opening phrase joins its clause if it tells a time or a place, else goes."""
    if len(pieces) < 2 or pieces[1].joint != ",":
        return pieces
    first, second = pieces[0].text, pieces[1].text
    head = grammar.bare(first.split()[0])
    opening = head in lexicon.words("prepositions.txt") and not sentences.has_verb(first)
    if not opening or grammar.subject_of(second.split()) != "first":
        return pieces
    parts = first.split()
    text = f"{first}, {second}" if statements.holds_value(parts) and len(parts) < 6 else second
    return [sentences.Clause(text, ""), *pieces[2:]]


def _telling(text: str) -> bool:
    """Whether a clause before a question mark still tells something: it speaks of I, my or a known kind of thing."""
    return re.match(r"(?:so |and |but |well )?(?:i|we|my|our)\b", text, re.I) is not None


def _mine(text: str, talk: Discourse) -> str:
    """ "Mine are in pots" after "the best soil for blueberries?": "my blueberries are in pots"."""
    match = _OWN_ONE.match(text)
    if talk.asked and match:
        return f"{'our' if match.group().lower() == 'ours' else 'my'} {talk.asked}{text[match.end() :]}"
    left = _ONLY_NOW.match(text) if talk.own else None
    return f"I have only {left.group('what')} {left.group('now')}" if left else text


_ONLY_NOW = Pattern(
    r"it is (?:only|just|all|mostly|strictly|nothing but) (?!me\b|my|that\b|a (?:matter|question|bit)\b|because\b|so\b|"
    r"[a-z]+ing\b|about\b|for\b|in\b|on\b|the\b|too\b)(?P<what>[\w' ,&-]{3,60}?) (?P<now>now|these days|nowadays)$",
    re.I,
)
"""What is left after a change: "quit league in Feb, it's only Stardew and Balatro now"."""
_OWN_ONE = Pattern(r"(?:mine|ours)\b(?!')", re.I)


def _statement(piece: sentences.Clause, at: int, talk: Discourse, state: statements.Sentence, asking: bool) -> None:
    drafts = statements.read(_mine(piece.text, talk), piece.joint, talk, state)
    if not drafts and not asking:
        drafts = fragments.read(piece, talk, state)
    talk.drafts.extend(drafts)
    state.kept += len(drafts)
