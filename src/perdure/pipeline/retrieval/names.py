"""Find the proper nouns of a text, and the known names in a question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import without_accents
from perdure.pipeline.lexicon import words

SHOUTED = 0.5  # share of words in capitals from which a text counts as shouted: its capitals then mean nothing
_WORD = Pattern(r"[^\W_]+(?:[-'’&][^\W_]+)*")
_POSSESSIVE = Pattern(r"['’](?:s|S)?$")
_STARTS = Pattern(r"(?:\A|[.!?…:;\n•]|(?:^|\n)\s*[-*#>\d.)]+)[\s\"'“”‘’«»„¿¡()\[\]*_]*\Z")
_TITLE = Pattern(r"\b(?:Dr|Mrs?|Ms|Mx|St|Prof|Sr|Jr|Mt)\.\s*\Z")
_AS_SUBJECT = Pattern(r"['’]s\b|,| (?:is|was|has|had|did|does|and|or)\b")
_REACH = 16  # characters before a word that show whether it begins a sentence
_GAPS = frozenset(
    [
        " ",
        *(f" {word} " for word in ("of", "de", "del", "de la", "da", "di", "du", "la", "le", "van", "von", "der", "&")),
    ]
)
"""What may separate two words of one name."""


@dataclass(frozen=True, slots=True)
class _Word:
    text: str  # without a possessive
    at: int
    end: int  # the end of the possessive
    begins: bool  # it begins a sentence and has a capital


def proper_nouns(text: str) -> list[str]:
    """Return the proper nouns of a text, each once, in order; names of several words are one ("Bank of America").

    A word that begins a sentence counts if it has a capital further inside ("YouTube"), if it has a capital inside
    another sentence, or if a name follows and it is no ordinary word ("New York"). Days, months and "I" never do.
    German nouns all count, because their case does not distinguish them.
    """
    every = [word for word in _words(text) if not word.text.islower()]
    loud = sum(word.text.isupper() and len(word.text) > 1 for word in every) > SHOUTED * len(_WORD.findall(text))
    found = [word for word in every if _is_capital(word.text, loud)]
    inside = {word.text for word in found if not word.begins}
    names: dict[str, str] = {}
    run = ""
    for place, word in enumerate(found):
        gap = text[found[place - 1].end : word.at] if place else ""
        joined = gap in _GAPS and not word.begins and found[place - 1].end == _bare_end(found[place - 1])
        if run and not joined:
            names.setdefault(run.casefold(), run)
            run = ""
        after = found[place + 1] if place + 1 < len(found) else None
        leads = after is not None and text[word.end : after.at] == " " and not _is_ordinary(word.text)
        if not word.begins or word.text in inside or not word.text[1:].islower() or leads:
            run = f"{run}{gap}{word.text}" if run else word.text
    if run:
        names.setdefault(run.casefold(), run)
    return list(names.values())


def asked_by_name(question: str) -> list[str]:
    """Return the proper nouns of a question; without any capital, the words that are in no list of ordinary ones."""
    if not question.islower():
        return proper_nouns(question)
    return [word.text for word in _words(question) if not _is_ordinary(word.text)]


def owners_in(query: str, texts: Iterable[str]) -> set[str]:
    """Return the words of a query that say who or whose something is, folded: possessors, and names.

    A query is short, and often begins with the name, or is written without capitals. So a word counts as a name too
    where one of the texts has it with a capital inside a sentence, and none has it in lower case.
    """
    inside: set[str] = set()
    low: set[str] = set()
    for text in texts:
        for word in _words(text):
            if not word.begins:
                (inside if word.text[:1].isupper() else low).add(_fold(word.text))
    found: set[str] = set()
    for word in _words(query):
        folded = _fold(word.text)
        if word.text.lower() in _never() or folded in _never():
            continue
        is_name = not word.begins and word.text[:1].isupper() and not word.text.isupper()
        if word.end > word.at + len(word.text) or (folded not in low and (is_name or folded in inside)):
            found.add(folded)
    return found


def names_other(text: str, names: Iterable[str]) -> bool:
    """Whether a text has a name besides the given ones, folded; one that begins it counts if it is no ordinary word."""
    known = {*names, "user"}
    return any(
        _is_capital(word.text, False)
        and not (word.begins and _is_ordinary(word.text))
        and _fold(word.text) not in known
        for word in _words(text)
    )


def named(question: str, names: Iterable[str]) -> set[str]:
    """Return those of the given names that the question contains, in their given form.

    Whole words in any case, also with "'s"; the first word of a name of several words is enough. A name that is a
    common word too ("Will", "May", "Mark") must have its capital, and at the beginning of a sentence be a subject or
    possessor ("Will's dog", "Mark is"). Names in scripts without cases are found inside longer runs.
    """
    asked = _words(question)
    folded = [_fold(word.text) for word in asked]
    return {name for name in names if _is_named(name, asked, folded, question)}


def _is_named(name: str, asked: Sequence[_Word], folded: Sequence[str], question: str) -> bool:
    parts = [_fold(word.text) for word in _words(name)]
    if not parts:
        return False
    if name.lower() == name.upper():
        return name.strip() in question
    wanted = [parts, parts[:1]] if len(parts) > 1 else [parts]
    for option in wanted:
        for at in range(len(folded) - len(option) + 1):
            if list(folded[at : at + len(option)]) == option and (
                len(option) > 1 or option[0] not in _ordinary() or _stands_as_name(asked[at], question)
            ):
                return True
    return False


def _stands_as_name(word: _Word, question: str) -> bool:
    """Whether a common word is used as a name: with a capital, and not only because it begins a sentence."""
    if not word.text[0].isupper() or word.text.isupper():
        return False
    return not word.begins or _AS_SUBJECT.match(question, word.at + len(word.text)) is not None


def _words(text: str) -> list[_Word]:
    found = []
    for match in _WORD.finditer(text):
        bare = _POSSESSIVE.sub("", match.group())
        begins = bare[:1].isupper() and _begins(text[max(0, match.start() - _REACH) : match.start()], match.start())
        found.append(_Word(bare, match.start(), match.end(), begins))
    return found


def _begins(before: str, at: int) -> bool:
    """Whether a sentence begins after these characters, which come before position `at`."""
    if at <= len(before):
        return _STARTS.search(before) is not None and _TITLE.search(before) is None
    mark = _STARTS.search(f" {before}")
    return mark is not None and mark.group() != "" and _TITLE.search(before) is None


def _is_capital(word: str, loud: bool) -> bool:
    lower = word.lower()
    if not any(letter.isupper() for letter in word) or (loud and word.isupper()) or len(word) < 2:
        return False
    return lower.split("'")[0].split("’")[0] not in _never() and lower not in _never()


def _bare_end(word: _Word) -> int:
    """Return where the word ends without its possessive, which ends a name."""
    return word.at + len(word.text)


def _is_ordinary(word: str) -> bool:
    """Whether a word that begins a sentence does not belong to the name after it: "Did Ana", "Visiting Rome"."""
    lower = word.lower()
    if lower in words("recall_name_leads.txt"):
        return False
    stems = {lower, lower.removesuffix("s"), lower.removesuffix("ed"), lower.removesuffix("d")}
    return lower.endswith(("ing", "ly")) or not stems.isdisjoint(_ordinary())


def _fold(word: str) -> str:
    """Return a word without case and diacritics."""
    return without_accents(word.casefold())


@cache
def _never() -> frozenset[str]:
    """Return words that no capital makes a name."""
    return words("recall_stopwords.txt") | words("time_words.txt") | words("recall_no_names.txt")


@cache
def _ordinary() -> frozenset[str]:
    """Return words that are not names in texts without capitals."""
    lists = ("reconcile_given_names", "reconcile_pasts", "verbs", "nounish", "common_words", "adverbs", "openers")
    return _never().union(*(words(f"{name}.txt") for name in lists))
