"""The first sentences of a reply: what answers or corrects the assistant is read here, the rest is handed back."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.pipeline import lexicon
from perdure.pipeline.extraction import (
    answers,
    clauses,
    corrections,
    dropping,
    grammar,
    people,
    questions,
    sentences,
    statements,
)
from perdure.pipeline.extraction.discourse import Discourse, Draft


def read(
    sentence: sentences.Sentence, frames: list[questions.Frame], at: int, talk: Discourse, first: bool
) -> str | None:
    """What is left of a reply's sentence when the part that answers a question has been read; None if nothing."""
    text = sentence.text
    asked = next((frame for frame in frames if frame.wants == "yesno"), None)
    if first and asked:
        done, text = _yes_no(text, asked, frames, talk, at)
        if done:
            return text or None
    elif first:
        text = (
            answers.YES.sub("", text, count=1)
            if not re.match(r"(?:always|same|true|right|of course) \w", text, re.I)
            else text
        )
        text = (
            answers.NO.sub("", text, count=1)
            if re.match(
                r"(?:no|nope|nah)(?:,|$| (?:i|we|it|he|she|they|my|our|the|that|use|just|make|do) )", text, re.I
            )
            else text
        )
    if not text.strip():
        return None
    if not frames or talk.task:
        return text
    text = (
        next((changed for frame in frames if (changed := answers.with_object(text, frame)) != text), text)
        if first
        else text
    )
    return _fill_pieces(text, frames, at, talk)


def _yes_no(
    text: str, asked: questions.Frame, frames: list[questions.Frame], talk: Discourse, at: int
) -> tuple[bool, str]:
    sources = (talk.assistant_at, at) if talk.assistant_at >= 0 else (at,)
    yes, no = answers.YES.match(text), answers.NO.match(text)
    if yes:
        frames.remove(asked)
        rest = text[yes.end() :].strip()
        changed = (
            answers.replaced(
                re.sub(r"^(?:but|though|only|except|just)[, ]+(?:make (?:it|that) |it is |now |at |only )*", "", rest),
                asked,
                talk,
                (at,),
            )
            if re.match(r"(?:but|though|only)\b", rest) and len(rest.split()) < 9
            else []
        )
        if changed:
            talk.drafts.extend(changed)
            return True, ""
        if changed := _but_another_value(rest, asked, talk, at):
            talk.drafts.extend(changed)
            return True, rest.split(",", 1)[1] if "," in rest else ""
        if not talk.task:
            talk.drafts.extend(answers.confirm(asked, talk, sources))
        talk.topic = _own_label(asked, talk) or talk.topic
        return True, answers.with_object(rest, asked) if rest else ""
    if no:
        frames.remove(asked)
        rest = text[no.end() :].strip()
        wrong = re.match(r"(?:person|one|guy|user|number)\b", rest, re.I)
        pieces = re.split(r",\s+", rest, maxsplit=1)
        changed = (
            []
            if wrong or not pieces[0] or not answers.is_fragment(pieces[0])
            else answers.replaced(pieces[0], asked, talk, (at,))
        )
        if changed:
            talk.drafts.extend(changed)
            return True, pieces[1] if len(pieces) > 1 else ""
        if not wrong and not talk.task and " the assistant" not in asked.statement and not _tells_more(rest):
            talk.drafts.extend(answers.deny(asked, talk, sources))
        return True, "" if wrong else answers.with_object(rest, asked)
    instead = answers.instead(text, asked, talk, sources)
    if instead:
        frames.remove(asked)
        talk.drafts.extend(instead)
        return True, ""
    other = answers.other_person(text, asked)
    if other:
        frames.remove(asked)
        talk.drafts.extend(answers.confirm(replace(asked, statement=other), talk, sources))
        return True, ""
    if answers.is_fragment(text):
        changed = answers.replaced(text, asked, talk, (at,))
        if changed and (corrections.typed(text) or grammar.is_name(text.split(maxsplit=1)[0]) or answers.is_role(text)):
            frames.remove(asked)
            talk.drafts.extend(changed)
            return True, ""
    return False, text


