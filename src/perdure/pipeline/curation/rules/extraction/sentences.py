"""Text to sentences, each with its end mark; a very long run without marks is cut at commas and connectives."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, grammar

# Text as it was meant, whatever the width at which an editor or a mail program broke its lines.

_BREAK = Pattern(r"\r\n|[\r\v\f\x85\u2028\u2029]")
_ALONE = Pattern(r"^\s*(?:$|>|#{1,6}\s|\||```|~~~|[-=_*]{2,}\s*$)|\|\s*$|\S\t+\S.*\t")
_FENCE = Pattern(r"^\s*(?:```|~~~)")
_LINE_BULLET = Pattern(r"^\s*(?:[-*+•]|(\d{1,2})[.)]|[a-z]\))\s+")
_LABEL = Pattern(r"^\s*[A-Z][\w .'/-]{0,30}:(?:\s|$)")
_ENDED = Pattern(r"[.!?\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019\u00bb*_]*$")
_PAUSED = Pattern(r"[.!?,;:\u2026\u3002\uff01\uff1f\uff0c][\"')\]\u201d\u2019\u00bb*_]*$")
_LINE_INITIAL = Pattern(r"(?:^|\s)[A-Z]\.$")
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
        bullet = None if alone else _LINE_BULLET.match(line)
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


# Words of others: quoted lines, mails that were pasted, and what somebody is said to have written.

_QUOTED_LINE = Pattern(r"^\s*>(?!>>)")
_HEADER = Pattern(
    r"^\s*\*{0,2}(?:from|von|de|da|to|an|para|cc|subject|betreff|asunto|objet|oggetto|date|sent|gesendet)\*{0,2}: ",
    re.I,
)
_RULE = Pattern(
    r"^\s*(?:[-=_*]{3,}|-+ ?(?:original message|forwarded message|weitergeleitete nachricht) ?-+)\s*$", re.I
)
_GREETING = Pattern(
    r"^\s*(?:hi|hello|hey|dear|hallo|liebe[rs]?|sehr geehrte[rs]?|hola|estimad[oa]s?|querid[oa]s?|bonjour|"
    r"ch(?:er|\u00e8re)s?|ol\u00e1|oi|prezad[oa]s?|car[oa]|ciao)\b[^.!?\n]{0,40}[,!:]?\s*$",
    re.I,
)
_CLOSING = Pattern(
    r"^\s*(?:(?:with )?(?:kind|best|warm|many)? ?(?:regards|wishes|thanks)|best|cheers|all the best|love|yours|"
    r"(?:yours )?(?:sincerely|faithfully|truly)|(?:mit )?(?:freundlichen|liebe|viele|beste) gr\u00fc(?:\u00df|ss)en?|"
    r"lg|vg|mfg|saludos|un (?:abrazo|saludo|saluto)|atentamente|cordialement|bien \u00e0 (?:vous|toi)|abra\u00e7os?|"
    r"atenciosamente|(?:cordiali |distinti )?saluti)(?:[,.!]?\s*|, [A-Z][\w .'-]{0,30})$",
    re.I,
)
_OF_A_MAIL = Pattern(
    r"\b(?:e-?mails?|messages?|letter|reply|respond\w*|answer|translate|summari[sz]e|forward\w*|wrote|got this|sent me|"
    r"nachricht|antwort\w*|brief|correo|mensaje|carta|courriel|lettre|r\u00e9pon\w*|mensagem|lettera|rispond\w*)\b",
    re.I,
)
_QUOTATION = Pattern(
    r"(?P<lead>\b(?:from|wrote|writes|says|said|texted|emailed|sent|message|e-?mail|letter|note|reads)\b"
    r"[^:\n\"'\u201c]{0,40}: ?)"
    r"(?:\"[^\"\n]{20,2000}\"|\u201c[^\u201d\n]{20,2000}\u201d|(?<!\w)['\u2018][^\n]{20,2000}?['\u2019](?!\w))",
    re.I,
)


def without_quotations(text: str) -> str:
    """The text without quoted lines, pasted mails and long quotations of others, none of which its sender says.

    A mail begins with two headers, or with a greeting where the rest speaks of a mail; it ends with its closing words
    and the name below them, or at a ruled line. Linear in the length.
    """
    lines = [line for line in _QUOTATION.sub(r"\g<lead>", text).split("\n") if not _QUOTED_LINE.match(line[:80])]
    ends = [place for place, line in enumerate(lines) if _RULE.match(line[:80]) or _CLOSING.match(line[:80])]
    kept: list[str] = []
    place = 0
    while place < len(lines):
        end = _end_of_mail(lines, place, ends)
        if end == place:
            kept.append(lines[place])
            end += 1
        place = end
    return "\n".join(kept)


_NEAR = 20  # lines before and behind a mail in which it is spoken of
_SIGNED = 5  # lines of a name and an address at most


def _end_of_mail(lines: list[str], start: int, ends: list[int]) -> int:
    """The place behind a mail that begins at a line; `start` where none does. `ends` are the lines that may end one."""
    is_headed = all(_HEADER.match(line[:80]) for line in lines[start : start + 2]) and len(lines) > start + 1
    if not is_headed and not _GREETING.match(lines[start][:80]):
        return start
    following = bisect_right(ends, start)
    end = ends[following] if following < len(ends) else len(lines)
    is_closed = end < len(lines) and not _RULE.match(lines[end][:80])
    if is_closed:
        end += 1
        last = min(end + _SIGNED, len(lines))
        while end < last and 0 < len(lines[end].strip()) < 40:
            end += 1
    if is_headed:
        return end
    near = "\n".join(line[:400] for line in (*lines[max(0, start - _NEAR) : start], *lines[end : end + _NEAR]))
    return end if is_closed and _OF_A_MAIL.search(near) else start


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
    first = next((char for char in _LINE_BULLET.sub("", lines[0], count=1) if char.isalpha()), "")
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
        if _may_open_clause(after):
            return _Verdict.CLAUSE
        if _is_heading(before):
            return _Verdict.OPEN
        return _Verdict.GOES_ON if cased and punctuated and before[-1:] != ":" else _Verdict.OPEN
    if before[-1:] == ":":
        return _Verdict.OPEN
    if cased and (word[:1].islower() or (punctuated and word[:1].isdigit())):
        return _Verdict.GOES_ON
    if _may_open_clause(after) and not (_first(word) in _COORDINATORS and (punctuated or before[-1:] == ",")):
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
            _LINE_INITIAL.search(before[-4:]) is not None and after[:1].isupper() and before[-3:] not in ("I.", " I.")
        )
    last = last.lstrip("(\"'")
    if last in _words("goes_on") or last in _words("particles"):
        return last in _words("goes_on") - _words("particles") or not (_may_open_clause(after) or _opens_big(after))
    if before[-1:] == "-" and before[-2:-1].isalpha() and after[:1].isalpha():
        return True
    return before.count("(") > before.count(")") and ")" in after


def _opens_big(line: str) -> bool:
    """Whether a line opens as a sentence does: "What are you up to" + "The weather"."""
    word = line.split(" ", 1)[0]
    known = any(_first(word) in _words(name) for name in ("subjects", *_OPENERS))
    return word[:1].isupper() and known and _first(word) != "i"


def _may_open_clause(line: str) -> bool:
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


# A sentence to clauses: one statement each, with the word that joined it to the one before.

_JOINT = Pattern(
    r"\s*(?:,\s*(?:and|but|so(?! (?:much|many|far|good|bad))|because|while|whereas|although|though|plus|then|yet|or|"
    r"which|who|since|as)\b|,(?!\d)|\s+\+\s+|:\s|\s\(|\)|\s-\s|\band\b|\bbut\b|\bso\b(?=\s+(?:i|we|he|she|they|it|my|"
    r"our|the|no|now|please|don't|not|you|his|her|their|for|is|can|need|have|had|never|that i|any|what|how|when|where|"
    r"which|who|in|every|always|there|short|simple|numbered|bullets?|just|keep|use|plain)\b)|\bbecause\b(?!\s+of\b)|"
    r"\bwhile\b|\bwhereas\b|\balthough\b|\bthough\b|\bplus\b|\bhowever\b|\bwhich\b)\s*",
    re.I,
)
MOST_PIECES = 40  # pieces between commas and connectives; a sentence of more is data, not speech

_STRONG = frozenset(["but", "so", "because", "while", "whereas", "although", "though", "plus", "however"])


@dataclass(frozen=True, slots=True)
class Clause:
    """`text` without its joint; `joint` is the comma or word before it, lower case, "" for the first."""

    text: str
    joint: str = ""


def split_clauses(sentence: str) -> list[Clause]:
    """The clauses in order; words of a list without a verb stay apart as clauses joined by a comma."""
    clauses: list[Clause] = []
    pieces = _pieces(sentence)
    if len(pieces) > MOST_PIECES:
        return []
    for text, joint in pieces:
        if not clauses:
            clauses.append(Clause(text, ""))
            continue
        if _opens_clause(text, joint, clauses):
            clauses.append(Clause(text, joint))
        else:
            last = clauses[-1]
            clauses[-1] = Clause(_glue(last.text, joint, text), last.joint)
    clauses = [Clause(c.text + ")" if c.text.count("(") > c.text.count(")") else c.text, c.joint) for c in clauses]
    return [clause for clause in clauses if clause.text.strip(" ,.:;-")]


def _pieces(sentence: str) -> list[tuple[str, str]]:
    pieces: list[tuple[str, str]] = []
    start, joint = 0, ""
    for mark in _JOINT.finditer(sentence):
        if start == mark.start() == 0 and mark.group().strip().lower() == "which":
            continue
        body = sentence[start : mark.start()].strip()
        asked = re.search(r"\b(?:who|which)\b", mark.group(), re.I)
        if asked and not pieces and not re.search(r"[a-z0-9]", body, re.I):
            start = mark.start() + asked.start()  # behind a mere quotation it asks: "'...', who wrote that"
            continue
        if body:
            pieces.append((body, joint))
            joint = ""
        start = mark.end()
        word = " ".join(mark.group().split()).lower()
        joint = f"{joint} {word}".strip() if joint else word
    body = sentence[start:].strip()
    if body:
        pieces.append((body, joint))
    return pieces


def _glue(left: str, joint: str, right: str) -> str:
    if joint.startswith(")"):
        return f"{left}){joint[1:]} {right}"
    if joint.startswith((",", ":")):
        return f"{left}{joint} {right}"
    if joint == "(":
        return f"{left} ({right}"
    return f"{left} {joint} {right}"


def _opens_clause(text: str, joint: str, before: list[Clause]) -> bool:
    parts = text.split()
    previous = before[-1].text
    word = joint.strip(", ")
    if _subordinate_tail(previous):
        return False
    kind = grammar.subject_of(parts)
    if kind in ("first", "pronoun"):
        if joint == ", and" and len(before) > 1 and grammar.bare(previous.split()[-1]) in lexicon.words("roles.txt"):
            return True  # "I'm Marisol, district nurse, and we have a garden": no pair of persons
        return not _relative_complement(previous, word)
    if kind in ("noun", "name"):
        return not _noun_pair(previous, parts, joint)
    if word == "plus":
        return False
    if word in _STRONG:
        return _begins_verbal(parts, previous)
    if joint in ("(", ")"):
        return False
    listed = (joint == ":" and has_verb(previous)) or (
        joint.startswith(",") and re.search(r"\w: [^:]*$", previous) is not None
    )
    if listed and not _begins_verbal(parts, ""):
        return False
    if joint.startswith(","):
        return word != "or" or _begins_verbal(parts, previous)
    if word in ("and", "+", "then", "or") and _begins_verbal(parts, previous):
        return not _infinitive_pair(previous, parts)
    return joint in (":", "-") or word == "which"


def _subordinate_tail(previous: str) -> bool:
    """ "when I was five" opens and waits for its main clause: "when X, Y" is one statement."""
    head = grammar.bare(previous.split(maxsplit=1)[0]) if previous else ""
    return head in {"when", "whenever", "if", "unless", "once"} and previous.count(" ") < 12 and "," not in previous


def _relative_complement(previous: str, word: str) -> bool:
    """ "I think that" and "the day and I": no clause has ended yet."""
    tail = grammar.bare(previous.rsplit(maxsplit=1)[-1])
    if tail in {"that", "if", "whether", "than", "when", "until", "where", "before", "after", "what", "how"}:
        return True
    short = word == "and" and len(previous.split()) <= 3 and tail != "ok"
    return short and not has_verb(previous)


def _noun_pair(previous: str, parts: list[str], joint: str) -> bool:
    """ "my wife and my son love it": the left side has no verb, so the noun belongs to it."""
    if joint.startswith(",") or joint in (":", "-"):
        return False
    return not has_verb(previous)


def has_verb(text: str) -> bool:
    """Whether a finite verb, or a form that serves as one in telegraphic style, is in the text."""
    parts = text.split()
    if grammar.find_verb(parts) >= 0:
        return True
    return bool(parts) and _begins_verbal(parts, "")


def _begins_verbal(parts: list[str], previous: str) -> bool:
    place = 0
    adverbs = lexicon.words("adverbs.txt")
    while place < len(parts) - 1 and grammar.bare(parts[place]) in adverbs:
        place += 1
    head = grammar.bare(parts[place])
    after = grammar.bare(parts[place + 1]) if place + 1 < len(parts) else ""
    if head in grammar.AUXILIARIES:
        return True
    if head in lexicon.words("states.txt"):
        return bool(previous) is False or re.search(r"\b(?:am|is|are|was)\b", previous) is not None
    if head in grammar.simple_pasts() or head in grammar.thirds():
        return not (head in lexicon.words("nounish.txt") and after in ("", "and", "of", "is", "are"))
    if head in grammar.bases():
        return not (head in lexicon.words("nounish.txt") and after in ("", "and", "or", "of", "is", "are", "was"))
    return head in grammar.ings() and re.search(r"\b(?:am|is|are|was|been)\b", previous) is not None and bool(after)


def _infinitive_pair(previous: str, parts: list[str]) -> bool:
    """ "want to buy a van and drive to Porto": the second verb hangs on the same "to" or modal."""
    head = grammar.bare(parts[0])
    if head not in grammar.bases() or head in grammar.AUXILIARIES:
        return False
    return bool(
        re.search(
            r"\bto \w+[^,]*$|\b(?:can|can't|will|won't|would|could|should|must|might|may|don't|doesn't|"
            r"didn't|let)\b[^,]*$",
            previous,
        )
    )


LONGEST = 700  # characters; a longer run is cut, so that every later step works on bounded text

_END = Pattern(
    r"([.!?]+)(?:[\"')\]]*)(?=\s|$|[\ue000-\uf8ff])|\n+|(?<=\s)-{1,2}(?=\s)|;|[\u3002\uff01\uff1f\uff1b]|\.{2,}|\u2026"
)
_INITIAL = Pattern(r"(?:^|\s)(?:[A-Z]|e\.?g|i\.?e|ca|c)$")
_BULLET = Pattern(r"^\s*(?:[-*+>]|\d{1,2}[.)])\s+")
_CUT = Pattern(r"(?:,|\band\b|\bbut\b|\bso\b|\bbecause\b|\bthen\b)\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its end mark; `question` if that was a question mark; `item` if it was a list's line."""

    text: str
    question: bool = False
    item: bool = False
    header: bool = False  # it ended in a colon, and the lines after it belong under it


