"""Scanning: a text as tokens, each a word, a name or a number with its place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from perdure.domain.pattern import Pattern
from perdure.pipeline.slots.stems import fold, stem
from perdure.pipeline.slots.values import Value

MAX_TOKENS = 96
"""Tokens that are read of one statement: a memory is one sentence, and longer texts compare by their beginning."""

_SCAN = Pattern(
    r"""
    (?P<iso>(?<!\d)\d{4}-\d{2}-\d{2}(?!\d))
  | (?P<phone>(?<![\w.])\+?\d{2,5}(?:[ -]\d{2,5}){1,5}(?![\w]|[.,:]\d))
  | (?P<clock>(?<![\w.])\d{1,2}(?::\d{2}(?!\d)|(?:[.:]\d{2})?\s?(?:[ap]\.?m\b\.?|o'?clock\b)) (?:\s?[ap]\.?m\b\.?)?)
  | (?P<height>(?<![\w.])\d'\d{1,2}(?:"|'')?)
  | (?P<nth>(?<![\w.])\d{1,3}(?:st|nd|rd|th)\b)
  | (?P<number>(?<![\w])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|(?<![\w])\d{1,15}(?:\.\d+){0,3}(?!\d))
      (?P<suffix>k\b|%|(?:kg|km|cm|mm|ml|mg|lb|lbs|gb|tb|mb|min|mins|hrs?|h|m|g|l)\b)?
  | (?P<sign>[$€£¥%])
  | (?P<code>(?=[\w.-]{0,60}[\d_])[^\W\d_]\w*(?:[-.]\w+)*)
  | (?P<word>[^\W\d_]+(?:['][^\W\d_]+)*)
  | (?P<odd>\w+)
  | (?P<stop>[,;:()"—–]|\.(?=\s))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CONTRACTIONS = {
    "can't": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    "cannot": ("can", "not"),
}
_TAILS = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}
_IS_HOSTS = frozenset({"it", "he", "she", "that", "there", "who", "what", "here", "this"})
_QUOTES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "−": "-", "‑": "-", "‐": "-", " ": " "})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text: what was written, its folded form and stem, and where it stands."""

    text: str
    low: str
    stem: str
    start: int
    end: int
    name: bool = False
    value: Value | None = None
    stop: bool = False
    """A comma, colon, bracket or the like: it ends a phrase and means nothing itself."""


def plain(text: str) -> str:
    """The text with typographic quotes, hyphens and spaces made plain; its length does not change."""
    return text.translate(_QUOTES)


def scan(text: str) -> list[Token]:
    """The tokens of a text, at most `MAX_TOKENS`; contractions are taken apart, 's of possession is a token."""
    text = plain(text)
    tokens: list[Token] = []
    for match in _SCAN.finditer(text):
        tokens.extend(_read(match))
        if len(tokens) >= MAX_TOKENS:
            break
    return tokens[:MAX_TOKENS]


def _read(match: re.Match[str]) -> list[Token]:
    kind, start, end = match.lastgroup or "", match.start(), match.end()
    text = match.group()
    if kind == "suffix":
        kind = "number"
    if kind == "stop":
        return [Token(text, text, "", start, end, stop=True)]
    if kind == "word":
        return _words(text, start)
    value = _value(kind, match)
    low = fold(text)
    token = Token(text, low, stem(low) if value is None else "", start, end, name=kind == "code", value=value)
    if kind == "number" and (suffix := match.group("suffix")) and suffix.lower() not in ("k", "%"):
        split = match.start("suffix")
        token = replace(token, text=text[: split - start], low=low[: split - start], end=split)
        return [token, Token(suffix, fold(suffix), fold(suffix), split, end)]
    return [token]


def _words(text: str, start: int) -> list[Token]:
    """A word with its contraction or possessive taken off; hyphens have separated words already."""
    low = fold(text)
    parts = _CONTRACTIONS.get(low)
    if parts is None and low.endswith("n't") and len(low) > 3:
        parts = (low[:-3], "not")
    if parts is not None:
        return [_word(part, part, start, start + len(text)) for part in parts]
    for tail, full in _TAILS.items():
        if low.endswith(tail):
            head = text[: -len(tail)]
            return [_word(head, fold(head), start, start + len(head)), _word(full, full, start, start + len(text))]
    if low.endswith("'s"):
        head, cut = text[:-2], start + len(text) - 2
        tail = "is" if low[:-2] in _IS_HOSTS else "'s"
        return [_word(head, fold(head), start, cut), Token(tail, tail, "be" if tail == "is" else tail, cut, cut + 2)]
    return [_word(text, low, start, start + len(text))]


def _word(text: str, low: str, start: int, end: int) -> Token:
    return Token(text, low, stem(low), start, end, name=text[:1].isupper())


def _value(kind: str, match: re.Match[str]) -> Value | None:
    text = match.group()
    if kind == "iso":
        year, month, day = (int(part) for part in text.split("-"))
        return Value("date", date=(year, month, day))
    if kind == "phone":
        digits = re.sub(r"\D", "", text)
        return Value("code", code=digits)
    if kind == "clock":
        return _clock(text)
    if kind == "height":
        feet, inches = re.findall(r"\d+", text)[:2]
        return Value("measure", round((int(feet) * 12 + int(inches)) * 0.0254, 4), "length")
    if kind == "nth":
        return Value("ordinal", float(re.sub(r"\D", "", text)))
    if kind == "number":
        return _number(match)
    return None


def _number(match: re.Match[str]) -> Value:
    digits = match.group("number").replace(",", "")
    suffix = (match.group("suffix") or "").lower()
    if digits.count(".") > 1 or (digits.startswith("0") and len(digits) > 1 and "." not in digits):
        return Value("code", code=digits)
    amount = float(digits)
    if suffix == "k":
        return Value("number", amount * 1000)
    return Value("percent", amount) if suffix == "%" else Value("number", amount)


def _clock(text: str) -> Value:
    numbers = [int(part) for part in re.findall(r"\d+", text)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    half = re.search(r"[ap]", text.lower().replace("o'clock", "").replace("oclock", ""))
    if half is None:
        return Value("clock", float(hour * 60 + minute), "?" if 1 <= hour <= 12 and ":" not in text else "")
    hour = hour % 12 + (12 if half.group() == "p" else 0)
    return Value("clock", float(hour * 60 + minute))
