"""The first sentences of a reply: what answers or corrects the assistant is read here, the rest is handed back."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, filters, grammar, sentences
from perdure.pipeline.curation.rules.extraction.dialogue import answers, corrections, questions
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.extraction.dialogue.questions import Frame

# A new value in the place of the one that the assistant named: "no, at Y" to "you work at X, right?".


def _same_kinds(value: str, statement: str) -> tuple[int, int] | None:
    """Where the statement has values of the kinds that the new value has, from the first to the last of them."""
    spans = []
    for _, pattern in corrections.TYPES:
        if pattern.search(value) and (old := pattern.search(statement)):
            spans.append(old.span())
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def is_role(text: str) -> bool:
    """Whether a reply is one word for a person ("orthodontist")."""
    return text.strip(" .,!").lower() in coreference.relation_nouns()


def replaced(text: str, frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """ "no, at Y" to "you work at X, right?": the question's statement with the new value in the old one's place."""
    value = answers.value_of(text)
    statement = re.sub(r"\bstill ", "", frame.statement)
    if not value or not statement or len(value.split()) > 9:
        return []
    first = grammar.bare(value.split()[0])
    if first in lexicon.words("prepositions.txt"):
        old = re.search(rf"\b{re.escape(first)} .+$", statement, re.I)
        if old:
            return answers.state(statement[: old.start()] + value, "corrected", talk, sources)
    span = _same_kinds(value, statement)
    if span:
        after = statement[span[1] :].split(", ")[0]  # what comes behind a comma was not confirmed
        before = statement[: span[0]]
        repeated = re.search(r"\b(?:the|an?) $", before) is not None
        new = re.sub(r"^(?:the|a|an) ", "", value, flags=re.I) if repeated else value
        return answers.state(before + new + after, "corrected", talk, sources)
    return []


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
    return _fill_pieces(text, frames, at, talk)


def _yes_no(
    text: str, asked: questions.Frame, frames: list[questions.Frame], talk: Discourse, at: int
) -> tuple[bool, str]:
    """Whether a reply answers a yes-or-no question, and what is left of it."""
    sources = (talk.assistant_at, at) if talk.assistant_at >= 0 else (at,)
    yes, no = answers.YES.match(text), answers.NO.match(text)
    if yes:
        frames.remove(asked)
        rest = text[yes.end() :].strip()
        if changed := _but_another_value(rest, asked, talk, at):
            talk.drafts.extend(changed)
            return True, rest.split(",", 1)[1] if "," in rest else ""
        if not talk.task:
            talk.drafts.extend(answers.confirm(asked, talk, sources))
        return True, rest
    if no:
        frames.remove(asked)
        rest = text[no.end() :].strip()
        first, _, more = rest.partition(", ")
        changed = replaced(first, asked, talk, (at,)) if answers.is_fragment(first) else []
        if changed:
            talk.drafts.extend(changed)
            return True, more
        return True, rest
    return _another_value(text, asked, frames, talk, at)


def _another_value(
    text: str, asked: questions.Frame, frames: list[questions.Frame], talk: Discourse, at: int
) -> tuple[bool, str]:
    """A bare new value ("Mondays, please, and in print") in the place of the one that the assistant named."""
    first = _UNTIL_NOW.sub("", text)
    if not answers.is_fragment(first):
        first, _, more = text.partition(",")
        first, more = _UNTIL_NOW.sub("", first), more.strip()
    else:
        more = ""
    if not first or not answers.is_fragment(first):
        return False, text
    changed = replaced(first, asked, talk, (at,))
    head = first.split(maxsplit=1)[0]
    if not changed or not (corrections.typed(first) or grammar.is_name(head) or is_role(first)):
        return False, text
    frames.remove(asked)
    talk.drafts.extend(changed)
    return True, re.sub(r"^please\b[ ,]*", "", more)


_UNTIL_NOW = Pattern(
    r"(?:,? (?:please|pls|these days|now|nowadays|from now on|since (?:[a-z]+|last \w+)|as of \w+|lately|instead|"
    r"actually|for now))+$",
    re.I,
)


def _but_another_value(rest: str, asked: questions.Frame, talk: Discourse, at: int) -> list[Draft]:
    """ "yes but make it 120, they cut my shifts": the statement with the new value."""
    first = rest.split(",", 1)[0]
    plain = re.sub(r"^(?:but|though|only|except)[, ]+(?:make (?:it|that) |it is |now )*", "", first)
    if plain == first or corrections.typed(plain) is None:
        return []
    return replaced(plain, asked, talk, (at,))


def _fill_pieces(text: str, frames: list[questions.Frame], at: int, talk: Discourse) -> str | None:
    """Fragments between commas go into the questions' gaps, in order; clauses are left to be read as such."""
    left: list[str] = []
    for piece in sentences.split_clauses(text):
        words = filters.strip_openers(piece.text)
        if answers.is_fragment(words) and not filters.is_request(words):
            drafts = answers.fill(words, frames, talk, (at,))
            if drafts:
                talk.drafts.extend(drafts)
                continue
        left.append(f"{piece.joint} {piece.text}" if piece.joint and left else piece.text)
    rest = "".join(part if part.startswith((",", ":")) else f" {part}" for part in left).strip(" ,")
    return rest or None


_ASKED_OF = Pattern(
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
        return
    talk.own = True
    for said in sentences.split_sentences(talk.assistant[-800:]):
        coreference.note_people(questions.swap(said.text), talk)
