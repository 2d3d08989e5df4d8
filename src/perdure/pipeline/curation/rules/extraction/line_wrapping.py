"""Text as it was meant, whatever the width at which an editor or a mail program broke its lines.

A line break inside a sentence becomes a space. Lists, headings, letters' openings, verse, tables and code keep their
lines: whoever broke them meant it. In doubt a break stays, unless its neighbours show that a width is filled.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from itertools import pairwise

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, grammar

_BREAK = Pattern(r"\r\n|[\r\v\f\x85\u2028\u2029]")
_ALONE = Pattern(r"^\s*(?:$|>|#{1,6}\s|\||```|~~~|[-=_*]{2,}\s*$)|\|\s*$|\S\t+\S.*\t")
_FENCE = Pattern(r"^\s*(?:```|~~~)")
_BULLET = Pattern(r"^\s*(?:[-*+•]|(\d{1,2})[.)]|[a-z]\))\s+")
_LABEL = Pattern(r"^\s*[A-Z][\w .'/-]{0,30}:(?:\s|$)")
_ENDED = Pattern(r"[.!?\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019\u00bb*_]*$")
_PAUSED = Pattern(r"[.!?,;:\u2026\u3002\uff01\uff1f\uff0c][\"')\]\u201d\u2019\u00bb*_]*$")
_INITIAL = Pattern(r"(?:^|\s)[A-Z]\.$")
_CJK = Pattern(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff0c\u3001\uff1b]")
_CJK_ENDED = Pattern(r"[\u3002\uff01\uff1f]")
_KEYWORD = Pattern(
    r"^\s*(?:import|from|return|private|public|const|docker|npm|git|curl|sudo|ssh|at|pip|let|var|class|function)\b"
    r"[^{}();=<>]*$"
)
"""A word of a programming language that is an English one as well, and nothing else of a program."""
_SMALL_I = Pattern(r"(?:^|\s)(?:i|im|i'm|ive|i've)(?=\s|$)")
_READY = Pattern(r"^(?:[Tt]he )?[Uu]ser(?:'s)? ")
_OPENERS = ("owners", "links", "turns", "helpers")
_COORDINATORS = frozenset({"and", "or", "but", "nor"})
_LONGEST = 4000
"""Characters of a line; one that is longer was broken by no program for its width, nor was what stands beside it."""


class _Verdict(Enum):
    """What two lines say about the break between them."""

    GOES_ON = 1
    OPEN = 2
    CLAUSE = 3
    """The second could be a clause of its own."""
    SENTENCE = 4
    """The second opens as a sentence does, and no mark ended the first."""
    APART = 5


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(lexicon.pairs("wrapping.tsv")[name].split())


def unwrapped(text: str) -> str:
    """The text with a space for each line break that only a width put there; line ends of all systems become `\\n`.

    Linear in the length, and never raises. What is unwrapped already stays as it is.
    """
    text = _BREAK.sub("\n", text)
    if "\n" not in text:
        return text
    out: list[str] = []
    run: list[str] = []
    fenced, number = False, 0
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        alone = fenced or fence or _stands_alone(line, run)
        fenced = fenced != fence
        bullet = None if alone else _BULLET.match(line)
        opens = bullet is not None and _opens_item(bullet, number, run)
        if alone or opens:
            out += _joined(run)
            run = []
        if alone:
            out.append(line)
            continue
        if opens and bullet is not None and bullet.group(1):
            number = int(bullet.group(1))
        run.append(line)
    return "\n".join([*out, *_joined(run)])


def _stands_alone(line: str, run: list[str]) -> bool:
    if _ALONE.search(line[:400]) or len(line) > _LONGEST:
        return True
    return cleaning.is_code(line) and not (run and _KEYWORD.match(line))


def _opens_item(bullet: re.Match[str], number: int, run: list[str]) -> bool:
    """Whether it is a list's mark: "I was born on March" + "12. My dog" has a number that follows on nothing."""
    if not run or not bullet.group(1):
        return True
    return int(bullet.group(1)) in (1, number + 1) or _PAUSED.search(run[-1].rstrip()[-8:]) is not None


