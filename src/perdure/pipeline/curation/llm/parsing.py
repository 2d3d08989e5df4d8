"""From a model's answer to facts and operations, forgivingly.

Accepted: a bare list, a list inside an object under any of the usual names, one object in place of a list, JSON lines,
code fences, prose before and after, thinking before. What cannot be read is an error or a warning, never a fact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, cast

from perdure.domain.clock import read_moment
from perdure.domain.errors import LLMError
from perdure.domain.text.pattern import Pattern

_WRITTEN_NUMBER = Pattern(r"\d+(?:[.,]\d+)*")


def numbers(text: str) -> frozenset[str]:
    """Every number of the text in one form: "10,000", "10000" and "10,000.00" are equal."""
    return frozenset(_plain(found[0]) for found in _WRITTEN_NUMBER.finditer(text))


def invented(text: str, sources: Iterable[str]) -> frozenset[str]:
    """The numbers of the text that none of its sources has."""
    return numbers(text) - frozenset[str]().union(*(numbers(source) for source in sources))


def _plain(number: str) -> str:
    whole, point, cents = number.replace(",", "").partition(".")
    cents = cents.rstrip("0")
    return f"{whole.lstrip('0') or '0'}.{cents}" if point and cents else whole.lstrip("0") or "0"


# A thought opens a line; inside a fact the same letters are text.
_THOUGHT = Pattern(r"^\s*<(think|thinking)>.*?(?:</\1>|\Z)\s*", re.DOTALL | re.IGNORECASE | re.MULTILINE)


def without_thoughts(answer: str) -> str:
    """The answer without `<think>` parts; one that was never closed reaches to the end."""
    return _THOUGHT.sub("", answer)


# JSON as language models write it: inside prose, with trailing commas or single quotes, or cut off half way.
#
# Every valid JSON document is read as what it is. Nothing is evaluated, and nothing is guessed: a value counts only
# once it is complete.

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
_CUT: Final = object()  # stands for a value that the text ends in


@dataclass(frozen=True, slots=True)
class Found:
    """The values found in a text. Those with nothing but commas or space between them are one group (JSON lines)."""

    groups: list[list[Any]]
    damaged: bool  # whether something that looked like JSON was cut off or malformed, so that values may be missing


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


T = TypeVar("T")
FactType = Literal["semantic", "procedural", "episodic"]
OperationEvent = Literal["ADD", "UPDATE", "DELETE", "NONE"]

_WRAPPERS: Final = ("facts", "operations", "memory", "memories", "results", "events", "items", "data")
_ENDS: Final = "ends"
_FACT_TEXTS: Final = ("text", "fact", "content", "memory", "data")
_OPERATION_TEXTS: Final = ("data", "text", "new_memory", "content", "memory")
_FACT_TYPES: Final = frozenset({"semantic", "procedural", "episodic"})
_EVENTS: Final = {"add": "ADD", "update": "UPDATE", "delete": "DELETE", "none": "NONE", "noop": "NONE"}
_REFINES: Final = "refines"
_RELATIONS: Final = {"beside": "ADD", "replaces": "UPDATE", _REFINES: "UPDATE", "ends": "DELETE", "same": "NONE"}
"""What becomes of a memory by how a fact stands to it."""
_EXCERPT: Final = 80

_THOUGHT_END = Pattern(r"\A.*</(?:think|thinking)>[ \t]*(?=[\n\[{`])", re.DOTALL | re.IGNORECASE)
_FENCED = Pattern(r"^\s*```[\w-]*[ \t]*$(.*?)(?:^\s*```|\Z)", re.DOTALL | re.MULTILINE)
_NUMBER = Pattern(r"(?:id|memory|mem|fact)?[\s:#_-]*(\d{1,9})", re.IGNORECASE)
_YEAR_OR_MONTH = Pattern(r"\d{4}(?:-\d{2})?")


class UnreadableAnswer(LLMError):
    """The model answered, but not with the JSON that it was asked for."""

    code = "unreadable"


class Reading(list[T]):
    """A list of what was read; `warnings` say, a sentence each, what could not be."""

    def __init__(self, items: Iterable[T] = (), warnings: Sequence[str] = ()) -> None:
        super().__init__(items)
        self.warnings = tuple(warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFact:
    """A fact as the model wrote it; `sources` are message positions from 0, unchecked, empty if it gave none."""

    text: str
    type: FactType = "semantic"
    sources: tuple[int, ...] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    forget: bool = False
    hedged: bool = False
    quote: str | None = None
    """The words of the message that say it; None if the answer has no such key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEnd:
    """A memory that the model says is no longer true, by the number that it was shown, and the words that say so."""

    memory: int
    quote: str
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the model wants done; `id` and `fact` are the numbers that it was shown, None where it gave none.

    An `id` that is no number is kept as text, so that it can be refused.
    """

    event: OperationEvent
    id: int | str | None = None
    text: str = ""
    fact: int | None = None
    refines: bool = False
    """The text says the same as the memory, more exactly."""


def parse_facts(text: str) -> Reading[FoundFact]:
    """The facts in an answer; an empty list is no fact, anything unreadable is UnreadableAnswer."""
    return _parse(text, _read_fact, "facts")


def parse_ends(text: str) -> list[FoundEnd]:
    """The ends beside the facts in an answer; what cannot be read, or has no number of a memory, is left out."""
    for part in _parts(text):
        for group in find_json(part).groups:
            for value in group:
                given = value.get(_ENDS) if isinstance(value, dict) else None
                if isinstance(given, list):
                    return [end for each in given if (end := _read_end(each)) is not None]
    return []


def parse_operations(text: str) -> Reading[Operation]:
    """The operations in an answer; an empty list is none, anything unreadable is UnreadableAnswer."""
    return _parse(text, _read_operation, "operations")


def _parse(text: str, read: Callable[[Any], T | None], what: str) -> Reading[T]:
    """The first group of JSON values that holds an element which `read` understands."""
    empty = False
    for part in _parts(text):
        found = find_json(part)
        for group in found.groups:
            elements = [element for value in group for element in _elements(value, read) if not _is_blank(element)]
            items = [item for element in elements if (item := read(element)) is not None]
            if items:
                return Reading(items, _losses(len(items), len(elements), found.damaged, what))
            empty = empty or not (elements or found.damaged)
        if empty:
            return Reading()
    raise UnreadableAnswer(f"the language model's answer of {len(text)} characters holds no readable list of {what}")


def _parts(text: str) -> list[str]:
    """Where to look, in order: the whole answer if it begins as JSON, what is fenced, then what is no thought."""
    if text.lstrip()[:1] in ("[", "{"):
        return [text]
    spoken = _THOUGHT_END.sub("", without_thoughts(text))
    return [*(match.group(1) for match in _FENCED.finditer(spoken)), spoken]


def _losses(read: int, given: int, damaged: bool, what: str) -> list[str]:
    losses = []
    if damaged:
        losses.append(
            f"the language model's answer was cut off or damaged: {read} {what} were read, others may be lost"
        )
    if read < given:
        losses.append(f"{given - read} of {given} elements of the language model's answer were no {what}")
    return losses


def _elements(value: Any, read: Callable[[Any], T | None]) -> list[Any]:
    """The elements that a value stands for: of a list, of the list that an object wraps, or the one object itself."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and isinstance(value.get(_ENDS), list):
        value = {name: member for name, member in value.items() if name != _ENDS}
    if not value or read(value) is not None:
        return [value] if value else []
    for name in _WRAPPERS:
        if isinstance(value.get(name), (list, dict)):
            return _elements(value[name], read)
    inner = [member for member in value.values() if isinstance(member, (list, dict))]
    return _elements(inner[0], read) if len(inner) == 1 else [value]


