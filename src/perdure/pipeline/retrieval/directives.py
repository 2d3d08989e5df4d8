"""Standing instructions on how to answer, and preferences: statements that later questions do not repeat."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.lexicon import lines, pairs, words
from perdure.pipeline.retrieval.standing_facts import keeps_secret

LONGEST = 1_500  # maximum characters of a sentence that is read: instructions are short, and longer text is pasted
HIDDEN = "·"  # replaces each character of quoted text and code
_HIDDEN_PARTS = (
    Pattern(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL),
    Pattern(
        r"^[ \t]*(?:>.*|[\[(]?\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*|[\[(]?\d\d:\d\d:\d\d.*|(?:#|//|--|/\*).*|"
        r"\[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL)\b.*|Traceback .*)$|^(?:\t| {4,})\S.*$",
        re.MULTILINE,
    ),
    Pattern(
        r"`[^`\n]{1,300}`|\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|„[^“”\n]{1,400}[“”]|«[^»\n]{1,400}»|"
        r"(?<![\w'])'[^'\n]{2,400}'(?!\w)"
    ),
)
"""Code blocks; quoted lines, logs and comments; quotations."""
_END = Pattern(r"[.!?…。！？]+[\"'”»)\]*_]*(?=\s|\Z)|\n+|;(?=\s)")
_SUPPOSED = Pattern(r"\b(?:do|did|would|should|might|if|whether|what|which) $")
"""Before "I prefer": a question or a supposition, not a statement."""
_COLON = Pattern(r":(?P<ends>[ \t]*$)?", re.MULTILINE)
REACH = 100  # characters before a colon that show whose words follow
_NAME = Pattern(r"\w+(?:[-'’]\w+)*")
_BULLET = Pattern(r"^\W*(?:\d{1,2}[.)]\s+)?")
_DONT, _ID = Pattern(r"\bdont\b"), Pattern(r"\bid(?= (?:rather|prefer|like|want|\w+ rather)\b)")
"""As they are typed on telephones."""
_QUESTION_TAIL = Pattern(
    r"\s*[,–—-]\s*(?:and |so |but )?(?:ok(?:ay)?|alright|right|deal|got it|understood|please|thanks|yes|what|how|which|"
    r"where|when|who|is|are|should|do i|any|(?:can|could|would|will|do) (?:you|i)|claro|vale|d'accord|va bene|ja)\b"
)
_QUESTION = Pattern(
    r"(?:what|how|which|where|who|why|is|are|am|do|does|did|can|could|would|should|will|has|have|had|may|might|shall|"
    r"when (?:do|did|does|is|are|should|can|will))\b"
)
_ASKED_POLITELY = Pattern(
    r"(?:can|could|would|will) you (?:please |kindly )(?=always|never|stop|keep)|"
    r"(?:can|could|would|will) you (?=(?:stop with|go easy|ease up|lay off|tone down|cut (?:down|back))\b)|"
    r"(?:can|could|would|will) you (?:please |kindly )?(?=.*\b(?:when(?:ever)? i ask|from now on))"
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str  # as it was written
    plain: str  # in lower case, with single spaces
    seen: str  # the same without polite openers and a trailing question; "" if it is nothing but a question
    alone: bool  # the message contains nothing else


def directive(message: str) -> str | None:
    """Return the sentences of a message that tell an assistant how to answer from now on, or None.

    "Always answer in German", "when I ask about X, include Y", "from now on ...", "call me Sam", and their commonest
    forms in German, Spanish, French, Italian and Portuguese. Not a request for one answer, a question, quoted text,
    code, a log, or somebody else's words.
    """
    return _held(message, _instructs)


def preference(message: str) -> str | None:
    """Return the sentences that say how the author likes things to be done ("I prefer X to Y"), or None."""
    return _held(message, _prefers)


def _held(message: str, holds: Callable[[_Sentence], bool]) -> str | None:
    return " ".join(sentence.text for sentence in _sentences(message) if holds(sentence)) or None


def _instructs(sentence: _Sentence) -> bool:
    seen = sentence.seen
    if not seen or _undone().search(seen) or keeps_secret(seen):
        return False
    if _matches(seen, "directive_rules.txt") or _names_the_user(sentence):
        return True
    if sentence.alone and _bare_style().match(seen):
        return True
    rest = _standing().sub(" ", seen)
    return rest != seen and _matches(_openers().sub("", rest.strip(" ,:"), count=1), "directive_rests.txt")


def _matches(seen: str, name: str) -> bool:
    return any(rule.match(seen) for rule in _rules(name))


def _prefers(sentence: _Sentence) -> bool:
    if _undone().search(sentence.plain):
        return False
    return any(
        not _SUPPOSED.search(sentence.plain, 0, found.start()) for found in _preferring().finditer(sentence.plain)
    )


def _names_the_user(sentence: _Sentence) -> bool:
    """Whether a capital follows that is not a day: "Call me Sam", but not "call me later"."""
    found = _calling().match(sentence.seen)
    if found is None:
        return False
    name = _NAME.match(sentence.seen, found.end())
    if name is None or name.group() in words("time_words.txt"):
        return False
    return any(word[0].isupper() and word.lower() == name.group() for word in _NAME.findall(sentence.text))


def _sentences(message: str) -> Iterator[_Sentence]:
    """Yield the sentences of a message in its author's own words."""
    own = _own_words(message)
    cuts = [0, *(mark.end() for mark in _END.finditer(own)), len(own)]
    bounds = [(start, end) for start, end in pairwise(cuts) if re.search(r"\w", own[start:end])]
    for start, end in bounds:
        plain = " ".join(unicodedata.normalize("NFC", own[start:end][:LONGEST]).lower().replace("’", "'").split())
        plain = _DONT.sub("don't", _ID.sub("i'd", plain))
        yield _Sentence(message[start:end].strip(), plain, _seen(plain), len(bounds) == 1)


