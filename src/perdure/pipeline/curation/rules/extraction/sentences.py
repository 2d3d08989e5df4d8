"""Text to sentences, each with its end mark; a very long run without marks is cut at commas and connectives."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar

# A sentence to clauses: one statement each, with the word that joined it to the one before.

_JOINT = Pattern(
    r"\s*(?:,\s*(?:and|but|so(?! (?:much|many|far|good|bad))|because|while|whereas|although|though|plus|then|yet|or|"
    r"which|who|since|as)\b|,(?!\d)|\s+\+\s+|:\s|\s\(|\)|\s-\s|\band\b|\bbut\b|\bso\b(?=\s+(?:i|we|he|she|they|it|my|"
    r"our|the|no|now|please|don't|not|you|his|her|their|for|is|can|need|have|had|never|that i|any|what|how|when|where|"
    r"which|who|in|every|always|there|short|simple|numbered|bullets?|just|keep|use|plain)\b)|\bbecause\b(?!\s+of\b)|"
    r"\bwhile\b|\bwhereas\b|\balthough\b|\bthough\b|\bplus\b|\bhowever\b|\bwhich\b)\s*",
    re.I,
)
MOST_PIECES = 40
"""Pieces between commas and connectives; a sentence of more is data, not speech."""

_STRONG = frozenset(["but", "so", "because", "while", "whereas", "although", "though", "plus", "however"])


@dataclass(frozen=True, slots=True)
class Clause:
    """`text` without its joint; `joint` is the comma or word before it, lower case, "" for the first."""

    text: str
    joint: str = ""


def split_clauses(sentence: str, *, names: frozenset[str] = frozenset()) -> list[Clause]:
    """The clauses in order; words of a list without a verb stay apart as clauses joined by a comma."""
    clauses: list[Clause] = []
    pieces = _pieces(sentence)
    if len(pieces) > MOST_PIECES:
        return []
    for text, joint in pieces:
        if not clauses:
            clauses.append(Clause(text, ""))
            continue
        if _opens_clause(text, joint, clauses, names):
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


def _opens_clause(text: str, joint: str, before: list[Clause], names: frozenset[str]) -> bool:
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
    return (
        re.search(
            r"\bto \w+[^,]*$|\b(?:can|can't|will|won't|would|could|should|must|might|may|don't|doesn't|"
            r"didn't|let)\b[^,]*$",
            previous,
        )
        is not None
    )


LONGEST = 700
"""Characters; a longer run is cut, so that every later step works on bounded text."""

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
    header: bool = False
    """It ended in a colon, and the lines after it belong under it."""


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