def _joined(run: list[str]) -> list[str]:
    """The lines of one paragraph or item, those together that were one."""
    if len(run) < 2:
        return run
    lines = [run[0].rstrip(), *(line.strip() for line in run[1:])]
    verdicts = _verdicts(lines)
    as_typed, as_said = _filled([line.rstrip() for line in run]), _filled(lines)  # quoted and indented afterwards
    filled = [one or other for one, other in zip(as_typed, as_said, strict=True)]
    joins = [verdict is _Verdict.GOES_ON for verdict in verdicts]
    start = 0
    while start < len(verdicts):
        end = start
        while end < len(verdicts) and filled[end] is filled[start]:
            end += 1
        here = verdicts[start:end]
        against = here.count(_Verdict.CLAUSE) + 4 * here.count(_Verdict.SENTENCE)
        if filled[start] and _Verdict.APART not in here and here.count(_Verdict.GOES_ON) > against:
            joins[start:end] = [True] * (end - start)
        start = end
    out = [lines[0]]
    for line, join in zip(lines[1:], joins, strict=True):
        if join:
            out[-1] += _between(out[-1], line) + line
        else:
            out.append(line)
    return out


def _filled(lines: list[str]) -> list[bool]:
    """For each break, whether the word behind it had no room in the line before."""
    width = max((len(line) for line in lines if " " in line.strip()), default=0)
    return [
        len(before) + 1 + len(after.strip().split(" ", 1)[0].split("-", 1)[0]) > width
        for before, after in pairwise(lines)
    ]


def _between(before: str, after: str) -> str:
    if before[-1:] == "-" and before[-2:-1].isalpha() and after[:1].isalpha():
        return " " if _first(after) in ("and", "or", "to", "but", "und", "oder") else ""
    return "" if _CJK.match(before[-1:]) and _CJK.match(after[:1]) else " "


def _verdicts(lines: list[str]) -> list[_Verdict]:
    text = " ".join(line[:200] for line in lines)
    first = next((char for char in _BULLET.sub("", lines[0], count=1) if char.isalpha()), "")
    cased = first.isupper() and not _SMALL_I.search(text)
    punctuated = _ENDED.search(lines[-1][-8:]) is not None
    pairs = list(pairwise(lines))
    verse = len(lines) > 2 and all(line[:1].isupper() for line in lines)
    unfinished = [_unfinished(before, after) and not (verse and _opens_big(after)) for before, after in pairs]
    verdicts = [
        _Verdict.GOES_ON if goes_on and not _apart(before, after) else _verdict(before, after, cased, punctuated)
        for goes_on, (before, after) in zip(unfinished, pairs, strict=True)
    ]
    paused = sum(_PAUSED.search(before[-8:]) is not None for before, _ in pairs)
    few = sum(len(line.split()) for line in lines[1:]) <= (5 if lines[0].endswith(":") else 3) * len(pairs)
    in_lines = (few and len(pairs) > 1 and not any(unfinished)) or (len(pairs) >= 3 and paused * 4 >= len(pairs) * 3)
    if in_lines:  # a list without marks, or verse
        verdicts = [
            verdict if verdict is not _Verdict.GOES_ON or open else _Verdict.CLAUSE
            for verdict, open in zip(verdicts, unfinished, strict=True)
        ]
    return verdicts


