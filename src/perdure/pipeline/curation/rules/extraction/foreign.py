"""Other languages: Spanish, Portuguese, Italian, French, German and Chinese glossed into plain English, word by word.

Common phrases and frames have an English gloss, longest first; a word without one stays as it is. The gloss then goes
through the English rules, so that splitting, negation, replies and requests need no second set of rules.
"""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, people
from perdure.pipeline.lexicon import word_set

LONGEST_PHRASE = 5
"""Words of the longest phrase in the tables."""
LANGUAGES = ("es", "pt", "it", "fr", "de")
NOTHING = "-"
"""Gloss of a word that English leaves out."""

_HAN = Pattern(r"[\u3400-\u9fff]")
_KANA = Pattern(r"[\u3040-\u30ff\uac00-\ud7af]")
_WORD = Pattern(r"[^\W\d_]+(?:['-][^\W\d_]+)*'?|\d[\w.,:%/]*\d|\d\w*|[\ue000-\uf8ff]|[^\w\s]|_")
_ELISION = Pattern(r"\b([ldjnmtsc]|qu|un|dell|nell|sull|all|dall|quest)'(?=\w)", re.I)
_CAPITAL_INSIDE = Pattern(r"(?<=[^\W\d_A-Z][ ,])\s*([A-Z][^\W\d_]+)")
_EDGES = '.,!?;:()"¿¡'


@cache
def _votes() -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in lexicon.pairs("language_votes.tsv").items()}


def language_of(text: str, expected: str = "") -> str:
    """es, pt, it, fr, de or zh where the text is in that language, else ""; `expected` is the conversation's so far."""
    sample = cleaning.without_marks(re.sub(r"\"[^\"\n]*\"|```[\s\S]*?```", " ", text[:1500])).replace("\u2019", "'")
    if _HAN.search(sample) and not _KANA.search(sample):
        return "zh"
    words = [word.lower() for word in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", sample)][:120]
    if not words:
        return expected if expected != "zh" else ""
    split = [
        part for word in words for part in ([word.split("'")[0] + "'", word.split("'")[1]] if "'" in word else [word])
    ]
    scores = {
        name: sum(word in known for word in words) + sum(word in known for word in split if word not in words)
        for name, known in _votes().items()
    }
    names = {name.lower() for name in _CAPITAL_INSIDE.findall(sample)}
    for word in words[:40]:
        if len(word) > 4 and not people.is_known_word(word):
            for name in LANGUAGES:
                # "lives in Porto" is no Italian; German alone writes its nouns so.
                scores[name] += word in _phrases(name) and (name == "de" or word not in names)
    english = scores.pop("en")
    best = max(scores, key=lambda name: (scores[name], name == expected))
    if expected in scores and scores[expected] >= english and (scores[expected] or not english):
        return expected if scores[expected] >= scores[best] - 1 else best
    needed = 2 if len(words) > 3 else 1
    return best if scores[best] >= needed and scores[best] > english and scores[best] >= len(words) / 6 else ""


@cache
def _phrases(language: str) -> dict[str, str]:
    return {left: "" if right == NOTHING else right for left, right in lexicon.pairs(f"foreign_{language}.tsv").items()}


def gloss(text: str, language: str) -> str:
    """The text in English words as far as the tables go."""
    if language == "zh":
        return _tidy("\n".join(_han(line) for line in text.split("\n")))
    return "\n".join(_tidy(_before_and_after(line, language)) for line in text.split("\n"))


def _before_and_after(line: str, language: str) -> str:
    for pattern, change in _ahead(language):
        line = pattern.sub(change, line)
    line = _words(line, language).replace("_", " ")
    for pattern, change in _behind():
        line = pattern.sub(change, line)
    return line


def _words(line: str, language: str) -> str:
    table = _phrases(language)
    tokens = _ELISION.sub(r"\1' ", line).split()
    out: list[str] = []
    place = 0
    while place < len(tokens):
        for size in range(min(LONGEST_PHRASE, len(tokens) - place), 0, -1):
            group = tokens[place : place + size]
            if size > 1 and any(part[-1] in ",.!?;:" for part in group[:-1]):
                continue
            key = " ".join(group).lower().strip(_EDGES)
            found = table.get(key)
            if found is None and "' " in key:
                found = table.get(key.replace("' ", "'"))
            if found is None or (size == 1 and _proper(group[0], place, out)):
                continue
            out.append(_edges(group, found))
            break
        else:
            size = 1
            out.append(tokens[place])
        place += size
    return " ".join(part for part in out if part)


def _proper(word: str, place: int, out: list[str]) -> bool:
    """A capitalised word inside a sentence is a name, in German too if the table has it only by chance."""
    bare = word.strip(_EDGES)
    return (
        place > 0
        and bare[:1].isupper()
        and len(bare) > 1
        and out[-1:] != []
        and out[-1][-1:] not in ".!?:"
        and bare.lower() in _NAMES_TOO
    )


_NAMES_TOO = word_set("foreign.names_too")


def _edges(group: list[str], found: str) -> str:
    first, last = group[0], group[-1]
    head = first[: len(first) - len(first.lstrip(_EDGES))].replace("¿", "").replace("¡", "")
    tail = last[len(last.rstrip(_EDGES)) :]
    return f"{head}{found}{tail}"


def _han(line: str) -> str:
    for pattern, change in _ahead("zh"):
        line = pattern.sub(change, line).replace("_", " ")
    table = _phrases("zh")
    out: list[str] = []
    place = 0
    while place < len(line):
        for size in range(min(6, len(line) - place), 0, -1):
            found = table.get(line[place : place + size])
            if found is not None:
                out.append(f" {found} ")
                break
        else:
            size = 1
            char = line[place]
            out.append(
                {",": ", ", "、": " and ", "。": ". ", "?": "? ", "!": "! ", ":": ": ", ";": "; "}.get(char, char)
            )
        place += size
    text = " ".join("".join(out).split())
    for pattern, change in _HAN_FRAMES:
        text = pattern.sub(change, text)
    return text


_HAN_FRAMES = (
    (Pattern(r"\bis allergic to ([^,.?]{1,30}?) (?=,|\.|\?|$)"), r"is allergic to \1 "),
    (Pattern(r"\bmy (\w+) (?=[A-Z][a-z]+ )"), r"my \1 "),
    (Pattern(r"(?<=[A-Za-z]) (\d+) years old"), r" is \1 years old"),
    (Pattern(r"\bis is\b"), "is"),
    (Pattern(r"\bam is\b"), "am"),
    (Pattern(r"\b(\d+) years (\d+) month"), r"\1"),
)


@cache
def _ahead(language: str) -> tuple[tuple[Pattern, str], ...]:
    return tuple(
        (Pattern(left, re.I), right if right.startswith("I_") else right.replace("_", " "))
        for left, right in lexicon.pairs(f"foreign_{language}_frames.tsv").items()
    )


@cache
def _behind() -> tuple[tuple[Pattern, str], ...]:
    return tuple(
        (Pattern(left), "" if right == NOTHING else right) for left, right in lexicon.pairs("foreign_after.tsv").items()
    )


def _tidy(line: str) -> str:
    line = re.sub(r"\s+([,.!?;:])", r"\1", line)
    line = re.sub(r"[¿¡]", "", line)
    return " ".join(line.split())