def split_sentences(text: str) -> list[Sentence]:
    """The sentences in order; blank ones are left out."""
    found: list[Sentence] = []
    lines = text.split("\n")
    for line in lines:
        item = _BULLET.match(line) is not None and (len(lines) > 1 or not line.lstrip()[:1].isdigit())
        body = _BULLET.sub("", line, count=1) if item else line
        start = 0
        for mark in _END.finditer(body):
            if mark.group() == "." and _is_initial(body, mark.start(), mark.end()):
                continue
            _take(found, body[start : mark.start()], "?" in mark.group() or "\uff1f" in mark.group(), item)
            start = mark.end()
        rest = body[start:]
        _take(found, rest, False, item)
        if rest.rstrip().endswith(":") and found and len(rest) < 80:
            found[-1] = Sentence(found[-1].text.rstrip(" :"), found[-1].question, item, True)
    return found


def _is_initial(body: str, start: int, end: int) -> bool:
    """ "J. Smith" and "e.g. this": the point ends no sentence."""
    if _INITIAL.search(body[max(0, start - 6) : start]) is None:
        return re.search(r"\b(?:[Nn]o|[Mm]rs?|[Mm]s|[Dd]r|[Ss]t)$", body[max(0, start - 4) : start]) is not None and (
            body[end : end + 2].strip()[:1].isdigit()
        )
    after = body[end : end + 2].strip()
    return not body[start - 1 : start].isupper() or after[:1].isupper()


def _take(found: list[Sentence], text: str, question: bool, item: bool) -> None:
    text = grammar.trimmed(" ".join(text.split()), " \"'.,")
    if not any(char.isalnum() or char >= "\ue000" for char in text):
        if question and found and not found[-1].question:
            found[-1] = Sentence(found[-1].text, True, found[-1].item)
        return
    while len(text) > LONGEST:
        cut = _cut_place(text)
        found.append(Sentence(text[:cut].strip(" ,"), False, item))
        text = text[cut:].strip(" ,")
    if text:
        found.append(Sentence(text, question, item))


def _cut_place(text: str) -> int:
    places = [match.start() for match in _CUT.finditer(text, LONGEST // 2, LONGEST)]
    if places:
        return places[-1] + 1 if text[places[-1]] == "," else places[-1]
    space = text.rfind(" ", 1, LONGEST)
    return space if space > 0 else LONGEST