def _but_another_value(rest: str, asked: questions.Frame, talk: Discourse, at: int) -> list[Draft]:
    """ "yes but make it 120, they cut my shifts": the statement with the new value."""
    first = rest.split(",", 1)[0]
    plain = re.sub(r"^(?:but|though|only|except)[, ]+(?:make (?:it|that) |it is |now )*", "", first)
    if plain == first or corrections.typed(plain) is None:
        return []
    return answers.replaced(plain, asked, talk, (at,))


def _tells_more(rest: str) -> bool:
    """Whether something is told after the "no", so that the bare denial is not needed."""
    pieces = clauses.split(rest)
    return any(not dropping.is_chatter(piece.text) and len(piece.text.split()) > 1 for piece in pieces)


def _list_member(words: str) -> bool:
    """Whether a piece is one more noun of a list ("brass bands, crosswords, moaning")."""
    parts = words.split()
    plain = len(parts) <= 2 and all(part.isalpha() for part in parts) and answers.is_fragment(words)
    return plain and grammar.bare(parts[0]) not in lexicon.words("adverbs.txt") | lexicon.words("prepositions.txt") | {
        "no",
        "not",
    }


def _own_label(frame: questions.Frame, talk: Discourse) -> str:
    if not frame.label:
        return ""
    return statements.finish(re.sub(r"^(?:the|a|an) ", "my ", frame.label), talk)


def _fill_pieces(text: str, frames: list[questions.Frame], at: int, talk: Discourse) -> str | None:
    """Fragments between commas go into the questions' gaps, in order; clauses are left to be read as such."""
    left: list[str] = []
    shared: questions.Frame | None = None
    for piece in clauses.split(text, names=talk.known_names()):
        words = dropping.strip_openers(piece.text)
        if shared and not frames and piece.joint in {",", ", and", "and"} and _list_member(words):
            talk.drafts.extend(answers.fill(words, [shared], talk, (at,)))
            continue
        shared = (
            next((frame for frame in frames if frame.has_gap and frame.wants == "what"), None) if not left else None
        )
        if (answers.is_fragment(words) or answers.names_who(words)) and not dropping.is_request(words):
            drafts = answers.fill(words, frames, talk, (at,))
            if drafts:
                talk.drafts.extend(drafts)
                continue
        left.append(f"{piece.joint} {piece.text}" if piece.joint and left else piece.text)
    rest = "".join(part if part.startswith((",", ":")) else f" {part}" for part in left).strip(" ,")
    return rest or None


def _hear_role(talk: Discourse) -> None:
    """ "Did the physio help?": who "she" is in the reply."""
    match = re.search(r"\bthe ([a-z-]+)\b", talk.assistant)
    if match and match.group(1) in people.relation_nouns():
        talk.meet(f"{talk.who}'s {match.group(1)}", "n")


_ASKED_OF = re.compile(
    r"\b(?:[Dd]id|[Ii]s|[Hh]as|[Dd]oes|[Ww]as|[Ww]ill|[Hh]ow is|[Hh]ow did|[Hh]ow has|"
    r"[Hh]ow about) (?P<name>[A-ZÀ-Þ][a-zà-ÿ]+)(?:'s)?\b[^.?]*\?"
)


def hear(talk: Discourse) -> None:
    """What the assistant's words make known: that they are about the user's things, and which one."""
    asked_of = _ASKED_OF.search(talk.assistant[-400:])
    if asked_of and not talk.person and grammar.is_name(asked_of.group("name")):
        name = asked_of.group("name")
        talk.meet(talk.names.get(name.lower(), name), "n")
    if (
        re.search(
            r"\byour\b|\byou(?:'re| are| have|'ve) |\bI have (?:booked|set|noted|scheduled|put|added|moved|"
            r"saved|got)\b",
            talk.assistant,
            re.I,
        )
        is None
    ):
        _hear_role(talk)
        return
    talk.own = True
    for said in sentences.split(talk.assistant[-800:]):
        people.note_people(questions.swap(said.text), talk)
    match = re.search(
        r"\b(?:your|the) ((?:[\w'-]+ ){0,3}?[\w'-]+) (?:to|is|are|as|at|on|for|still|remains?|stays?|$)|"
        r"\b(?:your) ((?:[\w'-]+ ){0,2}?[\w'-]+)[?.]",
        talk.assistant,
    )
    if match and not talk.topic:
        talk.topic = talk.thing = f"{talk.who}'s {match.group(1) or match.group(2)}"
