"""A new value in the place of the one that the assistant named: "no, at Y" to "you work at X, right?"."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import answers, corrections, grammar, people
from perdure.pipeline.extraction.discourse import Discourse, Draft
from perdure.pipeline.extraction.questions import Frame

_THAT_IS = Pattern(
    r"^(?:that is|it is|no,? it is|no,? that is|that would be|you mean|i think you mean) "
    r"(?P<name>[A-Z][\w'-]+(?: [A-Z][\w'-]+)?),? ?(?:actually|not .*|rather|you mean|now|though)?$"
)
_NOT_BUT = Pattern(
    r"^(?:no,? )?not (?:the )?(?P<old>[\w' -]{2,40}?)[,.;-]+ ?(?:but |it is |its |they are |"
    r"that is )*(?:in |on |at |with |for )?(?P<new>[^,.]{1,40})$",
    re.I,
)
_INSTEAD = Pattern(r"^(?P<new>[^,.]{1,40}?),? (?:and )?not (?P<old>[\w' -]{2,40})$", re.I)


def instead(text: str, frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """ "tree nuts, not peanuts" to "you have a peanut allergy": the right word in the wrong one's place."""
    match = _INSTEAD.match(text.strip(" .!")) or _NOT_BUT.match(text.strip(" .!"))
    if match is None:
        return []
    old = match.group("old").strip().rstrip("s")
    found = re.search(rf"\b{re.escape(old)}s?\b", frame.statement, re.I)
    if found is None:
        return []
    return answers.state(
        frame.statement[: found.start()]
        + _without_repeats(answers.value_of(match.group("new")), frame.statement[found.end() :])
        + frame.statement[found.end() :],
        "corrected",
        talk,
        sources,
    )


def _without_repeats(new: str, after: str) -> str:
    """ "the ledger suite" without the article and the noun that the statement has around the place."""
    return _without_tail(re.sub(r"^(?:the|a|an) ", "", new, flags=re.I), after)


def _without_tail(new: str, after: str) -> str:
    words = new.split()
    following = after.split()
    if len(words) > 1 and following and grammar.bare(words[-1]) == grammar.bare(following[0]):
        words.pop()
    return " ".join(words)


def other_person(text: str, frame: Frame) -> str:
    """ "that's Kwame actually" to "is Amara the one with the allergy?": the question's statement said of the other."""
    match = _THAT_IS.match(text.strip(" .!"))
    parts = frame.statement.split()
    if match is None or not parts or not grammar.is_name(parts[0]):
        return ""
    place = 2 if len(parts) > 1 and grammar.is_name(parts[1]) else 1
    return re.sub(r"\bstill ", "", " ".join([match.group("name"), *parts[place:]]))


def _same_kinds(value: str, statement: str) -> tuple[int, int] | None:
    """Where the statement has values of the kinds that the new value has, from the first to the last of them."""
    spans = []
    for _, pattern in corrections.TYPES:
        if pattern.search(value) and (old := pattern.search(statement)):
            spans.append(old.span())
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def is_role(text: str) -> bool:
    """Whether a reply is one word for a person ("orthodontist")."""
    return text.strip(" .,!").lower() in people.relation_nouns()


def replaced(text: str, frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """ "no, at Y" to "you work at X, right?": the question's statement with the new value in the old one's place."""
    value = answers.value_of(text)
    statement = re.sub(r"\bstill ", "", frame.statement)
    if not value or not statement or len(value.split()) > 9:
        return []
    parts = value.split()
    first = grammar.bare(parts[0])
    if first in lexicon.words("prepositions.txt"):
        old = re.search(rf"\b{re.escape(first)} .+$", statement, re.I)
        if old:
            return answers.state(statement[: old.start()] + value, "corrected", talk, sources)
    hour = re.search(r"(?<=\bat )\d{1,2}(?:[:.]\d\d)?(?: ?[ap]m)?(?![\w%])", statement)
    if hour and re.fullmatch(r"\d{1,2}(?:[:.]\d\d)?(?: ?[ap]m)?", value):
        return answers.state(statement[: hour.start()] + value + statement[hour.end() :], "corrected", talk, sources)
    span = _same_kinds(value, statement)
    if span:
        after = statement[span[1] :].split(", ")[0]  # what comes behind a comma was not confirmed
        before = statement[: span[0]]
        new = _without_repeats(value, after) if re.search(r"\b(?:the|an?) $", before) else value
        return answers.state(before + _without_tail(new, after) + after, "corrected", talk, sources)
    role = re.search(r"\bmy (?P<old>[a-z-]+)$", statement)
    if role and is_role(value) and is_role(role.group("old")):
        return answers.state(statement[: role.start("old")] + value, "corrected", talk, sources)
    lonely = len(parts) == 1 and value.isalpha() and not people.is_known_word(first)
    if lonely and (
        place := re.search(
            r"\b(?:in|at|from|to|with|on|use|using|via|for|called|named|is) (?P<old>[A-Z][\w'-]+)$", statement
        )
    ):
        return answers.state(statement[: place.start("old")] + value.capitalize(), "corrected", talk, sources)
    if grammar.is_name(parts[0]) or first in {"a", "an", "the", "my", "our"}:
        object_ = re.search(
            r"\b(?:a|an|the|on|in|at|with|use|using|have|is|am|drive|driving|play|called|named|to|from|"
            r"for) (?P<old>[A-Z][\w'-]*(?: [A-Z0-9][\w'-]*)*)",
            statement,
        )
        if object_:
            return answers.state(
                statement[: object_.start("old")] + value + statement[object_.end("old") :], "corrected", talk, sources
            )
    return []
