"""JSON as language models write it: inside prose, with trailing commas or single quotes, or cut off half way.

Every valid JSON document is read as what it is. Nothing is evaluated, and nothing is guessed: a value counts only once
it is complete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from perdure.domain.pattern import Pattern

_MAX_DEPTH: Final = 16
"""Levels of nesting that an answer may have: far more than any answer needs, and no danger to the stack."""

_OPENING = Pattern(r"[\[{]")
_JSON_LIKE = Pattern(r"[\[{]\s*[\"'\[{]")
_SPACE = Pattern(r"\s*")
_STRING = Pattern(r"\"[^\"\\]*(?:\\.[^\"\\]*)*\"|'[^'\\]*(?:\\.[^'\\]*)*'", re.DOTALL)
_SCALAR = Pattern(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z]+")
_ESCAPE = Pattern(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: Final = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_CUT: Final = object()
"""Stands for a value that the text ends in."""


@dataclass(frozen=True, slots=True)
class Found:
    """The values found in a text. Those with nothing but commas or space between them are one group (JSON lines)."""

    groups: list[list[Any]]
    damaged: bool
    """Whether something that looked like JSON was cut off or malformed, so that values may be missing."""


def find_json(text: str) -> Found:
    """Every array and object in the text, in order, without those inside another."""
    groups: list[list[Any]] = []
    damaged = False
    position = end = 0
    while opening := _OPENING.search(text, position):
        start = opening.start()
        reader = _Reader(text, start)
        value = reader.read()
        damaged = damaged or reader.cut or (value is _CUT and _JSON_LIKE.match(text, start) is not None)
        if value is _CUT:
            position = start + 1  # inside what failed there may be something whole
            continue
        if groups and not text[end:start].strip(" \t\r\n,;"):
            groups[-1].append(value)
        else:
            groups.append([value])
        position = end = reader.position
    return Found(groups, damaged)


class _Malformed(Exception):
    """What stands here is not JSON."""


class _Reader:
    """Reads one array or object from `position` on; `cut` tells that it is incomplete."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.cut = False

    def read(self) -> Any:
        """The value, or as much of it as is complete; _CUT if nothing is."""
        try:
            value = self._value(0)
        except _Malformed:
            return _CUT
        if not self.cut:
            return value
        return _lists_of(value) or _CUT

    def _value(self, depth: int) -> Any:
        if self._ended():
            return _CUT
        head = self.text[self.position]
        if head in "[{":
            if depth >= _MAX_DEPTH:
                raise _Malformed
            self.position += 1
            return self._array(depth + 1) if head == "[" else self._object(depth + 1)
        return self._string() if head in "\"'" else self._scalar()

    def _array(self, depth: int) -> list[Any]:
        """The elements; one counts once a comma, the closing bracket or the end of the text follows it."""
        elements: list[Any] = []
        while not self._ended() and not self._take("]"):
            try:
                value = self._value(depth)
                if self.cut:
                    break
                closed = self._ended() or self._take(",") or self.text[self.position] == "]"
            except _Malformed:
                closed = False
            if not closed:
                if not elements:
                    raise _Malformed
                self.cut = True
                break
            elements.append(value)
            if self.cut:
                break
        return elements

    def _object(self, depth: int) -> dict[str, Any]:
        """The members; one cut short is for `_array` and `read` to judge."""
        members: dict[str, Any] = {}
        while not self._ended() and not self._take("}"):
            if self.text[self.position] not in "\"'":
                raise _Malformed
            key = self._string()
            if self._ended():
                break
            if not self._take(":"):
                raise _Malformed
            value = self._value(depth)
            if value is not _CUT:
                members[key] = value
            if self.cut or self._ended():
                break
            if not self._take(",") and self.text[self.position] != "}":
                raise _Malformed
        return members

    def _string(self) -> Any:
        match = _STRING.match(self.text, self.position)
        if match is None:
            self.position = len(self.text)
            self.cut = True
            return _CUT
        self.position = match.end()
        text = _ESCAPE.sub(_unescape, match.group()[1:-1])
        # Joins the halves of escaped surrogate pairs; a half without its other is no character at all.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def _scalar(self) -> Any:
        match = _SCALAR.match(self.text, self.position)
        if match is None:
            raise _Malformed
        self.position = match.end()
        if self.position == len(self.text):
            self.cut = True  # more digits or letters might have followed
            return _CUT
        token = match.group()
        if token in _WORDS:
            return _WORDS[token]
        try:
            return int(token) if token.lstrip("-").isdecimal() else float(token)
        except ValueError:
            raise _Malformed from None

    def _ended(self) -> bool:
        """Skip white space, and tell (and note) whether the text ends here."""
        match = _SPACE.match(self.text, self.position)
        assert match is not None, "the pattern also matches nothing"
        self.position = match.end()
        if self.position == len(self.text):
            self.cut = True
        return self.cut and self.position == len(self.text)

    def _take(self, character: str) -> bool:
        """Step over the character if it stands here."""
        if not self.text.startswith(character, self.position):
            return False
        self.position += 1
        return True


def _lists_of(value: Any) -> Any:
    """What is complete in a value cut short: the elements of lists, of objects only the lists ({"facts": ["a", "b)."""
    if isinstance(value, dict):
        return {key: lists for key, member in value.items() if (lists := _lists_of(member))}
    return value if isinstance(value, list) else None


def _unescape(match: re.Match[str]) -> str:
    code, character = match.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(character, character)
