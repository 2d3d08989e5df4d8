"""A JSON file taken apart while it is read: a list item by item, lines one by one, and past what is damaged.

Written here and not taken from a library (ijson, json-stream): those stop at the first fault, and one damaged item
must not cost the thousands behind it. An item is decoded whole by the standard library's own decoder, so that memory
is needed for the longest item and not for the file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from perdure.domain.text.pattern import Pattern

LONGEST = 1 << 27  # characters that one item may have: several times the longest conversations that people report
WRAPPERS: Final = ("results", "memories", "items", "conversations")
"""Keys under which tools put the list that matters, when the file is an object: pages of an API, mostly."""

_NOT_READ: Final = object()
_SPACE = Pattern(r"[ \t\r\n]*")
_BETWEEN = Pattern(r"[ \t\r\n,]*")
_SCALAR = r'(?:null|true|false|-?[\d.eE+]{1,40}|"[^"\\\n]{0,500}")'
_WRAPPED = Pattern(
    rf'\{{(?:\s{{0,50}}"[^"\\\n]{{1,40}}"\s{{0,9}}:\s{{0,9}}{_SCALAR}\s{{0,9}},){{0,9}}'
    rf'\s{{0,50}}"(?:{"|".join(WRAPPERS)})"\s{{0,9}}:\s{{0,9}}\['
)
_HEAD = 1 << 16  # characters that are looked at to tell lines from a document
_MARKS = Pattern(r'["\[\]{},]')
_STRING = Pattern(r'[^"\\\n]*(?:\\.[^"\\\n]*)*', re.DOTALL)
_FIRST_KEY = Pattern(r'\{\s*("[^"\\\n]{1,60}")\s*:')
_TRIES = 1000
_LONGEST_TOKEN = 16
"""Characters before the end of what was read in which a fault may only mean that a word or an escape is cut."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class DamagedError(ValueError):
    """A text that is no JSON; the message says why without repeating it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One item of a file: its number from 1 (of a line, the line's), and its text or what is wrong with it."""

    number: int
    text: str
    fault: str | None = None
    is_line: bool = False
    decoded: Any = _NOT_READ
    beside: tuple[str, ...] = ()  # of an object that wraps a list: what else it holds, which is no item

    def value(self) -> Any:
        """What the text means; DamagedError if it means nothing."""
        if self.fault is not None:
            raise DamagedError(self.fault)
        return load(self.text) if self.decoded is _NOT_READ else self.decoded


def load(text: str) -> Any:
    """What a JSON text means; DamagedError if it means nothing."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON: {_why(error)}") from error


def unwrapped(value: Any) -> tuple[list[Any], tuple[str, ...]] | None:
    """The list that an object wraps, and the names of what else it holds; None for anything else."""
    if isinstance(value, Mapping):
        for name in WRAPPERS:
            if isinstance(value.get(name), list):
                beside = [key for key, each in value.items() if key != name and isinstance(each, (list, dict)) and each]
                return value[name], tuple(beside)
    return None


def pieces(chunks: Iterable[bytes]) -> Iterator[Piece]:
    """The items of a file: those of its list or lists, else its objects, else its lines.

    Text that is not UTF-8 stays as lone surrogates, so that it is refused where it stands and nothing else is.
    """
    text = _Text(_decoded(chunks))
    return _lines(text) if text.is_lines() else _documents(text)


def _decoded(chunks: Iterable[bytes]) -> Iterator[str]:
    decoder: codecs.IncrementalDecoder | None = None
    for chunk in chunks:
        if decoder is None:
            name, errors = ("utf-16", "replace") if chunk[:2] in _UTF16 else ("utf-8-sig", "surrogateescape")
            decoder = codecs.getincrementaldecoder(name)(errors)
        yield decoder.decode(chunk)
    if decoder is not None:
        yield decoder.decode(b"", True)


class _Text:
    """The part of a text that is being looked at; what was passed is dropped."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self._chunks = chunks
        self.text = ""
        self.at = 0
        self.held: int | None = None  # from where on what was passed is not dropped, because it may be looked at again

    def more(self) -> bool:
        """Read about as much again as is waiting, so that a long item costs twice its length and not its square."""
        if self.held is not None and self.at - self.held > LONGEST:
            self.held = None
        begin = self.at if self.held is None else self.held
        waiting = [self.text[begin:]]
        self.text, self.at = "", self.at - begin
        self.held = None if self.held is None else 0
        missing = max(len(waiting[0]), 1)
        for chunk in self._chunks:
            waiting.append(chunk)
            missing -= len(chunk)
            if missing <= 0:
                break
        self.text = "".join(waiting)
        return len(self.text) > len(waiting[0])

    def next(self, between: Pattern = _BETWEEN) -> str:
        """The next character that separates nothing, without passing it; "" at the end."""
        while True:
            match = between.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def is_lines(self) -> bool:
        """Whether every line is an item of its own, so that a damaged one ends where it ends."""
        first = self.next(_SPACE)
        if first == "[":
            return False
        while len(self.text) - self.at < _HEAD and self.more():
            pass
        if first != "{":
            return True
        if _WRAPPED.match(self.text, self.at):
            return False
        head = self.text[self.at : self.at + _HEAD].split("\n")
        whole = head if len(self.text) - self.at <= _HEAD else head[:-1]
        return any(map(_is_object, [line for line in whole if line.strip()][:2]))


def _is_object(line: str) -> bool:
    try:
        return isinstance(load(line), dict)
    except DamagedError:
        return False


