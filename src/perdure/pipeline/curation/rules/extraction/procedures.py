"""Ways of doing things: steps whose order matters stay one fact, rules that stand by themselves become one each."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.extraction import grammar

_HEAD = (
    Pattern(r"^(?:to|in order to) (?P<goal>\w+[^:,]{1,80})[:,] ?(?P<steps>.+)$", re.I),
    Pattern(r"^how (?:we|i) (?P<goal>\w+[^:,]{0,60})[:=,-] ?(?P<steps>.+)$", re.I),
    Pattern(
        r"^for (?P<noun>(?:the|a|an|our|my|every|each|any) [^,:]{2,60}?),? (?:you|we|i) (?:(?:always|first|"
        r"just|usually) )?(?:have to|must|need to|should|then)? ?(?P<steps>.+)$",
        re.I,
    ),
    Pattern(
        r"^(?P<when>(?:when|whenever|once|after|before|every time|each time|if) [^,:]{4,90}?)(?:: (?=[^,]+,)|, | "
        r"(?=(?:we|you) (?:call|ring|first|always|then|do|send|check|close|open|log|ask|tell|use|go|must|"
        r"have to)))(?P<steps>(?:we|i|you|always|first|must|the|it|they|then|someone|everybody|[A-Z][a-z]+ [a-z]+s|"
        r"everyone)\b.+|(?<=: ).+)$",
        re.I,
    ),
    Pattern(
        r"^(?P<name>(?:the |my |our )?(?:[\w'-]+ ){0,4}(?:process|procedure|routine|recipe|workflow|steps|"
        r"checklist|protocol|pipeline|drill|ritual|method|flow|sequence|handover|onboarding|lock-?up|shutdown|"
        r"rollback)(?: (?:for|from|at|on|with) [\w' -]{2,30})?)(?: "
        r"(?:is|goes)(?: as follows| like this)?|:| =|,) ?:? ?(?P<steps>.+)$",
        re.I,
    ),
    Pattern(
        r"^(?P<name>[^,:]{3,80}?)(?: goes| works| is done| runs)? (?:like (?:this|so)|as follows|"
        r"this way)[:.,]? (?P<steps>.+)$",
        re.I,
    ),
    Pattern(
        r"^(?P<name>[a-z]+ing(?: (?:up|down|out|off|in))?(?: (?:the|a|an|my|our) [\w -]{2,30}?)?): "
        r"(?P<steps>[a-z]+ [^,]*,.+)$",
        re.I,
    ),
    Pattern(r"^for (?P<noun>(?:[a-z-]+ ){0,2}?[a-z-]+),? (?:we|i|you) (?P<steps>[a-z]+ [^,]+,[^,]+,.+)$", re.I),
    Pattern(r"^for (?P<noun>[^,:]{3,60}): (?P<steps>[^:]+,[^:]*\bthen\b.+)$", re.I),
    Pattern(r"^(?P<name>first(?:ly)?),? (?P<steps>(?:we|i|you) .+\bthen\b.+)$", re.I),
    Pattern(r"^(?:the way (?:i|we) (?P<goal>\w+[^:]{1,60})(?: is)?[:,-]) ?(?P<steps>.+)$", re.I),
)
_SEQUENCE = Pattern(
    r"\b(?:then|first|finally|afterwards?|next|before|after|until|lastly|step \d|and only then|second)\b|->|>", re.I
)


_ORDERED = Pattern(r"\bthen\b|->|\bfinally\b|\blastly\b", re.I)


def read(sentence: str, who: str) -> list[str]:
    """The procedure in a sentence, whole or one fact a rule; [] if it is none."""
    for pattern in _HEAD:
        match = pattern.match(sentence)
        if match and _is_steps(match, sentence):
            return _facts(match, who)
    return []


def is_process(label: str) -> bool:
    """Whether a label names a way of doing ("new eczema routine")."""
    return bool(
        re.search(
            r"\b(?:process|procedure|routine|workflow|protocol|recipe|method|ritual|drill|flow|sequence|lock-?up|"
            r"shutdown|rollback)\b|^[a-z]+ing (?:up|down|out|off)\b",
            label,
            re.I,
        )
    )


def is_sequence(steps: str) -> bool:
    """Whether steps are told in their order."""
    return _SEQUENCE.search(steps) is not None


def _is_steps(match: re.Match[str], sentence: str) -> bool:
    groups = match.groupdict()
    steps = match.group("steps")
    if groups.get("when") or groups.get("noun"):
        return _enough(steps) or bool(
            groups.get("when")
            and re.match(r"(?:when|whenever|every time|each time|before|after|once)", sentence, re.I)
            and re.match(r"(?:we|i|you|always|first)\b", steps, re.I)
        )
    if groups.get("goal") and sentence.lower().startswith(("to ", "in order")):
        first = grammar.bare(match.group("goal").split()[0])
        return (
            (first in grammar.bases() or _ORDERED.search(steps) is not None)
            and _enough(steps)
            and not re.match(r"(?:to )?(?:be|sum|clarify)\b", match.group("goal"), re.I)
        )
    return _enough(steps)


def _enough(steps: str) -> bool:
    return len(_steps(steps)) >= 2 or bool(_SEQUENCE.search(steps))


def _steps(text: str) -> list[str]:
    found = re.split(r",(?!\d) (?:and )?(?:then )?|;\s*|\s+then\s+|\s*->\s*|\s+>\s+", text)
    return [step.strip(" .") for step in found if step and step.strip(" .")]


def _facts(match: re.Match[str], who: str) -> list[str]:
    groups = match.groupdict()
    steps = _steps(match.group("steps"))
    head = _head(groups, who)
    owned = [step for step in steps if _has_subject(step)]
    if len(steps) >= 2 and len(owned) == len(steps) and not _SEQUENCE.search(match.group("steps")):
        return [_capital(grammar.to_third(step, who)) + (f" ({head})" if groups.get("name") else "") for step in steps]
    body = grammar.to_third(
        re.sub(r"^(?:you|we|i) (?=\w)", "", _generic(match.group("steps")), flags=re.I)
        if not groups.get("when")
        else _generic(match.group("steps")),
        who,
    )
    joint = ", " if groups.get("when") and ": " not in match.string[: match.start("steps")] else ": "
    return [f"{head}{joint}{body}"]


def _generic(steps: str) -> str:
    """ "you" in a way of doing is anybody: "tag your project" is "tag the project"."""
    return re.sub(r"\byou (?=\w)", "", re.sub(r"\byour\b", "the", steps, flags=re.I), flags=re.I)


def _head(groups: dict[str, str | None], who: str) -> str:
    if groups.get("when"):
        return _capital(grammar.to_third(groups["when"] or "", who))
    if groups.get("noun"):
        return _capital(grammar.to_third("For " + (groups["noun"] or ""), who))
    if groups.get("goal"):
        return "To " + grammar.to_third(groups["goal"] or "", who).strip()
    return _capital(grammar.to_third(groups.get("name") or "", who))


def _has_subject(step: str) -> bool:
    parts = step.split()
    return grammar.subject_of(parts) in {"noun", "name", "first"} and grammar.find_verb(parts) > 0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
