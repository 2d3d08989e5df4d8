"""Text to sentences, each with its end mark; a very long run without marks is cut at commas and connectives."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, grammar

# Text as it was meant, whatever the width at which an editor or a mail program broke its lines.

NARROWEST = 40
"""Characters of a width at which programs break lines; people break shorter lines themselves."""

_BREAK = Pattern(r"\r\n|[\r\v\f\x85\u2028\u2029]")
_ALONE = Pattern(r"^\s*(?:$|>|#{1,6}\s|\||[-=_*]{2,}\s*$|[A-Z][\w .'/-]{0,30}:(?:\s|$))|\|\s*$|\S\t+\S.*\t")
_FENCE = Pattern(r"^\s*(?:```|~~~)")
_MARKS = Pattern(r"[][{}=<>|\\]")  # two of them in a line: a program wrote it
_LINE_BULLET = Pattern(r"^\s*(?:[-*+•]|\d{1,2}[.)]|[a-z]\))\s+")
_ENDED = Pattern(r"[.!?:\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019\u00bb*_]*$")
_SHORTENED = Pattern(r"(?:^|\s)(?:[A-Z]|[Mm]rs?|[Mm]s|[Dd]r|[Pp]rof|[Ss]t)\.$")
_LONGEST = 4000
"""Characters of a line; one that is longer was broken by no program for its width, nor was what stands beside it."""


def unwrapped(text: str) -> str:
    """The text with a space for each line break that only a width put there; line ends of all systems become `\\n`.

    A break is one if the word behind it had no room in the line before, which is no end of a sentence. Linear in the
    length, and never raises.
    """
    text = _BREAK.sub("\n", text)
    if "\n" not in text:
        return text
    out: list[str] = []
    run: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        alone = fenced or fence or len(line) > _LONGEST or _ALONE.search(line[:400]) is not None
        alone = alone or cleaning.is_code(line) or len(_MARKS.findall(line[:400])) > 1
        fenced = fenced != fence
        if alone or _LINE_BULLET.match(line):
            out += _joined(run)
            run = []
        if alone:
            out.append(line)
        else:
            run.append(line)
    return "\n".join([*out, *_joined(run)])


def _joined(run: list[str]) -> list[str]:
    """The lines of one paragraph or item, those together that were one."""
    lines = [line.strip() for line in run]
    width = max(map(len, lines), default=0)
    if len(run) < 2 or width < NARROWEST:
        return run
    out = [run[0].rstrip()]
    for (before, after), typed in zip(pairwise(lines), run[1:], strict=True):
        word, hyphen, _ = after.split(" ", 1)[0].partition("-")
        is_full = len(before) + 1 + len(word + hyphen) > width
        if is_full and (_SHORTENED.search(before[-8:]) or not _ENDED.search(before[-8:])):
            out[-1] += after if before[-1:] == "-" and before[-2:-1].isalpha() else f" {after}"
        else:
            out.append(typed.rstrip())
    return out


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
    r"\b(?:(?:e-?)?mails?|messages?|letter|reply|respond\w*|answer|translate|summari[sz]e|forward\w*|wrote|got this|"
    r"sent me|nachricht|antwort\w*|brief|correo|mensaje|carta|courriel|lettre|r\u00e9pon\w*|mensagem|lettera|"
    r"rispond\w*)\b",
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
        return not (grammar.bare(parts[0]) in grammar.thirds() and _RELATIVE.search(previous))
    return joint in (":", "-") or word == "which"


_RELATIVE = Pattern(r"^(?:i|we)\b.* who \w", re.I)
"""A first person's clause that tells of somebody who does something: a third person's verb behind it is theirs."""


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