def _verdict(before: str, after: str, cased: bool, punctuated: bool) -> _Verdict:
    if _apart(before, after):
        return _Verdict.APART
    if _ENDED.search(before[-8:]):
        return _Verdict.OPEN
    word = after.split(" ", 1)[0]
    if _LABEL.match(after):
        return _Verdict.APART
    if _CJK.match(before[-1:]) and _CJK.match(after[:1]):
        return _Verdict.GOES_ON if punctuated or _CJK_ENDED.search(after) else _Verdict.OPEN
    if word[:1].isupper():
        if _first(word) in _words("subjects"):
            return _Verdict.CLAUSE if word[:1] == "I" and word[1:2] in ("", "'", "\u2019") else _Verdict.SENTENCE
        if any(_first(word) in _words(name) for name in _OPENERS):
            return _Verdict.SENTENCE
        if _opens_clause(after):
            return _Verdict.CLAUSE
        if _is_heading(before):
            return _Verdict.OPEN
        return _Verdict.GOES_ON if cased and punctuated and before[-1:] != ":" else _Verdict.OPEN
    if before[-1:] == ":":
        return _Verdict.OPEN
    if cased and (word[:1].islower() or (punctuated and word[:1].isdigit())):
        return _Verdict.GOES_ON
    if _opens_clause(after) and not (_first(word) in _COORDINATORS and (punctuated or before[-1:] == ",")):
        return _Verdict.CLAUSE
    goes_on = punctuated or _first(word) in _words("links") | _words("helpers")
    return _Verdict.GOES_ON if goes_on else _Verdict.OPEN


def _apart(before: str, after: str) -> bool:
    return _READY.match(after) is not None or _is_letters(before, after)


def _unfinished(before: str, after: str) -> bool:
    """Whether the first line cannot be the end of anything."""
    last = before[-40:].rsplit(" ", 1)[-1].lower().replace("\u2019", "'")
    if last.endswith("."):
        return last[:-1].lstrip("(\"'") in _words("shortened") or (
            _INITIAL.search(before[-4:]) is not None and after[:1].isupper() and before[-3:] not in ("I.", " I.")
        )
    last = last.lstrip("(\"'")
    if last in _words("goes_on") or last in _words("particles"):
        return last in _words("goes_on") - _words("particles") or not (_opens_clause(after) or _opens_big(after))
    if before[-1:] == "-" and before[-2:-1].isalpha() and after[:1].isalpha():
        return True
    return before.count("(") > before.count(")") and ")" in after


def _opens_big(line: str) -> bool:
    """Whether a line opens as a sentence does: "What are you up to" + "The weather"."""
    word = line.split(" ", 1)[0]
    known = any(_first(word) in _words(name) for name in ("subjects", *_OPENERS))
    return word[:1].isupper() and known and _first(word) != "i"


def _opens_clause(line: str) -> bool:
    """Whether a line could be, or begin with, a clause with a subject of its own."""
    parts = _first_sentence(line[:120])
    first = _first(line)
    if first in _words("helpers"):
        return any(grammar.bare(part) in _words("subjects") | _words("owners") for part in parts[1:2])
    if first in _words("subjects") or first in _words("turns"):
        return True
    if first in _words("links"):
        reach = 3 if first in _COORDINATORS else 5
        return any(grammar.bare(part) in _words("subjects") for part in parts[1:reach])
    if first in _words("owners") or (parts and parts[0][-1:].isalpha() and grammar.is_name(parts[0])):
        return 0 < grammar.find_verb(parts, 1) <= 5
    return False


def _first_sentence(line: str) -> list[str]:
    parts: list[str] = []
    for part in line.split()[:9]:
        parts.append(part)
        if _ENDED.search(part[-8:]):
            break
    return parts


def _first(line: str) -> str:
    return line.split(" ", 1)[0].strip("(\"'\u201c\u2018,.;:!?").lower().replace("\u2019", "'")


def _is_heading(line: str) -> bool:
    """Whether every word of a short line is written large, as in a title."""
    parts = [part for part in line.split() if part.lower() not in _words("goes_on")]
    return len(line.split()) <= 7 and all(part[:1].isupper() or part[:1].isdigit() for part in parts)


def _is_letters(before: str, after: str) -> bool:
    """Whether the break belongs to a letter: after its greeting, or around the words that end it."""
    greets = before[-1:] in ",!" and len(before) <= 40 and _first(before) in _words("greetings")
    return greets or _is_farewell(before) or _is_farewell(after)


def _is_farewell(line: str) -> bool:
    return len(line) <= 30 and line[:1].isupper() and line[-1:] in ",!" and _first(line) in _words("farewells")
