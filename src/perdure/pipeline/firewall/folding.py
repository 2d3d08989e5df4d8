"""Folding: the same words whatever they were written with, for comparing alone."""

from __future__ import annotations

import codecs
import html
import re
import unicodedata
from functools import cache
from urllib.parse import unquote

from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import pairs

LINK = "zzlink"
"""Stands for the sign of an address, `://` or `@`."""

_CJK = "\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = Pattern(rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_])+")
_MARKS = Pattern("[\u0300-\u036f]")
_SPELLED = Pattern(r"(?<![^\W_])[^\W_](?:[ .\-_*|/][^\W_]){3,}(?![^\W_])")
"""Letters that stand apart by one sign each."""
_APOSTROPHES = Pattern(r"(?<=[^\W\d_])['’ʼ`´](?=[^\W\d_])")
_WORD = Pattern(r"[^\W_]+")
_DIGITS = str.maketrans("013457", "oieast")
_UNSPOKEN = Pattern("[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
                       "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]")  # fmt: skip
_EMPHASIS = str.maketrans(dict.fromkeys("*`~", "") | {"_": " "})


def fold(text: str) -> str:
    """Lower case without what is not seen, diacritics, look-alikes, entities and emphasis; lines stay lines."""
    if "&" in text:
        text = html.unescape(text)
    if "%" in text:
        text = unquote(text, errors="ignore")
    if not text.isascii():
        text = _UNSPOKEN.sub("", unicodedata.normalize("NFKC", text))
        text = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", text.casefold())))
        text = _WORD.sub(_latin, text)
    text = _APOSTROPHES.sub("", text.lower())
    return _SPELLED.sub(_joined, text.translate(_EMPHASIS))


def tokens(folded: str) -> list[str]:
    """The words of folded text, each character of scripts without spaces as one; digits in words read as letters."""
    marked = folded.replace("://", f" {LINK} ").replace("@", f" {LINK} ")
    return [_unleet(word) for word in _TOKEN.findall(marked)]


def squeezed(folded: str) -> str:
    """The letters and digits of folded text alone."""
    return "".join(map(_unleet, _WORD.findall(folded)))


def rot13(text: str) -> str:
    """The text as rot13 reads it."""
    return codecs.decode(text, "rot13")


def _unleet(word: str) -> str:
    return word if word.isalpha() or word.isdigit() else word.translate(_DIGITS)


def _joined(match: re.Match[str]) -> str:
    return match.group()[::2]


def _latin(match: re.Match[str]) -> str:
    """A word of look-alikes as the Latin word that it looks like; any other as it is."""
    word = match.group()
    if word.isascii():
        return word
    seen = word.translate(_lookalikes())
    return seen if seen.isascii() else word


@cache
def _lookalikes() -> dict[int, str]:
    return {ord(strange): plain for strange, plain in pairs("firewall_lookalikes.tsv").items()}
