"""The first sentences of a reply: what of them answers or corrects the assistant is read here, the rest is handed back."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.pipeline.extraction import answers, clauses, corrections, dropping, questions, sentences, statements
from perdure.pipeline.extraction.discourse import Discourse


def read(
    sentence: sentences.Sentence, frames: list[questions.Frame], at: int, talk: Discourse, first: bool
) -> str | None:
    """What is left of a reply's sentence when the part that answers a question has been read; None if nothing."""
    text = sentence.text
    sources = (talk.assistant_at, at) if talk.assistant_at >= 0 else (at,)
    asked = next((frame for frame in frames if frame.wants == "yesno"), None)
    if first and asked:
        done, text = _yes_no(text, asked, frames, talk, at, sources)
        if done:
            return text or None
    elif first:
        text = (
            answers.YES.sub("", text, count=1)
            if not re.match(r"(?:always|same|true|right|of course) \w", text, re.I)
            else text
        )
        text = (
            answers.NO.sub("", text, count=1) if re.match(r"(?:no|nope|nah)(?:,|$| i | we | it )", text, re.I) else text
        )
    if not text.strip():
        return None
    if not frames or talk.task:
        return text
    return _fill_pieces(text, frames, at, talk)


def _yes_no(
    text: str, asked: questions.Frame, frames: list[questions.Frame], talk: Discourse, at: int, sources: tuple[int, ...]
) -> tuple[bool, str]:
    yes, no = answers.YES.match(text), answers.NO.match(text)
    if yes:
        frames.remove(asked)
        if not talk.task:
            talk.drafts.extend(answers.confirm(asked, talk, sources))
        talk.topic = _own_label(asked, talk) or talk.topic
        return True, text[yes.end() :]
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
        if not wrong and not talk.task and not re.search(r"\bthe assistant\b", asked.statement):
            talk.drafts.extend(answers.deny(asked, talk, sources))
        return True, "" if wrong else answers.with_object(rest, asked)
    other = answers.other_person(text, asked)
    if other:
        frames.remove(asked)
        talk.drafts.extend(answers.confirm(replace(asked, statement=other), talk, sources))
        return True, ""
    if answers.is_fragment(text):
        changed = answers.replaced(text, asked, talk, (at,))
        if changed and corrections.typed(text):
            frames.remove(asked)
            talk.drafts.extend(changed)
            return True, ""
    return False, text


def _own_label(frame: questions.Frame, talk: Discourse) -> str:
    if not frame.label:
        return ""
    return statements.finish(re.sub(r"^(?:the|a|an) ", "my ", frame.label), talk)


def _fill_pieces(text: str, frames: list[questions.Frame], at: int, talk: Discourse) -> str | None:
    """Fragments between commas go into the questions' gaps, in order; clauses are left to be read as such."""
    left: list[str] = []
    for piece in clauses.split(text, names=talk.known_names()):
        words = dropping.strip_openers(piece.text)
        if answers.is_fragment(words) and not dropping.is_request(words):
            drafts = answers.fill(words, frames, talk, (at,))
            if drafts:
                talk.drafts.extend(drafts)
                continue
        left.append(f"{piece.joint} {piece.text}" if piece.joint and left else piece.text)
    rest = "".join(part if part.startswith((",", ":")) else f" {part}" for part in left).strip(" ,")
    return rest or None


def hear(talk: Discourse) -> None:
    """What the assistant's words make known: that they are about the user's things, and which one."""
    if re.search(r"\byour\b|\byou(?:'re| are| have|'ve) ", talk.assistant, re.I) is None:
        return
    talk.own = True
    match = re.search(
        r"\b(?:your|the) ((?:[\w'-]+ ){0,3}?[\w'-]+) (?:to|is|are|as|at|on|for|still|remains?|stays?)\b", talk.assistant
    )
    if match and not talk.topic:
        talk.topic = talk.thing = f"{talk.who}'s {match.group(1)}"