def _is_blank(element: Any) -> bool:
    return element is None or (isinstance(element, str) and not _clean(element))


def _clean(text: str) -> str:
    """The text on one line, without NUL: a statement is one sentence, and no line of it may pass for a list entry."""
    return " ".join(text.replace("\x00", " ").split())


def _text(element: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((text for name in names if isinstance(given := element.get(name), str) and (text := _clean(given))), "")


def _read_fact(element: Any) -> FoundFact | None:
    if isinstance(element, str):
        return FoundFact(text=_clean(element)) if _clean(element) else None
    if not isinstance(element, dict) or not (text := _text(element, _FACT_TEXTS)):
        return None
    kind = str(element.get("type", "")).strip().casefold()
    begun, ended = _moment(element.get("valid_from")), _moment(element.get("valid_to"))
    quote = element.get("quote")
    return FoundFact(
        text=text,
        type=cast(FactType, kind) if kind in _FACT_TYPES else "semantic",
        sources=_places(element),
        valid_from=begun,
        valid_to=None if begun and ended and ended < begun else ended,
        forget=element.get("forget") is True,
        hedged=element.get("hedged") is True,
        quote=quote if isinstance(quote, str) else None,
    )


def _read_end(element: Any) -> FoundEnd | None:
    if not isinstance(element, dict):
        return None
    memory, quote = _number(element.get("memory", element.get("id"))), element.get("quote")
    if not isinstance(memory, int):
        return None
    return FoundEnd(memory=memory, quote=quote if isinstance(quote, str) else "", sources=_places(element))


def _places(element: Mapping[str, Any]) -> tuple[int, ...]:
    """The messages that an element names, as `sources` or as one `message`."""
    given = element.get("sources", element.get("message"))
    places = given if isinstance(given, list) else [given]
    return tuple(number for each in places if isinstance(number := _number(each), int))


def _moment(value: Any) -> datetime | None:
    """The moment of an ISO 8601 text; a year or month alone is its first day."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    return read_moment(f"{text}-01-01"[:10] if _YEAR_OR_MONTH.fullmatch(text) else text)


def _read_operation(element: Any) -> Operation | None:
    if not isinstance(element, dict):
        return None
    relation = str(element.get("relation", "")).strip().casefold()
    event = _EVENTS.get(str(element.get("event", "")).strip().casefold()) or _RELATIONS.get(relation)
    if event is None:
        return None
    fact = _number(element.get("fact"))
    texts = _OPERATION_TEXTS if isinstance(fact, int) else (*_OPERATION_TEXTS, "fact")
    return Operation(
        event=cast(OperationEvent, event),
        id=_number(element.get("id")),
        text=_text(element, texts),
        fact=fact if isinstance(fact, int) else None,
        refines=event == "UPDATE" and relation == _REFINES,
    )


def _number(value: Any) -> int | str | None:
    """The number that a model meant ("0", "ID: 0"), other things as their text, nothing as None."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _NUMBER.fullmatch(str(value).strip())
    return int(match.group(1)) if match else str(value)[:_EXCERPT]