def _lines(text: _Text) -> Iterator[Piece]:
    number, parts, length = 0, [""], 0
    while True:
        end = text.text.find("\n", text.at)
        part = text.text[text.at : end if end >= 0 else len(text.text)]
        length += len(part)
        if length <= LONGEST:
            parts.append(part)
        if end >= 0:
            text.at = end + 1
        else:
            text.at = len(text.text)
            if text.more():
                continue
        number += 1
        line = "".join(parts).strip()
        if length > LONGEST:
            yield Piece(number, "", _too_long(), is_line=True)
        elif line:
            yield Piece(number, line, is_line=True)
        if end < 0:
            return
        parts, length = [], 0


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _documents(text: _Text) -> Iterator[Piece]:
    number = 0
    while first := text.next():
        wrapped = _WRAPPED.match(text.text, text.at) if first == "{" else None
        if first == "[" or wrapped:
            text.at = wrapped.end() if wrapped else text.at + 1
            for piece in _items(text, number):
                number = piece.number
                yield piece
            if wrapped:
                yield from _beside(text, number)
            continue
        number += 1
        yield _item(text, number)


def _items(text: _Text, number: int) -> Iterator[Piece]:
    """The items of a list whose bracket was passed, and its closing bracket."""
    while first := text.next():
        if first == "]":
            text.at += 1
            return
        number += 1
        yield _item(text, number)
    yield Piece(number + 1, "", "the file ends before its list does")


def _beside(text: _Text, number: int) -> Iterator[Piece]:
    """The names of what an object has beside the list that it wraps, where it is more than a count or an address."""
    left: list[str] = []
    while (first := text.next()) and first != "}":
        key = _item(text, number)
        if not isinstance(key.decoded, str) or text.next(_SPACE) != ":":
            yield Piece(number + 1, "", "the end of the file's object cannot be read")
            return
        text.at += 1
        text.next(_SPACE)
        value = _item(text, number).decoded
        if isinstance(value, (list, dict)) and value:
            left.append(key.decoded)
    text.at += 1 if first else 0
    if left:
        yield Piece(number, "", beside=tuple(left))


def _item(text: _Text, number: int) -> Piece:
    """The item that begins here; a damaged one is passed as far as its brackets tell."""
    while True:
        try:
            value, end = _DECODER.raw_decode(text.text, text.at)
        except (ValueError, RecursionError) as error:
            waiting = len(text.text) - text.at
            if _may_go_on(error, len(text.text)) and waiting <= LONGEST and text.more():
                continue
            ended = _may_go_on(error, len(text.text)) and waiting <= LONGEST
            fault = "the file ends in the middle of it" if ended else _fault(error, waiting)
            text.held = text.at
            if not (_pass(text) or ended):
                _look_again(text)
            text.held = None
            return Piece(number, "", fault)
        if end == len(text.text) and not isinstance(value, (dict, list, str)) and text.more():
            continue  # a number may go on
        start, text.at = text.at, end
        return Piece(number, text.text[start:end], decoded=value)


def _may_go_on(error: Exception, length: int) -> bool:
    """Whether the decoder may have failed only because the text that was read ends here."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= length - _LONGEST_TOKEN or error.msg.startswith("Unterminated string")


def _fault(error: Exception, waiting: int) -> str:
    return _too_long() if waiting > LONGEST else f"it is not JSON: {_why(error)}"


def _look_again(text: _Text) -> None:
    """Where a quote too many hid every bracket: go back to the next object that begins with the same key."""
    begin = text.held
    first = _FIRST_KEY.match(text.text, begin) if begin is not None else None
    if first is None:
        return
    alike = re.compile(r"\}\s*,\s*(\{\s*" + re.escape(first.group(1)) + r"\s*:)")
    for found in islice(alike.finditer(text.text, first.end()), _TRIES):
        try:
            _DECODER.raw_decode(text.text, found.start(1))
        except (ValueError, RecursionError):
            continue
        text.at = found.start(1)
        return


def _pass(text: _Text) -> bool:
    """Go behind a damaged item: to where its brackets close, or to the next comma or bracket of the list.

    False if the file ended before.
    """
    depth = 0
    moved = False
    while True:
        mark = _MARKS.search(text.text, text.at)
        if mark is None:
            text.at = len(text.text)
            if not text.more():
                return False
            moved = True
            continue
        sign, start = mark.group(), mark.start()
        if depth == 0 and sign in ",]" and (moved or start > text.at):
            text.at = start
            return True
        text.at = start + 1
        moved = True
        if sign == '"':
            _pass_string(text)
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
            if depth <= 0:
                return True


def _pass_string(text: _Text) -> None:
    """Go behind a string; one with a line end in it is over there if the next line goes on as JSON does."""
    while True:
        match = _STRING.match(text.text, text.at)
        end = match.end() if match else text.at
        sign = text.text[end : end + 1]
        text.at = end + 1 if sign in ('"', "\n") else end
        if sign == '"' or (sign == "\n" and text.next(_SPACE) in '"[]{},'):
            return
        if sign != "\n" and not text.more():  # at the end of what was read, or at a backslash without its other half
            text.at = len(text.text)
            return


def _too_long() -> str:
    return f"it is longer than {LONGEST >> 20} million characters"


def _why(error: Exception) -> str:
    """What a decoder says, which names places and never repeats the text."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "a number has too many digits" if "digits" in str(error) else str(error)