def _own_words(message: str) -> str:
    """Return the message up to text by others, with quotations, code and logs hidden, character by character."""
    for part in _HIDDEN_PARTS:
        message = part.sub(_hide, message)
    for colon in _COLON.finditer(message):
        start = max(message.rfind("\n", 0, colon.start()) + 1, colon.start() - REACH)
        before = message[start : colon.start()]
        if any(others.search(before) for others in _others(colon["ends"] is not None)):
            return message[: colon.end()]
    return message


def _hide(match: re.Match[str]) -> str:
    return "\n".join(HIDDEN * len(line) for line in match.group().split("\n"))


def _seen(plain: str) -> str:
    """Return the part of a sentence that the rules see: see `_Sentence.seen`."""
    seen = _openers().sub("", _BULLET.sub("", plain, count=1), count=1)
    if seen.endswith(("?", "？")):
        polite, tail = _ASKED_POLITELY.match(seen), _QUESTION_TAIL.search(seen)
        if polite:
            seen = seen[polite.end() :]
        elif tail and not _QUESTION.match(seen):
            seen = seen[: tail.start()]
        else:
            return ""
    return seen.strip(" .!?…,:-–—*_")


def _either(entries: Iterable[str]) -> str:
    """Return one pattern for all entries, the longest first; `*` in them matches one word."""
    ordered = sorted(entries, key=len, reverse=True)
    return "(?:" + "|".join(re.escape(entry).replace(r"\*", r"\S+").replace(r"\ ", " ") for entry in ordered) + ")"


@cache
def _classes() -> dict[str, str]:
    """Return the word classes that rules name, each as a pattern."""
    found = {name: _either(its.split("; ")) for name, its in pairs("directive_classes.tsv").items()}
    verbs = lines("directive_verbs.txt")
    found["do"] = _either(verbs)
    found["doing"] = _either(f"{stem}ing" for verb in verbs for stem in (verb, verb.removesuffix("e"), verb + verb[-1]))
    found["style"] = _either(lines("directive_styles.txt"))
    for kind in set(pairs("directive_foreign.tsv").values()):
        found[f"foreign {kind}"] = _of_kind("directive_foreign.tsv", kind)
    return found


def _of_kind(name: str, kind: str) -> str:
    return _either(word for word, its in pairs(name).items() if its == kind)


def _rule(template: str) -> re.Pattern[str]:
    """Compile a wording with its <classes> filled in."""
    return re.compile(re.sub(r"<([\w -]+)>", lambda match: _classes()[match[1]], template))


@cache
def _rules(name: str) -> tuple[re.Pattern[str], ...]:
    """Return the wordings of a file, each matched from the beginning of a sentence."""
    return tuple(_rule(line) for line in lines(name))


@cache
def _bare_style() -> re.Pattern[str]:
    return _rule(r"(?:no|no more|less|fewer|avoid|skip|don't use|do not use|without) (?:\w+ )?<style>\b")


@cache
def _calling() -> re.Pattern[str]:
    english = (
        "(?:(?:you can|you may|you could|feel free to|let's) )?(?:call me|address me as|refer to me as|don't call me)"
    )
    return _rule(f"(?:{english}|<foreign call>) ")


@cache
def _openers() -> re.Pattern[str]:
    return re.compile(rf"\A(?:{_either(lines('directive_openers.txt'))}\b[\s,:!.–—-]*)+")


@cache
def _standing() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){_either(lines('directive_standing.txt'))}(?!\w)")


@cache
def _undone() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){_either(lines('directive_undone.txt'))}(?!\w)")


@cache
def _preferring() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){_either(lines('directive_preferences.txt'))}(?!\w)")


@cache
def _others(ends_line: bool) -> tuple[re.Pattern[str], ...]:
    """Return the patterns that end the author's own words before a colon: "she said:", "translate this:"."""
    told, task, line = (_of_kind("directive_sources.tsv", kind) for kind in ("told", "task", "line"))
    anywhere = (rf"\b{told} ?$", rf"(?:^|[.!?] )(?:please |can you |could you )?{task}\b[^:]*$")
    wordings = (*anywhere, rf"\b(?:{line}|{task}|{told})\b[^:]{{0,60}}$") if ends_line else anywhere
    return tuple(re.compile(wording, re.IGNORECASE) for wording in wordings)
